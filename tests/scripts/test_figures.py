"""Figures on pages that take seconds to work out anew are worked out anew, and those of the pages are the same."""

from __future__ import annotations

import shutil

import pytest

import tflite_fuse
from scripts.bench_device import in_streams, known_as, measure, predicted
from scripts.bench_networks import NETWORKS, PAGE, row
from scripts.readme import part
from tests.conftest import SHARED
from tests.device.program import fusable_core
from tests.device.targets import TARGETS
from tflite_fuse.model import load_model, serialize_model

NETWORKS_HERE = ("detector's neck, 96 x 96", "MobileNetV1 0.25, 96 x 96", "the same, uint8 to float32")
"""Those that take a second or two each; the script prints all."""

MODELS_HERE = ("mlperf_tiny_dscnn_kws_int8", "mlperf_tiny_resnet8_int8", "mlperf_tiny_vww96_int8")


@pytest.mark.parametrize("name", NETWORKS_HERE)
def test_what_networks_of_usual_kinds_gain_is_what_the_page_of_questions_says(name: str) -> None:
    line = row(name, NETWORKS[name](), inputs=0)
    assert line in part("networks", PAGE).splitlines(), "run scripts/bench_networks.py --write"


@pytest.mark.parametrize("name", MODELS_HERE)
def test_what_a_streamed_input_costs_is_what_the_readme_says(name: str) -> None:
    path = SHARED / "models" / f"{name}.tflite"
    if not path.exists():
        pytest.skip(f"no {path.name} beside the project")
    model = serialize_model(fusable_core(load_model(path)))
    told = []
    for core in (known_as(TARGETS["cortex-m7"]), known_as(TARGETS["rv32imc"])):
        resident, streamed = tflite_fuse.rewrite(model, target=core.value, verify=False).model, in_streams(model, core)
        assert streamed is not None
        told.append(f"x{predicted(streamed, core) / predicted(resident, core):.2f}")
    line = next(line for line in part("speed").splitlines() if line.startswith(f"| {name} |"))
    assert line.endswith(f"| {', '.join(told)} |"), "run scripts/bench_device.py --write"


def test_what_a_keyword_model_takes_on_an_emulated_core_is_what_the_readme_says() -> None:
    name, core = MODELS_HERE[0], TARGETS["cortex-m7"]
    path = SHARED / "models" / f"{name}.tflite"
    if not path.exists():
        pytest.skip(f"no {path.name} beside the project")
    if any(shutil.which(tool) is None for tool in ("arm-none-eabi-gcc", "qemu-system-arm")):
        pytest.skip("no compiler or emulator of the core")
    (run,) = measure(path, [core], inputs=2, flags="-O2")
    line = next(line for line in part("speed").splitlines() if line.startswith(f"| {name} |"))
    assert run.bit_exact
    assert line.split("|")[2].strip() == f"{run.instructions / 1e6:.1f}", "run scripts/bench_device.py --write"
