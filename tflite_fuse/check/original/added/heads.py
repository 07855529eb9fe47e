"""Attention of several heads as steps of each head.

    TRANSPOSE(t)[token, head] = the part of the head in t:    parts are channels of the result, one after the other

The part of a head in [1, heads, ...] follows from the parts of what its step reads, because BATCH_MATMUL, SOFTMAX and
products with one constant treat each head alone. In [1, tokens, heads, channels] it is a range of the channels of
[tokens, heads * channels], which a FULLY_CONNECTED makes of a range of its weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from tflite_fuse.check.original.added.groups import of_group
from tflite_fuse.check.original.values import Original, Step
from tflite_fuse.model.options import make_options
from tflite_fuse.model.schema import Operator

_MOST_HEADS = 10
"""Most heads; a model of many has none of these steps."""


def add_heads(original: Original) -> None:
    """Add to the original the steps of each head before each TRANSPOSE of heads, and the CONCATENATION of all."""
    for step in tuple(original.steps):
        if step.name != "TRANSPOSE" or len(step.outputs) != 1 or original.numbers(step.operand(1)) != (0, 2, 1, 3):
            continue
        dims = original.tensors[step.inputs[0]].dims
        if len(dims) != 4 or not 2 <= dims[1] <= _MOST_HEADS or not _alike(original, step):
            continue
        parts = [_Heads(original, step, dims[1]).of_batch(step.inputs[0], head) for head in range(dims[1])]
        found = [part[0] for part in parts if part is not None and not part[1]]
        if len(found) == dims[1]:
            shape = (*original.tensors[found[0]].dims[:-1], dims[1] * dims[3])
            joined = _like(original, step.outputs[0], shape)
            joining = make_options("ConcatenationOptions", axis=len(shape) - 1)
            original.add_operator(step, "CONCATENATION", found, joined, joining, 2)
            original.unite(step.outputs[0], joined)


def _alike(original: Original, step: Step) -> bool:
    """Return whether the bytes of a step's input and output are read the same way."""
    found = original.stands_for(step.operand(0))
    return found is not None and found == original.stands_for(step.outputs[0])


def _like(original: Original, tensor: int, shape: tuple[int, ...]) -> int:
    """Add a tensor like another one, with another shape."""
    return original.add_tensor(replace(original.tensors[tensor], shape=shape, shape_signature=None))


@dataclass
class _Heads:
    """Adds the part of a head.

    Attributes:
        original: the original.
        end: the step behind attention, of which added steps have the label.
        count: number of heads.
        left: steps that may still be followed: files are hostile.
    """

    original: Original
    end: Step
    count: int
    left: int = 32

    def of_batch(self, tensor: int, head: int) -> tuple[int, bool] | None:
        """Return a head's part of [1, heads, a, b], and whether it is [b, a] instead; None if there is none."""
        step, dims = self._writer(tensor), self.original.tensors[tensor].dims
        if step is None or len(step.outputs) != 1 or len(dims) != 4 or dims[:2] != (1, self.count):
            return None
        if step.name == "TRANSPOSE":
            order = self.original.numbers(step.operand(1))
            if not _alike(self.original, step):
                return None
            if order == (0, 1, 3, 2):
                inner = self.original.written_by(step.inputs[0])
                if inner is not None and inner.name == "BATCH_MATMUL":
                    return self._product(inner, head, turned=True)
                found = self.of_batch(step.inputs[0], head)
                return None if found is None else (found[0], not found[1])
            row = self.of_tokens(step.inputs[0], head) if order in ((0, 2, 1, 3), (0, 2, 3, 1)) else None
            return None if row is None else (row, order[2] == 3)
        if step.name == "BATCH_MATMUL":
            return self._product(step, head, turned=False)
        if step.name != "SOFTMAX" and not (step.name == "MUL" and self._is_single(step.operand(1))):
            return None
        part = self.of_batch(step.operand(0), head)
        if part is None or part[1]:
            return None
        operator = replace(step.operator, inputs=(part[0], *step.inputs[1:]))
        return self._add(operator, step, self.original.tensors[part[0]].dims), False

    def _product(self, step: Step, head: int, turned: bool) -> tuple[int, bool] | None:
        """Return a head's part of a BATCH_MATMUL; ``turned``, that of the transposed result: (A B')' is B A'."""
        both = [self.of_batch(tensor, head) for tensor in step.inputs]
        if step.options.get("adj_x") or len(both) != 2 or both[0] is None or both[1] is None or both[0][1]:
            return None
        by_column = bool(step.options.get("adj_y")) is not both[1][1]
        if turned and not by_column:
            return None
        first, second = (both[1][0], both[0][0]) if turned else (both[0][0], both[1][0])
        rows, columns = (self.original.tensors[each].dims for each in (first, second))
        options = make_options("BatchMatMulOptions", adj_x=False, adj_y=by_column)
        operator = replace(step.operator, inputs=(first, second), builtin_options=options)
        return self._add(operator, step, (*rows[:-1], columns[-2 if by_column else -1])), False

    def of_tokens(self, tensor: int, head: int) -> int | None:
        """Return a head's part of [1, tokens, heads, channels], which is [..., tokens, channels]."""
        step, dims = self._writer(tensor), self.original.tensors[tensor].dims
        if step is None or len(step.outputs) != 1 or len(dims) != 4 or (dims[0], dims[2]) != (1, self.count):
            return None
        if step.name in ("ADD", "MUL"):
            part, constant = self.of_tokens(step.operand(0), head), step.operand(1)
            if part is not None and constant >= 0 and self.original.tensors[constant].dims == dims[2:]:
                own = of_group(self.original, constant, head, self.count)
            else:
                own = constant if self._is_single(constant) else None
            if part is None or own is None:
                return None
            return self._add(replace(step.operator, inputs=(part, own)), step, self.original.tensors[part].dims)
        if step.name != "RESHAPE" or step.operand(0) < 0 or not _alike(self.original, step):
            return None
        source = step.inputs[0]
        before = self.original.tensors[source].dims
        if len(before) not in (2, 3, 4) or before[-1] != dims[2] * dims[3] or prod(before[:-1]) != dims[1]:
            return None
        part = _like(self.original, source, (*before[:-1], dims[3]))
        begin = self.original.add_numbers([*[0] * (len(before) - 1), head * dims[3]])
        size = self.original.add_numbers([*before[:-1], dims[3]])
        self.original.add_operator(self.end, "SLICE", (source, begin, size), part, make_options("SliceOptions"), 2)
        layer = self.original.written_by(source)
        if layer is not None and layer.name == "FULLY_CONNECTED" and len(layer.outputs) == 1:
            made = self._of_layer(layer, head, before[-1])
            if made is not None:
                self.original.unite(part, made)
        return part

    def _of_layer(self, layer: Step, head: int, channels: int) -> int | None:
        """Return the output of a FULLY_CONNECTED with a head's rows of its weights."""
        constants: list[int] = []
        for tensor in layer.inputs[1:]:
            if tensor >= 0 and self.original.tensors[tensor].dims[:1] != (channels,):
                return None
            own = tensor if tensor < 0 else of_group(self.original, tensor, head, self.count)
            if own is None:
                return None
            constants.append(own)
        shape = (*self.original.tensors[layer.outputs[0]].dims[:-1], channels // self.count)
        return self._add(replace(layer.operator, inputs=(layer.operand(0), *constants)), layer, shape)

    def _add(self, operator: Operator, step: Step, shape: tuple[int, ...]) -> int:
        """Add a step like another one, with another operator; return its output."""
        output = _like(self.original, step.outputs[0], shape)
        self.original.add_step(Step(step.label, step.name, replace(operator, outputs=(output,)), step.code))
        return output

    def _writer(self, tensor: int) -> Step | None:
        """Return the step that writes a tensor; None once too many are followed."""
        self.left -= 1
        return self.original.written_by(tensor) if self.left >= 0 else None

    def _is_single(self, tensor: int) -> bool:
        return bool(self.original.content(tensor)) and prod(self.original.tensors[tensor].dims) == 1
