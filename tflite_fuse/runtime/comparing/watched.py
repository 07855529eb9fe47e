"""Copies of two models with more outputs: tensors between operators and inside blocks.

A block keeps its inner tensors in rings of a few rows. In the copy it is *open*: the same stages with the same
constants run over the whole map, and every inner tensor that the original has, too, is an output. So each stage's
kernel and constants are compared by themselves; the schedule is tested by the unchanged model, whose outputs are
compared as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from tflite_fuse.check.certificate import Certificate
from tflite_fuse.emit.block_plan import BlockPlan
from tflite_fuse.emit.in_model import blocks_in
from tflite_fuse.errors import BlockError, ModelError
from tflite_fuse.ir.block import Block, BlockConfig, Storage
from tflite_fuse.ir.program import FUSED_OPERATOR
from tflite_fuse.memory.tflm.offline_plan import remove_plan
from tflite_fuse.model.edit import Editor, replace_main, replace_operators
from tflite_fuse.model.file import serialize_model
from tflite_fuse.model.operators import operator_label, operator_name
from tflite_fuse.model.schema import Model, Tensor
from tflite_fuse.model.types import TensorType, tensor_nbytes

_MOST_BYTES = 1 << 27
_MOST_OPERANDS = 16
"""Most operands of a block in the runtime's glue."""
_TYPES = (TensorType.INT8, TensorType.UINT8, TensorType.INT16, TensorType.INT32, TensorType.FLOAT32)


@dataclass(frozen=True)
class Watched:
    """Tensors that can be compared beside the outputs.

    Attributes:
        first: tensors of the original.
        opened: the rewritten model with open blocks.
        second: the same tensors in it.
    """

    first: tuple[int, ...]
    opened: Model
    second: tuple[int, ...]


def watched(models: tuple[Model, Model], certificate: Certificate | None) -> Watched:
    """Return the tensors at and in the blocks of a rewritten model; none if they exceed ``_MOST_BYTES``.

    Args:
        models: an original and its rewrite.
        certificate: pairs of tensors that hold the same bytes.
    """
    nothing = Watched((), models[1], ())
    if certificate is None:
        return nothing
    tensors = dict(_at_borders(models, certificate))
    opened = _in_one_memory(remove_plan(models[1]))
    with suppress(ModelError):
        opened, inner = _opened(models[0], opened, certificate)
        tensors = {**dict(inner), **tensors}
    if sum(tensor_nbytes(models[0].main.tensors[tensor]) for tensor in tensors) > _MOST_BYTES:
        return nothing
    return Watched(tuple(tensors), opened, tuple(tensors.values()))


def exposed(model: Model, tensors: Sequence[int]) -> bytes:
    """Return the file of the model with more outputs, without its arena plan, which would overwrite them."""
    model = remove_plan(model)
    return serialize_model(replace_main(model, replace(model.main, outputs=(*model.main.outputs, *tensors))))


def _in_one_memory(model: Model) -> Model:
    """Return the model with all tensors in the arena: an output elsewhere is not read."""
    operators = list(model.main.operators)
    for index, plan in blocks_in(model).items():
        if plan.slow:
            operators[index] = replace(operators[index], custom_options=replace(plan, slow={}).encoded.options)
    return replace_operators(model, operators)


def _at_borders(models: tuple[Model, Model], certificate: Certificate) -> Iterable[tuple[int, int]]:
    """Return pairs of tensors that blocks read or write and that are outputs of neither model."""
    blocks = [each for each in models[1].main.operators if operator_name(models[1], each) == FUSED_OPERATOR]
    at_blocks = {t for each in blocks for t in (*(each.inputs or ())[:-1], *(each.outputs or ())[:-1])}
    inside = [_between(model) for model in models]
    for pair in certificate.same:
        a, b = (model.main.tensors[t] for model, t in zip(models, pair, strict=True))
        alike = a.type == b.type and a.type in _TYPES and tensor_nbytes(a) == tensor_nbytes(b)
        if pair[1] in at_blocks and alike and all(t in each for t, each in zip(pair, inside, strict=True)):
            yield pair


def _between(model: Model) -> set[int]:
    """Return the tensors that operators write and that are no outputs."""
    return {t for each in model.main.operators for t in each.outputs or ()} - set(model.main.outputs)


def _opened(original: Model, model: Model, certificate: Certificate) -> tuple[Model, list[tuple[int, int]]]:
    """Return the model with open blocks, and pairs of an original's tensor and the further output with its bytes."""
    proofs = {proof.operator: dict(proof.values) for proof in certificate.blocks}
    between, pairs = _between(original), list[tuple[int, int]]()
    editor = Editor(model)
    editor.operators += model.main.operators
    for index, plan in blocks_in(model).items():
        values = {
            t: a
            for t, a in proofs.get(operator_label(model, index), {}).items()
            if a in between and _is_inner(plan.block, t, original.main.tensors[a])
        }
        old = editor.operators[index]
        room = _MOST_OPERANDS - len(old.inputs or ()) - len(old.outputs or ())
        values = dict(list(values.items())[-room:] if room > 0 else [])
        open_plan = _open_plan(plan, list(values))
        if open_plan is None:
            continue
        encoded = open_plan.encoded
        added = [editor.tensor(replace(original.main.tensors[tensor], buffer=0)) for tensor in values.values()]
        pairs += zip(values.values(), added, strict=True)
        constants = editor.constant(_bytes(len(encoded.constants)), encoded.constants)
        scratch = editor.tensor(_bytes(encoded.scratch_bytes))
        editor.operators[index] = replace(
            old,
            inputs=(*(old.inputs or ())[:-1], constants),
            outputs=(*(old.outputs or ())[:-1], *added, scratch),
            custom_options=encoded.options,
        )
    return editor.finish(), pairs


def _is_inner(block: Block, tensor: int, named: Tensor) -> bool:
    block_tensor = block.tensors[tensor]
    kept = block_tensor.storage is Storage.SCRATCH and tensor not in block.sourced
    return kept and named.type == TensorType.INT8 and block_tensor.nbytes == tensor_nbytes(named)


def _open_plan(plan: BlockPlan, inner: list[int]) -> BlockPlan | None:
    """Return the block run as a whole, with inner tensors as outputs; None if that cannot be encoded."""
    block = plan.block
    tensors = [replace(t, storage=Storage.OUTPUT) if i in inner else t for i, t in enumerate(block.tensors)]
    opened = replace(block, tensors=tuple(tensors), outputs=(*block.outputs, *inner))
    whole = BlockConfig(max(t.height for t in tensors), max(t.width for t in tensors), plan.config.chunk)
    opened_plan = BlockPlan(opened, whole, plan.outside)
    try:
        return opened_plan if inner and opened_plan.encoded else None
    except BlockError:
        return None


def _bytes(count: int) -> Tensor:
    return Tensor((count,), TensorType.INT8, 0)
