"""Time steps of a model of blocks on an emulated core."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.device.program import program_of
from tests.device.targets import Target, build, execute
from tflite_fuse.model.schema import Model

STEPS = 12
"""Run; the second half counts: the first steps fill rings."""


def instructions_of(
    model: Model, target: Target, steps: Sequence[Sequence[npt.NDArray[Any]]], reference: Sequence[bytes] | None = None
) -> int | None:
    """Return instructions of a step, the mean of the last ones; None where an operator is no block.

    Raises:
        ValueError: a step gives other bytes than were wanted.
    """
    try:
        program = program_of(model)
    except ValueError:
        return None
    with tempfile.TemporaryDirectory() as folder:
        report = execute(target, build(target, program, steps[:STEPS], Path(folder), "-O2"), program)
    for outputs, expected in zip(report.outputs, reference or (), strict=False):
        if b"".join(np.asarray(each).tobytes() for each in outputs) != expected:
            raise ValueError(f"{target.name} gives another output than TensorFlow Lite Micro")
    late = report.instructions[len(report.instructions) // 2 :]
    return round(sum(sum(blocks) for blocks in late) / len(late))
