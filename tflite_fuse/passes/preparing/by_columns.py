"""Models walked column by column: rows and columns exchanged from the inputs on.

    CONV_2D(x, W)  =  TRANSPOSE(CONV_2D(TRANSPOSE(x), W with rows as columns))

Line buffers of a block hold rows. Where maps are wider than high, as those of sounds are (bands by time), columns are
shorter. The operators from the inputs on are rewritten for exchanged rows and columns as far as they compute alike; a
TRANSPOSE stands behind each input, and in front of readers that do not. On int8 the order of a window's sums does not
matter. On float32 it does, so windows turn that have one row or one column.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

import numpy as np

from tflite_fuse.emit.outside import is_map, why_not_moved
from tflite_fuse.memory.tflm.offline_plan import remove_plan
from tflite_fuse.model.edit import Editor, prune, renumber_signatures, replace_main
from tflite_fuse.model.operators import get_options, make_options, operator_name, with_options
from tflite_fuse.model.schema import Model, Operator
from tflite_fuse.model.types import TensorType
from tflite_fuse.model.witness import Witness
from tflite_fuse.notes import note
from tflite_fuse.ops.lowering.operands import is_constant, stored_numbers
from tflite_fuse.passes.base import PassResult
from tflite_fuse.passes.preparing.sink_transpose import SinkTranspose
from tflite_fuse.passes.preparing.turned import computed_alike, turned_operator

COLUMNS_FIRST = (0, 2, 1, 3)
"""The order of axes of a map walked by columns."""

_WINDOWS = ("AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D")
"""Operators with windows."""

_BY_PIXEL = ("ADD", "MAXIMUM", "MINIMUM", "MUL", "SQUARED_DIFFERENCE", "SUB")
"""Operators one of whose operands may be a single pixel."""

_PAIRS = (("stride_h", "stride_w"), ("dilation_h_factor", "dilation_w_factor"), ("filter_height", "filter_width"))


def by_columns(model: Model) -> PassResult:
    """Walk a model by columns, unless its maps are not wider than high or no window turns.

    Inputs and outputs stay. An offline memory plan is dropped if the model changes.
    """
    turned = _Turned(remove_plan(model))
    for tensor in entries(model):
        turned.enter(tensor)
    for operator in model.main.operators:
        turned.follow(operator)
    for tensor in model.main.outputs:
        turned.leave(tensor)
    if not turned.windows or turned.saved <= 0:
        return PassResult(model, False)
    walked = SinkTranspose().run(prune(turned.finish())).model
    return PassResult(walked, True, (note("changed", "by columns"),), witness=Witness(columns=True))


def arriving_by_columns(model: Model) -> Iterator[PassResult]:
    """Yield forms of a model whose inputs have rows and columns exchanged; none if no input is a map.

    The first is walked by columns, as far as its operators turn; the second turns each input back at once.
    """
    for walks in (True, False):
        turned = _Turned(remove_plan(model))
        graph = turned.model.main
        maps = [tensor for tensor in graph.inputs if is_map(graph.tensors[tensor].dims)]
        arriving = {tensor: turned.arrive(tensor) for tensor in maps if why_not_moved(model, tensor) is None}
        for tensor in () if walks else arriving:
            turned.leave(tensor)
        for operator in graph.operators:
            if walks:
                turned.follow(operator)
            else:
                turned.operators.append(operator)
        for tensor in graph.outputs:
            turned.leave(tensor)
        unsigned = {tensor for tensor in arriving if graph.tensors[tensor].type == TensorType.UINT8}
        if not arriving or unsigned & turned.whole or (walks and not turned.windows):
            continue  # the runtime cannot turn uint8 back
        rewritten = turned.finish()
        inputs = tuple(arriving.get(tensor, tensor) for tensor in graph.inputs)
        rewritten = renumber_signatures(replace_main(rewritten, replace(rewritten.main, inputs=inputs)), arriving)
        rewritten = prune(rewritten)
        yield PassResult(
            SinkTranspose().run(rewritten).model if walks else rewritten, True, witness=Witness(columns=True)
        )


def entries(model: Model) -> Iterator[int]:
    """Yield the maps that enter from outside: inputs, and the results of a QUANTIZE of those of uint8."""
    graph = model.main
    for source in dict.fromkeys(graph.inputs):
        candidates = [source]
        if graph.tensors[source].type == TensorType.UINT8:
            readers = (op for op in graph.operators if op.inputs == (source,))
            candidates = [t for op in readers if operator_name(model, op) == "QUANTIZE" for t in op.outputs or ()]
        for tensor in candidates:
            described = graph.tensors[tensor]
            if (
                tensor in graph.readers
                and described.type in (TensorType.INT8, TensorType.FLOAT32)
                and is_map(described.dims)
            ):
                yield tensor


class _Turned(Editor):
    """The operators of a model, turned one after the other.

    Attributes:
        maps: tensor → the same with rows as columns.
        whole: tensors that exist with their rows as rows.
        windows: number of operators with windows that turned.
        saved: bytes of all rows of turned maps less those of all columns.
    """

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.maps = dict[int, int]()
        self.whole = set[int]()
        self.windows = self.saved = 0

    def enter(self, tensor: int) -> None:
        """Turn a map that exists as it is, by a TRANSPOSE behind its writer."""
        self.whole.add(tensor)
        graph = self.model.main
        if tensor in graph.writers:
            self.operators.append(graph.operators[graph.writers[tensor]])
        self._transpose(tensor, self._add_map(tensor))

    def arrive(self, tensor: int) -> int:
        """Return an input in place of another one, with its name, that has rows and columns exchanged."""
        arriving = self._add_map(tensor)
        self.tensors[arriving] = replace(self.tensors[arriving], name=self.tensors[tensor].name)
        return arriving

    def leave(self, tensor: int) -> None:
        """Add the TRANSPOSE back of a turned map, once."""
        if tensor in self.maps and tensor not in self.whole:
            self.whole.add(tensor)
            self._transpose(self.maps[tensor], tensor)

    def follow(self, operator: Operator) -> None:
        """Add an operator, turned if its maps are and it computes alike."""
        if self.whole.intersection(operator.outputs or ()):
            return
        read = [tensor for tensor in operator.inputs or () if tensor in self.maps]
        if not read or not self._turns(operator):
            for tensor in read:
                self.leave(tensor)
            self.operators.append(operator)
            return
        name, (output,) = operator_name(self.model, operator), operator.outputs or (-1,)
        self.windows += name in _WINDOWS
        operator = self._turned(name, operator)
        inputs = tuple(self.maps.get(tensor, tensor) for tensor in operator.inputs or ())
        result = self._add_map(output) if prod(self.dims(output)[1:3]) > 1 else output
        self.operators.append(replace(operator, inputs=inputs, outputs=(result,)))

    def _turns(self, operator: Operator) -> bool:
        """Return whether an operator computes alike on its maps with rows as columns."""
        name, graph = operator_name(self.model, operator), self.model.main
        inputs, outputs = operator.inputs or (-1,), operator.outputs or ()
        if len(outputs) != 1 or len(graph.tensors[outputs[0]].dims) != 4 or graph.tensors[outputs[0]].dims[0] != 1:
            return False
        if graph.tensors[outputs[0]].type not in (TensorType.INT8, TensorType.FLOAT32):
            return False  # the runtime cannot turn others back
        if name == "DEQUANTIZE" and outputs[0] in graph.outputs:
            return False  # its input takes a quarter of the bytes to turn back
        if name in _WINDOWS:
            return inputs[0] in self.maps and self._windows_turn(operator)
        if name in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"):
            exact = graph.tensors[outputs[0]].type == TensorType.INT8
            return exact and inputs[0] in self.maps and len(stored_numbers(self.model, operator, 1)) == 2
        if name == "SOFTMAX":
            return inputs[0] in self.maps
        maps = [tensor for tensor in inputs if not self._is_pixel(tensor)]
        alone = replace(operator, inputs=tuple(maps)) if name in _BY_PIXEL else operator
        computed = computed_alike(self.model, alone, 4)
        return bool(computed) and all(tensor in self.maps for tensor in computed)

    def _is_pixel(self, tensor: int) -> bool:
        """Return whether a tensor is computed and one pixel, which goes with every pixel of a map."""
        dims = self.dims(tensor)
        return not is_constant(self.model, tensor) and len(dims) == 4 and prod(dims[:3]) == 1

    def _windows_turn(self, operator: Operator) -> bool:
        graph, options = self.model.main, get_options(operator)
        inputs, output = operator.inputs or (), operator.output
        types = {graph.tensors[inputs[0]].type, graph.tensors[output].type}
        window = options.get("filter_height", 1), options.get("filter_width", 1)
        if len(inputs) > 1:
            weights = graph.tensors[inputs[1]]
            stored = len(self.model.buffers[weights.buffer].data or b"")
            sized = stored == prod(weights.dims) * (4 if weights.type == TensorType.FLOAT32 else 1)
            if weights.type not in types or len(weights.dims) != 4 or not sized or weights.sparsity is not None:
                return False
            window = weights.dims[1], weights.dims[2]
        return types == {TensorType.INT8} or (types == {TensorType.FLOAT32} and 1 in window)

    def _turned(self, name: str, operator: Operator) -> Operator:
        """Return an operator with constants and options for rows as columns."""
        inputs = list(operator.inputs or ())
        if name == "SOFTMAX":
            return operator
        if name.startswith("RESIZE"):
            inputs[1] = self.int32("size", stored_numbers(self.model, operator, 1)[::-1])
            return replace(operator, inputs=tuple(inputs))
        if name not in _WINDOWS:
            return turned_operator(self, operator, COLUMNS_FIRST)
        options = get_options(operator)
        exchanged = {a: options[b] for pair in _PAIRS for a, b in (pair, pair[::-1]) if a in options}
        operator = with_options(self.model, operator, **exchanged)
        if len(inputs) > 1:
            weights = self.tensors[inputs[1]]
            dtype = np.float32 if weights.type == TensorType.FLOAT32 else np.int8
            values = np.frombuffer(self.model.buffers[weights.buffer].data or b"", dtype).reshape(weights.dims)
            turned = np.ascontiguousarray(values.swapaxes(1, 2))
            shaped = replace(weights, shape=turned.shape, shape_signature=None)
            inputs[1] = self.constant(shaped, turned.tobytes())
        return replace(operator, inputs=tuple(inputs))

    def _add_map(self, tensor: int) -> int:
        one, height, width, channels = self.dims(tensor)
        self.maps[tensor] = self.like(tensor, (one, width, height, channels), f"{self.tensors[tensor].name}/columns")
        self.saved += (width - height) * channels
        return self.maps[tensor]

    def _transpose(self, source: int, output: int) -> None:
        order = self.int32("columns first", COLUMNS_FIRST)
        self.add("TRANSPOSE", (source, order), output, make_options("TransposeOptions"))
