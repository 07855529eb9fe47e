"""Attention of several heads as steps of each head.

    TRANSPOSE(t)[token, head] = the part of the head in t:    parts are channels of the result, one after the other

A RESHAPE to [1, tokens, heads, channels] makes a head of a range of channels, which a FULLY_CONNECTED makes of a range
of its weights. From there parts follow the order of the file: BATCH_MATMUL, SOFTMAX and operators with a constant treat
each head alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from tflite_fuse.check.original.added.decomposed import of_group
from tflite_fuse.check.original.values import Original, Step
from tflite_fuse.model.options import make_options
from tflite_fuse.model.schema import OptionsTable

_MOST_PARTS = 10_000
"""Most parts of all tensors together: a hostile file can claim 2^31 heads in a few bytes."""


def add_heads(original: Original) -> None:
    """Add to the original the steps of each head before each TRANSPOSE of heads, and the CONCATENATION of all."""
    steps = tuple(original.steps)
    if any(step.name == "BATCH_MATMUL" for step in steps):
        heads = _Heads(original)
        for step in steps:
            heads.follow(step)


@dataclass(frozen=True)
class _Parts:
    """The parts of a tensor, one for each head.

    Attributes:
        axis: the dimension of heads: 2 in [1, tokens, heads, channels], 1 in [1, heads, rows, columns].
        tensors: the parts, which lack that dimension.
        turned: whether rows and columns of the parts are exchanged.
    """

    axis: int
    tensors: tuple[int, ...]
    turned: bool = False


@dataclass
class _Heads:
    """Adds the parts of heads to the original, in the order of its steps.

    Attributes:
        original: the original.
        parts_of: tensor → its parts.
        cut: (tensor, number of heads) → the ranges of its channels: two RESHAPEs of a tensor have the same parts.
        count: number of all parts.
    """

    original: Original
    parts_of: dict[int, _Parts] = field(default_factory=dict)
    cut: dict[tuple[int, int], _Parts] = field(default_factory=dict)
    count: int = 0

    def follow(self, step: Step) -> None:
        """Add the parts of a step's output if those of its operands are known."""
        rule = _RULES.get(step.name)
        operands = (1, 2) if step.name in ("RESHAPE", "SOFTMAX") else (2,)
        if rule is None or len(step.outputs) != 1 or len(step.inputs) not in operands or min(step.inputs) < 0:
            return
        parts = rule(self, step) if self.count < _MOST_PARTS else None
        if parts is None or self._dims(step.outputs[0]) != self._whole(parts):
            return
        self.parts_of[step.outputs[0]] = parts
        self.count += len(parts.tensors)
        if step.name == "TRANSPOSE" and parts.axis == 2:
            self._join(step, parts)

    def _whole(self, parts: _Parts) -> tuple[int, ...]:
        """Return the shape of the tensor that has these parts."""
        rows, columns = self._dims(parts.tensors[0])[-2:]
        rows, columns = (columns, rows) if parts.turned else (rows, columns)
        heads = len(parts.tensors)
        return (1, rows, heads, columns) if parts.axis == 2 else (1, heads, rows, columns)

    def _of_reshape(self, step: Step) -> _Parts | None:
        """Return ranges of the channels of [..., heads * channels] as the heads of [1, tokens, heads, channels]."""
        (source, *_), dims = step.inputs, self._dims(step.outputs[0])
        before = self._dims(source)
        if not self.original.same_encoding(source, step.outputs[0]) or len(dims) != 4 or dims[0] != 1:
            return None
        if not 2 <= dims[2] <= _MOST_PARTS - self.count:
            return None
        if len(before) not in (2, 3, 4) or before[-1] != dims[2] * dims[3] or prod(before[:-1]) != dims[1]:
            return None
        if (source, dims[2]) in self.cut:
            return self.cut[source, dims[2]]
        layer, parts = self.original.written_by(source), []
        size = self.original.add_numbers([*before[:-1], dims[3]])
        for head in range(dims[2]):
            part = self.original.add_like(source, (*before[:-1], dims[3]))
            begin = self.original.add_numbers([*[0] * (len(before) - 1), head * dims[3]])
            self.original.add_operator(step, "SLICE", (source, begin, size), part, make_options("SliceOptions"), 2)
            computed = None if layer is None else self._of_layer(layer, head, dims[2])
            if computed is not None:
                self.original.unite(part, computed)
            if prod(before[:-2]) > 1:  # a BATCH_MATMUL multiplies each row of an image alone
                row = self.original.add_like(part, (1, dims[1], dims[3]))
                self.original.unite(part, row)
                part = row
            parts.append(part)
        self.cut[source, dims[2]] = _Parts(2, tuple(parts))
        return self.cut[source, dims[2]]

    def _of_layer(self, layer: Step, head: int, count: int) -> int | None:
        """Return the output of a FULLY_CONNECTED with a head's rows of its weights."""
        dims = self._dims(layer.outputs[0])
        constants = layer.inputs[1:]
        if layer.name != "FULLY_CONNECTED" or len(layer.outputs) != 1:
            return None
        if any(tensor >= 0 and self._dims(tensor)[:1] != dims[-1:] for tensor in constants):
            return None
        own = [each if each < 0 else of_group(self.original, each, head, count) for each in constants]
        inputs = (layer.operand(0), *(each for each in own if each is not None))
        if len(inputs) <= len(constants):
            return None
        return self._add(layer, inputs, (*dims[:-1], dims[-1] // count))

    def _of_constant(self, step: Step) -> _Parts | None:
        """Return the parts of an ADD or MUL with one constant, or with one for each channel of heads."""
        parts, constant = self.parts_of.get(step.inputs[0]), step.inputs[1]
        if parts is None or parts.turned:
            return None
        heads = len(parts.tensors)
        if self.original.content(constant) and prod(self._dims(constant)) == 1:
            return self._each(step, parts, [(constant,)] * heads)
        if parts.axis != 2 or self._dims(constant) != self._dims(step.inputs[0])[2:]:
            return None
        own = [of_group(self.original, constant, head, heads) for head in range(heads)]
        return self._each(step, parts, [(each,) for each in own if each is not None])

    def _of_softmax(self, step: Step) -> _Parts | None:
        parts = self.parts_of.get(step.inputs[0])
        if parts is None or parts.axis != 1 or parts.turned:
            return None
        return self._each(step, parts, [step.inputs[1:]] * len(parts.tensors))

    def _each(self, step: Step, parts: _Parts, operands: Sequence[tuple[int, ...]]) -> _Parts | None:
        """Return the outputs of a step on each part and its other operands; None if some parts have none."""
        if len(operands) != len(parts.tensors):
            return None
        outputs = [
            self._add(step, (part, *rest), self._dims(part)) for part, rest in zip(parts.tensors, operands, strict=True)
        ]
        return replace(parts, tensors=tuple(outputs))

    def _of_transpose(self, step: Step) -> _Parts | None:
        """Return parts whose axis of heads moves, or whose rows and columns are exchanged."""
        (source, order), parts = step.inputs, self.parts_of.get(step.inputs[0])
        numbers = self.original.numbers(order)
        if parts is None or not self.original.same_encoding(step.inputs[0], step.outputs[0]):
            return None
        if parts.axis == 2:
            return (
                _Parts(1, parts.tensors, numbers == (0, 2, 3, 1)) if numbers in ((0, 2, 1, 3), (0, 2, 3, 1)) else None
            )
        if numbers == (0, 2, 1, 3) and not parts.turned:
            return _Parts(2, parts.tensors)
        if numbers != (0, 1, 3, 2):
            return None
        product = self.original.written_by(source)
        if product is not None and product.name == "BATCH_MATMUL":
            return self._of_product(product, exchanged=True)
        return replace(parts, turned=not parts.turned)

    def _of_product(self, step: Step, exchanged: bool = False) -> _Parts | None:
        """Return the parts of a BATCH_MATMUL; ``exchanged``, those of the transposed result: (A B')' is B A'."""
        first, second = (self.parts_of.get(tensor) for tensor in step.inputs)
        if first is None or second is None or first.turned or first.axis != 1 or second.axis != 1:
            return None
        by_column = bool(step.options.get("adj_y")) is not second.turned
        if step.options.get("adj_x") or len(first.tensors) != len(second.tensors) or (exchanged and not by_column):
            return None
        options, products = make_options("BatchMatMulOptions", adj_x=False, adj_y=by_column), []
        for pair in zip(first.tensors, second.tensors, strict=True):
            inputs = pair[::-1] if exchanged else pair
            rows, columns = (self._dims(each) for each in inputs)
            products.append(self._add(step, inputs, (*rows[:-1], columns[-2 if by_column else -1]), options))
        return _Parts(1, tuple(products))

    def _join(self, step: Step, parts: _Parts) -> None:
        """Add the CONCATENATION of all heads, which has the bytes of [1, tokens, heads, channels]."""
        first = self._dims(parts.tensors[0])
        joined = self.original.add_like(step.outputs[0], (*first[:-1], len(parts.tensors) * first[-1]))
        joining = make_options("ConcatenationOptions", axis=len(first) - 1)
        self.original.add_operator(step, "CONCATENATION", parts.tensors, joined, joining, 2)
        self.original.unite(step.outputs[0], joined)

    def _add(
        self, step: Step, inputs: Sequence[int], shape: tuple[int, ...], options: OptionsTable | None = None
    ) -> int:
        """Add a step like another one on other operands; return its output."""
        output = self.original.add_like(step.outputs[0], shape)
        self.original.add_copy(step, inputs, (output,), options)
        return output

    def _dims(self, tensor: int) -> tuple[int, ...]:
        return self.original.tensors[tensor].dims


_RULES: dict[str, Callable[[_Heads, Step], _Parts | None]] = {
    "ADD": _Heads._of_constant,
    "BATCH_MATMUL": _Heads._of_product,
    "MUL": _Heads._of_constant,
    "RESHAPE": _Heads._of_reshape,
    "SOFTMAX": _Heads._of_softmax,
    "TRANSPOSE": _Heads._of_transpose,
}
