"""Models with variables: original and rewrite in TensorFlow Lite Micro, step by step, and on emulated cores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.table import Table

import tflite_fuse
from scripts.streams.driving import driven_steps
from scripts.streams.emulated import instructions_of
from tests.device.targets import Target
from tests.passes.streaming.ring_contents import Ring, with_rings, with_variables
from tflite_fuse.model import load_model
from tflite_fuse.model.types import tensor_nbytes
from tflite_fuse.runtime import tflm

CMSIS_NN = {(6, 3472): 193_518, (11, 8024): 337_032}
"""Instructions a step of unfused models with CMSIS-NN, counted once in a real runtime on the emulated Cortex-M7, by the
number of variables and their bytes: microWakeWord's two generations. Nothing here measures them again."""


@dataclass(frozen=True)
class Result:
    """One model.

    Attributes:
        arena_before, arena_after: bytes to allocate, state included.
        state: bytes that outlive a step after the rewrite.
        operators_before, operators_after: how many.
        steps: compared.
        different: steps with another output, or a ring that holds something else than the variable it stands for.
        outputs: different outputs among them: few say little.
        variables, rings: how many there are.
        instructions: of a step, by target; None where an operator is no block.
        cmsis_nn: of the original on a Cortex-M7, None where that was not counted.
    """

    model: str
    arena_before: int
    arena_after: int
    state: int
    operators_before: int
    operators_after: int
    steps: int
    different: int
    outputs: int
    variables: int
    rings: int
    instructions: dict[str, int | None]
    cmsis_nn: int | None


def measure(path: Path, targets: Sequence[Target], steps: int) -> Result:
    """Rewrite a model and compare both over time. Raises TfliteFuseError."""
    data = path.read_bytes()
    model, done = load_model(data), tflite_fuse.rewrite(data, verify=False)
    rewritten = load_model(done.model)
    fed = driven_steps(model, steps)
    count = len(model.main.outputs)
    original, assigned = with_variables(model)
    fused, rings = with_rings(rewritten)
    before, after = answers(original, fed), answers(fused, fed)
    outputs = [b"".join(each[:count]) for each in before]
    until_reset = outputs[: steps // 2]  # emulated programs have none
    return Result(
        model=path.stem,
        arena_before=done.report.before.arena_bytes,
        arena_after=done.report.after.arena_bytes,
        state=sum(tensor_nbytes(tensor) for tensor in rewritten.main.tensors if tensor.is_variable),
        operators_before=len(model.main.operators),
        operators_after=len(rewritten.main.operators),
        steps=steps,
        different=sum(differ(a, b, count, assigned, rings) for a, b in zip(before, after, strict=True)),
        outputs=len(set(outputs)),
        variables=len(assigned),
        rings=len(rings),
        instructions={target.name: instructions_of(rewritten, target, fed, until_reset) for target in targets},
        cmsis_nn=CMSIS_NN.get((len(assigned), sum(len(before[0][number]) for number in assigned))),
    )


def answers(data: bytes, steps: Sequence[Sequence[npt.NDArray[Any]]]) -> list[list[bytes]]:
    """Return the outputs of a model for each step; the runtime is reset before the middle step."""
    with tflm.session(data) as loaded:
        found = [loaded.infer(arrays, (), reset=step == len(steps) // 2) for step, arrays in enumerate(steps)]
    return [[np.asarray(array).tobytes() for array in arrays] for arrays in found]


def differ(
    before: Sequence[bytes], after: Sequence[bytes], count: int, assigned: Sequence[int], rings: Sequence[Ring]
) -> bool:
    """Return whether a step's outputs are others, or a ring is no variable's end."""
    held = [before[number] for number in assigned]
    kept = (ring.in_time_order(after) for ring in rings)
    return before[:count] != after[:count] or any(not any(v.endswith(steps) for v in held) for steps in kept)


def as_table(results: Sequence[Result], targets: Sequence[Target]) -> Table:
    """Return a table with one row for each result."""
    table = Table(title="Models that keep variables: arenas in bytes, instructions of a step", title_justify="left")
    names = [target.name for target in targets]
    columns = ("model", "arena before", "after", "ratio", "of it state", "operators", "rings of variables")
    for column in (*columns, "steps", "differ", "outputs", *names, "cortex-m7 with CMSIS-NN", "ratio"):
        table.add_column(column, justify="left" if column == "model" else "right", overflow="fold")
    for each in results:
        own = each.instructions.get("cortex-m7")
        table.add_row(
            each.model,
            f"{each.arena_before:,}",
            f"{each.arena_after:,}",
            f"{each.arena_before / each.arena_after:.2f}",
            f"{each.state:,}",
            f"{each.operators_before} -> {each.operators_after}",
            f"{each.rings} of {each.variables}",
            f"{each.steps:,}",
            str(each.different),
            str(each.outputs),
            *("-" if found is None else f"{found:,}" for found in each.instructions.values()),
            "-" if each.cmsis_nn is None else f"{each.cmsis_nn:,}",
            "-" if each.cmsis_nn is None or own is None else f"{own / each.cmsis_nn:.3f}",
        )
    return table
