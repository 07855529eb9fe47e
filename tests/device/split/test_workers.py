"""Workers of a split on emulated cores: TensorFlow Lite Micro's bytes, and their stack."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.conftest import shared_models
from tests.device.program import fusable_core
from tests.device.split.program import run_devices
from tests.device.targets import TARGETS
from tests.split.fragments.cases import planned
from tests.split.networks import branching_model
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.inputs import generate_inputs
from tflite_fuse.split.cut.network import network_of
from tflite_fuse.split.fragments.encode import encode_plan
from tflite_fuse.split.needs import STACK_BYTES, STATE_BYTES

pytestmark = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


def check(model: Model, name: str, strategy: str, workers: int, folder: Path) -> None:
    target = TARGETS[name]
    if target.missing():
        pytest.skip(f"{', '.join(target.missing())} not installed")
    net, samples = network_of(model), generate_inputs(model, 2)
    plan, accountant = planned(net, strategy, workers)
    report = run_devices(target, encode_plan(accountant.network, plan, accountant.parts), samples, folder)
    expected = tflm.run(serialize_model(model), samples).outputs
    assert report.outputs == [np.asarray(output).tobytes() for outputs in expected for output in outputs]
    assert len(set(report.outputs)) > 1
    if name == "cortex-m7":
        assert report.state_bytes <= STATE_BYTES
        assert max(*report.open_stack, *report.run_stack) <= STACK_BYTES


@pytest.mark.parametrize(
    ("name", "strategy"),
    [("cortex-m7", "paper"), ("cortex-m7", "ram"), ("rv32imc", "paper"), ("xtensa-lx106", "paper")],
)
def test_workers_compute_the_bytes_of_tflm(name: str, strategy: str, tmp_path: Path) -> None:
    check(fusable_core(branching_model()), name, strategy, 3, tmp_path)


@shared_models("mlperf_tiny_resnet8_int8")
def test_a_public_model_over_two_workers(path: Path, tmp_path: Path) -> None:
    check(fusable_core(load_model(path)), "cortex-m7", "time", 2, tmp_path)
