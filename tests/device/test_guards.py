"""The kernels for DSP and Helium instructions on emulated cores stay within their memory, and compute the reference."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.device.program import Int8Array, Program, Step
from tests.device.targets import TARGETS, Target, build, execute
from tests.drawing.packed_blocks import deep_block, one_column_block, packed_block
from tests.drawing.random_blocks import random_operands
from tests.drawing.random_configs import random_config
from tests.drawing.witness import plan, reference
from tflite_fuse.emit.encode import encode
from tflite_fuse.ir.block import Block

CORES = ("cortex-m4", "cortex-m7", "cortex-m55")
"""Those with DSP instructions, and the one with Helium."""

cores = pytest.mark.parametrize(
    "target",
    [
        pytest.param(
            TARGETS[name],
            id=name,
            marks=pytest.mark.skipif(
                bool(TARGETS[name].missing()), reason=f"{', '.join(TARGETS[name].missing())} not installed"
            ),
        )
        for name in CORES
    ],
)

DRAWN: dict[str, tuple[Callable[[Random], Block], int]] = {
    "packed": (packed_block, 24),
    "deep": (deep_block, 8),
    "one column": (one_column_block, 6),
}
"""How blocks are drawn, and how many of them a program runs."""

RUNS = 2


def drawn_program(
    draw: Callable[[Random], Block], count: int
) -> tuple[Program, list[list[Int8Array]], list[list[bytes]]]:
    """Random blocks of inputs in memory, each with tensors of its own; the inputs of all runs, and what they become."""
    steps: list[Step] = []
    inputs: list[int] = []
    outputs: list[int] = []
    sizes: dict[int, int] = {}
    values: list[list[Int8Array]] = [[] for _ in range(RUNS)]
    expected: list[list[bytes]] = [[] for _ in range(RUNS)]
    drawn = ((rng, draw(rng)) for rng in map(Random, itertools.count()))
    inside = ((rng, block) for rng, block in drawn if not any(random_operands(Random(0), block)[1:]))
    for rng, block in itertools.islice(inside, count):
        encoded, base = encode(block, plan(block, random_config(rng, block))), len(sizes)
        ends = (*block.inputs, *block.outputs)
        sizes |= {base + at: block.tensors[tensor].nbytes for at, tensor in enumerate(ends)}
        read, written = range(base, base + len(block.inputs)), range(base + len(block.inputs), base + len(ends))
        steps.append(Step(encoded.options, encoded.constants, tuple(read), tuple(written), encoded.scratch_bytes))
        inputs += read
        outputs += written
        for run in range(RUNS):
            operands = random_operands(rng, block)
            values[run] += operands[0]
            expected[run] += [output.tobytes() for output in reference(block, operands)]
    return Program(tuple(steps), tuple(inputs), tuple(outputs), sizes), values, expected


@cores
@pytest.mark.parametrize("kind", DRAWN)
def test_random_blocks_compute_the_reference_between_guard_bytes(kind: str, target: Target, tmp_path: Path) -> None:
    program, values, expected = drawn_program(*DRAWN[kind])
    assert execute(target, build(target, program, values, tmp_path, "-O2", guarded=True), program).outputs == expected


@cores
@pytest.mark.parametrize("which", ["output", "scratch"])
def test_a_byte_written_behind_its_memory_is_found(which: str, target: Target, tmp_path: Path) -> None:
    program, values, _ = drawn_program(deep_block, 1)
    (step,) = program.steps
    if which == "scratch":
        short = replace(program, steps=(replace(step, scratch_bytes=step.scratch_bytes // 2),))
    else:
        (output,) = program.outputs
        short = replace(program, sizes=program.sizes | {output: program.sizes[output] - 1})
    with pytest.raises(RuntimeError, match=r"guard 0 \d+ \d+"):
        execute(target, build(target, short, values, tmp_path, "-O2", guarded=True), short)
