"""One self-contained page: text by a template, pictures inline, nothing from a network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tflite_fuse import __version__
from tflite_fuse.boards.fit import default_reserve
from tflite_fuse.boards.table import known_boards
from tflite_fuse.errors import RuntimeUnavailableError, how_to_install
from tflite_fuse.pages.charts import Chart, arena_chart, front_chart, live_chart
from tflite_fuse.pages.content import Content
from tflite_fuse.report.report import change

TEMPLATE = Path(__file__).with_name("page.html.jinja")

ROWS = (
    ("arena_bytes", "arena to allocate"),
    ("head_bytes", "head: activations and scratch"),
    ("tail_bytes", "tail: the runtime's own data"),
    ("loading_bytes", "needed while the model loads"),
    ("state_bytes", "of it state between inferences"),
    ("peak_bytes", "largest working set"),
    ("file_bytes", "model in flash"),
    ("macs", "multiply-accumulates"),
    ("instructions", "predicted instructions"),
    ("operators", "operators"),
)

MOST_LIMITS = 4
"""RAM sizes of boards in the picture of the front."""


def page_html(content: Content) -> str:
    """The page. Raises RuntimeUnavailableError: the extra ``report`` is not installed."""
    try:
        import jinja2
        from markupsafe import Markup
    except ImportError as error:
        raise RuntimeUnavailableError(f"pages need jinja2: {how_to_install('report')}") from error
    page = content.json
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, undefined=jinja2.StrictUndefined)
    charts = {name: Markup(chart.inline(title)) for name, (chart, title) in _charts(content).items()}
    # No "<" can end the element the figures are in.
    document = Markup(json.dumps(page).replace("<", "\\u003c"))
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    told = {"page": page, "rows": ROWS, "charts": charts, "document": document, "version": __version__}
    text: str = template.render(told, change=change)
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
        "front": (_front(page), "RAM against compute"),
    }


def _front(page: dict[str, Any]) -> Chart:
    before, after = page["figures"]["before"], page["figures"]["after"]

    def times(macs: int) -> float:
        return macs / before["macs"] if before["macs"] else 1.0

    points = [(point["ram_bytes"], times(point["macs"])) for point in page["front"]]
    marks = [("before", before["arena_bytes"], 1.0), ("after", after["arena_bytes"], times(after["macs"]))]
    if marks[0][1:] == marks[1][1:]:
        marks = [("before and after", *marks[0][1:])]
    schemes = [(each["scheme"], each["ram_bytes"], times(each["macs"])) for each in page["schemes"]]
    sizes = [ram for _, ram, _ in marks]
    return front_chart(points, marks, _limits(min(sizes), max(sizes)), schemes=schemes)


def _limits(least: int, most: int) -> list[tuple[str, int]]:
    """Boards between two sizes of an arena, one of each size, spread over them."""
    of_size = {board.ram_bytes - default_reserve(board): board.name for board in reversed(known_boards())}
    apart = (most - least) / (2 * MOST_LIMITS)
    found: list[tuple[str, int]] = []
    for size, name in sorted(of_size.items()):
        if least <= size <= most and (not found or size - found[-1][1] >= apart) and len(found) < MOST_LIMITS:
            found.append((name, size))
    return found
