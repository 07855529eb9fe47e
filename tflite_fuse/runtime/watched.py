"""Copies of two models that give, beside their outputs, the tensors at the borders of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tflite_fuse.errors import TfliteFuseError
from tflite_fuse.memory.from_model import FUSED_OPERATOR
from tflite_fuse.memory.tflm.offline_plan import remove_plan
from tflite_fuse.model.edit import replace_main
from tflite_fuse.model.file import serialize_model
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.schema import Model
from tflite_fuse.model.types import TensorType, tensor_nbytes

Pairs = Sequence[tuple[int, int]]
"""Tensors of an original, and of what was made of it, that hold the same bytes."""

_MOST_BYTES = 1 << 27
_TYPES = (TensorType.INT8, TensorType.UINT8, TensorType.INT16, TensorType.INT32, TensorType.FLOAT32)


@dataclass(frozen=True)
class Copies:
    """Two files that give the same tensors beside their outputs, called ``names`` in the first."""

    first: bytes
    second: bytes
    names: tuple[str, ...]


def watched_copies(models: tuple[Model, Model], same: Pairs) -> Copies | None:
    """The copies; None where no block has a border inside, or all of them are more than memory may hold."""
    pairs = watched(models, same)
    if not pairs:
        return None
    names = tuple(models[0].main.tensors[a].name or f"tensor {a}" for a, _ in pairs)
    try:
        first, second = (
            exposed(model, tensors) for model, tensors in zip(models, zip(*pairs, strict=True), strict=True)
        )
    except TfliteFuseError:
        return None
    return Copies(first, second, names)


def watched(models: tuple[Model, Model], same: Pairs) -> Pairs:
    """The pairs that blocks of the second model read or write, and that are outputs of neither."""
    at_blocks = _at_blocks(models[1])
    written = [{t for op in model.main.operators for t in op.outputs or ()} for model in models]
    outputs = [set(model.main.outputs) for model in models]
    found: dict[int, int] = {}
    for pair in same:
        tensors = [model.main.tensors[t] for model, t in zip(models, pair, strict=True)]
        inside = all(t in w and t not in o for t, w, o in zip(pair, written, outputs, strict=True))
        alike = tensors[0].type == tensors[1].type and tensors[0].type in _TYPES
        if pair[1] in at_blocks and inside and alike and tensor_nbytes(tensors[0]) == tensor_nbytes(tensors[1]):
            found.setdefault(pair[0], pair[1])
    graph = models[0].main
    return tuple(found.items()) if sum(tensor_nbytes(graph.tensors[t]) for t in found) <= _MOST_BYTES else ()


def exposed(model: Model, tensors: Sequence[int]) -> bytes:
    """The model with more outputs. It has no arena plan: with one, others would have overwritten them by the end."""
    model = remove_plan(model)
    return serialize_model(replace_main(model, replace(model.main, outputs=(*model.main.outputs, *tensors))))


def _at_blocks(model: Model) -> set[int]:
    blocks = [each for each in model.main.operators if operator_name(model, each) == FUSED_OPERATOR]
    return {t for each in blocks for t in (*(each.inputs or ())[:-1], *(each.outputs or ())[:-1])}
