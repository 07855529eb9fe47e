"""Element types and operator names of the TensorFlow Lite schema, and quantization as in TFLM.

QUANTIZE and DEQUANTIZE between float32 and int8 are bit-exact.
"""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tflite_fuse.errors import ModelError
from tflite_fuse.model.schema import Model, Operator, Tensor


class TensorType(IntEnum):
    """Element type of a tensor."""

    FLOAT32 = 0
    FLOAT16 = 1
    INT32 = 2
    UINT8 = 3
    INT64 = 4
    STRING = 5
    BOOL = 6
    INT16 = 7
    COMPLEX64 = 8
    INT8 = 9
    FLOAT64 = 10
    COMPLEX128 = 11
    UINT64 = 12
    RESOURCE = 13
    VARIANT = 14
    UINT32 = 15
    UINT16 = 16
    INT4 = 17
    BFLOAT16 = 18
    INT2 = 19
    UINT4 = 20
    FLOAT8_E4M3FN = 21
    FLOAT8_E5M2 = 22


_BITS = {
    TensorType[name]: bits
    for bits, names in {
        2: "INT2",
        4: "INT4 UINT4",
        8: "INT8 UINT8 BOOL FLOAT8_E4M3FN FLOAT8_E5M2",
        16: "INT16 UINT16 FLOAT16 BFLOAT16",
        32: "INT32 UINT32 FLOAT32 RESOURCE",
        64: "INT64 UINT64 FLOAT64 COMPLEX64",
        128: "COMPLEX128",
    }.items()
    for name in names.split()
}

CUSTOM = 32
"""The built-in operator number of custom operators."""


def _builtin_codes() -> dict[str, int]:
    """Return the numbers from one file of the package ``tflite``; importing all of it takes a quarter of a second."""
    package = find_spec("tflite")
    assert package is not None and package.origin is not None
    file = Path(package.origin).with_name("BuiltinOperator.py")
    spec = spec_from_file_location("tflite_builtin_operator", file)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return {name: value for name, value in vars(module.BuiltinOperator).items() if not name.startswith("_")}


BUILTIN_CODES = _builtin_codes()
"""Operator name ("CONV_2D") to its ``BuiltinOperator`` number."""

_BUILTIN_NAMES = {value: name for name, value in BUILTIN_CODES.items()}


def element_bits(number: int) -> int:
    """Return the bits of an element of a type, 0 for a type without a fixed size."""
    return _BITS.get(TensorType(number), 0) if number in TensorType.__members__.values() else 0


def type_name(number: int) -> str:
    """Return ``int8`` for 9, and ``type 99`` for a number that is not in the schema."""
    return TensorType(number).name.lower() if number in TensorType.__members__.values() else f"type {number}"


def tensor_nbytes(tensor: Tensor) -> int:
    """Return the bytes of a tensor's data. Packed types round up to whole bytes.

    Raises:
        ModelError: a dimension is negative, or the element type has no fixed size.
    """
    if tensor.type not in _BITS:
        raise ModelError(f"tensor {tensor.name} has elements of {type_name(tensor.type)}, which have no fixed size")
    if any(dim < 0 for dim in tensor.dims):
        raise ModelError(f"tensor {tensor.name} has a dynamic shape {list(tensor.dims)}")
    return (prod(tensor.dims) * _BITS[TensorType(tensor.type)] + 7) // 8


def operator_name(model: Model, operator: Operator) -> str:
    """Return ``CONV_2D`` for a built-in operator, ``CUSTOM:name`` for a custom one, ``BUILTIN_999`` if unknown."""
    code = model.operator_codes[operator.opcode_index]
    if code.code == CUSTOM:
        return f"CUSTOM:{code.custom_code or ''}"
    return _BUILTIN_NAMES.get(code.code, f"BUILTIN_{code.code}")


def operator_label(model: Model, index: int) -> str:
    """Return the name in messages of an operator of the main subgraph: kind and index in its file, ``CONV_2D_7``.

    An operator that a pass added between those of the file is named by the one before it: ``PAD behind CONV_2D_7``.
    """
    graph, at = model.main, index
    while not (label := graph.operators[at].label):
        before = [graph.writers.get(tensor, at) for tensor in graph.operators[at].inputs or ()]
        at = max((each for each in before if each < at), default=-1)
        if at < 0:
            is_from_file = any(each.label for each in graph.operators)
            return f"{_kind(model, index)} behind an input" if is_from_file else place_label(model, index)
    return label if at == index else f"{_kind(model, index)} behind {label}"


def place_label(model: Model, index: int) -> str:
    """Return kind and index in this model, which may differ from those in the file that passes began with."""
    return f"{_kind(model, index)}_{index}"


def labelled(model: Model) -> Model:
    """Return the model with the present kinds and indices of its main subgraph's operators as their labels."""
    named = (replace(each, label=place_label(model, index)) for index, each in enumerate(model.main.operators))
    return replace(model, subgraphs=(replace(model.main, operators=tuple(named)), *model.subgraphs[1:]))


def _kind(model: Model, index: int) -> str:
    return operator_name(model, model.main.operators[index]).replace("CUSTOM:", "")


Array = npt.NDArray[Any]

_LOW, _HIGH = -128, 127


def affine_parameters(tensor: Tensor) -> tuple[float, int] | None:
    """Return scale and zero point of an int8 tensor quantized as a whole, None for any other tensor."""
    quantization = tensor.quantization
    if tensor.type != TensorType.INT8 or quantization is None:
        return None
    scales, zero_points = quantization.scale or (), quantization.zero_point or ()
    return (scales[0], zero_points[0]) if len(scales) == len(zero_points) == 1 else None


def is_other_sign(signed: Tensor, unsigned: Tensor) -> bool:
    """Return whether an int8 and a uint8 tensor represent the same numbers with values that differ by 128."""
    parameters, other = affine_parameters(signed), unsigned.quantization
    if parameters is None or unsigned.type != TensorType.UINT8 or other is None:
        return False
    moved = (parameters[0],), (parameters[1] + 128,)
    return (tuple(other.scale or ()), tuple(other.zero_point or ())) == moved and parameters[0] > 0


def with_other_sign(values: Array) -> Array:
    """Return uint8 values as int8 values minus 128, and the inverse."""
    flipped: Array = np.ascontiguousarray(values).view(np.uint8) ^ np.uint8(128)
    return flipped.view(np.uint8 if values.dtype == np.int8 else np.int8)


def half_away(values: Array | float) -> npt.NDArray[np.float64]:
    """Return numbers of double precision rounded to integers, halves away from zero, as C's ``round`` does.

    Exact below 2⁵¹ and for all quotients of single precision numbers.
    """
    wide = np.asarray(values, np.float64)
    return np.copysign(np.floor(np.abs(wide) + 0.5), wide)


def quantize(values: Array, scale: float, zero_point: int) -> Array:
    """Return float32 values as int8: divided in single precision, halves rounded away from zero, clamped."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        rounded = half_away(np.asarray(values, np.float32) / np.float32(scale))
    clamped: Array = np.clip(np.nan_to_num(rounded) + zero_point, _LOW, _HIGH)
    return clamped.astype(np.int8)


def dequantize(values: Array, scale: float, zero_point: int) -> Array:
    """Return int8 values as float32: multiplied in double precision, rounded once."""
    steps = np.asarray(values, np.int64) - zero_point
    with np.errstate(over="ignore", invalid="ignore"):
        real: Array = (np.float64(np.float32(scale)) * steps).astype(np.float32)
    return real


def is_reversible(scale: float, zero_point: int) -> bool:
    """Return whether each of the 256 values has a distinct float that quantizes to the same value again."""
    values = np.arange(_LOW, _HIGH + 1, dtype=np.int8)
    real = dequantize(values, scale, zero_point)
    if not np.isfinite(real).all() or not (np.diff(real) > 0).all():
        return False
    return bool((quantize(real, scale, zero_point) == values).all())
