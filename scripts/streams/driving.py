"""Time steps that make a model's output vary; with random steps a wake word's output stays as in silence.

Sequences are changed at random places, changes that raise the output's inputs are kept, and the intermediate sequences
with new outputs are concatenated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tflite_fuse.model.edit import replace_main
from tflite_fuse.model.file import serialize_model
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.schema import Model
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.inputs import InputSpec, input_specs
from tflite_fuse.runtime.processes.worker import Worker

Array = npt.NDArray[Any]

LENGTH, ROUNDS = 60, 300
"""Steps of a sequence; sequences tried."""

_SQUASHING = ("DEQUANTIZE", "LOGISTIC", "QUANTIZE", "RESHAPE", "SOFTMAX")


def driven_steps(model: Model, count: int, seed: int = 1) -> list[list[Array]]:
    """Return ``count`` steps for a model: a third of them noise, the others as the module describes."""
    rng, specs = np.random.default_rng(seed), input_specs(model)
    outputs = (*model.main.outputs, _before_squashing(model))
    watched = replace(replace_main(model, replace(model.main, outputs=outputs)), signature_defs=None)
    kept: list[list[Array]] = []
    with tflm.session(serialize_model(watched)) as session:
        best, seen = -np.inf, set[bytes]()
        sequence = [rng.uniform(spec.low, spec.high, (LENGTH, *spec.shape)) for spec in specs]
        for _ in range(ROUNDS):
            tried = [_changed(values, spec, rng) for values, spec in zip(sequence, specs, strict=True)]
            height, shapes = _run(session, _as_fed(tried, specs))
            if shapes - seen:
                seen |= shapes
                kept.append(_as_fed(tried, specs))
            if height >= best:
                best, sequence = height, tried
    noise = [[rng.uniform(spec.low, spec.high, (1, *spec.shape)) for spec in specs] for _ in range(count)]
    steps = [step for arrays in noise[: max(count // 3, count - len(kept) * LENGTH)] for step in _steps(arrays, specs)]
    chosen = np.linspace(0, len(kept) - 1, min(len(kept), -(-(count - len(steps)) // LENGTH))).astype(int)
    return [*steps, *(step for number in chosen for step in _split(kept[number]))][:count]


def _before_squashing(model: Model) -> int:
    """Return the tensor that the first output is a curve of."""
    tensor = model.main.outputs[0]
    for operator in reversed(model.main.operators):
        if tensor in (operator.outputs or ()) and operator_name(model, operator) in _SQUASHING:
            tensor = (operator.inputs or (tensor,))[0]
    return tensor


def _changed(values: Array, spec: InputSpec, rng: np.random.Generator) -> Array:
    """Return features that are louder or quieter in up to three spans of time and features."""
    flat = values.reshape(-1, spec.shape[-1]).copy()
    for _ in range(rng.integers(1, 4)):
        begin = [int(rng.integers(0, size)) for size in flat.shape]
        size = rng.integers(1, 20), rng.integers(1, 12)
        here = tuple(slice(at, at + length) for at, length in zip(begin, size, strict=True))
        flat[here] += rng.normal(0, 0.3 * (spec.high - spec.low))
    clipped: Array = np.clip(flat, spec.low, spec.high).reshape(values.shape)
    return clipped


def _as_fed(sequence: Sequence[Array], specs: Sequence[InputSpec]) -> list[Array]:
    return [
        (values if spec.dtype.kind == "f" else np.rint(values)).astype(spec.dtype)
        for values, spec in zip(sequence, specs, strict=True)
    ]


def _steps(sequence: Sequence[Array], specs: Sequence[InputSpec]) -> list[list[Array]]:
    return _split(_as_fed(sequence, specs))


def _split(sequence: Sequence[Array]) -> list[list[Array]]:
    """Return the arrays of each step, of one array for each input."""
    return [[values[step] for values in sequence] for step in range(len(sequence[0]))]


def _run(session: Worker, sequence: Sequence[Array]) -> tuple[float, set[bytes]]:
    """Return the most that the watched tensor's first value became, and which outputs there were."""
    answers = [session.infer(step, (), reset=number == 0) for number, step in enumerate(_split(sequence))]
    heights = [float(arrays[-1].ravel()[0]) for arrays in answers]
    return max(heights), {b"".join(array.tobytes() for array in arrays[:-1]) for arrays in answers}
