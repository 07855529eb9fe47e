"""All devices of a split as one bare-metal program: fragments, buffers, inputs, and its output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.device.program import binary, memory
from tests.device.targets import Target, lines_of, link
from tflite_fuse.split.fragments.encode import Fragments, decode

HERE = Path(__file__).parent


@dataclass(frozen=True)
class SplitReport:
    """What a program of devices wrote.

    Attributes:
        state_bytes: of one worker's own.
        open_stack, run_stack: most bytes of stack of each device, the coordinator last.
        outputs: of each inference, one after another.
    """

    state_bytes: int
    open_stack: list[int]
    run_stack: list[int]
    outputs: list[bytes]


def run_devices(
    target: Target, fragments: Fragments, inputs: Sequence[Sequence[np.ndarray]], directory: Path
) -> SplitReport:
    """All devices of a split on one emulated core, for each element of ``inputs`` once."""
    write_devices(fragments, inputs, directory)
    lines = lines_of(target, link(target, HERE / "devices.c", directory, "-O2"))
    wrong = [line for line in lines if line[0] in ("open", "run", "stuck") and (line[0] == "stuck" or line[2] != "0")]
    if wrong or not lines:
        raise RuntimeError(f"{target.name}: {' '.join(wrong[0]) if wrong else 'no output'}")

    def column(word: str) -> list[int]:
        return [int(line[3]) for line in lines if line[0] == word]

    state = next(int(line[1]) for line in lines if line[0] == "worker")
    outputs = [bytes.fromhex(line[1]) for line in lines if line[0] == "output"]
    return SplitReport(state, column("open"), column("run"), outputs)


def write_devices(fragments: Fragments, inputs: Sequence[Sequence[np.ndarray]], directory: Path) -> None:
    """Writes fragments.h and the files it includes to a directory."""
    data = [*fragments.workers, fragments.coordinator]
    lines = []
    for number, fragment in enumerate(data):
        lines += [binary(directory, f"fragment_{number}", fragment)]
        lines += [memory(f"buffer_{number}", decode(fragment).header.buffer_bytes)]
    lines.append("static const split_device devices[] = {")
    for number, fragment in enumerate(data):
        size = decode(fragment).header.buffer_bytes
        lines.append(f"    {{fragment_{number}, fragment_{number}_end, (uint8_t*)buffer_{number}, {size}}},")
    lines.append("};")
    for position in range(len(inputs[0])):
        values = b"".join(np.ascontiguousarray(arrays[position]).tobytes() for arrays in inputs)
        lines.append(binary(directory, f"values_{position}", values))
    names = ", ".join(f"values_{position}" for position in range(len(inputs[0])))
    lines.append(f"static const uint8_t* const input_values[] = {{{names}}};")
    outputs = len(decode(fragments.coordinator).outputs)
    lines.append(f"enum {{ INFERENCES = {len(inputs)}, INPUTS = {len(inputs[0])}, OUTPUTS = {outputs} }};")
    (directory / "fragments.h").write_text("\n".join(lines) + "\n")
