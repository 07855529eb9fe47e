"""Attention of several heads as operators for each head.

    FULLY_CONNECTED, RESHAPE to heads, TRANSPOSE (three times); BATCH_MATMUL, SOFTMAX, BATCH_MATMUL; TRANSPOSE, RESHAPE
        =   CONCATENATION of, for each head, three FULLY_CONNECTEDs, BATCH_MATMUL, SOFTMAX, BATCH_MATMUL

Exporters make heads a dimension before the tokens. A TRANSPOSE reads all tokens before it writes the first one, so
blocks end there. A head is a range of channels, though: rows of the weights make it alone, and joined channels are the
result of the last TRANSPOSE.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

from tflite_fuse.errors import BlockError
from tflite_fuse.memory.tflm.offline_plan import remove_plan
from tflite_fuse.model.edit import Editor, drop_unread, prune, replace_operators
from tflite_fuse.model.operators import get_options, make_options, operator_label, operator_name
from tflite_fuse.model.schema import Model, Operator
from tflite_fuse.model.types import TensorType
from tflite_fuse.notes import note
from tflite_fuse.ops.lowering.operands import is_constant, read_constant, read_moved
from tflite_fuse.passes.base import PassResult
from tflite_fuse.passes.preparing.spell_out import MOST_JOINED, equal_parts, part_of

_MOST_LOOKS = 32
"""Most operators that are followed for a head: files are hostile, and attention has half as many."""

_REPLACED = ("ADD", "BATCH_MATMUL", "FULLY_CONNECTED", "MUL", "RESHAPE", "SOFTMAX", "TRANSPOSE")


@dataclass(frozen=True)
class Heads:
    """Compute each head of attention by operators of its own, without TRANSPOSEs."""

    name: ClassVar[str] = "heads"

    def run(self, model: Model) -> PassResult:
        """Rewrite a model. If it changes, an offline memory plan is dropped, because tensor indices change."""
        graph, notes, operators = model.main, [], list[Operator]()
        writers = {tensor: graph.operators[index] for tensor, index in graph.writers.items()}
        rewritten = remove_plan(model)
        for index, operator in enumerate(graph.operators):
            parts = _Parts(Editor(rewritten), writers, graph.readers)
            try:
                operators += parts.instead_of(operator)
                rewritten = parts.editor.finish()
                notes.append(note("changed", "heads", operator_label(model, index), heads=parts.count))
            except BlockError:
                operators.append(operator)
        if not notes:
            return PassResult(model, False)
        kept = drop_unread(replace_operators(rewritten, operators), operators, _REPLACED)
        return PassResult(prune(replace_operators(rewritten, kept)), True, tuple(notes))


@dataclass
class _Parts:
    """The part of each tensor that belongs to one head, computed on demand.

    Attributes:
        editor: new tensors, and the operators of parts in order.
        writers: tensor → the operator that writes it.
        readers: tensor → the operators that read it.
        count: number of heads.
        looks: operators visited for one head.
    """

    editor: Editor
    writers: Mapping[int, Operator]
    readers: Mapping[int, Sequence[int]]
    count: int = 0
    looks: int = 0

    def instead_of(self, operator: Operator) -> list[Operator]:
        """Return the operators that replace a TRANSPOSE behind attention. Raises: BlockError: it is another one."""
        if self._name(operator) != "TRANSPOSE" or self._order(operator) != (0, 2, 1, 3):
            raise BlockError("it is no TRANSPOSE of heads")
        (output,), source = operator.outputs or (-1,), (operator.inputs or (-1,))[0]
        dims, mixed = self._dims(source), self.writers.get(source)
        if mixed is None or self._name(mixed) != "BATCH_MATMUL" or len(dims) != 4 or not 2 <= dims[1] <= MOST_JOINED:
            raise BlockError("it turns no heads behind their sums")
        self._moves(source, output)
        self.count = dims[1]
        parts = []
        for head in range(self.count):
            self.looks = 0
            parts.append(self._of_batch(source, head)[0])
        joined = self._like(output, (*self._dims(parts[0])[:-1], self.count * dims[3]), "heads")
        options = make_options("ConcatenationOptions", axis=len(self._dims(joined)) - 1)
        self.editor.add("CONCATENATION", parts, joined, options, version=2)
        self.editor.reshape(joined, output, "heads/shape")
        return self.editor.operators

    def _of_batch(self, tensor: int, head: int) -> tuple[int, bool]:
        """Return the part of a head in [1, heads, …], and whether its two dimensions are exchanged."""
        operator = self._writer(tensor)
        name, inputs = self._name(operator), operator.inputs or (-1,)
        if self._dims(tensor)[:2] != (1, self.count) or len(self._dims(tensor)) != 4:
            raise BlockError("its second dimension is not that of heads")
        if name == "TRANSPOSE":
            self._moves(inputs[0], tensor)
            order = self._order(operator)
            if order == (0, 1, 3, 2) and self._name(self._writer(inputs[0])) == "BATCH_MATMUL":
                return self._product(inputs[0], head, exchanged=True), False
            if order == (0, 1, 3, 2):
                part, turned = self._of_batch(inputs[0], head)
                return part, not turned
            if order not in ((0, 2, 1, 3), (0, 2, 3, 1)):
                raise BlockError("it has another order")
            return self._of_row(inputs[0], head), order == (0, 2, 3, 1)
        if name == "BATCH_MATMUL":
            return self._product(tensor, head, exchanged=False), False
        if name != "SOFTMAX" and not (name == "MUL" and len(inputs) == 2 and self._is_one(inputs[1])):
            raise BlockError(f"{name} is not computed for each head")
        part, turned = self._of_batch(inputs[0], head)
        if turned:
            raise BlockError("its dimensions are exchanged")
        result = self._like(tensor, self._dims(part), f"head {head}")
        self.editor.operators.append(replace(operator, inputs=(part, *inputs[1:]), outputs=(result,)))
        return result, False

    def _product(self, tensor: int, head: int, exchanged: bool) -> int:
        """Return a head's part of a BATCH_MATMUL, or of its result with rows and columns exchanged."""
        operator = self._writer(tensor)
        if len(operator.inputs or ()) != 2:
            raise BlockError("it multiplies other than two tensors")
        (first, is_turned), (second, turned) = (self._of_batch(each, head) for each in operator.inputs or ())
        options = get_options(operator)
        by_column = bool(options.get("adj_y")) != turned
        if is_turned or options.get("adj_x") or (exchanged and not by_column):
            raise BlockError("its first operand is turned")
        if exchanged:
            first, second = second, first
        width = self._dims(second)[-2 if by_column else -1]
        result = self._like(tensor, (*self._dims(first)[:-1], width), f"head {head}")
        new_options = make_options("BatchMatMulOptions", adj_x=False, adj_y=by_column)
        replaced = replace(operator, inputs=(first, second), outputs=(result,), builtin_options=new_options)
        self.editor.operators.append(replaced)
        return result

    def _of_row(self, tensor: int, head: int) -> int:
        """Return the part of a head in [1, tokens, heads, channels]: its channels of the same tokens."""
        operator, dims = self._writer(tensor), self._dims(tensor)
        name, inputs = self._name(operator), operator.inputs or (-1,)
        if name in ("ADD", "MUL") and len(inputs) == 2:
            part, one = self._of_row(inputs[0], head), self._is_one(inputs[1])
            if not one and self._dims(inputs[1]) != dims[2:]:
                raise BlockError("it has no constant for each channel")
            constant = inputs[1] if one else self._constant(inputs[1], head)
            result = self._like(tensor, self._dims(part), f"head {head}")
            self.editor.operators.append(replace(operator, inputs=(part, constant), outputs=(result,)))
            return result
        source = inputs[0] if name == "RESHAPE" else -1
        if source < 0 or len(dims) != 4 or dims[0] != 1 or dims[2] != self.count:
            raise BlockError("it makes no heads")
        before = self._dims(source)
        self._moves(source, tensor)
        if not 2 <= len(before) <= 4 or before[-1] != dims[2] * dims[3] or prod(before[:-1]) != dims[1]:
            raise BlockError("its heads are not ranges of channels")
        layer = self.writers.get(source)
        result = self._like(source, (*before[:-1], dims[3]), f"head {head}")
        if layer is not None and self._divides(layer, before[-1]) and len(self.readers.get(source, ())) == 1:
            operands = [self._constant(each, head) if each >= 0 else each for each in (layer.inputs or ())[1:]]
            self.editor.operators.append(replace(layer, inputs=((layer.inputs or ())[0], *operands), outputs=(result,)))
        else:
            begin = self.editor.int32("head/begin", [*[0] * (len(before) - 1), head * dims[3]])
            size = self.editor.int32("head/size", self._dims(result))
            self.editor.add("SLICE", (source, begin, size), result, make_options("SliceOptions"), version=2)
        return result if prod(before[:-2]) == 1 else self._in_one_row(result)

    def _in_one_row(self, image: int) -> int:
        """Return [1, h, w, channels] as [1, h * w, channels]: a BATCH_MATMUL multiplies each row of an image alone."""
        dims = self._dims(image)
        row = (1, prod(dims[:-1]), dims[-1])
        return self.editor.reshape(image, self._like(image, row, "tokens"), "tokens/shape")

    def _divides(self, layer: Operator, channels: int) -> bool:
        """Return whether an operator is a FULLY_CONNECTED with constants of equal parts for all heads."""
        constants = [each for each in (layer.inputs or ())[1:] if each >= 0]
        is_layer = self._name(layer) == "FULLY_CONNECTED" and len(constants) >= 1 and (layer.inputs or ())[1] >= 0
        return is_layer and all(equal_parts(self.editor.model, each, channels) for each in constants)

    def _constant(self, tensor: int, head: int) -> int:
        """Return a head's part of a constant with the channels of all heads, or with [heads, channels]."""
        if not equal_parts(self.editor.model, tensor, self._dims(tensor)[0]) or self._dims(tensor)[0] % self.count:
            raise BlockError("its constant has no part for each head")
        return part_of(self.editor, tensor, head, self.count)

    def _like(self, tensor: int, dims: tuple[int, ...], suffix: str) -> int:
        return self.editor.like(tensor, dims, f"{self.editor.tensors[tensor].name}/{suffix}")

    def _writer(self, tensor: int) -> Operator:
        if tensor not in self.writers or len(self.writers[tensor].outputs or ()) != 1:
            raise BlockError("it is an input of the model or one of several outputs")
        self.looks += 1
        if self.looks > _MOST_LOOKS:
            raise BlockError("its operators are more than those of attention")
        return self.writers[tensor]

    def _name(self, operator: Operator) -> str:
        return operator_name(self.editor.model, operator)

    def _dims(self, tensor: int) -> tuple[int, ...]:
        return self.editor.dims(tensor)

    def _order(self, operator: Operator) -> tuple[int, ...]:
        inputs = operator.inputs or ()
        order = inputs[1] if len(inputs) == 2 else -1
        return tuple(read_constant(self.editor.model, order, TensorType.INT32, "permutation").ravel().tolist())

    def _moves(self, source: int, output: int) -> None:
        """Raise BlockError unless values of two tensors have the same bytes."""
        one, other = read_moved(self.editor.model, source), read_moved(self.editor.model, output)
        if (one.type, one.scale, one.zero_point) != (other.type, other.scale, other.zero_point):
            raise BlockError("it changes what its bytes are")

    def _is_one(self, tensor: int) -> bool:
        return is_constant(self.editor.model, tensor) and prod(self._dims(tensor)) == 1
