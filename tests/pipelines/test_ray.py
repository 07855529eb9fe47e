"""Sweeps over a real Ray cluster on this machine; not collected where Ray is not installed (conftest.py)."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from tests.pipelines.test_sweep import deadly, kill_in_the_middle, measures_as_here, numbered, slow, small_model
from tflite_fuse.errors import UsageError
from tflite_fuse.pipelines.on_ray import run_on_ray
from tflite_fuse.pipelines.sweep import Item


def test_every_item_is_done_once_although_a_worker_is_killed(tmp_path: Path) -> None:
    items = numbered(24, tmp_path)
    kill_in_the_middle(run_on_ray(iter(items), 2, None, slow), items, tmp_path)


def test_an_item_that_kills_workers_is_one_row(tmp_path: Path) -> None:
    items = [Item(name, "default", b"", "{}", "estimate", str(tmp_path)) for name in ("a", "once", "b", "poison", "c")]
    rows = list(run_on_ray(iter(items), 2, None, deadly))
    assert sorted(row.model for row in rows) == sorted(item.model for item in items)
    assert [(row.model, row.error[:10]) for row in rows if row.error] == [("poison", "not done: ")]


def test_a_cluster_made_here_measures_models(tmp_path: Path) -> None:
    (tmp_path / "good.tflite").write_bytes(small_model(1))
    (tmp_path / "broken.tflite").write_bytes(small_model(2)[:200])
    measures_as_here(run_on_ray, tmp_path)


def test_a_silent_address_is_reported_in_one_sentence() -> None:
    with pytest.raises(UsageError, match=r"127\.0\.0\.1:1: no Ray cluster answers"):
        next(run_on_ray(iter([]), 1, "127.0.0.1:1"))


def test_a_cluster_that_goes_away_is_one_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "5")  # Ray waits a minute
    rows = run_on_ray(iter(numbered(2000, tmp_path)), 1, None, slow)
    next(rows)
    (driver,) = multiprocessing.active_children()
    made = [int(each) for each in Path(f"/proc/{driver.pid}/task/{driver.pid}/children").read_text().split()]
    cluster = [each for each in made if Path(f"/proc/{each}/comm").read_text().strip() in ("gcs_server", "raylet")]
    assert len(cluster) == 2
    for each in cluster:
        os.kill(each, signal.SIGKILL)
    with pytest.raises(UsageError, match="this machine: the Ray cluster went away; what was done is kept"):
        list(rows)
    told = capfd.readouterr()
    assert not told.out and not told.err
