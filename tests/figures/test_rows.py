"""Rows of tables on pages, recomputed: rows of a few seconds use the same code as those of hours."""

from __future__ import annotations

import re
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest

import tflite_fuse
from scripts import bench_witness
from scripts.bench_exports import PAGE as LIBRARY_PAGE
from scripts.bench_exports import as_markdown, exports
from scripts.bench_order import run
from scripts.bench_papers import PAPERS
from scripts.bench_split import ratings, scheme
from scripts.comparison import ALSO, PAGE, TABLES, order
from scripts.papers.data import Data
from scripts.readme import part
from scripts.streams import variables, windows
from scripts.streams.emulated import STEPS
from scripts.zoo.architectures import build_architecture_file
from tests.conftest import SHARED
from tests.device.targets import TARGETS
from tflite_fuse.runtime.library.sources import library_directory
from tflite_fuse.split.cut.network import network_of
from tflite_fuse.tuning import TUNING

STREAMS_PAGE = PAGE.parent / "streaming.md"


QUICK = {
    "msf-cnn": ("MN2-vww5", 0),
    "msf-cnn-least": ("MN2-vww5", 0),
    "msf-cnn-boards": ("MN2-vww5", 0),
    "msf-cnn-time": ("MN2-vww5", 0),
    "streamnet": ("mcunet-in0", 1),
    "streamnet-work": ("mcunet-in0", 0),
    "fused-layer": ("MCUNet", 0),
    "frontier": ("mlperf_tiny_dscnn_kws_int8", 1),
    "peers-ram": ("mlperf_tiny_dscnn_kws", 0),
    "peers-cycles": ("mlperf_tiny_dscnn_kws", 0),
}
"""Of each table the network whose rows are made in a few seconds, all take hours; and on how many inputs it is run."""


@pytest.mark.parametrize("paper", QUICK)
def test_rows_of_a_table_equal_its_script(paper: str) -> None:
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
def test_orders_equal_the_page(graph: str) -> None:
    if not (SHARED / "graphs").is_dir():
        pytest.skip("no graphs beside the project")
    made = order([asdict(row) for row in run(SHARED, graph, 60.0, False)]).splitlines()
    assert len(made) > 2 and {*made} <= {*part("order", PAGE).splitlines()}, "run scripts/bench_order.py"


def test_traffic_of_a_published_split_equals_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    if not (SHARED / "facts").is_dir():
        pytest.skip("no published figures beside the project")
    network = network_of(build_architecture_file(SHARED / "arch" / "mbv2-w1.0-r112.json"))
    scheme(network)
    ratings(network, SHARED / "facts")
    made = capsys.readouterr().out.splitlines()
    assert len(made) > 8 and {*made} <= {*part("split", PAGE).splitlines()}, "run scripts/bench_split.py"


@pytest.mark.parametrize("name", ["mlperf_tiny_autoencoder_int8", "mlperf_tiny_dscnn_kws_int8"])
def test_arenas_of_exports_equal_the_librarys_page(name: str, tmp_path: Path) -> None:
    path = SHARED / "models" / f"{name}.tflite"
    if not path.exists():
        pytest.skip(f"no {path.name} beside the project")
    found = list(exports(name, tflite_fuse.rewrite(path, verify=False).model, tmp_path))
    made = as_markdown(found, []).splitlines()[-1].split("|")
    told = next(line for line in part("exports", LIBRARY_PAGE).splitlines() if line.startswith(f"| {name} |"))
    assert told.split("|")[:-2] == made[:-2], "run scripts/bench_exports.py --write"


def test_streams_of_windows_equal_the_page_on_streams() -> None:
    if not (SHARED / "models").is_dir():
        pytest.skip("no models beside the project")
    found = [windows.measure(*case, [], 2) for case in windows.cases() if case[0] != "mlperf_tiny_dscnn_kws_int8"]
    made = windows.as_markdown(found).splitlines()[2:]
    assert len(made) == 4 and {*made} <= {*part("streams", STREAMS_PAGE).splitlines()}, (
        "run scripts/bench_streams.py --write"
    )


def test_the_ram_of_a_wake_word_equals_the_page_on_streams() -> None:
    path = next((SHARED / "real").glob("microwakeword*okay_nabu*.tflite"), None)
    if path is None:
        pytest.skip("no wake word beside the project")
    if any(shutil.which(tool) is None for tool in ("arm-none-eabi-gcc", "qemu-system-arm")):
        pytest.skip("no compiler or emulator of the core")
    found = variables.measure(path, [TARGETS["cortex-m7"]], STEPS)
    assert found.different == 0
    text = STREAMS_PAGE.read_text()
    line = next(line for line in text.splitlines() if line.startswith("| second generation (okay_nabu)"))
    sizes = (f"{size:,} B" for size in (found.arena_before, found.arena_after, found.state))
    operators, steps = f"{found.operators_before} → {found.operators_after}", f"{found.instructions['cortex-m7']:,}"
    assert cells(line)[1:6] == [*sizes, operators, steps], "run scripts/bench_streams.py"
    counted = next(line for line in part("stream-counts", STREAMS_PAGE).splitlines() if path.stem in line)
    assert cells(counted)[2] == steps, "run scripts/bench_streams.py --write"


def test_the_report_of_a_run_equals_the_page_on_proofs() -> None:
    path = SHARED / "models" / "mlperf_tiny_autoencoder_int8.tflite"
    if not path.exists():
        pytest.skip(f"no {path.name} beside the project")
    _, found = bench_witness.score(path, 256, 60, 0)
    text = " ".join((PAGE.parent / "proof_details.md").read_text().split())
    assert f"{found.caught} of {found.altered} on the autoencoder" in text, "run scripts/bench_witness.py --weights 60"
    assert found.constant == 0 and "never vary, none of them in the autoencoder" in text


def test_both_pages_on_proofs_have_the_same_figures_of_changes() -> None:
    short, long = (" ".join((PAGE.parent / name).read_text().split()) for name in ("proof.md", "proof_details.md"))
    total, all_ = (
        re.search(r"(\d+) of the (\d+) that alter a value were noticed; (\d+) alter .*?, and (\d+) are in", short),
        re.search(
            r"noticed: all of them, (\d+) of (\d+) over nine models, .*? (\d+) alter nothing, and (\d+) are in", long
        ),
    )
    assert total and all_ and total.groups() == all_.groups() and sum(map(int, total.groups()[1:])) == 9 * 60
    (row,) = re.findall(r"all +(\d+) +(\d+) +(\d+)", long)
    caught, told, missed = (f"{int(number):,}" for number in row)
    assert f"{caught} were caught, {missed} missed; the other {told} compute the same" in short


def test_the_table_of_changes_that_a_proof_noticed_adds_up() -> None:
    text = (PAGE.parent / "proof_details.md").read_text()
    rows = [line.rsplit(maxsplit=3) for line in text.split("change                    caught")[1].splitlines()[1:9]]
    numbers = {what: [*map(int, found)] for what, *found in rows if found}
    total = numbers.pop("all")
    assert total == [sum(column) for column in zip(*numbers.values(), strict=True)] and sum(total) == 2000


def test_the_arena_of_the_wake_word_sketch_equals_the_page_on_streams() -> None:
    header = (library_directory().parent / "examples" / "WakeWord" / "model.h").read_text()
    declared = re.search(r"MODEL_ARENA_BYTES (\d+)", header)
    assert declared and f"in an arena of {declared[1]} bytes." in " ".join(STREAMS_PAGE.read_text().split())


def test_ram_spent_on_speed_by_default_equals_the_page_on_options() -> None:
    text = " ".join((PAGE.parent / "options.md").read_text().split())
    for sentence in (
        f"up to 1/{TUNING.slack} of the least arena that takes no more MACs than the file",
        f"at least {TUNING.slack_bytes} bytes, or {TUNING.slack_cycles:,} where the core of `--target` has a timing",
        f"up to 1/{TUNING.slack_streamed} where the input is streamed",
        f"up to 1/{TUNING.slack_calls} of a model that `--stream-time` made",
        f"Each percent of RAM beyond the next smaller choice must save at least {1 / TUNING.fair_price:g} percent",
    ):
        assert sentence in text
    assert f"gives up to 1/{TUNING.slack_calls} of a stream's arena to speed" in " ".join(
        STREAMS_PAGE.read_text().split()
    )
