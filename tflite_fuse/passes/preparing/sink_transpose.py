"""Removal of a TRANSPOSE before MEAN or FULLY_CONNECTED: the sums are computed in another order.

    MEAN(TRANSPOSE(x, permutation), axes)  =  MEAN(x, permutation[axes])    if the remaining axes have x's order
    FULLY_CONNECTED(TRANSPOSE(x), weights)  =  FULLY_CONNECTED(x, weights in the order of x)

PyTorch models converted channels-first end in TRANSPOSE [0, 3, 1, 2] and one MEAN per spatial axis, or, if they
flatten, in the same TRANSPOSE, a RESHAPE and a FULLY_CONNECTED. In int8 both sum 32-bit integers, whose order does not
matter, so the bytes stay the same. In float32 the order matters: a MEAN stays the same if its axes keep their order.
Without the TRANSPOSE they can be part of a fused block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tflite_fuse.memory.tflm.offline_plan import remove_plan
from tflite_fuse.model.edit import Editor, prune
from tflite_fuse.model.operators import RENAMING, get_options, operator_label, operator_name
from tflite_fuse.model.schema import Model, Operator, Tensor
from tflite_fuse.model.types import TensorType
from tflite_fuse.notes import Note, note
from tflite_fuse.ops.lowering.operands import stored_numbers
from tflite_fuse.passes.base import PassResult

Axes = tuple[int, ...]


_MOST_ROUNDS = 16
"""Most TRANSPOSEs behind one another: files are hostile, and each round reads the whole model."""


@dataclass(frozen=True)
class _Mean:
    """A MEAN behind a TRANSPOSE, rewritten to run without it.

    Attributes:
        operator: its index.
        axes: axes to average over, in the original order of dimensions.
        shape: shape of its output in that order.
        is_last: whether the values behind it have the order of the original again.
    """

    operator: int
    axes: Axes
    shape: Axes
    is_last: bool


@dataclass(frozen=True)
class SinkTranspose:
    """Remove every TRANSPOSE that only affects the order of integer sums behind it, or not even that."""

    name: ClassVar[str] = "sink-transpose"

    def run(self, model: Model) -> PassResult:
        """Rewrite a model. If it changes, an offline memory plan is dropped, because tensor indices change."""
        rewritten, places, notes = model, list(range(len(model.main.operators))), dict[int, Note]()
        for _ in range(_MOST_ROUNDS):
            named = [operator_name(rewritten, operator) for operator in rewritten.main.operators]
            transposes = [index for index, name in enumerate(named) if name == "TRANSPOSE"]
            means = {index: behind for index in transposes if (behind := _means_behind(rewritten, index))}
            dense = {i: layers for i in transposes if i not in means and (layers := _dense_behind(rewritten, i))}
            for index in transposes:
                label = operator_label(model, places[index])
                readers = " and ".join(operator_label(model, places[each]) for each in dense.get(index, ()))
                notes[places[index]] = note("kept", "transpose", label)
                if readers:
                    notes[places[index]] = note("removed", "transpose before weights", label, readers=readers)
                elif index in means:
                    notes[places[index]] = note("removed", "transpose before means", label)
            if not means and not dense:
                break
            rewritten, origins = _without(rewritten, means, dense)
            places = [places[index] for index in origins]
        sorted_notes = tuple(each for _, each in sorted(notes.items()))
        if rewritten is model:
            return PassResult(model, False, sorted_notes)
        return PassResult(prune(remove_plan(rewritten)), True, sorted_notes)


def _means_behind(model: Model, index: int) -> tuple[_Mean, ...]:
    """Return the MEANs after which a TRANSPOSE no longer affects the order of bytes; empty without such a point."""
    graph = model.main
    tensor, layout = graph.operators[index].output, layout_of(model, index)
    if layout is None:
        return ()
    type_ = graph.tensors[tensor].type
    means: list[_Mean] = []
    for reader in _readers(model, tensor):
        mean = graph.operators[reader]
        listed = stored_numbers(model, mean, 1)
        output = mean.output
        if operator_name(model, mean) != "MEAN" or not listed or graph.tensors[output].type != type_:
            return ()
        reduced = {axis % len(layout) for axis in listed}
        summed = [layout[axis] for axis in sorted(reduced)]
        if type_ == TensorType.FLOAT32 and summed != sorted(summed):
            return ()
        ordered = sorted(layout)
        axes = tuple(sorted(ordered.index(layout[axis]) for axis in reduced))
        if not get_options(mean).get("keep_dims", False):
            layout = tuple(axis for position, axis in enumerate(layout) if position not in reduced)
        dims = graph.tensors[output].dims
        if len(dims) != len(layout):
            return ()
        by_axis = sorted(zip(layout, dims, strict=True))
        moved = [axis for axis, dim in zip(layout, dims, strict=True) if dim > 1]
        means.append(_Mean(reader, axes, tuple(dim for _, dim in by_axis), moved == sorted(moved)))
        if means[-1].is_last:
            return tuple(means)
    return ()


def layout_of(model: Model, index: int) -> Axes | None:
    """Return the permutation of a TRANSPOSE with equal quantization of input and output, or None."""
    operator = model.main.operators[index]
    source, tensor = (model.main.tensors[(some or (-1,))[0]] for some in (operator.inputs, operator.outputs))
    layout = stored_numbers(model, operator, 1)
    if not layout or sorted(layout) != list(range(len(source.dims))) or not _alike(source, tensor):
        return None
    return layout if tensor.dims == tuple(source.dims[axis] for axis in layout) else None


def _readers(model: Model, tensor: int) -> Iterator[int]:
    """Yield the chain of operators each of which is the only reader of the previous one's output."""
    graph = model.main
    while tensor not in graph.outputs:
        readers = graph.readers.get(tensor, ())
        if len(readers) != 1:
            return
        yield readers[0]
        tensor = graph.operators[readers[0]].output


def _alike(source: Tensor, output: Tensor) -> bool:
    """Return whether input and output of a TRANSPOSE are float32, or int8 with equal quantization."""
    a, b = source.quantization, output.quantization
    if source.type == output.type == TensorType.FLOAT32:
        return True
    if source.type != TensorType.INT8 or a is None or b is None:
        return False
    return (a.scale, a.zero_point) == (b.scale, b.zero_point) and bool(a.scale)


def _dense_behind(model: Model, index: int) -> Axes:
    """Return the FULLY_CONNECTEDs that read all values of a TRANSPOSE as one row; empty if it has other readers."""
    graph = model.main
    if layout_of(model, index) is None:
        return ()
    layers: list[int] = []
    waiting = [graph.operators[index].output]
    while waiting:
        tensor = waiting.pop()
        readers = graph.readers.get(tensor, ())
        if tensor in graph.outputs or not readers:
            return ()
        for reader in readers:
            operator = graph.operators[reader]
            inputs = operator.inputs or ()
            if inputs[0] != tensor or inputs.count(tensor) > 1:
                return ()
            if operator_name(model, operator) in RENAMING:
                waiting.extend(operator.outputs or ())
            elif _is_dense(model, operator):
                layers.append(reader)
            else:
                return ()
    return tuple(sorted(layers))


def _is_dense(model: Model, operator: Operator) -> bool:
    """Return whether an operator is an int8 FULLY_CONNECTED of all its input's values, with plain weights."""
    if operator_name(model, operator) != "FULLY_CONNECTED" or len(operator.inputs or ()) < 2:
        return False
    options = get_options(operator)
    source, weights = (model.main.tensors[tensor] for tensor in (operator.inputs or ())[:2])
    if options.get("weights_format", 0) or (options.get("keep_num_dims", False) and len(source.dims) != 2):
        return False
    data = model.buffers[weights.buffer].data
    if source.type != TensorType.INT8 or weights.type != TensorType.INT8 or weights.sparsity is not None:
        return False
    stored = data is not None and len(data) == prod(weights.dims)
    return stored and len(weights.dims) == 2 and weights.dims[1] == prod(source.dims)


def _without(model: Model, means: Mapping[int, Sequence[_Mean]], dense: Mapping[int, Axes]) -> tuple[Model, list[int]]:
    """Return the model without TRANSPOSEs, and for each operator its index before, for a new one that of its maker.

    Args:
        model: the model.
        means: by TRANSPOSE the MEANs behind it, which get their new axes.
        dense: by other TRANSPOSEs the layers behind them, which get their weights in another order.
    """
    editor, operators, origins = Editor(model), model.main.operators, list[int]()
    by_operator = {mean.operator: mean for behind in means.values() for mean in behind}
    layers = {layer: transpose for transpose, behind in dense.items() for layer in behind}
    sources = {operators[index].output: (operators[index].inputs or (-1,))[0] for index in (*means, *dense)}
    for index, operator in enumerate(operators):
        if index in means or index in dense:
            continue
        inputs = tuple(sources.get(tensor, tensor) for tensor in operator.inputs or ())
        if index in by_operator:
            _add_mean(editor, operator, inputs[0], by_operator[index])
        else:
            if index in layers:
                order = _order(model, layers[index])
                inputs = (inputs[0], _add_turned(editor, inputs[1], order), *inputs[2:])
            editor.operators.append(operator if inputs == (operator.inputs or ()) else replace(operator, inputs=inputs))
        origins += [index] * (len(editor.operators) - len(origins))
    return editor.finish(), origins


def _order(model: Model, transpose: int) -> npt.NDArray[np.int64]:
    """Return for each value of a TRANSPOSE's output its place in the input."""
    dims = model.main.tensors[(model.main.operators[transpose].inputs or (-1,))[0]].dims
    return np.arange(prod(dims)).reshape(dims).transpose(layout_of(model, transpose) or ()).ravel()


def _add_turned(editor: Editor, weights: int, order: npt.NDArray[np.int64]) -> int:
    """Add weights for the values of a row in another order; return their tensor."""
    tensor = editor.tensors[weights]
    rows = np.frombuffer(editor.model.buffers[tensor.buffer].data or b"", np.int8).reshape(tensor.dims)
    turned = np.empty_like(rows)
    turned[:, order] = rows
    return editor.constant(replace(tensor, name=f"{tensor.name}/transposed"), turned.tobytes())


def _add_mean(editor: Editor, operator: Operator, source: int, mean: _Mean) -> None:
    """Add a MEAN over new axes, the last one with a RESHAPE behind it unless its bytes have the shape of the output."""
    axes, tensor, output = editor.int32("axes", mean.axes), editor.tensors[operator.output], operator.output
    differs = tensor.dims != mean.shape
    if differs and mean.is_last:
        output = editor.like(output, mean.shape, f"{tensor.name}/mean")
    elif differs:
        editor.tensors[output] = replace(tensor, shape=mean.shape, shape_signature=None)
    editor.operators.append(replace(operator, inputs=(source, axes), outputs=(output,)))
    if output != operator.output:
        editor.reshape(output, operator.output, "shape")
