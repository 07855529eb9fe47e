"""`tflite-fuse cluster` on the command line, with worker processes on this machine."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.split.networks import branching_model
from tests.test_cli import validate
from tflite_fuse.cli import app
from tflite_fuse.model import save_model, serialize_model
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.inputs import generate_inputs

needs_tflm = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")

NAMES = ("left", "right")
WORKERS = "".join(f'[[worker]]\nname = "{name}"\ntarget = "cortex-m7"\nmhz = 600\n' for name in NAMES)
DIRECT = '[[link]]\nbetween = ["left", "right"]\n'


def command(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    return result.exit_code, result.stdout if "--json" in arguments else result.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cluster")
    save_model(branching_model(), path / "branching.tflite")
    (path / "devices.toml").write_text(WORKERS + DIRECT)
    code, text = command("split", path / "branching.tflite", "--workers", path / "devices.toml", "-o", path / "plan")
    assert code == 0, text
    return path / "plan"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "x.npy"
    np.save(path, np.concatenate([each[0] for each in generate_inputs(branching_model(), 2, 3)]))
    return path


@contextmanager
def worker(folder: Path, name: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A process, and where it listens."""
    call = [sys.executable, "-m", "tflite_fuse", "cluster", "worker", str(folder), name]
    process = subprocess.Popen(call, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        words = process.stdout.readline().split()
        assert words[:3] == [name, "listens", "at"]
        yield f"{name}={words[3]}", process
    finally:
        process.kill()
        process.wait()


@needs_tflm
def test_two_processes_compute_the_bytes_of_tflm_until_one_is_killed(folder: Path, data: Path, tmp_path: Path) -> None:
    with worker(folder, "left") as (left, _), worker(folder, "right") as (right, process):
        places = ("--at", left, "--at", right)
        code, text = command(
            "cluster", "run", folder, "--input", data, "--output", tmp_path / "y.npy", *places, "--json"
        )
        assert code == 0, text
        report = json.loads(text)
        validate(report, "cluster_run")
        assert report["inferences"] == len(report["seconds"]) == 2
        assert all(each["computed_s"] > 0 for each in report["workers"])
        expected = tflm.run(serialize_model(branching_model()), [[row[None]] for row in np.load(data)]).outputs
        assert np.array_equal(np.load(tmp_path / "y.npy"), np.stack([each[0] for each in expected]))
        code, text = command("cluster", "status", folder, *places, "--json")
        validate(json.loads(text), "cluster_status")
        assert code == 0 and [each["inferences"] for each in json.loads(text)["workers"]] == [2, 2]
        process.kill()
        process.wait()
        code, text = command("cluster", "run", folder, "--input", data, *places)
        assert code == 1 and "worker right is lost" in text and "Traceback" not in text
        code, text = command("cluster", "status", folder, *places)
        assert code == 1 and "cannot be reached" in text


@needs_tflm
def test_retries_wait_for_a_worker_that_is_down_and_name_it(folder: Path, data: Path) -> None:
    with worker(folder, "left") as (left, _):
        places = ("--at", left, "--at", "right=127.0.0.1:1")
        code, text = command("cluster", "run", folder, "--input", data, *places, "--retries", "2")
    assert code == 1 and text.count("worker right is lost") == 3 and "tried again in 0.25 s" in text, text
    assert "defect" not in text


def test_simulate_divides_the_time_by_activity(folder: Path, tmp_path: Path) -> None:
    trace, plot = tmp_path / "trace.json", tmp_path / "plot.svg"
    given = ("--workers", "1..3", "--strategy", "even", "--trace", trace, "--plot", plot)
    code, text = command("cluster", "simulate", folder, *given, "--json")
    assert code == 0, text
    report = json.loads(text)
    validate(report, "cluster_simulation")
    for device in report["devices"]:
        assert device["computes_s"] + device["waits_s"] <= report["seconds"] * 1.000001
    assert [each["working"] for each in report["sweep"]] == [1, 2, 3]
    assert report["sweep"][0]["payload_bytes"] < report["sweep"][2]["payload_bytes"]
    assert json.loads(trace.read_text())["traceEvents"] and b"<svg" in plot.read_bytes()
    split = json.loads((folder / "report.json").read_text())
    code, text = command("cluster", "simulate", folder, "--inferences", "3", "--json")
    report = json.loads(text)
    for name, counted in (("messages", "messages"), ("payload_bytes", "bytes_moved"), ("frame_bytes", "frame_bytes")):
        assert report[name] == 3 * split[counted] > 0
    code, text = command("cluster", "simulate", folder)
    assert f"{split['bytes_moved']:,} bytes moved in {split['messages']:,} messages" in text
    code, text = command("cluster", "simulate", folder, "--workers", "2", "--objective", "ram")
    assert code == 0 and all(word in text for word in ("coordinator", "left", "right", "waits", "most RAM"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--workers", "3..1"), "from 1 to 120"),
        (("--workers", "many"), "is a range like 1..8"),
        (("--workers", "1..121"), "from 1 to 120"),
        (("--plot", "x.svg"), "give --workers"),
        (("--strategy", "best", "--workers", "2"), "is no strategy"),
        (("--objective", "best", "--workers", "2"), "is no objective"),
    ],
)
def test_a_simulation_that_cannot_be_ends_in_one_sentence(
    folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    code, text = command("cluster", "simulate", folder, *arguments)
    assert code == 2 and message in text, text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--at", "left"), "--at is NAME=ADDRESS"),
        (("--at", "lefd=localhost:1"), "did you mean 'left'?"),
        ((), "no address of 'left' is known"),
        (("--at", "left=somewhere", "--at", "right=x:1"), "is host:port"),
    ],
)
def test_an_address_that_is_none_ends_in_one_sentence(
    folder: Path, data: Path, arguments: tuple[str, ...], message: str
) -> None:
    code, text = command("cluster", "run", folder, "--input", data, *arguments)
    assert code == 2 and message in text, text


def test_inputs_of_another_shape_are_refused(folder: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1, 3, 3, 3), np.int8))
    code, text = command("cluster", "run", folder, "--input", tmp_path / "x.npy", "--at", "left=x:1")
    assert code == 2 and "has shape [1, 3, 3, 3]" in text


def changed(document: str, old: str, new: str) -> str:
    assert old in document
    return document.replace(old, new, 1 if old != "left" else -1)


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("plan.json", "{", "", "is no JSON"),
        ("plan.json", '"phases": [{', '"phases": [7, {', "it is damaged"),
        ("plan.json", '"value": ', '"value": 9', "a value that the model does not have"),
        ("plan.json", '"node": ', '"node": 9', "a step that the model does not have"),
        ("plan.json", '"thrift": 0', '"thrift": 4', "it is damaged"),
        ("plan.json", '"model_sha256": "', '"model_sha256": "0', "the plan of another model"),
        ("plan.json", "input", "unput", "divides the model differently"),
        ("plan.json", '"to": 0', '"to": 77', "there is no device 77"),
        ("workers.toml", "left", "loft", "is for other workers"),
        ("workers.toml", "mhz", "mzh", "unknown key 'mzh'"),
    ],
)
def test_a_damaged_folder_ends_in_one_sentence(
    folder: Path, tmp_path: Path, name: str, old: str, new: str, message: str
) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / name).write_text(changed((tmp_path / name).read_text(), old, new))
    code, text = command("cluster", "worker", tmp_path, "left")
    assert code == 2 and message in text, text


def test_a_fragment_of_another_plan_or_device_is_named(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    fragments = tmp_path / "fragments"
    (fragments / "0.fragment").write_bytes((fragments / "1.fragment").read_bytes())
    code, text = command("cluster", "worker", tmp_path, "left")
    assert code == 2 and "0.fragment: is of another device" in text
    (fragments / "0.fragment").write_bytes(b"x" * 200)
    code, text = command("cluster", "worker", tmp_path, "left")
    assert code == 2 and "0.fragment: " in text
    given = ("split", tmp_path / "model.tflite", "--workers", tmp_path / "workers.toml", "--strategy", "even")
    assert command(*given, "-o", tmp_path / "even")[0] == 0
    (fragments / "0.fragment").write_bytes((tmp_path / "even" / "fragments" / "0.fragment").read_bytes())
    code, text = command("cluster", "worker", tmp_path, "left")
    assert code == 2 and "belong to different plans" in text


def test_a_folder_that_is_none_and_an_unknown_worker_are_named(folder: Path, tmp_path: Path) -> None:
    code, text = command("cluster", "status", tmp_path / "nothing")
    assert code == 2 and "is no folder" in text
    code, text = command("cluster", "worker", folder, "rihgt")
    assert code == 2 and "did you mean 'right'?" in text


def test_a_key_is_read_from_a_file_and_its_absence_is_reported(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"fifteen bytes..")
    places = ("--at", "left=127.0.0.1:1", "--at", "right=127.0.0.1:1")
    code, text = command("cluster", "status", folder, *places, "--key-file", tmp_path / "key")
    assert code == 2 and "has 15 bytes; a key has 16 to 1,024" in text
    (tmp_path / "key").write_bytes(b"sixteen bytes ..")
    code, text = command("cluster", "status", folder, *places, "--key-file", tmp_path / "key")
    assert code == 1 and "any device that reaches" not in text
    code, text = command("cluster", "status", folder, *places)
    assert code == 1 and "without --key-file any device that reaches a worker can use it" in text
