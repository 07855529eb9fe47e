"""Boards alone: the coordinator in C on one emulated Cortex-M7, workers on two others, serial lines between them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import PATIENCE
from tests.device.program import binary
from tests.device.split.boards import EMULATOR, HERE, board, running
from tests.device.targets import TARGETS, link
from tests.split.cluster import cases
from tflite_fuse.runtime import tflm
from tflite_fuse.split.fragments.encode import decode

pytestmark = [
    pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed"),
    pytest.mark.skipif(bool(board().missing()), reason=f"{', '.join(board().missing())} not installed"),
]


def test_three_boards_without_a_computer_compute_the_bytes_of_tflm(tmp_path: Path) -> None:
    found, samples = cases.deployment(2, direct=False, strategy="paper", tail=False), cases.samples(1, tail=False)
    folder = tmp_path / "coordinator"
    folder.mkdir()
    numbers = list(found.taking_part)
    contacts = ", ".join(f'{{{device}, "{line}/", 0}}' for line, device in enumerate(numbers))
    lines = [
        binary(folder, "fragment", found.fragments.coordinator),
        binary(folder, "values", b"".join(each.tobytes() for inputs, _ in samples for each in inputs)),
        f"static _Alignas(16) uint8_t buffer[{decode(found.fragments.coordinator).header.buffer_bytes}];",
        f"enum {{ WORKERS = {len(numbers)}, INFERENCES = {len(samples)} }};",
        f"static const tflite_fuse_contact contacts[] = {{{contacts}}};",
    ]
    (folder / "fragment.h").write_text("\n".join(lines) + "\n")
    elf = link(TARGETS["cortex-m7"], HERE / "coordinator.c", folder, "-O2")
    with running(found.fragments, tmp_path) as boards:
        command = [*EMULATOR.split(), "enable=on,target=native"]
        for device in numbers:
            place = boards.addresses[device].removeprefix("socket://")
            command += ["-serial", f"tcp:{place},nodelay=on"]
        done = subprocess.run(
            [*command, "-kernel", str(elf)], capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    expected = ["output " + b"".join(each.tobytes() for each in outputs).hex() for _, outputs in samples]
    assert (done.stdout + done.stderr).split("\n")[: len(expected)] == expected
