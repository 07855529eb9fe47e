"""Pictures and traces as files, and results in notebooks."""

from __future__ import annotations

import json
from collections import defaultdict
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

import tflite_fuse
from tests.test_cli import branching_model, run
from tflite_fuse.data import SAMPLE_MODEL
from tflite_fuse.model import save_model
from tflite_fuse.pages.trace import STEP, arena_trace
from tflite_fuse.report.arena_map import arena_map


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "in.tflite"
    save_model(branching_model(), path)
    return path


def test_plots_are_written_in_both_formats(model: Path) -> None:
    pytest.importorskip("matplotlib")
    memory, front = model.with_name("memory.svg"), model.with_name("front.png")
    assert run("inspect", model, "--plot", memory).returncode == 0
    root = ElementTree.fromstring(memory.read_bytes())
    drawn = next(each for each in root.iter() if each.get("id") == "tensor")[0].attrib["d"]
    assert root.tag.endswith("svg") and drawn.count("M") == len(arena_map(tflite_fuse.load(model)).boxes)
    assert run("pareto", model, "--plot", front, "--csv").returncode == 0
    assert front.read_bytes().startswith(b"\x89PNG")


def test_a_picture_explains_its_colours(model: Path) -> None:
    pytest.importorskip("matplotlib")
    fused, picture = model.with_name("fused.tflite"), model.with_name("memory.svg")
    fused.write_bytes(tflite_fuse.rewrite(model.read_bytes(), verify=False).model)
    meanings = ("tensors", "scratch", "line buffers")
    for path, shown in ((model, meanings[:1]), (fused, meanings)):
        assert run("inspect", path, "--plot", picture).returncode == 0
        drawn = picture.read_text()
        assert [what for what in meanings if f">{what}<" in drawn] == list(shown)


@pytest.mark.parametrize("name", ["memory.pdf", "none/memory.svg"])
def test_a_plot_that_cannot_be_is_one_sentence(model: Path, name: str) -> None:
    pytest.importorskip("matplotlib")
    for command in ("inspect", "pareto"):
        done = run(command, model, "--plot", model.with_name("x").parent / name)
        assert done.returncode == 2 and name in done.stderr and not done.stdout


def test_a_trace_has_every_tensor_once_and_rows_do_not_overlap(model: Path) -> None:
    path = model.with_name("trace.json")
    assert run("inspect", model, "--trace", path).returncode == 0
    shown = arena_map(tflite_fuse.load(model))
    events = json.loads(path.read_text())["traceEvents"]
    assert events == arena_trace(shown, str(model))["traceEvents"]
    rows = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            rows[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    assert sum(map(len, rows.values())) == len(shown.boxes) + len(shown.steps) + 1
    for spans in rows.values():
        spans.sort()
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    live = [event["args"]["bytes"] for event in events if event["ph"] == "C"]
    assert live == [*shown.used_bytes(), 0] and max(live) <= shown.head_bytes
    assert all(event["ts"] % STEP == 0 for event in events if event["ph"] == "X")


class Balanced(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_results_show_themselves_in_a_notebook() -> None:
    result = tflite_fuse.rewrite(SAMPLE_MODEL, verify=False)
    assert isinstance(result.report, tflite_fuse.Report)
    inspection = tflite_fuse.inspect(SAMPLE_MODEL, name="<b>model</b>")
    assert isinstance(inspection, tflite_fuse.Inspection)
    for shown, number in (
        (result, result.report.after.arena_bytes),
        (result.report, result.report.before.arena_bytes),
        (inspection, inspection.figures.arena_bytes),
    ):
        page = Balanced()
        page.feed(shown._repr_html_())
        assert not page.open and f"{number:,}" in page.text


def test_a_front_shows_itself_in_a_notebook(model: Path) -> None:
    front = tflite_fuse.pareto(model)
    assert isinstance(front, tflite_fuse.FrontReport)
    page = Balanced()
    page.feed(front._repr_html_())
    assert not page.open and all(f"{row.ram_bytes:,}" in page.text for row in front.rows)
