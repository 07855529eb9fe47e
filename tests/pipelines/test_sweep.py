"""Sweeps: one row for every model and set of options, including broken ones, whichever process dies."""

from __future__ import annotations

import csv
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tflite_fuse
from scripts.zoo import ModelBuilder
from tests.test_cli import branching_model, validate
from tflite_fuse.cli import app
from tflite_fuse.errors import RuntimeUnavailableError, UsageError
from tflite_fuse.model.file import serialize_model
from tflite_fuse.pipelines import summary
from tflite_fuse.pipelines.executors import run_here, run_on_dask
from tflite_fuse.pipelines.on_ray import rows_of, run_on_ray
from tflite_fuse.pipelines.summary import write_summary
from tflite_fuse.pipelines.sweep import RESULTS, Item, Results, Row, items_in, measure, option_sets


def small_model(seed: int) -> bytes:
    b = ModelBuilder(seed=seed)
    return serialize_model(b.build([b.conv(b.input((1, 8, 8, 4)), 8, kernel=3)]))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    models = tmp_path / "models"
    (models / "deep").mkdir(parents=True)
    (models / "a.tflite").write_bytes(serialize_model(branching_model()))
    (models / "deep" / "b.tflite").write_bytes(small_model(1))
    (models / "broken.tflite").write_bytes(small_model(2)[:200])
    (models / "gone.tflite").symlink_to(models / "nowhere")
    return models


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["sweep", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def test_brackets_and_colons_in_names_are_printed_as_they_are(tmp_path: Path) -> None:
    models, sets = tmp_path / "models", tmp_path / "sets.toml"
    models.mkdir()
    (models / "[red]a[.tflite").write_bytes(small_model(1))
    sets.write_text('["[/x]:smile:"]\nleast-ram = true\n["\\u001b[2J"]\n')
    code, told, _ = run(models, "-o", tmp_path / "out", "--jobs", 1, "--sets", sets, "--effort", "estimate")
    assert code == 0 and "[red]a[.tflite" in told and "[/x]:smile:" in told
    assert "\x1b" not in told


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_pipe_is_a_broken_row_without_waiting(folder: Path, tmp_path: Path, jobs: int) -> None:
    os.mkfifo(folder / "pipe.tflite")
    code, told, _ = run(folder, "-o", tmp_path / "out", "--jobs", jobs, "--effort", "estimate")
    assert code == 1 and "pipe.tflite: is no file to read whole" in told and "5 rows, 3 broken" in told


def test_every_model_has_a_row_under_every_set_and_broken_ones_are_red(folder: Path, tmp_path: Path) -> None:
    sets, out = tmp_path / "sets.toml", tmp_path / "out"
    sets.write_text('[least]\nleast-ram = true\n[tight]\nmax-ram = "1kB"\n')
    code, told, _ = run(folder, "-o", out, "--jobs", 2, "--sets", sets, "--effort", "estimate", "--json")
    document = json.loads(told)
    validate(document, "sweep")
    assert code == 1 and (document["rows"], document["broken"]) == (8, 4)
    with (out / "summary.csv").open(newline="") as lines:
        rows = {(row["model"], row["options"]): row for row in csv.DictReader(lines)}
    assert len(rows) == 8 and rows["a.tflite", "tight"]["feasible"] == "0.0"
    found = tflite_fuse.metrics(folder / "deep" / "b.tflite", goal=tflite_fuse.Goal(least_ram=True))
    assert float(rows["deep/b.tflite", "least"]["arena_bytes"]) == found["arena_bytes"]
    assert rows["broken.tflite", "least"]["error"] and "cannot be read" in rows["gone.tflite", "tight"]["error"]
    page = (out / "index.html").read_text()
    assert page.count('<tr class="broken">') == 4 and "8 rows, 4 broken" in page and "<th>options</th>" in page
    assert page.count("<td class=n>no</td>") == 1 and page.count("<td class=n>yes</td>") == 3
    parquet = pytest.importorskip("pyarrow.parquet").read_table(out / "summary.parquet")
    assert parquet.num_rows == 8 and set(parquet.column("model").to_pylist()) == {model for model, _ in rows}


def test_a_sweep_goes_on_where_it_stopped(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(folder, "-o", out, "--jobs", 1, "--effort", "estimate")[0] == 1
    lines = (out / RESULTS).read_text().splitlines(keepends=True)
    marked = [line.replace('"before_macs"', '"kept"') for line in lines]
    (out / RESULTS).write_text("".join(marked[:3]) + lines[3][:40])
    code, told, _ = run(folder, "-o", out, "--jobs", 1, "--effort", "estimate")
    assert code == 1 and "4 rows, 2 broken" in told
    assert "<th>options</th>" not in (out / "index.html").read_text()  # there is one set
    again = (out / RESULTS).read_text()
    assert again.startswith("".join(marked[:3])) and len(again.splitlines()) == 5
    assert len({row.key for row in _rows(out)}) == 4
    (folder / "a.tflite").write_bytes(small_model(3))
    run(folder, "-o", out, "--jobs", 1, "--effort", "estimate")
    assert len({row.key for row in _rows(out)}) == 5


def _rows(out: Path) -> list[Row]:
    results = Results(out)
    try:
        return list(results.rows())
    finally:
        results.close()


def test_one_sweep_writes_at_a_time(tmp_path: Path) -> None:
    first = Results(tmp_path)
    with pytest.raises(UsageError, match="another sweep"):
        Results(tmp_path)
    first.close()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[small]\nmax-rma = 3", "[small] has the unknown key 'max-rma'; did you mean 'max-ram'?"),
        ("[small]\nscheme = 'none'", "there is no scheme 'none'"),
        ("max-ram = 3", "max-ram is a table of options"),
        ("[small]\nleast-ram = 1", "least-ram of [small] is true or false"),
        ("", "has no [table] of options"),
    ],
)
def test_wrong_sets_are_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "sets.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as found:
        option_sets(path)
    assert message in str(found.value)


def test_wrong_words_are_one_sentence(folder: Path, tmp_path: Path) -> None:
    for arguments in ((tmp_path / "none",), (folder, "--executor", "grid"), (folder, "--effort", "hard")):
        code, _, error = run(*arguments, "-o", tmp_path / "out")
        assert code == 2 and error.count("\n") == 1
    code, _, error = run(folder, "--executor", "dask", "--scheduler", "nowhere:1", "-o", tmp_path / "out")
    assert code == 2 and "no Dask scheduler answers" in error


def deadly(item: Item) -> Row:
    """Dies the first time it meets one model, and always of another."""
    mark = Path(item.fault) / item.model
    if item.model == "poison" or (item.model == "once" and not mark.exists()):
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return Row(item.key, item.model, item.options, "")


def test_a_process_that_dies_costs_no_row(tmp_path: Path) -> None:
    names = ["one", "once", "two", "poison", *map(str, range(6))]
    items = [Item(name, "default", b"", "{}", "estimate", str(tmp_path)) for name in names]
    rows = list(run_here(iter(items), 2, deadly))
    assert sorted(row.model for row in rows) == sorted(names)
    assert {row.model: row.error for row in rows if row.error} == {"poison": "the process that worked on it died"}


def slow(item: Item) -> Row:
    """Notes down that it ran and where, and takes a moment."""
    with (Path(item.fault) / "ran").open("a") as log:
        log.write(f"{item.model} {os.getpid()}\n")
    time.sleep(0.2)
    return Row(item.key, item.model, item.options, "")


def numbered(count: int, folder: Path) -> list[Item]:
    return [Item(str(number), "default", b"", "{}", "estimate", str(folder)) for number in range(count)]


def kill_in_the_middle(rows: Iterator[Row], items: list[Item], folder: Path) -> None:
    """Kills the process that began an item last when five are done, and looks at what became of all of them."""
    found: list[Row] = []
    for row in rows:
        found.append(row)
        if len(found) == 5:
            os.kill(int((folder / "ran").read_text().split()[-1]), signal.SIGKILL)
    assert sorted(row.key for row in found) == sorted(item.key for item in items) and not any(r.error for r in found)
    ran = (folder / "ran").read_text().split()[::2]
    assert set(ran) == {item.model for item in items} and len(ran) <= len(items) + 4  # those in flight, again


def test_a_dask_cluster_does_every_item_once_although_a_worker_is_killed(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    items = numbered(24, tmp_path)
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        kill_in_the_middle(run_on_dask(iter(items), 2, cluster.scheduler_address, slow), items, tmp_path)
        few = list(run_on_dask(iter(items[:2]), 2, cluster.scheduler_address, watched))
    assert [row.error for row in few] == ["", ""]


def watched(item: Item) -> Row:
    """Whether the Dask worker looks at the stack of what it works on, all the time."""
    from distributed import Worker

    seen = any(threading.get_ident() in worker.active_threads for worker in Worker._instances)
    return Row(item.key, item.model, item.options, "watched" if seen else "")


CLUSTER = """
import time
from distributed import LocalCluster

if __name__ == "__main__":
    cluster = LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None, protocol="tcp://")
    print(cluster.scheduler_address, flush=True)
    time.sleep(60)
"""


def test_a_cluster_that_goes_away_is_one_sentence(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("distributed")
    (tmp_path / "cluster.py").write_text(CLUSTER)
    items = numbered(24, tmp_path)
    started = [sys.executable, tmp_path / "cluster.py"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(started, stdout=subprocess.PIPE, text=True, env=environment) as cluster:
        assert cluster.stdout is not None
        rows = run_on_dask(iter(items), 1, cluster.stdout.readline().strip(), slow)
        next(rows)
        cluster.kill()
        with pytest.raises(UsageError, match="the Dask cluster went away; what was done is kept"):
            list(rows)
    assert "Traceback" not in capfd.readouterr().err


def test_a_cluster_made_here_measures_models(folder: Path) -> None:
    pytest.importorskip("distributed")
    measures_as_here(run_on_dask, folder)


def measures_as_here(cluster: Callable[[Iterator[Item], int, str | None], Iterator[Row]], folder: Path) -> None:
    items = list(items_in(folder, {"default": "{}"}, "estimate"))
    rows = list(cluster(iter(items), 1, None))
    assert sorted(rows, key=lambda row: row.key) == sorted(map(measure, items), key=lambda row: row.key)


def test_a_ray_driver_that_ends_without_a_word_is_one_sentence() -> None:
    here, there = multiprocessing.Pipe()
    row = Row("key", "model", "default", "")
    there.send(row)
    rows = rows_of(here, iter([]), "there:1")
    assert next(rows) == row
    there.close()
    with pytest.raises(UsageError, match=r"^there:1: the Ray cluster went away; what was done is kept"):
        next(rows)


@pytest.mark.parametrize(("package", "cluster"), [("distributed", run_on_dask), ("ray", run_on_ray)])
def test_without_the_package_one_sentence_names_it(
    package: str, cluster: Callable[..., Iterator[Row]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(RuntimeUnavailableError, match=r"pip install '(distributed|ray)>="):
        next(cluster(iter([]), 1, None))


def test_an_interrupt_leaves_a_whole_summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def files() -> set[bytes]:
        return {path.read_bytes() for path in (tmp_path / "summary.csv", tmp_path / "index.html")}

    rows = [Row(key, key, "", "broken") for key in ("old", "new")]
    write_summary(tmp_path, rows[:1])
    old = files()
    write_summary(tmp_path, rows[1:])
    new = files()
    write = summary.write_atomically

    def interrupted(data: bytes, path: Path) -> None:
        write(data, path)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(summary, "write_atomically", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background processes ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            write_summary(tmp_path, rows[:1])
    finally:
        signal.signal(signal.SIGINT, before)
    assert not old & new and files() in (old, new)


def _blocked(item: Item) -> Row:
    """What a process of the pool keeps from itself, as a row."""
    number = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return Row(item.key, item.model, item.options, str(number))


def test_processes_are_born_deaf_to_an_interrupt() -> None:
    """One that comes while they import modules would have each print where it was."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    items = [Item(str(number), "default", b"", "{}", "estimate") for number in range(3)]
    assert {row.error for row in run_here(iter(items), 2, _blocked)} == {"True"}
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
