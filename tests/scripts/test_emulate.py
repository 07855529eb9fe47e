"""An exported folder runs on emulated cores and prints TensorFlow Lite Micro's results."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tflite_fuse
from scripts.emulate import RUNNING, main
from scripts.zoo.float_twin import float_twin
from tests.device.targets import TARGETS
from tests.export.exported import SHAPE, network
from tflite_fuse.export import export_model
from tflite_fuse.model import load_model, serialize_model
from tflite_fuse.runtime import tflm

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
@pytest.mark.parametrize("name", RUNNING)
def test_the_program_prints_the_runtimes_values(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    if missing := TARGETS[name].missing():
        pytest.skip(f"{', '.join(missing)} not installed")
    small = tflite_fuse.rewrite(network("none"), verify=False).model
    export_model(small, tmp_path / "board", "c")
    assert main([str(tmp_path / "board"), "--target", name]) == 0
    printed = re.findall(r"output 0\[\d+\] = (-?\d+)", capfd.readouterr().out)
    (expected,) = tflm.run(network("none"), [[np.zeros(SHAPE, np.int8)]]).outputs[0]
    assert list(map(int, printed)) == expected.ravel().tolist()


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
@pytest.mark.skipif(bool(TARGETS["cortex-m7"].missing()), reason="tools for the Cortex-M7 are not installed")
def test_a_model_in_float32_runs_and_prints_thousandths(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data = serialize_model(float_twin(load_model(network("softmax"))))
    export_model(tflite_fuse.rewrite(data, verify=False).model, tmp_path / "board", "c")
    assert main([str(tmp_path / "board"), "--target", "cortex-m7"]) == 0
    printed = re.findall(r"output 0\[\d+\] \* 1000 = (-?\d+)", capfd.readouterr().out)
    (expected,) = tflm.run(data, [[np.zeros(SHAPE, np.float32)]]).outputs[0]
    assert list(map(int, printed)) == (1000 * expected).astype(int).ravel().tolist()


def test_it_starts_without_the_packages_of_the_tests() -> None:
    absent = "import sys; sys.modules.update(dict.fromkeys(('pytest', 'hypothesis'))); import scripts.emulate"
    assert subprocess.run([sys.executable, "-c", absent], cwd=ROOT).returncode == 0


def test_a_folder_that_is_no_export_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([str(tmp_path)])
    assert stop.value.code == 2 and "holds no model.h" in capsys.readouterr().err


def test_compile_errors_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if missing := TARGETS[RUNNING[0]].missing():
        pytest.skip(f"{', '.join(missing)} not installed")
    (tmp_path / "model.h").write_text("")
    (tmp_path / "main.c").write_text("int main(void) { return unknown; }")
    with pytest.raises(SystemExit) as stop:
        main([str(tmp_path)])
    assert stop.value.code == 2 and "unknown" in capsys.readouterr().err
