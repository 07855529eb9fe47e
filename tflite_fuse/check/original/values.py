"""The original model as values: which tensors hold the same bytes, and which operators read them.

Tensors of equal bytes are one *value*: RESHAPE and other renaming operators keep their input's bytes, as do a PAD that
adds nothing and a SLICE of everything. A TRANSPOSE moves bytes, but a MEAN or FULLY_CONNECTED behind it may not depend
on the order; ``added/transposes.py`` adds these over the untransposed tensor, so rewritten models without the TRANSPOSE
match.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tflite_fuse.model.operators import get_options, operator_label, operator_name
from tflite_fuse.model.schema import Model, Operator, OperatorCode, OptionsTable, Tensor
from tflite_fuse.model.types import BUILTIN_CODES, TensorType

Image = tuple[int, int, int]
"""Height, width, channels."""

_WHOLE: dict[int, np.dtype[Any]] = {TensorType.INT32: np.dtype("<i4"), TensorType.INT64: np.dtype("<i8")}

RENAMING = frozenset({"RESHAPE", "SQUEEZE", "EXPAND_DIMS"})


@dataclass(frozen=True)
class Step:
    """One operator of the original, or an added equivalent.

    Attributes:
        label: ``CONV_2D_7``.
        name: ``CONV_2D``.
        operator, code: as in the file; tensor indices are those of ``Original.tensors``.
    """

    label: str
    name: str
    operator: Operator
    code: OperatorCode

    @cached_property
    def options(self) -> dict[str, int | float | bool | tuple[int, ...]]:
        """Return the built-in options by schema name."""
        return get_options(self.operator)

    @cached_property
    def inputs(self) -> tuple[int, ...]:
        return self.operator.inputs or ()

    @cached_property
    def outputs(self) -> tuple[int, ...]:
        return self.operator.outputs or ()

    def operand(self, position: int) -> int:
        """Return the tensor of an input, -1 if it is left out."""
        return self.inputs[position] if position < len(self.inputs) else -1

    def number(self, name: str, default: int = 0) -> int:
        """Return an integer option."""
        value = self.options.get(name, default)
        return value if isinstance(value, int) else default


class Original:
    """The first subgraph of the original.

    Attributes:
        model: the original.
        tensors: its tensors, then those of added steps.
        steps: its operators in order, then added steps.
        writer: tensor → the last step that writes it.
        in_file: the same without added steps.
        narrower: tensors of added steps that lack channels of a tensor in the file.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.tensors: list[Tensor] = list(model.main.tensors)
        self.steps: list[Step] = []
        self._content: dict[int, bytes] = {}
        self._affine: dict[int, tuple[float, int] | None] = {}
        self._same = list(range(len(self.tensors)))
        self._members: dict[int, list[int]] = {t: [t] for t in self._same}
        self._readers: dict[int, list[int]] = {}
        self._constants: dict[tuple[int, bytes], int] = {}
        self.writer: dict[int, int] = {}
        self.narrower: set[int] = set()
        for index, operator in enumerate(model.main.operators):
            code = model.operator_codes[operator.opcode_index]
            self.add_step(Step(operator_label(model, index), operator_name(model, operator), operator, code))
        self.in_file = dict(self.writer)

    # ---- Values

    def value(self, tensor: int) -> int:
        """Return the value of a tensor: equal for tensors of equal bytes."""
        while self._same[tensor] != tensor:
            self._same[tensor] = self._same[self._same[tensor]]
            tensor = self._same[tensor]
        return tensor

    def members(self, value: int) -> Sequence[int]:
        """Return the tensors that hold a value."""
        return self._members[self.value(value)]

    def unite(self, a: int, b: int) -> None:
        """Record that two tensors hold the same bytes."""
        a, b = self.value(a), self.value(b)
        if a != b:
            self._same[b] = a
            self._members[a] += self._members.pop(b)
            self._readers.setdefault(a, []).extend(self._readers.pop(b, []))

    def readers(self, value: int) -> list[Step]:
        """Return the operators that read a value, each once."""
        indices = self._readers.get(self.value(value), [])
        return [self.steps[index] for index in dict.fromkeys(indices)]

    def written_by(self, tensor: int) -> Step | None:
        """Return the operator that writes a tensor."""
        index = self.writer.get(tensor)
        return None if index is None else self.steps[index]

    def constant(self, tensor: Tensor, content: bytes) -> int | None:
        """Return a constant that holds these bytes in elements of this type; None without one."""
        return self._constants.get((tensor.type, content)) if is_plain_constant(tensor, content) else None

    def unite_constants(self) -> None:
        """Unite constants, computed ones included, that hold the same bytes in elements of one type."""
        for index, tensor in enumerate(self.tensors):
            is_stored = index not in self.writer and index not in self.model.main.inputs
            content = self.content(index) if is_stored or index in self._content else b""
            if is_plain_constant(tensor, content):
                self.unite(self._constants.setdefault((tensor.type, content), index), index)

    # ---- Growing

    def add_step(self, step: Step) -> None:
        """Add an operator behind the others."""
        for tensor in step.inputs:
            if tensor >= 0:
                self._readers.setdefault(self.value(tensor), []).append(len(self.steps))
        for tensor in step.outputs:
            self.writer[tensor] = len(self.steps)
        self.steps.append(step)
        if self._keeps_bytes(step):
            self.unite(step.inputs[0], step.outputs[0])

    def _keeps_bytes(self, step: Step) -> bool:
        """Return whether the only output of a step holds the bytes of its first input."""
        if len(step.outputs) != 1 or step.operand(0) < 0 or self.tensors[step.inputs[0]].is_variable:
            return False  # a variable equals its copy only until it is written again
        from_zero = not any(self.numbers(step.operand(1)) or (1,))
        whole = self.tensors[step.inputs[0]].dims == self.tensors[step.outputs[0]].dims
        counts = {prod(self.tensors[tensor].dims) for tensor in (step.inputs[0], step.outputs[0])}
        alone = step.name in ("PACK", "UNPACK") and len(step.inputs) == len(counts) == 1
        return alone or step.name in RENAMING or (from_zero and whole and step.name in ("PAD", "PADV2", "SLICE"))

    def add_operator(
        self,
        step: Step,
        name: str,
        operands: Sequence[int],
        output: int,
        options: OptionsTable | None = None,
        version: int = 1,
    ) -> None:
        """Add one of the runtime's operators with the label of a related step."""
        number = BUILTIN_CODES[name]
        code = OperatorCode(min(number, 127), None, version, number)
        self.add_step(Step(step.label, name, Operator(0, tuple(operands), (output,), options), code))

    def add_copy(
        self, step: Step, inputs: Sequence[int], outputs: Sequence[int], options: OptionsTable | None = None
    ) -> None:
        """Add an operator like a step on other tensors, with its options or others."""
        operator = replace(step.operator, inputs=tuple(inputs), outputs=tuple(outputs))
        operator = operator if options is None else replace(operator, builtin_options=options)
        self.add_step(Step(step.label, step.name, operator, step.code))

    def add_numbers(self, numbers: npt.ArrayLike) -> int:
        """Add a constant of int32 and return its index."""
        values = np.asarray(numbers, "<i4")
        return self.add_tensor(Tensor(values.shape, TensorType.INT32, 0, "numbers"), values.tobytes())

    def add_tensor(self, tensor: Tensor, content: bytes = b"") -> int:
        """Add a tensor that the file does not have and return its index."""
        index = len(self.tensors)
        self.tensors.append(tensor)
        self._same.append(index)
        self._members[index] = [index]
        self._content[index] = content
        return index

    def add_like(self, tensor: int, shape: Sequence[int]) -> int:
        """Add a tensor like another one, with another shape, and return its index."""
        return self.add_tensor(replace(self.tensors[tensor], shape=tuple(shape), shape_signature=None))

    # ---- Tensors

    def content(self, tensor: int) -> bytes:
        """Return a constant's bytes; empty for other tensors and operands left out."""
        if tensor < 0:
            return b""
        if tensor in self._content:
            return self._content[tensor]
        return self.model.buffers[self.tensors[tensor].buffer].data or b""

    def know(self, tensor: int, content: bytes) -> None:
        """Record that a computed tensor holds the same bytes in every inference."""
        self._content[tensor] = content

    def numbers(self, tensor: int) -> tuple[int, ...]:
        """Return the values of an int32 constant; empty for other tensors."""
        return self.indices(tensor) if tensor >= 0 and self.tensors[tensor].type == TensorType.INT32 else ()

    def indices(self, tensor: int) -> tuple[int, ...]:
        """Return the values of an int32 or int64 constant; empty for other tensors, and for a shape of fewer values."""
        form, content = _WHOLE.get(self.tensors[tensor].type) if tensor >= 0 else None, self.content(tensor)
        if form is None or len(content) != form.itemsize * prod(self.tensors[tensor].dims):
            return ()
        return tuple(np.frombuffer(content, form).tolist())

    def weights(self, tensor: int) -> npt.NDArray[np.int8] | None:
        """Return an int8 constant in its own shape; None for other tensors."""
        if tensor < 0 or self.tensors[tensor].type != TensorType.INT8 or self.tensors[tensor].sparsity is not None:
            return None
        content, dims = self.content(tensor), self.tensors[tensor].dims
        stored = content and len(content) == prod(dims) and min(dims, default=1) > 0
        return np.frombuffer(content, np.int8).reshape(dims) if stored else None

    def scales(self, tensor: int) -> npt.NDArray[np.float64] | None:
        """Return the float32 scales; None without affine quantization, or if one is not finite."""
        quantization = self.tensors[tensor].quantization if tensor >= 0 else None
        if quantization is None or not quantization.scale or not quantization.zero_point or quantization.details:
            return None
        scales = np.asarray(quantization.scale, np.float32).astype(np.float64)
        return scales if np.isfinite(scales).all() else None

    def activation(self, tensor: int) -> tuple[float, int] | None:
        """Return scale and zero point of an int8 activation, or of a uint8 one with 128 subtracted; else None."""
        return None if tensor < 0 or self.content(tensor) else self.affine(tensor)

    def encoding(self, tensor: int) -> tuple[float, int] | TensorType | None:
        """Return how a computed tensor's bytes are read, the same before and behind an operator that moves values.

        That is scale and zero point, or FLOAT32; None for constants, variables and other types.
        """
        real = tensor >= 0 and self.tensors[tensor].type == TensorType.FLOAT32
        if real and not self.content(tensor) and not self.tensors[tensor].is_variable:
            return TensorType.FLOAT32
        return self.activation(tensor)

    def same_encoding(self, a: int, b: int) -> bool:
        """Return whether the bytes of two computed tensors are read the same way: as float32, or with one scale."""
        return self.encoding(a) is not None and self.encoding(a) == self.encoding(b)

    def zero_point(self, tensor: int) -> int | None:
        """Return the representation of 0 in a computed tensor: 0 for float32; None if it is not quantized either."""
        if tensor >= 0 and self.tensors[tensor].type == TensorType.FLOAT32:
            return 0
        quantization = self.activation(tensor)
        return None if quantization is None else quantization[1]

    def is_operand(self, tensor: int) -> bool:
        """Return whether blocks can read an int8 tensor with one scale: a computed one, or a constant as a whole."""
        return self.affine(tensor) is not None and (not self.content(tensor) or self.weights(tensor) is not None)

    def affine(self, tensor: int) -> tuple[float, int] | None:
        """Return scale and zero point as ``activation`` does, of constants, too."""
        if tensor not in self._affine:
            self._affine[tensor] = self._scale_and_point(tensor)
        return self._affine[tensor]

    def _scale_and_point(self, tensor: int) -> tuple[float, int] | None:
        scales = self.scales(tensor)
        if scales is None or len(scales) != 1 or not scales[0] or self.tensors[tensor].is_variable:
            return None  # a scale of 0 gives infinite ratios
        quantization = self.tensors[tensor].quantization
        points = () if quantization is None else quantization.zero_point or ()
        if self.tensors[tensor].type not in (TensorType.INT8, TensorType.UINT8) or len(points) != 1:
            return None
        point = int(points[0]) - (128 if self.is_unsigned(tensor) else 0)
        return (float(scales[0]), point) if -128 <= point <= 127 else None

    def is_computed_byte(self, tensor: int) -> bool:
        """Return whether a tensor is int8 or uint8, of any quantization, and written in every inference."""
        if tensor < 0 or self.content(tensor) or self.tensors[tensor].is_variable:
            return False
        return self.tensors[tensor].type in (TensorType.INT8, TensorType.UINT8)

    def is_unsigned(self, tensor: int) -> bool:
        """Return whether a tensor is uint8."""
        return tensor >= 0 and self.tensors[tensor].type == TensorType.UINT8

    def computes_in_int8(self, step: Step) -> bool:
        """Return whether a step has no uint8 tensor, or is a QUANTIZE or CAST; other uint8 kernels differ."""
        return step.name in ("CAST", "QUANTIZE") or not any(map(self.is_unsigned, (*step.inputs, *step.outputs)))

    def image(self, tensor: int) -> Image | None:
        """Return rows, columns and channels of a single image of at most four dimensions."""
        return image_of(self.tensors[tensor].dims)

    def rows(self, tensor: int) -> Image | None:
        """Return the image for pointwise operators: batches and further dimensions count as more pixels."""
        dims = self.tensors[tensor].dims
        if len(dims) < 2 or any(dim < 1 for dim in dims):
            return self.image(tensor)
        return self.image(tensor) or (prod(dims[:-2]), dims[-2], dims[-1])


def is_plain_constant(tensor: Tensor, content: bytes) -> bool:
    """Return whether a tensor of int8 or float32 with these bytes in the file holds them element by element."""
    sizes: dict[int, int] = {TensorType.INT8: 1, TensorType.FLOAT32: 4}
    plain = not tensor.is_variable and tensor.sparsity is None and min(tensor.dims, default=1) > 0
    return bool(content) and plain and len(content) == sizes.get(tensor.type, 0) * prod(tensor.dims)


def image_of(dims: Sequence[int]) -> Image | None:
    """Return [1, h, w, c], [1, w, c], [1, c] or [c] as (h, w, c); None for batches and more dimensions."""
    if len(dims) > 4 or (len(dims) > 1 and dims[0] != 1) or any(dim < 1 for dim in dims):
        return None
    h, w, c = (1, 1, 1, *(dims[1:] if len(dims) > 1 else dims))[-3:]
    return h, w, c
