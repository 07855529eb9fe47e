"""How long one inference may take, by how much a model computes.

A damaged model may keep a runtime busy for as long as it is let. The limit is meant never to end an honest inference:
TensorFlow Lite Micro's reference kernels do 200 to 450 million multiply-accumulates per second on a desktop core and
tens of millions on a slow or busy one, so 2 million are asked for, on top of ten seconds for everything else.
"""

from __future__ import annotations

from math import ceil, prod

from tflite_fuse.emit.in_model import executed_macs
from tflite_fuse.errors import TfliteFuseError
from tflite_fuse.ir.program import FUSED_OPERATOR
from tflite_fuse.model.file import load_model
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.schema import Model

SHORTEST_SECONDS = 10
"""What every inference is given."""
STEPS_PER_SECOND = 2_000_000
"""Multiply-accumulates and values written that the slowest machine is taken to do."""
LONGEST_SECONDS = 120
"""More is never given; all of it is where the work is not known."""


def inference_seconds(model: Model | bytes) -> float:
    """Seconds one inference may take, between SHORTEST_SECONDS and LONGEST_SECONDS.

    The latter for models with further subgraphs (loops) or custom operators of others, and for what is no sound model.

    Args:
        model: a model, or a .tflite file.
    """
    try:
        model = load_model(model) if isinstance(model, bytes) else model
        steps = _steps(model) if _is_known(model) else None
    except TfliteFuseError:
        steps = None
    if steps is None:
        return LONGEST_SECONDS
    return min(LONGEST_SECONDS, SHORTEST_SECONDS + ceil(max(0, steps) / STEPS_PER_SECOND))


def _is_known(model: Model) -> bool:
    names = {operator_name(model, operator) for operator in model.main.operators}
    return len(model.subgraphs) == 1 and not any(n.startswith("CUSTOM:") and n != FUSED_OPERATOR for n in names)


def _steps(model: Model) -> int:
    """Multiply-accumulates, and values of all tensors that operators write."""
    written = {tensor for operator in model.main.operators for tensor in operator.outputs or ()}
    return sum(executed_macs(model)) + sum(prod(model.main.tensors[tensor].dims) for tensor in written)
