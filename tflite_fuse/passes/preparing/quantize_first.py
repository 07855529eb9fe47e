"""QUANTIZE before operators that move float32 values: then int8 values are moved, which blocks can do.

    QUANTIZE(CONCATENATION(a, b, …))  =  CONCATENATION(QUANTIZE(a), QUANTIZE(b), …)

QUANTIZE works value by value, so it may precede a move. Operators by value in front of it move with it: RESHAPE, ELU,
QUANTIZE becomes ELU, QUANTIZE, RESHAPE. PAD adds zeros, which only a QUANTIZE maps to the padding of int8. A
MAX_POOL_2D takes the largest value, and QUANTIZE is monotonic unless a value is NaN or so large that the runtime's
conversion to an integer overflows.

If every value comes from a DEQUANTIZE, the operators between it and its QUANTIZE become a table of one int8 value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, prod
from typing import ClassVar

from tflite_fuse.memory.tflm.offline_plan import remove_plan
from tflite_fuse.model.edit import Editor, prune
from tflite_fuse.model.operators import RENAMING, SAME, VALID, get_options, operator_label, operator_name
from tflite_fuse.model.schema import Model, Operator, Tensor
from tflite_fuse.model.types import TensorType
from tflite_fuse.notes import Note, note
from tflite_fuse.ops.kinds.real import REAL_OPERATORS
from tflite_fuse.ops.lowering.operands import stored_numbers
from tflite_fuse.passes.base import PassResult

_MOVING = frozenset({*RENAMING, "CONCATENATION", "RESIZE_NEAREST_NEIGHBOR", "TRANSPOSE"})
_QUANTIZE_ALONE = frozenset({"MAX_POOL_2D", "PAD"})
"""Operators that only a QUANTIZE may pass: other functions are not monotonic, or do not map zero to zero."""

_POOLING = (("filter", ("height", "width")), ("stride", ("h", "w")))

_MOST_ROUNDS = 64
"""Most operators that one QUANTIZE moves past: files are hostile, and each round reads the whole model."""

_LARGEST = float(2**30)
"""Quotients of value and scale below this bound do not overflow the runtime's conversion to 32 bits."""


@dataclass(frozen=True)
class _Site:
    """An operator that moves values, and the operators by value behind it, the last of which is a QUANTIZE."""

    mover: int
    chain: tuple[int, ...]


@dataclass(frozen=True)
class QuantizeFirst:
    """Move each QUANTIZE to int8 before operators that move float32 values derived from int8 ones."""

    name: ClassVar[str] = "quantize-first"

    def run(self, model: Model) -> PassResult:
        """Rewrite a model. If it changes, an offline memory plan is dropped, because tensor indices change."""
        rewritten, notes = model, list[Note]()
        for _ in range(_MOST_ROUNDS):
            sites = _Values(rewritten).sites()
            if not sites:
                break
            for site in sites:
                labels = [operator_label(rewritten, index) for index in (site.chain[-1], site.mover)]
                notes.append(note("changed", "quantized first", labels[0], before=labels[1]))
            rewritten = _moved(rewritten, sites)
        if rewritten is model:
            return PassResult(model, False, ())
        return PassResult(prune(remove_plan(rewritten)), True, tuple(notes))


@dataclass(frozen=True)
class _Values:
    """Facts about a model's float32 tensors.

    Attributes:
        model: the model.
        readers: by tensor the indices of the operators that read it; -1 for an output of the model.
        writer: by tensor the operator that writes it.
        largest: for tensors derived only from int8 values, by operators with consistent shapes, the largest magnitude,
            or infinity if unknown.
    """

    model: Model
    readers: Mapping[int, list[int]] = field(init=False)
    writer: Mapping[int, int] = field(init=False)
    largest: dict[int, float] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        readers, writer = defaultdict[int, list[int]](list), dict[int, int]()
        for tensor in self.model.main.outputs:
            readers[tensor].append(-1)
        for index, operator in enumerate(self.model.main.operators):
            for tensor in set(operator.inputs or ()):
                readers[tensor].append(index)
            writer.update((tensor, index) for tensor in operator.outputs or ())
        object.__setattr__(self, "readers", readers)
        object.__setattr__(self, "writer", writer)
        for operator in self.model.main.operators:
            self._follow(operator)

    def sites(self) -> list[_Site]:
        """Return places where a QUANTIZE can be moved, without an operator in common."""
        sites, used = list[_Site](), set[int]()
        for index, operator in enumerate(self.model.main.operators):
            if operator_name(self.model, operator) == "QUANTIZE" and self._makes_int8(operator):
                site = self._before(index)
                if site is not None and used.isdisjoint((site.mover, *site.chain)):
                    sites.append(site)
                    used.update((site.mover, *site.chain))
        return sites

    def _before(self, quantize: int) -> _Site | None:
        """Return the operator before which a QUANTIZE can move, through operators by value without other readers."""
        operators, chain = self.model.main.operators, [quantize]
        while True:
            tensor = self._carried(operators[chain[0]])
            index = self.writer.get(tensor, -1)
            if not 0 <= index < chain[0] or self.readers[tensor] != [chain[0]]:
                return None
            operator = operators[index]
            if operator_name(self.model, operator) in REAL_OPERATORS and self._is_by_value(operator):
                chain.insert(0, index)
            else:
                return _Site(index, tuple(chain)) if self._is_passed(operator, operators[quantize], chain) else None

    def _is_passed(self, operator: Operator, quantize: Operator, chain: list[int]) -> bool:
        """Return whether an operator only moves values, so that the following operators may precede it."""
        name, inputs = operator_name(self.model, operator), operator.inputs or ()
        moved = inputs if name == "CONCATENATION" else inputs[:1]
        if len(operator.outputs or ()) != 1 or min(inputs, default=-1) < 0:
            return False
        if any(each not in self.largest for each in moved) or not self._are_real(*moved, *(operator.outputs or ())):
            return False
        if get_options(operator).get("fused_activation_function", 0) or not _is_sound(self.model, operator):
            return False
        if name == "MAX_POOL_2D":
            scale = _scale(self.model.main.tensors[quantize.output])
            return len(chain) == 1 and self.largest[moved[0]] < _LARGEST * scale
        return name in _MOVING or (name in _QUANTIZE_ALONE and len(chain) == 1)

    def _follow(self, operator: Operator) -> None:
        """Record the largest magnitude of an operator's output."""
        name, tensors, inputs = operator_name(self.model, operator), self.model.main.tensors, operator.inputs or ()
        outputs = operator.outputs or ()
        if len(outputs) != 1 or tensors[outputs[0]].type != TensorType.FLOAT32 or not inputs or inputs[0] < 0:
            return
        computed = [each for each in inputs if not self._is_constant(each)]
        alike = bool(computed) and all(tensors[each].dims == tensors[outputs[0]].dims for each in computed)
        if name == "DEQUANTIZE":
            scale = _scale(tensors[inputs[0]])
            if tensors[inputs[0]].type == TensorType.INT8 and scale and alike:
                self.largest[outputs[0]] = 256 * scale
        elif name in _MOVING | _QUANTIZE_ALONE:
            moved = inputs if name == "CONCATENATION" else inputs[:1]
            if all(each in self.largest for each in moved) and _is_sound(self.model, operator):
                self.largest[outputs[0]] = max(self.largest[each] for each in moved)
        elif name in REAL_OPERATORS and alike and all(each in self.largest for each in computed):
            self.largest[outputs[0]] = float("inf")

    def _is_by_value(self, operator: Operator) -> bool:
        """Return whether each value depends on the value at its place and on single-valued constants."""
        tensors, outputs = self.model.main.tensors, operator.outputs or ()
        constants = [each for each in operator.inputs or () if self._is_constant(each)]
        alone = len(operator.inputs or ()) - len(constants) == 1 and len(outputs) == 1
        if not alone or any(each < 0 or tensors[each].dims not in ((), (1,)) for each in constants):
            return False
        if not self._are_real(*(operator.inputs or ()), *outputs):
            return False
        return tensors[self._carried(operator)].dims == tensors[outputs[0]].dims

    def _are_real(self, *tensors: int) -> bool:
        """Return whether all tensors are float32 and no variables."""
        described = [self.model.main.tensors[tensor] for tensor in tensors]
        return all(each.type == TensorType.FLOAT32 and not each.is_variable for each in described)

    def _carried(self, operator: Operator) -> int:
        """Return the computed operand of an operator by value."""
        return next((each for each in operator.inputs or () if not self._is_constant(each)), -1)

    def _is_constant(self, tensor: int) -> bool:
        return tensor < 0 or bool(self.model.buffers[self.model.main.tensors[tensor].buffer].data)

    def _makes_int8(self, quantize: Operator) -> bool:
        inputs, outputs = quantize.inputs or (), quantize.outputs or ()
        if len(inputs) != 1 or len(outputs) != 1 or inputs[0] < 0:
            return False
        source, output = (self.model.main.tensors[each] for each in (inputs[0], outputs[0]))
        types = source.type == TensorType.FLOAT32 and output.type == TensorType.INT8
        return types and _scale(output) > 0 and source.dims == output.dims


def _is_sound(model: Model, operator: Operator) -> bool:
    """Return whether a mover's output has the shape that follows from its inputs; kernels do not check it."""
    tensors, inputs, name = model.main.tensors, operator.inputs or (), operator_name(model, operator)
    parts = [tensors[each].dims for each in (inputs if name == "CONCATENATION" else inputs[:1])]
    source, shape, options = parts[0], tensors[operator.output].dims, get_options(operator)
    if any(size < 1 for dims in (*parts, shape) for size in dims):
        return False
    if name in RENAMING:
        return prod(source) == prod(shape)
    if name == "CONCATENATION":
        return _joined(parts, options.get("axis", 0)) == shape
    if name == "MAX_POOL_2D":
        return _pooled(source, options) == shape
    numbers = stored_numbers(model, operator, 1) if len(inputs) == 2 else ()
    if name == "TRANSPOSE":
        return sorted(numbers) == list(range(len(source))) and tuple(source[axis] for axis in numbers) == shape
    if name == "RESIZE_NEAREST_NEIGHBOR":
        return len(source) == 4 and (source[0], *numbers, source[3]) == shape
    around = list(zip(source, numbers[::2], numbers[1::2], strict=False))
    padded = tuple(size + before + behind for size, before, behind in around)
    return len(numbers) == 2 * len(source) <= 8 and min(numbers) >= 0 and padded == shape


def _joined(parts: Sequence[tuple[int, ...]], axis: object) -> tuple[int, ...] | None:
    """Return the shape of joined tensors; None if they cannot be joined."""
    rank = len(parts[0])
    if not isinstance(axis, int) or not -rank <= axis < rank or any(len(part) != rank for part in parts):
        return None
    axis %= rank
    remainders = {(*part[:axis], *part[axis + 1 :]) for part in parts}
    return (
        (*parts[0][:axis], sum(part[axis] for part in parts), *parts[0][axis + 1 :]) if len(remainders) == 1 else None
    )


def _pooled(source: tuple[int, ...], options: Mapping[str, object]) -> tuple[int, ...] | None:
    """Return the shape of maxima over windows; None if the options are invalid."""
    sizes = [options.get(f"{what}_{direction}", 0) for what, directions in _POOLING for direction in directions]
    counts = [size for size in sizes if isinstance(size, int) and size > 0]
    if len(source) != 4 or len(counts) != 4 or options.get("padding", 0) not in (SAME, VALID):
        return None
    valid = options.get("padding", 0) == VALID
    windows = zip(source[1:3], counts[:2], counts[2:], strict=True)
    rows, columns = (-(-(size - (window - 1) * valid) // stride) for size, window, stride in windows)
    return source[0], rows, columns, source[3]


def _scale(tensor: Tensor) -> float:
    """Return the scale of an int8 tensor; 0 unless it has a single valid one."""
    quantization = tensor.quantization
    if quantization is None or quantization.details is not None or tensor.is_variable:
        return 0.0
    scales, points = quantization.scale or (), quantization.zero_point or ()
    sound = len(scales) == len(points) == 1 and isfinite(scales[0]) and scales[0] > 0 and -128 <= points[0] <= 127
    return float(scales[0]) if sound else 0.0


def _moved(model: Model, sites: Sequence[_Site]) -> Model:
    """Return the model with each site's chain in front of its mover, once for each moved tensor."""
    editor, operators = Editor(model), model.main.operators
    chains, gone = {site.mover: site.chain for site in sites}, {each for site in sites for each in site.chain}
    for index, operator in enumerate(operators):
        if index in chains:
            _add_moved(editor, operator, [operators[each] for each in chains[index]])
        elif index not in gone:
            editor.operators.append(operator)
    return editor.finish()


def _add_moved(editor: Editor, mover: Operator, chain: Sequence[Operator]) -> None:
    """Add operators by value for each tensor that an operator moves, and this operator behind them."""
    name, inputs, parts = operator_name(editor.model, mover), mover.inputs or (), list[int]()
    count = len(inputs) if name == "CONCATENATION" else 1
    for number, part in enumerate(inputs[:count]):
        carried, newest = mover.output, part
        for operator in chain:
            result = operator.output
            copy = editor.like(result, editor.dims(part), f"{editor.tensors[result].name}/{number}")
            operands = tuple(newest if each == carried else each for each in operator.inputs or ())
            editor.operators.append(replace(operator, inputs=operands, outputs=(copy,)))
            carried, newest = result, copy
        parts.append(newest)
    code = mover.opcode_index
    if name not in RENAMING:  # most kernels of int8 require version 2
        code = editor.code(name, max(editor.model.operator_codes[code].version, 2))
    moved = replace(mover, opcode_index=code, inputs=(*parts, *inputs[count:]), outputs=chain[-1].outputs)
    editor.operators.append(moved)
