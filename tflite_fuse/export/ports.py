"""A model's inputs and outputs in an exported folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tflite_fuse.errors import UsageError
from tflite_fuse.export.text import comment, fill, float_literal, int_literal
from tflite_fuse.model.outside import InputMode, OutsideInput, outside_inputs
from tflite_fuse.model.schema import Model, Tensor
from tflite_fuse.model.types import TensorType, tensor_nbytes, type_name
from tflite_fuse.rewriting.quantized import refused_operator

OUTSIDE_LIMIT = 16
"""Most inputs outside the arena in the C library (``TFLITE_FUSE_MAX_OPERANDS``)."""

SHOWN_ELEMENTS = 16
"""Most elements of an output that a main program prints."""

_FIELDS = {
    TensorType.INT8: "int8",
    TensorType.UINT8: "uint8",
    TensorType.INT16: "i16",
    TensorType.INT32: "i32",
    TensorType.FLOAT32: "f",
    TensorType.BOOL: "b",
}


C_TYPES: dict[int, str] = {
    TensorType.INT8: "int8_t",
    TensorType.UINT8: "uint8_t",
    TensorType.INT32: "int32_t",
    TensorType.FLOAT32: "float",
}
"""C types of the operands of the C library."""


@dataclass(frozen=True)
class Port:
    """An input or output in the arena.

    Attributes:
        kind: ``input`` or ``output``.
        number: its position among the model's inputs or outputs.
        tensor: the model's.
    """

    kind: str
    number: int
    tensor: Tensor

    @property
    def macro(self) -> str:
        """Return the prefix of its macros, such as ``MODEL_INPUT_0``."""
        return f"MODEL_{self.kind.upper()}_{self.number}"

    @property
    def nbytes(self) -> int:
        return tensor_nbytes(self.tensor)

    @property
    def elements(self) -> int:
        return prod(self.tensor.dims)

    @property
    def form(self) -> tuple[int, tuple[int, ...], tuple[float, int] | None]:
        """Return type, shape and quantization."""
        return self.tensor.type, self.tensor.dims, self.scale

    @property
    def field(self) -> str | None:
        """Return the member of TFLM's ``TfLiteTensor::data`` for the element type; None for types without one."""
        return _FIELDS.get(TensorType(self.tensor.type)) if self.tensor.type in list(TensorType) else None

    @property
    def factor(self) -> str:
        """Return the factor of an element before it is printed: printf of small C libraries lacks %f."""
        return " * 1000" if self.tensor.type == TensorType.FLOAT32 else ""

    @property
    def scale(self) -> tuple[float, int] | None:
        """Return scale and zero point if the tensor is quantized as a whole."""
        quantization = self.tensor.quantization
        if quantization is None or len(quantization.scale or ()) != 1 or len(quantization.zero_point or ()) != 1:
            return None
        return (quantization.scale or ())[0], (quantization.zero_point or ())[0]


_QUANTIZE = "quantize the model to int8 (`inspect --verbose` prints how)"
_REFUSED = {
    "float16": ("reads weights of float16", "rewrite it without --no-fuse, so that they are constants of blocks"),
    "hybrid": ("computes in float32 with weights of fewer bits", _QUANTIZE),
    "uint8": ("computes in uint8", _QUANTIZE),
}
"""Reason why TensorFlow Lite Micro refuses operators of a kind, and the remedy."""


def require_arithmetic(model: Model) -> None:
    """Raise UsageError if an operator is hybrid, computes in uint8 or reads float16: no export can run it."""
    if (refused := refused_operator(model)) is not None:
        does, remedy = _REFUSED[refused[1]]
        raise UsageError(f"{refused[0]} {does}, which TensorFlow Lite Micro refuses: {remedy}")


def model_ports(model: Model) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
    """Return inputs and outputs in the arena.

    Raises:
        ModelError: one of them has a dynamic shape or elements without a size.
    """
    graph = model.main
    inputs, outputs = (
        tuple(Port(kind, number, graph.tensors[index]) for number, index in enumerate(ends))
        for kind, ends in (("input", graph.inputs), ("output", graph.outputs))
    )
    for port in (*inputs, *outputs):
        tensor_nbytes(port.tensor)  # raises ModelError
    return inputs, outputs


def port_macros(port: Port, extra: Sequence[tuple[str, int]] = ()) -> str:
    """Return a comment that describes a port, and its macros; ``extra`` are further (suffix, number) pairs."""
    tensor = port.tensor
    what = f"{port.kind.capitalize()} {port.number}: {type_name(tensor.type)} {list(tensor.dims)}"
    lines = [f"#define {port.macro}_BYTES {port.nbytes}"]
    lines += [f"#define {port.macro}_{suffix} {int_literal(value)}" for suffix, value in extra]
    meaning = ""
    if port.scale is not None and (literal := float_literal(port.scale[0])) is not None:
        meaning = "; value = SCALE * (element - ZERO_POINT)"
        lines.append(f"#define {port.macro}_SCALE {literal}")
        lines.append(f"#define {port.macro}_ZERO_POINT {int_literal(port.scale[1])}")
    return "\n".join([f"/* {what}, {comment(tensor.name)}{meaning} */", *lines]) + "\n"


# ---- Inputs outside the arena ----


def checked_outside(model: Model) -> tuple[OutsideInput, ...]:
    """Return the inputs that a model reads from outside the arena, in the order of their numbers.

    Raises:
        ModelError: the metadata entry that names them is damaged.
        UsageError: more than the C library supports.
    """
    entries = sorted(outside_inputs(model), key=lambda entry: entry.number)
    if len(entries) > OUTSIDE_LIMIT:
        raise UsageError(
            f"the model reads {len(entries)} inputs from outside the arena and the device library takes "
            f"{OUTSIDE_LIMIT}; rewrite it with fewer of them outside"
        )
    return tuple(entries)


def memory_macro(nbytes: int) -> str:
    """Return the C macro of the bytes of the second memory. Empty without one."""
    return (
        f"/* Of the second memory: tensors between blocks. */\n#define MODEL_MEMORY_BYTES {nbytes}\n" if nbytes else ""
    )


def outside_source(inputs: Sequence[OutsideInput], memory: int = 0) -> str:
    """Return the C definition of memory outside the arena: ``static const tflite_fuse_outside outside``, or nothing.

    Args:
        inputs: those outside the arena.
        memory: bytes of the second memory; 0 for none.
    """
    parts = [fill("plain_c/second_memory.h")] if memory else []
    second_memory = "second_memory, sizeof(second_memory)" if memory else "NULL, 0"
    if not inputs:
        nothing = f"{{TFLITE_FUSE_OUTSIDE_MARK_2, 0, NULL, NULL, 0, NULL, {second_memory}}}"
        return "".join((*parts, f"static const tflite_fuse_outside outside = {nothing};\n")) if memory else ""
    parts += [_reader(entry) if entry.mode.streams else _frame(entry) for entry in inputs]
    no_source = "{NULL, NULL, 0, 0, 0, TFLITE_FUSE_INT8}"
    types = {entry.number: f"TFLITE_FUSE_{type_name(entry.type).upper()}" for entry in inputs}
    streamed = [entry.mode.streams for entry in inputs]
    sources = ", ".join(
        f"{{read_input_{e.number}, NULL, {e.rows}, {e.columns}, {e.channels}, {types[e.number]}}}" if s else no_source
        for e, s in zip(inputs, streamed, strict=True)
    )
    frames = ", ".join("NULL" if s else f"frame_{e.number}" for e, s in zip(inputs, streamed, strict=True))
    sizes = ", ".join(str(entry.nbytes) for entry in inputs)
    count = len(inputs)
    parts.append(
        f"static const tflite_fuse_source sources[{count}] = {{{sources}}};\n"
        f"static const void* const frames[{count}] = {{{frames}}};\n"
        f"static const size_t sizes[{count}] = {{{sizes}}};\n"
        f"static const tflite_fuse_outside outside = {{TFLITE_FUSE_OUTSIDE_MARK_2, {count}, frames, sizes, "
        f"{count}, sources, {second_memory}}};\n"
    )
    return "\n".join(parts)


def _describe(entry: OutsideInput) -> str:
    literal = None if entry.type == TensorType.FLOAT32 else float_literal(entry.scale)
    meaning = "" if literal is None else f"; value = {literal} * (element - {int_literal(entry.zero_point)})"
    image = f"{entry.rows} x {entry.columns} pixels of {entry.channels} {type_name(entry.type)}"
    return f"Input {entry.position}, {comment(entry.name)}: {image}{meaning}."


def _reader(entry: OutsideInput) -> str:
    line = "row y from column x on, each once, top to bottom"
    if entry.mode is InputMode.COLUMNS:
        line = "column y from row x on, each once, from left to right"
    return fill("plain_c/read_input.c", about=_describe(entry), line=line, number=entry.number)


def _frame(entry: OutsideInput) -> str:
    return (
        f"/* {_describe(entry)}\n"
        " * It lies outside the arena, row by row. Your data goes here, such as a frame buffer. */\n"
        f"static const {C_TYPES[entry.type]} frame_{entry.number}[{prod(entry.image)}] = {{0}};\n"
    )
