"""Pictures of memory, drawn by matplotlib (extra ``report``): the arena over time, working sets, the front.

Each is a figure in colours for white paper. As a file it stays so; inside a page ``inline`` makes them follow the page
and adds what is shown when the pointer rests on something.
"""

from __future__ import annotations

import importlib.util
import io
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tflite_fuse.errors import RuntimeUnavailableError, UsageError, how_to_install
from tflite_fuse.files import require_writable, write_atomically
from tflite_fuse.pages.labels import above, around, beside
from tflite_fuse.report.arena_map import ArenaMap, Box

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {
    "ink": "#1f2430",
    "muted": "#6b7280",
    "line": "#d3d7de",
    "tensor": "#3b82c4",
    "scratch": "#c9b8e8",
    "ring": "#d98324",
    "peak": "#c8323f",
}
"""By what they mean; the page has a variable of each name."""

FORMATS = (".svg", ".png")

MOST_BOXES = 600
"""Of more, the largest are drawn each by itself, and told about."""

MOST_EDGED = 300
"""Steps of a picture in which edges differ visibly from what they surround."""

_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "tflite-fuse",
    "text.parse_math": False,
    "font.size": 8,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "text.color": COLOURS["ink"],
    "axes.labelcolor": COLOURS["ink"],
    "axes.edgecolor": COLOURS["muted"],
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": COLOURS["muted"],
    "ytick.color": COLOURS["muted"],
    "grid.color": COLOURS["line"],
    "path.simplify": True,
}
_HOW = f"pictures need matplotlib: {how_to_install('report')}"
_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"


@dataclass
class Chart:
    """A figure, and what is shown about its parts: from their ids to sentences."""

    figure: Any
    style: dict[str, Any]
    told: dict[str, str] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write it as .svg or .png. Raises UsageError."""
        require_plottable(path)
        write_atomically(self._drawn(path.suffix.lower()[1:]), path)

    def inline(self, title: str) -> str:
        """It as an element of a page, ``title`` for those who do not see it."""
        root = ElementTree.fromstring(self._drawn("svg", clear=True))
        for tag in ("metadata", "defs/style"):
            for parent in (root, *root.iterfind(f"{{{_SVG}}}defs/..")):
                for child in parent.findall(f"{{{_SVG}}}{tag}"):
                    parent.remove(child)
        for name in ("width", "height", "version"):
            root.attrib.pop(name, None)
        root.attrib.update({"role": "img", "aria-label": title})
        self._tell(root)
        ElementTree.register_namespace("", _SVG)
        ElementTree.register_namespace("xlink", _XLINK)
        return _followed(ElementTree.tostring(root, encoding="unicode"))

    def _drawn(self, format: str, clear: bool = False) -> bytes:
        import matplotlib

        stream = io.BytesIO()
        with matplotlib.rc_context(self.style):
            metadata = {"Date": None} if format == "svg" else None
            self.figure.savefig(stream, format=format, dpi=160, metadata=metadata, transparent=clear)
        return stream.getvalue()

    def _tell(self, root: ElementTree.Element) -> None:
        """Adds titles, and drops ids nothing refers to: several charts share a page."""
        text = ElementTree.tostring(root, encoding="unicode")
        used = set(re.findall(r"url\(#([^)]+)\)", text)) | set(re.findall(r'href="#([^"]+)"', text))
        for element in root.iter():
            name = element.get("id")
            if name in self.told:
                title = ElementTree.Element(f"{{{_SVG}}}title")
                title.text = self.told[name]
                element.insert(0, title)
                element.set("class", "told")
            if name is not None and name not in used:
                del element.attrib["id"]


def require_plottable(path: Path | None) -> None:
    """Refuse early what could not be drawn after all the work; None is nothing to be drawn.

    Raises:
        UsageError: no file of a known format can be there.
        RuntimeUnavailableError: matplotlib is not installed.
    """
    if path is None:
        return
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"{path}: a plot is written as {' or '.join(FORMATS)}")
    if importlib.util.find_spec("matplotlib") is None:
        raise RuntimeUnavailableError(_HOW)
    require_writable(path)


def _followed(text: str) -> str:
    """Colours as variables of the page."""
    for name, colour in COLOURS.items():
        text = text.replace(colour, f"var(--{name})")
    return text


@contextmanager
def _drawing(size: tuple[float, float], salt: str) -> Iterator[tuple[Chart, Axes]]:
    """An empty chart of so many inches, to be drawn on inside. Raises RuntimeUnavailableError."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator
    except ImportError as error:
        raise RuntimeUnavailableError(_HOW) from error
    style = {**_STYLE, "svg.hashsalt": f"tflite-fuse {salt}"}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=size)  # automatic layouts draw everything twice
        axes = figure.add_subplot()
        figure.subplots_adjust(left=0.14, right=0.96, top=1 - 0.25 / size[1], bottom=0.42 / size[1])
        axes.grid(axis="y", linewidth=0.5)
        axes.set_axisbelow(True)
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        # A label with a given place need not be searched for: that takes a quarter of the time to draw.
        axes.xaxis.set_label_coords(0.5, -0.3 / size[1])
        axes.yaxis.set_label_coords(-0.12, 0.5)
        yield Chart(figure, style), axes


def arena_chart(shown: ArenaMap, title: str, top: int | None = None, legend: bool = False) -> Chart:
    """Steps from left to right, bytes of the head from bottom to top, a box for everything in it.

    Args:
        shown: what lies where.
        title: above it.
        top: bytes the axis reaches to, for two charts of one scale; None for what there is.
        legend: whether it says what the colours mean, for a picture without a page around it.
    """
    with _drawing((4.6, 3.1), title) as (chart, axes):
        boxes = sorted(shown.boxes, key=lambda box: -box.nbytes)
        _together(axes, boxes[MOST_BOXES:])
        boxes = sorted(boxes[:MOST_BOXES], key=lambda box: (box.kind == "ring", -box.nbytes))
        edge = {"edgecolor": COLOURS["ink"], "linewidth": 0.25 if len(shown.steps) <= MOST_EDGED else 0, "alpha": 0.8}
        for number, box in enumerate(boxes):
            (left, offset), width = _corner(box), _width(box)
            _box(axes, (left, offset), width, box.nbytes, f"box{number}", facecolor=COLOURS[box.kind], **edge)
            chart.told[f"box{number}"] = _told(box, shown.steps)
        axes.set_xlim(-1.5, max(len(shown.steps) - 0.5, 0.5))
        axes.set_ylim(0, (top or shown.head_bytes or 1) * 1.04)
        axes.set_title(title, loc="left", y=1.0)
        _whole(axes)
        axes.set_xlabel("step (operator)")
        _in_bytes(axes, "bytes of the head")
        if legend:
            _explain(axes, [kind for kind in _KINDS if any(box.kind == kind for box in shown.boxes)])
    return chart


_KINDS = {"tensor": "tensors", "scratch": "scratch", "ring": "line buffers"}


def _explain(axes: Axes, kinds: Sequence[str]) -> None:
    """What colours mean, below the axis at the right, its own name at the left."""
    from matplotlib.patches import Rectangle

    axes.set_xlabel(axes.get_xlabel(), loc="left")
    shown = [Rectangle((0, 0), 1, 1, facecolor=COLOURS[kind], alpha=0.8, label=_KINDS[kind]) for kind in kinds]
    look = {"frameon": False, "handlelength": 1, "columnspacing": 1, "borderpad": 0}
    axes.legend(handles=shown, loc="upper right", bbox_to_anchor=(1, -0.08), ncols=len(kinds), **look)


_INSET = 0.12
"""Steps that a ring is narrower to either side than the block it is in."""


def _corner(box: Box) -> tuple[float, int]:
    return box.first - 0.5 + (_INSET if box.kind == "ring" else 0.0), box.offset


def _width(box: Box) -> float:
    return box.last - box.first + 1 - (2 * _INSET if box.kind == "ring" else 0.0)


def _together(axes: Axes, boxes: Sequence[Box]) -> None:
    """The small ones of very many: one shape of each kind, with nothing told about its parts."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Outline

    for kind in dict.fromkeys(box.kind for box in boxes):
        corners = [(*_corner(box), _width(box), box.nbytes) for box in boxes if box.kind == kind]
        outlines = [
            Outline([(x, y), (x + w, y), (x + w, y + h), (x, y + h), (x, y)], closed=True) for x, y, w, h in corners
        ]
        look = {"facecolor": COLOURS[kind], "linewidth": 0, "alpha": 0.8}
        axes.add_artist(PathPatch(Outline.make_compound_path(*outlines), **look))


def _box(axes: Axes, corner: tuple[float, float], width: float, height: float, gid: str, **look: Any) -> None:
    """A rectangle within limits that are set by hand: axes that look for them take longer than to draw it."""
    from matplotlib.patches import Rectangle

    axes.add_artist(Rectangle(corner, width, height, gid=gid, **look))


def _told(box: Box, steps: Sequence[str]) -> str:
    def name(step: int) -> str:
        return "the start" if step < 0 else steps[step]

    life = f"in {name(box.first)}" if box.first == box.last else f"from {name(box.first)} to {name(box.last)}"
    what = {"tensor": "tensor", "scratch": "", "ring": "line buffer of"}[box.kind]
    return f"{what} {box.name}: {box.nbytes:,} bytes at {box.offset:,}, {life}".strip()


def live_chart(steps: Sequence[dict[str, Any]], title: str, top: int | None = None) -> Chart:
    """The working set of every operator as a bar, the bottleneck in another colour."""
    with _drawing((4.6, 2.3), f"live {title}") as (chart, axes):
        sizes = [step["working_set_bytes"] for step in steps]
        if len(steps) > MOST_BOXES:
            axes.fill_between(range(len(sizes)), sizes, step="mid", color=COLOURS["tensor"], linewidth=0)
        else:
            for number, (size, step) in enumerate(zip(sizes, steps, strict=True)):
                colour = COLOURS["peak" if step["bottleneck"] else "tensor"]
                _box(axes, (number - 0.45, 0), 0.9, size, f"bar{number}", color=colour)
                chart.told[f"bar{number}"] = f"{step['name']}: {step['working_set_bytes']:,} bytes live"
        axes.set_xlim(-0.7, max(len(sizes) - 0.3, 0.7))
        axes.set_ylim(0, (top or max(sizes, default=1) or 1) * 1.04)
        axes.set_title(title, loc="left", y=1.0)
        _whole(axes)
        axes.set_xlabel("operator")
        _in_bytes(axes, "bytes live")
    return chart


def front_chart(
    points: Sequence[tuple[int, float]],
    marks: Sequence[tuple[str, int, float]],
    limits: Sequence[tuple[str, int]] = (),
    unit: str = "multiply-accumulates",
    schemes: Sequence[tuple[str, int, float]] = (),
) -> Chart:
    """Trades of RAM for compute, to a logarithmic scale where the most is more than four times the least.

    Args:
        points: (arena bytes, compute over that of the unfused model), estimates or placed.
        marks: points with a name.
        limits: RAM of boards, with their names.
        unit: what compute is counted in.
        schemes: points of published schemes.
    """
    with _drawing((4.6, 3.0), "front") as (chart, axes):
        axes.plot(
            *zip(*points, strict=True), "o-", color=COLOURS["tensor"], markersize=4, linewidth=1
        ) if points else None
        for _, ram, factor in marks:
            axes.plot([ram], [factor], "D", color=COLOURS["peak"], markersize=5)
        for name, ram, factor in schemes:
            axes.plot([ram], [factor], "x", color=COLOURS["ring"], markersize=5, gid=f"scheme-{name}")
            chart.told[f"scheme-{name}"] = f"{name}: {ram:,} bytes, {factor:.2f} times the compute"
        axes.margins(0.15, 0.25)
        factors = [factor for _, factor in points] + [factor for _, _, factor in (*marks, *schemes)]
        if factors and max(factors) > 4 * min(factors):
            _several_times(axes)
        for number, (name, ram) in enumerate(limits):
            axes.axvline(ram, color=COLOURS["muted"], linewidth=0.8, linestyle="--", gid=f"limit{number}")
            chart.told[f"limit{number}"] = f"{name} has {ram:,} bytes for an arena"
        axes.autoscale_view()  # names stand where the axes say, which are not looked at again before they are drawn
        above(chart.figure, axes, limits)
        _name(axes, marks, schemes, points)
        axes.set_xlabel("arena in bytes")
        axes.xaxis.set_major_formatter(lambda value, _: _short(value))
        axes.set_ylabel(f"{unit}, as it is = 1")
    return chart


def _name(
    axes: Axes,
    marks: Sequence[tuple[str, int, float]],
    schemes: Sequence[tuple[str, int, float]],
    points: Sequence[tuple[int, float]],
) -> None:
    """Names of marks, then of schemes, beside what is drawn."""
    drawn = {*points, *(each[1:] for each in (*marks, *schemes))}
    taken = [around(axes, axes.transData.transform(each), (-3, -3, 3, 3)) for each in drawn]
    for size, named in ((8, marks), (6, schemes)):
        for name, ram, factor in sorted(named, key=lambda each: each[1:]):
            beside(axes, name, (ram, factor), taken, size)


def _several_times(axes: Axes) -> None:
    """A logarithmic scale of factors, whose labels keep apart."""
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_formatter(lambda value, _: f"{value:g}" if f"{value:.0e}"[0] in "25" and value > 1 else "")


def _whole(axes: Axes) -> None:
    """Whole numbers below, however few there are; what is before the first is the start."""
    axes.locator_params("x", integer=True, min_n_ticks=1)
    axes.xaxis.set_major_formatter(lambda value, _: "start" if value < 0 else f"{value:g}")


def _in_bytes(axes: Axes, label: str) -> None:
    axes.yaxis.set_major_formatter(lambda value, _: _short(value))
    axes.set_ylabel(label)


def _short(value: float) -> str:
    return f"{value / 1e6:g}M" if value >= 1e6 else f"{value / 1e3:g}k" if value >= 1e3 else f"{value:g}"
