"""Figures on pages that take seconds are recomputed and compared."""

from __future__ import annotations

import shutil

import pytest

from scripts import bench_floats, bench_memories
from scripts.bench_device import measure
from scripts.bench_networks import NETWORKS, PAGE, row
from scripts.readme import part
from tests.conftest import SHARED
from tests.device.targets import TARGETS

NETWORKS_HERE = ("detector's neck, 96 x 96", "MobileNetV1 0.25, 96 x 96", "the same, uint8 to float32")
"""Those that take a second or two each; the script prints all."""

MODELS_HERE = ("mlperf_tiny_dscnn_kws_int8", "mlperf_tiny_resnet8_int8", "mlperf_tiny_vww96_int8")


@pytest.mark.parametrize("name", NETWORKS_HERE)
def test_gains_of_usual_networks_equal_the_page_of_questions(name: str) -> None:
    line = row(name, NETWORKS[name](), inputs=0)
    assert line in part("networks", PAGE).splitlines(), "run scripts/bench_networks.py --write"


def test_use_of_two_memories_equals_the_page() -> None:
    if not (SHARED / "models" / "mcunet_in3_int8.tflite").exists():
        pytest.skip("no public models beside the project")
    if TARGETS["cortex-m7"].missing():
        pytest.skip("no compiler or emulator of the core")
    line, model = bench_memories.row("MCUNet in3, 176 x 176"), "mlperf_tiny_dscnn_kws"
    assert line in part("memories", bench_memories.PAGE).splitlines(), "run scripts/bench_memories.py --write"
    peer = bench_memories.peer_row(model, bench_memories.peers()[model])
    assert peer in part("tigris", bench_memories.PAGE).splitlines(), "run scripts/bench_memories.py --write"


def test_gains_of_float32_twins_equal_the_page_of_questions() -> None:
    path = SHARED / "models" / "mlperf_tiny_dscnn_kws_int8.tflite"
    if not path.exists():
        pytest.skip(f"no {path.name} beside the project")
    found = bench_floats.row(path, inputs=2)
    assert str(found) in part("floats", bench_floats.PAGE).splitlines(), "run scripts/bench_floats.py --write"


@pytest.mark.parametrize("name", MODELS_HERE)
def test_instructions_on_emulated_cores_equal_the_readme(name: str) -> None:
    path = SHARED / "models" / f"{name}.tflite"
    if not path.exists():
        pytest.skip(f"no {path.name} beside the project")
    needed = ("arm-none-eabi-gcc", "qemu-system-arm", "riscv64-unknown-elf-gcc", "qemu-system-riscv32")
    if any(shutil.which(tool) is None for tool in needed):
        pytest.skip("no compiler or emulator of the cores")
    runs = list(measure(path, [TARGETS["cortex-m7"], TARGETS["rv32imc"]], inputs=2, flags="-O2"))
    line = next(line for line in part("speed").splitlines() if line.startswith(f"| {name} |"))
    said = [cell.strip() for cell in line.split("|")]
    assert all(run.bit_exact for run in runs)
    assert [said[2], said[4]] == [f"{run.instructions / 1e6:.1f}" for run in runs], (
        "run scripts/bench_device.py --write"
    )
    assert said[6] == ", ".join(f"x{run.streamed:.2f}" for run in runs)
