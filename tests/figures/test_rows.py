"""Rows of tables on pages, made anew: those of a few seconds go through the same code as those that take hours."""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from pathlib import Path

import pytest

import tflite_fuse
from scripts.bench_exports import PAGE as LIBRARY_PAGE
from scripts.bench_exports import as_markdown, exports
from scripts.bench_order import run
from scripts.bench_papers import PAPERS
from scripts.bench_split import ratings, scheme
from scripts.comparison import ALSO, PAGE, TABLES, order
from scripts.papers.data import Data
from scripts.readme import part
from scripts.streams import windows
from tests.conftest import SHARED
from tflite_fuse.split.cut.network import network_of
from tflite_fuse.zoo.architectures import build_architecture_file

STREAMS_PAGE = PAGE.parent / "streaming.md"


QUICK = {
    "msf-cnn": ("MN2-vww5", 0),
    "msf-cnn-least": ("MN2-vww5", 0),
    "msf-cnn-time": ("MN2-vww5", 0),
    "streamnet": ("mcunet-in0", 1),
    "streamnet-work": ("mcunet-in0", 0),
    "frontier": ("mlperf_tiny_dscnn_kws_int8", 1),
    "peers-ram": ("mlperf_tiny_dscnn_kws", 0),
    "peers-cycles": ("mlperf_tiny_dscnn_kws", 0),
}
"""Of each table the network whose rows are made in a few seconds, all take hours; and on how many inputs it is run."""


@pytest.mark.parametrize("paper", QUICK)
def test_rows_of_a_table_are_what_the_script_makes_today(paper: str) -> None:
    if not (SHARED / "facts").is_dir():
        pytest.skip("no published figures beside the project")
    result = PAPERS[paper](Data(SHARED, *QUICK[paper]))
    for name in (paper, *ALSO.get(paper, ())):
        told = [cells(line) for line in part(name, PAGE).splitlines()]
        made = [cells(line) for line in TABLES[name](result["rows"]).splitlines()]
        kept: list[int] = []
        for head in made[0]:  # columns without a figure are left out of what was made
            kept.append(told[0].index(head, kept[-1] + 1 if kept else 0))
        rows = [[row[at] for at in kept] for row in told[2:] if len(row) == len(told[0])]
        assert made[2:] and all(row in rows for row in made[2:]), "run scripts/bench_papers.py and comparison.py"


def cells(line: str) -> list[str]:
    """Of a row of a table in Markdown."""
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize("graph", ["darts", "fig1", "nasnet", "randwire", "swiftnet"])
def test_orders_are_as_good_as_the_page_says(graph: str) -> None:
    if not (SHARED / "graphs").is_dir():
        pytest.skip("no graphs beside the project")
    made = order([asdict(row) for row in run(SHARED, graph, 60.0, False)]).splitlines()
    assert len(made) > 2 and {*made} <= {*part("order", PAGE).splitlines()}, "run scripts/bench_order.py"


def test_what_moves_in_a_published_split_is_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    if not (SHARED / "facts").is_dir():
        pytest.skip("no published figures beside the project")
    network = network_of(build_architecture_file(SHARED / "arch" / "mbv2-w1.0-r112.json"))
    scheme(network)
    ratings(network, SHARED / "facts")
    made = capsys.readouterr().out.splitlines()
    assert len(made) > 8 and {*made} <= {*part("split", PAGE).splitlines()}, "run scripts/bench_split.py"


@pytest.mark.parametrize("name", ["mlperf_tiny_autoencoder_int8", "mlperf_tiny_dscnn_kws_int8"])
def test_the_arenas_that_exports_declare_are_what_the_library_s_page_says(name: str, tmp_path: Path) -> None:
    path = SHARED / "models" / f"{name}.tflite"
    if not path.exists():
        pytest.skip(f"no {path.name} beside the project")
    found = list(exports(name, tflite_fuse.rewrite(path, verify=False).model, tmp_path))
    made = as_markdown(found, [], []).splitlines()[-1].split("|")
    told = next(line for line in part("exports", LIBRARY_PAGE).splitlines() if line.startswith(f"| {name} |"))
    assert told.split("|")[:-2] == made[:-2], "run scripts/bench_exports.py --write"


def test_what_windows_become_as_streams_is_what_the_page_on_streams_says() -> None:
    if not (SHARED / "models").is_dir():
        pytest.skip("no models beside the project")
    found = [windows.measure(*case, [], 2) for case in islice(windows.cases(), 1)]
    made = windows.as_markdown(found).splitlines()[2:]
    assert len(made) == 1 and {*made} <= {*part("streams", STREAMS_PAGE).splitlines()}, (
        "run scripts/bench_streams.py --write"
    )


def test_what_a_wake_word_needs_is_what_the_page_on_streams_says() -> None:
    path = next((SHARED / "real").glob("microwakeword*okay_nabu*.tflite"), None)
    if path is None:
        pytest.skip("no wake word beside the project")
    report = tflite_fuse.rewrite(path, verify=False).report
    text = STREAMS_PAGE.read_text()
    line = next(line for line in text.splitlines() if line.startswith("| second generation (okay_nabu)"))
    cells = [cell.strip() for cell in line.split("|")]
    assert cells[2:4] == [f"{report.before.arena_bytes:,} B", f"{report.after.arena_bytes:,} B"]
