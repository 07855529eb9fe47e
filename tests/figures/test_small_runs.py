"""Scripts whose figures stand on pages as they were printed once, with the fewest cases: they print them still.

Times of a machine, and what takes minutes, are not made anew here. What does not depend on either is compared.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from scripts import (
    bench_exports,
    bench_faults,
    bench_metrics,
    bench_pipelines,
    bench_proof,
    bench_split,
    bench_split_namespaces,
    bench_split_search,
    bench_split_tcp,
    bench_start,
    bench_weights,
    bench_witness,
    sweep_split,
)
from scripts.comparison import PAGE
from scripts.zoo.networks import inverted_residual_network
from tests.conftest import SHARED
from tests.device.targets import TARGETS
from tests.split.cluster.campaign import WORDS
from tflite_fuse.model import save_model
from tflite_fuse.runtime.library.sources import library_directory
from tflite_fuse.split.cut.network import network_of

SMALL = SHARED / "arch" / "wide-resnet.json"
KEYWORDS = SHARED / "models" / "mlperf_tiny_dscnn_kws_int8.tflite"
AUTOENCODER = SHARED / "models" / "mlperf_tiny_autoencoder_int8.tflite"

pytestmark = pytest.mark.skipif(not SMALL.exists(), reason="no models beside the project")

Run = Callable[..., str]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """What a script prints; it must end well."""

    def ran(script: ModuleType, *arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", [script.__name__, *map(str, arguments)])
        try:
            code = script.main()
        except SystemExit as end:
            code = end.code
        printed = capsys.readouterr()
        assert not code, printed.out + printed.err
        return printed.out

    return ran


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A worker in C, built once for all scripts here."""
    return bench_split_tcp.worker_program(tmp_path_factory.mktemp("worker"))


def page(name: str) -> str:
    return " ".join((PAGE.parent / name).read_text().split())


# ---- Several devices ----


def test_the_table_of_faults(run: Run, worker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_faults, "WORKERS", range(1, 2))
    monkeypatch.setattr(bench_faults, "worker_program", lambda folder: worker)
    lines = run(bench_faults, "--inferences", len(WORDS)).splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert [row[:2] for row in rows] == [[word, "1"] for word in (*WORDS, "afterwards")]
    assert all(int(row[1]) == int(row[2]) + int(row[3]) and row[4] == "0" for row in rows)
    # The page has a row for each of them.
    table = (PAGE.parent / "split.md").read_text().split("| what goes wrong |")[1].split("\n\n")[0].splitlines()[2:]
    told = [[int(cell) for cell in line.strip("|").split("|")[1:]] for line in table]
    assert len(told) == len(rows) and all(all_ == right + named and not other for all_, right, named, other in told)
    assert f"made {sum(row[0] for row in told[:-1]):,} inferences" in page("split.md")


def test_traffic_between_workers_equals_the_simulation(run: Run, worker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_split_tcp, "worker_program", lambda folder: worker)
    found = run(bench_split_tcp, SMALL, "--workers", "2")
    assert found.startswith("2 workers: same bytes as TFLM") and found.count("(as simulated)") == 3


def test_links_of_limited_rate(
    worker: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench_split_namespaces, "worker_program", lambda folder: worker)
    monkeypatch.setattr(sys, "argv", ["bench_split_namespaces", str(SMALL), "--workers", "1"])
    code = bench_split_namespaces.main()
    told = capsys.readouterr()
    if code == 3:  # the kernel, or who runs this, does not allow it
        assert told.err.startswith("no network namespaces with limited rates here: ")
        assert os.geteuid() or not (shutil.which("ip") and shutil.which("tc")) or "ermi" in told.err, told.err
    else:
        assert code == 0 and "same bytes as TFLM" in told.out and "the busiest link alone" in told.out


def test_the_search_beside_every_way(run: Run) -> None:
    found = run(bench_split_search, "--first", 3, "--networks", 1)
    assert found.splitlines()[-1].startswith("1 networks, of 1 the quickest way found")


def test_random_splits(run: Run) -> None:
    assert run(sweep_split, "--random", 2).splitlines()[-1] == "2 same bytes"


def test_a_model_over_every_number_of_workers(run: Run) -> None:
    found = run(sweep_split, AUTOENCODER, "--workers", "1,2", "--objectives", "ram")
    assert found.splitlines()[-1] == "2 same bytes"


def test_many_and_unequal_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (SHARED / "facts" / "split_inference_table2.csv").read_text().splitlines(keepends=True)
    (tmp_path / "split_inference_table2.csv").write_text("".join(lines[:2]))
    model = inverted_residual_network(size=16, blocks=1)
    monkeypatch.setattr(bench_split, "build_architecture_file", lambda path: model)
    bench_split.many(SMALL, 8)
    bench_split.heterogeneous(SMALL, network_of(model), tmp_path)
    found = capsys.readouterr().out
    assert re.search(r"^8 workers: [\d.]+ s, [\d.]+ s of a processor; ", found, re.M)
    ratio = re.search(r"auto over the better: ([\d.]+)\ngeometric mean ([\d.]+), largest ([\d.]+)", found)
    assert ratio and ratio[1] == ratio[2] == ratio[3] and float(ratio[1]) <= 1


# ---- Proofs ----


def test_changes_that_a_proof_notices(run: Run, tmp_path: Path) -> None:
    shutil.copy(AUTOENCODER, tmp_path)
    lines = run(bench_proof, "--models", tmp_path, "--mutants", 12).splitlines()
    caught, told, missed = map(int, lines[-1].split()[1:])
    assert lines[-1].startswith("all ") and caught + told == 12 and missed == 0


def test_changes_that_a_run_notices(run: Run) -> None:
    row = run(bench_witness, "--models", AUTOENCODER, "--inputs", 16, "--weights", 4).splitlines()[-1].split("|")
    assert row[1].strip() == AUTOENCODER.stem and 0 <= int(row[4]) <= int(row[3]) <= 4


# ---- The device library ----


def test_exports_run_on_a_core_and_refuse_damage(capsys: pytest.CaptureFixture[str]) -> None:
    if TARGETS["cortex-m7"].missing():
        pytest.skip("no compiler or emulator of the core")
    assert bench_exports.main([str(AUTOENCODER), "--target", "cortex-m7"]) == 0
    assert capsys.readouterr().out.splitlines()[2].endswith("| cortex-m7 |")


def test_stack_and_start_equal_the_librarys_page(run: Run) -> None:
    if TARGETS["cortex-m7"].missing():
        pytest.skip("no compiler or emulator of the core")
    row = run(bench_start, KEYWORDS, "--target", "cortex-m7").splitlines()[-1]
    check, deepest, _, checksum = (cell.strip() for cell in row.strip("|").split("|")[2:])
    text = " ".join((library_directory().parent / "README.md").read_text().split())
    assert f"{deepest} bytes of stack to run a block and {check} to check one" in text, "run scripts/bench_start.py"
    assert f"({checksum} instructions for mlperf_tiny_dscnn_kws" in text


# ---- Options and pipelines ----


def test_savings_by_kind_of_weights_equal_the_page(run: Run) -> None:
    _, paired, wide = re.split(r", (?=[a-z1])", run(bench_weights, KEYWORDS).strip())
    text = page("options.md")
    assert f"{paired.split()[1]} % (dscnn_kws)" in text and f"{wide.split()[1]} % (dscnn_kws)" in text


def test_how_far_estimates_are_off(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bench_metrics.main([str(AUTOENCODER)])
    assert re.search(r"arena_bytes: [\d.]+% off on average, [\d.]+% at most, 1 models", capsys.readouterr().out)


def test_reports_estimates_and_sweeps_are_timed(run: Run, tmp_path: Path) -> None:
    save_model(inverted_residual_network(size=16), tmp_path / "one.tflite")
    for part in ("report", "metrics"):
        assert "s of CPU" in run(bench_pipelines, "--part", part, "--data", tmp_path, "--runs", 1)
    found = run(bench_pipelines, "--part", "sweep", "--models", 2, "--without-dask")
    assert found.splitlines()[-1].startswith("two processes are ")
