"""Time limit of one inference, from a model's amount of work.

A damaged model may keep a runtime busy for ever. The limit must never end an honest inference: TensorFlow Lite Micro's
reference kernels do 200 to 450 million multiply-accumulates per second on a desktop core and tens of millions on a slow
or busy one; the limit assumes 2 million, plus ten seconds for everything else.
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
"""Least limit of an inference."""
STEPS_PER_SECOND = 2_000_000
"""Multiply-accumulates and written values per second of the slowest machine."""
LONGEST_SECONDS = 120
"""Greatest limit, and the limit if the work is unknown."""


def inference_seconds(model: Model | bytes) -> float:
    """Return the limit of one inference in seconds, from SHORTEST_SECONDS to LONGEST_SECONDS.

    The latter holds for models with further subgraphs (loops) or foreign custom operators, and for damaged models.

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
    """Return the multiply-accumulates plus the values of all tensors that operators write."""
    written = {tensor for operator in model.main.operators for tensor in operator.outputs or ()}
    return sum(executed_macs(model)) + sum(prod(model.main.tensors[tensor].dims) for tensor in written)
