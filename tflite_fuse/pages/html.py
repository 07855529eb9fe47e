"""One self-contained page: text by a template, inline pictures, a script for its data, nothing from a network."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from tflite_fuse import __version__
from tflite_fuse.boards.table import known_boards
from tflite_fuse.errors import RuntimeUnavailableError, how_to_install
from tflite_fuse.pages.charts import Chart, Dot, arena_chart, front_chart, live_chart
from tflite_fuse.pages.content import Content
from tflite_fuse.report.arena_map import ArenaMap
from tflite_fuse.report.report import change

TEMPLATE = Path(__file__).with_name("page.html.jinja")
SCRIPT = Path(__file__).with_name("page.js")

ROWS = (
    ("arena_bytes", "arena to allocate"),
    ("head_bytes", "head: activations and scratch"),
    ("tail_bytes", "tail: the runtime's own data"),
    ("loading_bytes", "needed while the model loads"),
    ("state_bytes", "state between inferences"),
    ("peak_bytes", "largest working set"),
    ("file_bytes", "model in flash"),
    ("macs", "multiply-accumulates"),
    ("instructions", "predicted instructions"),
    ("operators", "operators"),
)

MOST_LIMITS = 4
"""Most RAM sizes of boards in the picture of the front."""


def page_html(content: Content) -> str:
    """Return the page. Raises RuntimeUnavailableError if the extra ``report`` is not installed."""
    try:
        import jinja2
        from markupsafe import Markup
    except ImportError as error:
        raise RuntimeUnavailableError(f"pages need jinja2: {how_to_install('report')}") from error
    page = content.json
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, undefined=jinja2.StrictUndefined)
    charts = {name: Markup(chart.inline(title)) for name, (chart, title) in _charts(content).items()}
    # No "<" may end the element with the figures.
    document = Markup(json.dumps(page).replace("<", "\\u003c"))
    script = SCRIPT.read_text(encoding="utf-8")
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    values = {"page": page, "rows": ROWS, "charts": charts, "document": document, "version": __version__}
    values["second"] = content.after.second
    # By this hash a browser runs no other script, so names in a model cannot become scripts.
    allowed = b64encode(sha256(script.encode()).digest()).decode()
    text: str = template.render(values, change=change, script=Markup(script), allowed=allowed)
    return text


def _charts(content: Content) -> dict[str, tuple[Chart, str]]:
    page, heads = content.json, (content.before.head_bytes, content.after.head_bytes)
    sets = [step["working_set_bytes"] for steps in page["steps"].values() for step in steps]
    top = max(sets, default=1)
    return {
        "arena_before": (arena_chart(content.before, "before", max(heads)), "the arena before"),
        "arena_after": (arena_chart(content.after, "after", max(heads)), "the arena after"),
        "live_before": (live_chart(page["steps"]["before"], "before", top), "working sets before"),
        "live_after": (live_chart(page["steps"]["after"], "after", top), "working sets after"),
    } | _fronts(page)


def _fronts(page: dict[str, Any]) -> dict[str, tuple[Chart, str]]:
    """Return both models with the front between them and boards; and the front alone, unless it is in one place."""
    before, after = (Dot(each["arena_bytes"], _times(page, each), name) for name, each in page["figures"].items())
    marks = [Dot(*before.place, "before and after")] if before.place == after.place else [before, after]
    named = [each["marks"][-1:] if at else ["least RAM"] for at, each in enumerate(page["front"])]
    points = [
        Dot(each["ram_bytes"], each["compute_factor"], "".join(name))
        for each, name in zip(page["front"], named, strict=True)
    ]
    near, sizes = _near(points), [dot.ram for dot in marks]
    overview = front_chart(points[:1], marks, _limits(min(sizes), max(sizes)), unit="instructions")
    marks = [after] if near and after.ram <= near[-1].ram * 1.05 else []
    closely = front_chart(near, marks, _limits(near[0].ram, near[-1].ram) if near else (), unit="instructions")
    highest = max((each["arena"]["head_bytes"] for each in page["front"]), default=1)
    empty = arena_chart(ArenaMap((), highest, ()), "at this point")
    return {
        "overview": (overview, "RAM against compute"),
        "front": (closely, "the front"),
        "point": (empty, "the arena at a point of the front"),
    }


def _times(page: dict[str, Any], figures: dict[str, Any]) -> float:
    whole = page["figures"]["before"]["instructions"]
    return float(figures["instructions"] / whole) if whole else 1.0


def _near(points: Sequence[Dot]) -> Sequence[Dot]:
    """Return the points without distant ones at the end that would leave more than half of the picture empty."""
    while len(points) > 3 and 2 * (points[-1].ram - points[-2].ram) > points[-1].ram - points[0].ram:
        points = points[:-1]
    return points


def _limits(least: int, most: int) -> list[tuple[str, int]]:
    """Return boards between two sizes of an arena, one of each size, evenly spread."""
    of_size = {board.room(): board.name for board in reversed(known_boards())}
    distance = (most - least) / (2 * MOST_LIMITS)
    limits: list[tuple[str, int]] = []
    for size, name in sorted(of_size.items()):
        if least <= size <= most and (not limits or size - limits[-1][1] >= distance) and len(limits) < MOST_LIMITS:
            limits.append((name, size))
    return limits
