"""Models rewritten, planned, run and verified in TFLM, for benchmarks beside published figures."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

from tflite_fuse.emit.in_model import executed_macs
from tflite_fuse.errors import VerificationError
from tflite_fuse.memory.budget import Budget
from tflite_fuse.model import Model, serialize_model
from tflite_fuse.model.outside import InputMode
from tflite_fuse.passes.base import run_passes
from tflite_fuse.passes.fusing.fuse import FuseResult
from tflite_fuse.passes.options import FuseOptions
from tflite_fuse.passes.pipeline import make_passes
from tflite_fuse.rewriting.figures import arena_in_file, measured_head
from tflite_fuse.runtime.comparing.compare import compare
from tflite_fuse.runtime.inputs import generate_inputs

INPUTS = (InputMode.RESIDENT, InputMode.STREAMED, InputMode.EXTERNAL)
"""Where published figures have their input."""


@dataclass(frozen=True)
class Measured:
    """A model after its rewrite.

    Attributes:
        estimate_bytes: what the search expected, with the tail where the options count it.
        head_bytes: of the arena, as TFLM reports it.
        arena_bytes: what must be allocated.
        compute_factor: multiply-accumulates executed over the original's.
        inputs: on how many inputs the outputs were the original's, byte by byte.
    """

    estimate_bytes: int
    head_bytes: int
    arena_bytes: int
    compute_factor: float
    inputs: int


def _head(model: Model) -> int | None:
    return measured_head(serialize_model(model))


def measure(name: str, model: Model, options: FuseOptions, inputs: int) -> Measured:
    """Rewrite a model, run it in TFLM and compare it with the original.

    Args:
        name: what progress on stderr and errors call it.
        model: any model that TFLM runs.
        options: how to fuse it.
        inputs: number of inputs to compare on.

    Raises:
        TfliteFuseError: a step fails.
        VerificationError: an output differs.
    """
    print(f"{name}, input {InputMode(options.input_mode).value} ...", file=sys.stderr, flush=True)
    rewritten, results = run_passes(model, make_passes(replace(options, int8_io=True), _head, Budget()))
    comparison = compare(serialize_model(model), serialize_model(rewritten), generate_inputs(model, inputs))
    if comparison.first_difference is not None:
        raise VerificationError(f"{name}: {comparison.first_difference}")
    (fused,) = (result for result in results if isinstance(result, FuseResult))
    arena, macs = arena_in_file(rewritten, serialize_model(rewritten)), sum(executed_macs(model))
    if not arena.measured or fused.chosen is None:
        raise VerificationError(f"{name}: TFLM does not tell its arena")
    factor = sum(executed_macs(rewritten)) / macs if macs else 1.0
    return Measured(fused.chosen.point.ram_bytes, arena.head, arena.needed, factor, comparison.inputs)
