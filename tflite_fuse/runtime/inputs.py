"""Inputs for verification: edge values, impulses, gradients, noise, smooth images, or the user's own data.

An input is a list of one array per model input, of that tensor's exact shape and type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, prod
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tflite_fuse.errors import ModelError, UsageError
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.outside import with_inputs_inside
from tflite_fuse.model.schema import Model, Quantization, Tensor
from tflite_fuse.model.types import TensorType, tensor_nbytes, type_name
from tflite_fuse.runtime.archives import read_arrays


def signature_input_names(model: Model) -> tuple[tuple[str, ...], ...]:
    """Return the input names, in order, of each signature of the main subgraph that names all inputs uniquely."""
    signatures = []
    for signature in model.signature_defs or ():
        names = {entry.tensor_index: entry.name or "" for entry in signature.inputs or ()}
        if signature.subgraph_index == 0 and all(names.get(index) for index in model.main.inputs):
            called = tuple(names[index] for index in model.main.inputs)
            if len(set(called)) == len(called):
                signatures.append(called)
    return tuple(dict.fromkeys(signatures))


Array = npt.NDArray[Any]
Field = npt.NDArray[np.float64]

_LARGEST_INPUT = 1 << 28
_MOST_BYTES = 16 * _LARGEST_INPUT
_LEAST_ARRAY = 512
"""Bytes that the smallest array takes in Python."""
_NUMPY_NAMES = ["FLOAT16", "FLOAT32", "FLOAT64", "INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "BOOL"]
_NUMPY_TYPES: dict[int, np.dtype[Any]] = {TensorType[name]: np.dtype(name.lower()) for name in _NUMPY_NAMES}
# Operators with indices as an integer input, where values out of range are errors.
_INDEXED = frozenset({"GATHER", "GATHER_ND", "EMBEDDING_LOOKUP", "DYNAMIC_UPDATE_SLICE", "SLICE", "STRIDED_SLICE"})
_PLAIN_INTEGER = 1000
_FLOAT_MARGIN = 0.05


@dataclass(frozen=True)
class InputSpec:
    """A model input and its range of plausible values.

    Attributes:
        name, shape, dtype: of the tensor.
        low, high: least and greatest generated value. Integers of 8 and 16 bits use their whole range; wider ones,
            mostly counts and indices, −1000…1000, or 0…1 if an operator uses them as indices. A float input that the
            model quantizes uses the quantization's range and a margin, so clamping is exercised; other floats their
            recorded range, else −1…1.
        rest: the value that represents 0.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    low: float
    high: float
    rest: float


def input_specs(model: Model) -> tuple[InputSpec, ...]:
    """Return the inputs of the main subgraph in their original order, including those outside the arena.

    Raises:
        ModelError: an input cannot be generated (dynamic shape, strings), or the metadata of outside inputs is damaged.
    """
    model = with_inputs_inside(model)
    return tuple(_spec(model, index) for index in model.main.inputs)


def output_arrays(model: Model, outputs: Sequence[bytes]) -> list[Array]:
    """Return the outputs of the main subgraph as arrays, from their bytes.

    Raises:
        ModelError: numpy has no such type.
    """
    tensors = [model.main.tensors[index] for index in model.main.outputs]
    if odd := [tensor.name for tensor in tensors if tensor.type not in _NUMPY_TYPES]:
        raise ModelError(f"model output {odd[0]} has elements of a type that numpy does not have")
    return [
        np.frombuffer(data, _NUMPY_TYPES[tensor.type]).reshape(tensor.dims)
        for tensor, data in zip(tensors, outputs, strict=True)
    ]


def _spec(model: Model, index: int) -> InputSpec:
    tensor = model.main.tensors[index]
    name = tensor.name or f"tensor {index}"
    if tensor.type not in _NUMPY_TYPES:
        raise ModelError(f"model input {name} has elements of type {type_name(tensor.type)}, which cannot be fed here")
    if tensor_nbytes(tensor) > _LARGEST_INPUT:
        raise ModelError(f"model input {name} is larger than {_LARGEST_INPUT} bytes, too large to be run here")
    dtype = _NUMPY_TYPES[tensor.type]
    low, high = _range(model, index, dtype)
    rest = min(max(_zero_point(tensor.quantization), low), high)
    return InputSpec(name, tensor.dims, dtype, low, high, rest)


def _zero_point(quantization: Quantization | None) -> float:
    return float(quantization.zero_point[0]) if quantization and quantization.zero_point else 0.0


def _range(model: Model, index: int, dtype: np.dtype[Any]) -> tuple[float, float]:
    if dtype.kind == "b":
        return 0.0, 1.0
    if dtype.kind == "f":
        return _float_range(model, index)
    limits = np.iinfo(dtype)
    if dtype.itemsize <= 2:
        return float(limits.min), float(limits.max)
    readers = {operator_name(model, each) for each in model.main.operators if index in (each.inputs or ())}
    if readers & _INDEXED:
        return 0.0, 1.0
    return float(max(limits.min, -_PLAIN_INTEGER)), float(_PLAIN_INTEGER)


def _float_range(model: Model, index: int) -> tuple[float, float]:
    for operator in model.main.operators:
        if operator_name(model, operator) == "QUANTIZE" and operator.inputs == (index,) and operator.outputs:
            bounds = _quantized_range(model.main.tensors[operator.outputs[0]])
            if bounds is not None:
                margin = _FLOAT_MARGIN * (bounds[1] - bounds[0])
                return bounds[0] - margin, bounds[1] + margin
    recorded = model.main.tensors[index].quantization
    if recorded and recorded.min and recorded.max and recorded.min[0] < recorded.max[0]:
        return recorded.min[0], recorded.max[0]
    return -1.0, 1.0


def _quantized_range(tensor: Tensor) -> tuple[float, float] | None:
    if tensor.type not in _NUMPY_TYPES or not (tensor.quantization and tensor.quantization.scale):
        return None
    dtype = _NUMPY_TYPES[tensor.type]
    if dtype.kind not in "iu":
        return None
    scale, zero_point = tensor.quantization.scale[0], _zero_point(tensor.quantization)
    limits = np.iinfo(dtype)
    return (limits.min - zero_point) * scale, (limits.max - zero_point) * scale


def generate_inputs(model: Model, count: int = 16, seed: int = 0) -> list[list[Array]]:
    """Return inputs for a model; the same for the same model signature, count and seed.

    Edge values come first: all lowest, all highest, the zero point, an impulse at each corner and in the centre, a
    gradient. At least a third (and at least one) are uniform noise and smooth images, in turn.

    Raises:
        ModelError: the model has an input that cannot be generated.
        UsageError: count is below 1, or the inputs do not fit 4 GiB.
    """
    if count < 1:
        raise UsageError(f"at least 1 input is needed to compare models, not {count}")
    specs = input_specs(model)
    most = _MOST_BYTES // max(1, sum(max(_LEAST_ARRAY, prod(spec.shape) * spec.dtype.itemsize) for spec in specs))
    if count > most:
        raise UsageError(f"{count:,} inputs of this model do not fit 4 GiB: compare at most {most:,}")
    randomness = np.random.default_rng(seed)
    edges = _EDGES[: min(len(_EDGES), count - ceil(count / 3))]
    random = [_RANDOM[index % len(_RANDOM)] for index in range(count - len(edges))]
    return [[pattern(spec, randomness) for spec in specs] for pattern in (*edges, *random)]


Pattern = Callable[[InputSpec, np.random.Generator], Array]


def _values(spec: InputSpec, field: Field) -> Array:
    """Return a field of 0…1 spread over the spec's range, each integer equally often."""
    if spec.dtype.kind == "f":
        return (spec.low + field * (spec.high - spec.low)).astype(spec.dtype)
    steps = spec.high - spec.low + 1
    return (spec.low + np.minimum(np.floor(field * steps), steps - 1)).astype(spec.dtype)


def _full(bound: Literal["low", "high", "rest"]) -> Pattern:
    """Return a pattern of one value everywhere."""
    return lambda spec, randomness: np.full(spec.shape, getattr(spec, bound)).astype(spec.dtype)


def _impulse(row: float, column: float) -> Pattern:
    """Return a pattern: one position at the highest value, the rest at the zero point. Positions are 0…1 per axis."""

    def pattern(spec: InputSpec, randomness: np.random.Generator) -> Array:
        values: Array = np.full(spec.shape, spec.rest).astype(spec.dtype)
        place: list[Any] = [slice(None)] * values.ndim
        axes = _spatial_axes(values.ndim)
        for axis in axes:
            fraction = column if axis == axes[-1] else row
            place[axis] = max(0, int(fraction * (values.shape[axis] - 1)))
        if values.size:
            values[tuple(place)] = np.asarray(spec.high).astype(spec.dtype)
        return values

    return pattern


def _spatial_axes(rank: int) -> range:
    """Return the axes that are neither batch nor channels; the only axis of a vector."""
    return range(1, rank - 1) if rank > 2 else range(max(0, rank - 1), rank)


def _gradient(spec: InputSpec, randomness: np.random.Generator) -> Array:
    size = int(np.prod(spec.shape, dtype=np.int64))
    return _values(spec, (np.arange(size, dtype=np.float64) / max(1, size - 1)).reshape(spec.shape))


def _uniform(spec: InputSpec, randomness: np.random.Generator) -> Array:
    return _values(spec, randomness.random(spec.shape))


def _smooth(spec: InputSpec, randomness: np.random.Generator) -> Array:
    """Return a few waves of random direction over the spatial axes, in another mixture for every channel."""
    axes = _spatial_axes(len(spec.shape))
    channels = spec.shape[-1] if len(spec.shape) > 2 else 1
    field = np.zeros(spec.shape)
    for _ in range(4):
        wave = randomness.uniform(0, 2 * np.pi, channels) if len(spec.shape) > 2 else randomness.uniform(0, 2 * np.pi)
        for axis in axes:
            turns = randomness.uniform(-3, 3)
            along = np.linspace(0, 2 * np.pi * turns, max(1, spec.shape[axis]))[: spec.shape[axis]]
            wave = wave + along.reshape([-1 if each == axis else 1 for each in range(len(spec.shape))])
        field = field + randomness.uniform(0.2, 1) * np.sin(wave)
    span = np.ptp(field) if field.size else 0.0
    return _values(spec, (field - field.min()) / span if span > 0 else np.zeros(spec.shape))


_EDGES: tuple[Pattern, ...] = (
    _full("low"),
    _full("high"),
    _full("rest"),
    _impulse(0, 0),
    _impulse(0, 1),
    _impulse(1, 0),
    _impulse(1, 1),
    _impulse(0.5, 0.5),
    _gradient,
)
_RANDOM: tuple[Pattern, ...] = (_uniform, _smooth)


def load_inputs(path: str | Path, model: Model) -> list[list[Array]]:
    """Read a user's samples from an .npz file, or from an .npy file if the model has one input.

    Arrays have the names of the inputs' tensors or of a signature, or ``arr_0``, ``arr_1``, … in order (a single
    input's array may have any name). The leading dimension counts samples: for a tensor [1, 96, 96, 3] either [samples,
    96, 96, 3] or [samples, 1, 96, 96, 3].

    Raises:
        UsageError: the file cannot be read, or an array is missing, unknown, of another shape, type or sample count.
        ModelError: the model has an input that cannot be generated.
    """
    specs = input_specs(model)
    arrays = _by_input(path, read_arrays(path), specs, signature_input_names(model))
    samples = [_samples(path, spec, array) for spec, array in zip(specs, arrays, strict=True)]
    counts = {spec.name: len(each) for spec, each in zip(specs, samples, strict=True)}
    if len(set(counts.values())) > 1:
        raise UsageError(f"{path}: the inputs have different numbers of samples: {counts}")
    if 0 in counts.values():
        raise UsageError(f"{path}: the arrays hold no sample")
    return [list(each) for each in zip(*samples, strict=True)]


def _by_input(
    path: str | Path, arrays: dict[str, Array], specs: tuple[InputSpec, ...], signatures: tuple[tuple[str, ...], ...]
) -> list[Array]:
    if len(specs) == len(arrays) == 1:
        return list(arrays.values())
    namings = tuple(spec.name for spec in specs), *signatures
    for names in (*namings, [f"arr_{index}" for index in range(len(specs))]):
        if set(arrays) == set(names):
            return [arrays[name] for name in names]
    raise UsageError(
        f"{path} holds the arrays {', '.join(sorted(arrays)) or '(none)'} "
        f"but the model's inputs are {' or '.join(', '.join(each) for each in namings)}; "
        "name the arrays like the inputs, or arr_0, arr_1, … in their order"
    )


def _samples(path: str | Path, spec: InputSpec, array: Array) -> Array:
    if array.dtype != spec.dtype:
        raise UsageError(f"{path}: the array for input {spec.name} is {array.dtype} but the tensor is {spec.dtype}")
    if array.shape[1:] == spec.shape and array.ndim == len(spec.shape) + 1:
        return array
    if spec.shape and spec.shape[0] == 1 and array.ndim == len(spec.shape) and array.shape[1:] == spec.shape[1:]:
        return array[:, None]
    raise UsageError(
        f"{path}: the array for input {spec.name} has shape {list(array.shape)}, "
        f"which is not samples of {list(spec.shape)}"
    )
