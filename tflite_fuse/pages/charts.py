"""Pictures of memory, drawn by matplotlib (extra ``report``): the arena over time, working sets, the front.

Each is a figure in colours for white paper. As a file it keeps them; ``inline`` replaces them by the page's colours and
marks the parts and the axes' positions for the page's script.
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
from tflite_fuse.report.arena_map import ArenaMap, Box
from tflite_fuse.split.cluster.simulation import Point

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
"""Colour by meaning; the page has a variable of each name."""

FORMATS = (".svg", ".png")

MOST_EDGED = 300
"""Most steps of a picture with edges, which are not visible in more."""

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
    """A figure, and the sentences about its parts by their ids; empty for parts that only the script uses."""

    figure: Any
    style: dict[str, Any]
    titles: dict[str, str] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write the figure as .svg or .png. Raises UsageError."""
        require_plottable(path)
        write_atomically(self._drawn(path.suffix.lower()[1:]), path)

    def inline(self, title: str) -> str:
        """Return the figure as an element of a page, with ``title`` as its alternative text."""
        root = ElementTree.fromstring(self._drawn("svg", clear=True))
        for tag in ("metadata", "defs/style"):
            for parent in (root, *root.iterfind(f"{{{_SVG}}}defs/..")):
                for child in parent.findall(f"{{{_SVG}}}{tag}"):
                    parent.remove(child)
        for name in ("width", "height", "version"):
            root.attrib.pop(name, None)
        axes = " ".join(f"{each:g}" for each in self._axes())
        root.attrib.update({"role": "img", "aria-label": title, "data-axes": axes})
        self._add_titles(root)
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

    def _axes(self) -> tuple[float, ...]:
        """Return left, top, right and bottom of the first axes in units of the element, then the values there."""
        axes, (width, height) = self.figure.axes[0], (72 * inches for inches in self.figure.get_size_inches())
        place, (left, right), (bottom, top) = axes.get_position(), axes.get_xlim(), axes.get_ylim()
        corners = place.x0 * width, (1 - place.y1) * height, place.x1 * width, (1 - place.y0) * height
        return *corners, left, top, right, bottom

    def _add_titles(self, root: ElementTree.Element) -> None:
        """Add titles and names of parts, and drop unused ids, because several charts share a page."""
        text = ElementTree.tostring(root, encoding="unicode")
        used = set(re.findall(r"url\(#([^)]+)\)", text)) | set(re.findall(r'href="#([^"]+)"', text))
        for element in root.iter():
            name = element.get("id")
            if name in self.titles:
                element.set("data-part", name)
                if self.titles[name]:
                    title = ElementTree.Element(f"{{{_SVG}}}title")
                    title.text = self.titles[name]
                    element.insert(0, title)
            if name is not None and name not in used:
                del element.attrib["id"]


def require_plottable(path: Path | None) -> None:
    """Check before long work that a picture can be drawn; None is no picture.

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
    """Return the text with colours replaced by variables of the page."""
    for name, colour in COLOURS.items():
        text = text.replace(colour, f"var(--{name})")
    return text


@contextmanager
def _drawing(size: tuple[float, float], salt: str) -> Iterator[tuple[Chart, Axes]]:
    """Return a context with an empty chart of so many inches. Raises RuntimeUnavailableError."""
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
        # Fixed places of labels: searching for them takes a quarter of the drawing time.
        axes.xaxis.set_label_coords(0.5, -0.3 / size[1])
        axes.yaxis.set_label_coords(-0.12, 0.5)
        yield Chart(figure, style), axes


def arena_chart(shown: ArenaMap, title: str, top: int | None = None, legend: bool = False) -> Chart:
    """Return a chart of the head: steps from left to right, bytes from bottom to top, a box for every part.

    A second memory is drawn below it, over the same steps.

    Args:
        shown: the boxes.
        title: above the chart.
        top: bytes at the top of the axis, for two charts of one scale; default: the head's.
        legend: whether to explain the colours, for a picture without a page around it.
    """
    second = shown.second
    with _drawing((4.6, 3.1 if second is None else 3.1 + _SECOND_INCHES), title) as (chart, axes):
        lowest = axes if second is None else _below(chart.figure, axes)
        for kind in _KINDS:
            _fill(axes, shown, kind, kind)
            chart.titles[kind] = ""
        axes.set_xlim(-1.5, max(len(shown.steps) - 0.5, 0.5))
        axes.set_ylim(0, (top or shown.head_bytes or 1) * 1.04)
        axes.set_title(title, loc="left", y=1.0, gid="title")
        _whole(axes)
        axes.xaxis.set_gid("steps")
        chart.titles |= {"title": "", "steps": ""}
        _in_bytes(axes, f"bytes of {shown.name or 'the head'}")
        if second is not None:
            _fill(lowest, second, "tensor", "second")
            lowest.set_ylim(0, (second.head_bytes or 1) * 1.04)
            _in_bytes(lowest, f"bytes of {second.name}")
            names = ", ".join(f"{box.name} {box.nbytes:,}" for box in second.boxes)
            chart.titles["second"] = f"{second.name}, {second.head_bytes:,} bytes: {names}"
        lowest.set_xlabel("step (operator)")
        if legend:
            _explain(lowest, [kind for kind in _KINDS if any(box.kind == kind for box in shown.boxes)])
    return chart


_SECOND_INCHES = 1.3
"""Height of the picture of a second memory, with the space above it."""


def _below(figure: Any, axes: Axes) -> Axes:
    """Return axes for a second memory below those of the first one, which share the steps and become smaller."""
    whole, inches = axes.get_position(), figure.get_size_inches()[1]
    share, height = _SECOND_INCHES / inches, (_SECOND_INCHES - 0.15) / inches
    axes.set_position((whole.x0, whole.y0 + share, whole.width, whole.height - share))
    below: Axes = figure.add_axes((whole.x0, whole.y0, whole.width, height), sharex=axes)
    axes.tick_params(labelbottom=False)
    below.grid(axis="y", linewidth=0.5)
    below.set_axisbelow(True)
    below.locator_params("y", nbins=3)
    below.xaxis.set_label_coords(0.5, -0.3 / (_SECOND_INCHES - 0.15))
    below.yaxis.set_label_coords(-0.12, 0.5)
    return below


def _fill(axes: Axes, shown: ArenaMap, kind: str, gid: str) -> None:
    """Draw the boxes of a kind."""
    boxes = [(*_corner(box), _width(box), box.nbytes) for box in shown.boxes if box.kind == kind]
    edge = {"edgecolor": COLOURS["ink"], "linewidth": 0.25 if len(shown.steps) <= MOST_EDGED else 0}
    _outline(axes, boxes, facecolor=COLOURS[kind], alpha=0.8, gid=gid, **edge)


_KINDS = {"tensor": "tensors", "scratch": "scratch", "ring": "line buffers"}


def _explain(axes: Axes, kinds: Sequence[str]) -> None:
    """Write a legend of the colours below the axis at the right, and the axis label at the left."""
    from matplotlib.patches import Rectangle

    axes.set_xlabel(axes.get_xlabel(), loc="left")
    shown = [Rectangle((0, 0), 1, 1, facecolor=COLOURS[kind], alpha=0.8, label=_KINDS[kind]) for kind in kinds]
    look = {"frameon": False, "handlelength": 1, "columnspacing": 1, "borderpad": 0}
    below = -0.2 * axes.figure.dpi / axes.bbox.height
    axes.legend(handles=shown, loc="upper right", bbox_to_anchor=(1, below), ncols=len(kinds), **look)


_INSET = 0.12
"""Inset in steps of a ring's box on either side of its block's."""


def _corner(box: Box) -> tuple[float, int]:
    return box.first - 0.5 + (_INSET if box.kind == "ring" else 0.0), box.offset


def _width(box: Box) -> float:
    return box.last - box.first + 1 - (2 * _INSET if box.kind == "ring" else 0.0)


def _outline(axes: Axes, boxes: Sequence[tuple[float, float, float, float]], **look: Any) -> None:
    """Draw boxes as one shape, because one element for each makes a page large and slow to draw.

    Args:
        axes: with limits set by hand.
        boxes: left, bottom, width and height.
        look: of the shape.
    """
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Outline

    outlines = [Outline([(x, y), (x + w, y), (x + w, y + h), (x, y + h), (x, y)], closed=True) for x, y, w, h in boxes]
    if outlines:
        axes.add_artist(PathPatch(Outline.make_compound_path(*outlines), **look))


def live_chart(steps: Sequence[dict[str, Any]], title: str, top: int | None = None) -> Chart:
    """Return a chart of the working set of every operator in bytes, the bottleneck in another colour."""
    with _drawing((4.6, 2.3), f"live {title}") as (chart, axes):
        sizes = [step["working_set_bytes"] for step in steps]
        for colour, peak in (("tensor", False), ("peak", True)):
            at = [number for number, step in enumerate(steps) if step["bottleneck"] is peak]
            _outline(axes, [(number - 0.45, 0, 0.9, sizes[number]) for number in at], color=COLOURS[colour])
        axes.set_xlim(-0.7, max(len(sizes) - 0.3, 0.7))
        axes.set_ylim(0, (top or max(sizes, default=1) or 1) * 1.04)
        axes.set_title(title, loc="left", y=1.0)
        _whole(axes)
        axes.set_xlabel("operator")
        _in_bytes(axes, "bytes live")
    return chart


@dataclass(frozen=True)
class Dot:
    """A point of a front.

    Attributes:
        ram: bytes.
        factor: compute over that of the unfused model.
        name: written beside it together with its bytes; if empty, only the bytes are written where there is room.
    """

    ram: int
    factor: float
    name: str = ""

    @property
    def place(self) -> tuple[int, float]:
        """Return RAM in bytes and the factor."""
        return self.ram, self.factor


def front_chart(
    points: Sequence[Dot],
    marks: Sequence[Dot],
    limits: Sequence[tuple[str, int]] = (),
    unit: str = "multiply-accumulates",
) -> Chart:
    """Return a chart of compute over RAM, each axis logarithmic if its largest value exceeds four times the least.

    Args:
        points: the front, RAM ascending.
        marks: single models.
        limits: RAM of boards, with their names.
        unit: unit of compute.
    """
    with _drawing((4.6, 3.0), "front") as (chart, axes):
        axes.plot(*zip(*(dot.place for dot in points), strict=True), "-", color=COLOURS["tensor"]) if points else None
        for number, dot in enumerate(points):
            axes.plot(*dot.place, "o", color=COLOURS["tensor"], markersize=4, gid=f"point{number}")
            chart.titles[f"point{number}"] = f"{dot.ram:,} bytes, {dot.factor:.2f} times the {unit}"
        for dot in marks:
            axes.plot(*dot.place, "D", color=COLOURS["peak"], markersize=5)
        axes.margins(0.15, 0.25)
        dots = (*points, *marks)
        if dots and max(dot.factor for dot in dots) > 4 * min(dot.factor for dot in dots):
            _several_times(axes)
        if dots and max(dot.ram for dot in dots) > 4 * min(dot.ram for dot in dots):
            axes.set_xscale("log", subs=(2, 5))
        for number, (name, ram) in enumerate(limits):
            axes.axvline(ram, color=COLOURS["muted"], linewidth=0.8, linestyle="--", gid=f"limit{number}")
            chart.titles[f"limit{number}"] = f"{name} has {ram:,} bytes for an arena"
        axes.autoscale_view()  # the places of names depend on the axes, which must not change any more
        above(chart.figure, axes, [(f"{name} {_short(ram)}", ram) for name, ram in limits])
        _name(axes, points, marks)
        axes.set_xlabel("arena in bytes")
        for set_formatter in (axes.xaxis.set_major_formatter, axes.xaxis.set_minor_formatter):
            set_formatter(lambda value, _: _short(value))
        axes.set_ylabel(f"{unit}, as it is = 1")
    return chart


def sweep_chart(points: Sequence[Point]) -> Chart:
    """Return three curves over the number of workers: time, payload, and RAM of the largest worker."""
    split = [each for each in points if each.reason is None]
    curves = (
        ("time, ms", [each.seconds * 1000 for each in split]),
        ("payload, kB", [each.payload_bytes / 1000 for each in split]),
        ("RAM of the largest worker, kB", [each.ram_bytes / 1000 for each in split]),
    )
    with _drawing((10, 3), "sweep") as (chart, whole):
        whole.remove()
        chart.figure.subplots_adjust(left=0.06, right=0.98, bottom=0.16, wspace=0.25)
        for place, (label, values) in zip(chart.figure.subplots(1, len(curves)), curves, strict=True):
            place.plot([each.workers for each in split], values, marker="o")
            place.set_xlabel("workers")
            place.set_ylabel(label)
            place.set_ylim(bottom=0)
    return chart


def _name(axes: Axes, points: Sequence[Dot], marks: Sequence[Dot]) -> None:
    """Write names and bytes beside marks and named points, then bytes of other points where there is room."""
    occupied = [around(axes, axes.transData.transform(dot.place), (-3, -3, 3, 3)) for dot in (*points, *marks)]
    for size, dots in ((8, marks), (7, [dot for dot in points if dot.name])):
        for dot in sorted(dots, key=lambda dot: dot.place):
            beside(axes, f"{dot.name} {dot.ram:,}", dot.place, occupied, size)
    for dot in points:
        if not dot.name and dot.place not in [mark.place for mark in marks]:
            beside(axes, f"{dot.ram:,}", dot.place, occupied, crowded=False)


def _several_times(axes: Axes) -> None:
    """Set a logarithmic scale of factors with labels that do not overlap."""
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_formatter(lambda value, _: f"{value:g}" if f"{value:.0e}"[0] in "25" and value > 1 else "")


def _whole(axes: Axes) -> None:
    """Set integer labels of steps; the one before the first is the start."""
    axes.locator_params("x", integer=True, min_n_ticks=1)
    axes.xaxis.set_major_formatter(lambda value, _: "start" if value < 0 else f"{value:g}")


def _in_bytes(axes: Axes, label: str) -> None:
    axes.yaxis.set_major_formatter(lambda value, _: _short(value))
    axes.set_ylabel(label)


def _short(value: float) -> str:
    return f"{value / 1e6:.4g}M" if value >= 1e6 else f"{value / 1e3:.4g}k" if value >= 1e3 else f"{value:g}"


_LETTER = 4.1
"""Approximate width in points of a letter of 7 points."""

Area = tuple[float, float, float, float]
"""Left, bottom, right and top, in points of 1/72 inch of the figure."""


def around(axes: Axes, at: Any, sides: Area) -> Area:
    """Return the area between distances from a point given in pixels of the figure."""
    x, y = (value * 72 / axes.figure.dpi for value in at)
    return x + sides[0], y + sides[1], x + sides[2], y + sides[3]


def above(figure: Any, axes: Axes, named: Sequence[tuple[str, int]]) -> None:
    """Write names over lines, in as many rows as they need; the axes make room for them."""
    rows: list[list[float]] = []
    width, height = (72 * inches for inches in figure.get_size_inches())
    for name, value in named:
        x = axes.transData.transform((value, 1))[0] * 72 / figure.dpi
        left = min(max(x - _LETTER * len(name) / 2, 0), width - _LETTER * len(name))
        row = next((row for row in rows if row[-1] < left), None)
        if row is None:
            rows.append(row := [])
        row.append(left + _LETTER * (len(name) + 1))
        offset = (left - x, 2 + 9 * next(at for at, each in enumerate(rows) if each is row))
        axes.annotate(
            name, (value, 1), xycoords=axes.get_xaxis_transform(), xytext=offset, textcoords="offset points", fontsize=7
        )
    figure.subplots_adjust(top=1 - (9 * len(rows) + 6) / height)


def beside(
    axes: Axes, name: str, point: tuple[float, float], occupied: list[Area], size: float = 7, crowded: bool = True
) -> None:
    """Write a name beside a point inside the axes, at the place with fewest overlaps, and add its area to ``occupied``.

    Args:
        axes: with final scales.
        name: the text.
        point: in the units of the axes.
        occupied: areas of other texts and points, in points of 1/72 inch.
        size: of the letters, in such points.
        crowded: whether to write it also farther away, or over others.
    """
    position, long = axes.transData.transform(point), _LETTER * len(name) * size / 7
    heights = (-2.0, -9.0, 5.0, -16.0, 12.0, -23.0, 19.0)
    offsets = [(x, y) for y in (heights if crowded else heights[:3]) for x in (5.0, -5.0)]
    areas = [
        around(axes, position, (x if x > 0 else x - long, y - 1, x + long if x > 0 else x, y + size))
        for x, y in offsets
    ]
    (left, bottom), (right, top) = (around(axes, corner, (0, 0, 0, 0))[:2] for corner in (axes.bbox.min, axes.bbox.max))
    room = (left, bottom, right, top)
    crowds = [sum(_meet(area, other) for other in occupied) + _OUTSIDE * (not _within(area, room)) for area in areas]
    best = crowds.index(min(crowds))
    if crowds[best] and not crowded:
        return
    side = "left" if offsets[best][0] > 0 else "right"
    axes.annotate(name, point, xytext=offsets[best], textcoords="offset points", ha=side, fontsize=size)
    occupied.append(areas[best])


_OUTSIDE = 3
"""Penalty of a place outside the axes, in overlaps: numbers of the axes stand there, or the name is cut off."""


def _meet(one: Area, other: Area) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _within(one: Area, other: Area) -> bool:
    return one[0] >= other[0] and one[1] >= other[1] and one[2] <= other[2] and one[3] <= other[3]
