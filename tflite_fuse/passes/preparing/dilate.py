"""Dilated convolutions in place of convolutions over batches whose result in TFLM is undefined.

    SPACE_TO_BATCH_ND → CONV_2D → BATCH_TO_SPACE_ND   =   CONV_2D with dilation

TensorFlow expresses dilation this way. A converter without a known batch size does not fold it into a dilated
convolution, and writes 1 as the number of batches of SPACE_TO_BATCH_ND. LiteRT computes the number at run time.
TensorFlow Lite Micro uses the file's: it computes the first batch and leaves the rest of BATCH_TO_SPACE_ND's output
uninitialized. It also pads batches with an uninitialized value. There are no defined bytes to preserve, so the
equivalent operators are inserted before all other passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

import numpy as np

from tflite_fuse.memory.tflm.offline_plan import remove_plan
from tflite_fuse.model.edit import Editor, prune
from tflite_fuse.model.operators import RENAMING, SAME, VALID, get_options, operator_label, operator_name, with_options
from tflite_fuse.model.schema import Model, Operator, Tensor
from tflite_fuse.model.types import TensorType
from tflite_fuse.notes import Note, note
from tflite_fuse.ops.lowering.operands import is_constant, stored_numbers
from tflite_fuse.passes.base import PassResult

_CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")

Pair = tuple[int, int]


@dataclass(frozen=True)
class Dilate:
    """Insert dilated convolutions where batches are counted wrong or padded."""

    name: ClassVar[str] = "dilate"

    def run(self, model: Model) -> PassResult:
        """Rewrite a model. If it changes, an offline memory plan is dropped, because tensor indices change."""
        chains = list(_chains(model))
        if not chains:
            return PassResult(model, False)
        editor = Editor(remove_plan(model))
        inside = {index: chain for chain in chains for index in chain.operators}
        for index, operator in enumerate(model.main.operators):
            if index not in inside:
                editor.operators.append(operator)
            elif index == inside[index].operators[-1]:
                _add_dilated(editor, inside[index])
        notes = tuple(map(_note, [model] * len(chains), chains))
        return PassResult(prune(editor.finish()), True, notes)


@dataclass(frozen=True)
class _Chain:
    """Operators from a SPACE_TO_BATCH_ND to its BATCH_TO_SPACE_ND.

    Attributes:
        operators: their indices.
        convolution: the convolution between.
        source, output: input of the first and output of the last operator.
        dilation: (rows, columns).
        padding: (above, below) and (left, right) of the image.
        fault: behaviour of the runtime, as a clause.
    """

    operators: tuple[int, ...]
    convolution: Operator
    source: int
    output: int
    dilation: Pair
    padding: tuple[Pair, Pair]
    fault: str


def _note(model: Model, chain: _Chain) -> Note:
    labels = (operator_label(model, index) for index in chain.operators)
    return note("changed", "dilated convolution", *labels, fault=chain.fault)


def _chains(model: Model) -> Iterator[_Chain]:
    for index, operator in enumerate(model.main.operators):
        if operator_name(model, operator) == "SPACE_TO_BATCH_ND" and len(operator.outputs or ()) == 1:
            between = _followed(model, index)
            chain = _chain(model, between) if between else None
            if chain is not None:
                yield chain


def _followed(model: Model, index: int) -> list[int]:
    """Return the chain of only readers from a SPACE_TO_BATCH_ND to a BATCH_TO_SPACE_ND, or nothing."""
    graph, chain = model.main, [index]
    while True:
        operator = graph.operators[chain[-1]]
        written = operator.outputs or ()
        if operator_name(model, operator) == "BATCH_TO_SPACE_ND":
            return chain
        readers = graph.readers.get(operator.output, ())
        if len(written) != 1 or len(readers) != 1 or written[0] in graph.outputs or readers[0] <= chain[-1]:
            return []
        chain.append(readers[0])


def _chain(model: Model, indices: Sequence[int]) -> _Chain | None:
    graph = model.main
    first, last = graph.operators[indices[0]], graph.operators[indices[-1]]
    between = [(operator_name(model, graph.operators[i]), graph.operators[i]) for i in indices[1:-1]]
    convolutions = [operator for name, operator in between if name in _CONVOLUTIONS]
    named = all(name in (*_CONVOLUTIONS, *RENAMING) for name, _ in between)
    if len(convolutions) != 1 or not named or any(len(each.inputs or ()) < 3 for each in (first, last)):
        return None
    (convolution,) = convolutions
    source, output = (first.inputs or ())[0], last.output
    ends = [graph.tensors[tensor] for tensor in (source, first.output)]
    ends += [graph.tensors[tensor] for tensor in (convolution.output, output)]
    types = {tensor.type for tensor in ends}
    plain = types in ({TensorType.INT8}, {TensorType.FLOAT32}) and ends[0].dims[:1] == ends[3].dims[:1] == (1,)
    if not plain or not _alike(*ends[:2]) or not _alike(*ends[2:]) or not _is_plain(model, convolution):
        return None
    blocks = [stored_numbers(model, each, 1) for each in (first, last)]
    pads, crops = (stored_numbers(model, each, 2) for each in (first, last))
    if blocks[0] != blocks[1] or len(pads) != 2 * len(blocks[0]) or len(crops) != len(pads):
        return None
    geometry = _geometry(model, convolution, (ends[0], ends[3]), blocks[0], pads, crops)
    fault = "" if geometry is None else _fault(ends[1].dims[0], prod(geometry[0]), pads)
    return _Chain(tuple(indices), convolution, source, output, *geometry, fault) if geometry and fault else None


def _fault(counted: int, batches: int, pads: Sequence[int]) -> str:
    """Return the reason why the runtime's bytes are undefined, empty if they are defined."""
    if counted != batches:
        return f"go by the file, compute {counted} of {batches} batches and leave the others unwritten"
    return "pad with a number that it never sets" if any(pads) else ""


def _alike(a: Tensor, b: Tensor) -> bool:
    return a.type == TensorType.FLOAT32 or (
        a.quantization is not None
        and b.quantization is not None
        and (a.quantization.scale, a.quantization.zero_point) == (b.quantization.scale, b.quantization.zero_point)
    )


def _is_plain(model: Model, convolution: Operator) -> bool:
    """Return whether windows have stride 1, no dilation and no padding."""
    options = get_options(convolution)
    ones = all(options.get(name, 1) == 1 for name in ("stride_w", "stride_h", "dilation_w_factor", "dilation_h_factor"))
    weights = (convolution.inputs or ())[1:2]
    return ones and options.get("padding") == VALID and all(is_constant(model, tensor) for tensor in weights)


def _geometry(
    model: Model,
    convolution: Operator,
    ends: tuple[Tensor, Tensor],
    block: Sequence[int],
    pads: Sequence[int],
    crops: Sequence[int],
) -> tuple[Pair, tuple[Pair, Pair]] | None:
    """Return dilation and padding of the equivalent convolution over the image, or None."""
    axes = len(ends[0].dims) - 2
    kernel = model.main.tensors[(convolution.inputs or ())[1]].dims[1:3]
    if axes not in (1, 2) or len(ends[1].dims) != axes + 2 or not 1 <= len(block) <= axes or len(kernel) != 2:
        return None
    dilation, padding = [1] * (2 - axes), [(0, 0)] * (2 - axes)
    for axis in range(axes):
        listed = axis < len(block)
        step = block[axis] if listed else 1
        before, behind = (pads[2 * axis + end] - crops[2 * axis + end] if listed else 0 for end in (0, 1))
        size, result = ends[0].dims[axis + 1], ends[1].dims[axis + 1]
        reach = (kernel[axis + 2 - axes] - 1) * step
        whole = step >= 1 and (not listed or (size + pads[2 * axis] + pads[2 * axis + 1]) % step == 0)
        if not whole or min(before, behind) < 0 or size + before + behind - reach != result:
            return None
        dilation.append(step)
        padding.append((before, behind))
    if prod(dilation) == 1:
        return None
    return (dilation[0], dilation[1]), (padding[0], padding[1])


# ---- The operators in their place ----


def _add_dilated(editor: Editor, chain: _Chain) -> None:
    """Add the convolution, with a PAD unless its own padding is the same, and with RESHAPEs around a single row."""
    source, output, constant = editor.tensors[chain.source], editor.tensors[chain.output], "dilated/constant"
    is_row = len(source.dims) == 3
    read, written = chain.source, chain.output
    if is_row:
        read = editor.reshape(read, editor.like(read, (1, *source.dims), source.name), constant)
        written = editor.like(written, (1, *output.dims), output.name)
    kernel = editor.dims((chain.convolution.inputs or ())[1])[1:3]
    reach = [(size - 1) * step for size, step in zip(kernel, chain.dilation, strict=True)]
    is_same = all(pad == (far // 2, far - far // 2) for pad, far in zip(chain.padding, reach, strict=True))
    if not is_same and any(map(any, chain.padding)):
        amounts = ((0, 0), *chain.padding, (0, 0))
        dims = [dim + sum(around) for dim, around in zip(editor.dims(read), amounts, strict=True)]
        around = editor.int32(constant, np.ravel(amounts).tolist(), (4, 2))
        read = editor.add("PAD", (read, around), editor.like(read, dims, source.name))
    padding, (down, across) = SAME if is_same else VALID, chain.dilation
    changed = with_options(
        editor.model, chain.convolution, padding=padding, dilation_h_factor=down, dilation_w_factor=across
    )
    editor.operators.append(replace(changed, inputs=(read, *(changed.inputs or ())[1:]), outputs=(written,)))
    if is_row:
        editor.reshape(written, chain.output, constant)
