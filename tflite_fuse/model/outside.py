"""Metadata of model inputs outside the arena: their original tensors and the images that blocks read.

A model rewritten for a streamed or external input no longer has this tensor. Its description is the metadata entry
``tflite_fuse.outside``, one JSON object::

    {"version": 1, "inputs": [{"position": 0, "name": "image", "shape": [1, 96, 96, 3], "type": "int8", "scale": 0.0078,
      "zero_point": -1, "mode": "streamed", "number": 0, "rows": 96, "columns": 96, "channels": 3}]}
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import isfinite, prod
from typing import Any

from tflite_fuse.errors import ModelError
from tflite_fuse.model.edit import get_metadata, remove_metadata, replace_main, set_metadata, with_signatures
from tflite_fuse.model.schema import Ints, Model, Quantization, SignatureDef, Tensor
from tflite_fuse.model.types import TensorType, operator_label, type_name

OUTSIDE_METADATA = "tflite_fuse.outside"

OUTSIDE_TYPES = {TensorType.INT8: (-128, 127), TensorType.UINT8: (0, 255), TensorType.FLOAT32: (0, 0)}
"""Types of inputs outside the arena, with the least and the greatest zero point of each."""

_VERSION = 1
_MOST_INPUTS = 256
_LARGEST = 2**31 - 1


class InputMode(str, Enum):
    """Memory of a model's inputs while it runs."""

    RESIDENT = "resident"
    """In the arena, as long as they are needed."""
    STREAMED = "streamed"
    """In no memory: the block that reads one pulls its pixels through a function, each once, top to bottom."""
    COLUMNS = "columns"
    """In no memory, too, but pixels arrive column by column, from left to right, as the steps of a spectrogram do."""
    EXTERNAL = "external"
    """In the caller's memory, which blocks may read at any time."""

    @property
    def streams(self) -> bool:
        """Return whether each pixel arrives once."""
        return self in (InputMode.STREAMED, InputMode.COLUMNS)


@dataclass(frozen=True)
class OutsideInput:
    """An input of the original model that its blocks read from outside the arena.

    Attributes:
        position: its index among the original model's inputs.
        name: name of its tensor.
        shape: shape of its tensor.
        scale, zero_point: its quantization; 1 and 0 for float32 and unquantized values.
        mode: streamed, by columns, or external.
        number: index among the sources (streamed) or external tensors given to the runtime. Inputs outside are counted
            together in both modes.
        rows, columns, channels: the image that the blocks read; its bytes are those of the tensor in the same order, or
            with columns as rows.
        type: element type, one of ``OUTSIDE_TYPES``.
    """

    position: int
    name: str
    shape: Ints
    scale: float
    zero_point: int
    mode: InputMode
    number: int
    rows: int
    columns: int
    channels: int
    type: TensorType = TensorType.INT8

    @property
    def image(self) -> tuple[int, int, int]:
        return self.rows, self.columns, self.channels

    @property
    def nbytes(self) -> int:
        return self.rows * self.columns * self.channels * (4 if self.type == TensorType.FLOAT32 else 1)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object used in metadata, reports and inspections."""
        quantization = {"scale": self.scale, "zero_point": self.zero_point}
        image = {"rows": self.rows, "columns": self.columns, "channels": self.channels}
        tensor = {"position": self.position, "name": self.name, "shape": list(self.shape)}
        tensor |= {"type": type_name(self.type)}
        return {**tensor, **quantization, "mode": self.mode.value, "number": self.number, **image}


def outside_inputs(model: Model) -> tuple[OutsideInput, ...]:
    """Return the inputs that a model reads from outside the arena, by position; none without metadata.

    Raises:
        ModelError: the metadata entry is damaged.
    """
    data = get_metadata(model, OUTSIDE_METADATA)
    if data is None:
        return ()
    try:
        content = json.loads(data.decode())
        if content["version"] != _VERSION:
            raise ValueError(f"version {content['version']} is not known")
        if len(content["inputs"]) > _MOST_INPUTS:
            raise ValueError("too many inputs")
        entries = tuple(sorted((_read_entry(entry) for entry in content["inputs"]), key=lambda entry: entry.position))
        _check_together(entries, len(model.main.inputs))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise ModelError(
            f"the metadata {OUTSIDE_METADATA}, which lists the inputs read from outside the arena, is damaged "
            f"({error}); rewrite the original model again"
        ) from error
    return entries


def _read_entry(entry: dict[str, Any]) -> OutsideInput:
    kind = next((each for each in OUTSIDE_TYPES if type_name(each) == entry["type"]), None)
    if kind is None:
        raise ValueError(f"an input is {entry['type']}")
    parsed = OutsideInput(
        position=_number(entry, "position", 0),
        name=_text(entry, "name"),
        shape=tuple(_number({"shape": extent}, "shape", 1) for extent in entry["shape"]),
        scale=_scale(entry),
        zero_point=_number(entry, "zero_point", *OUTSIDE_TYPES[kind]),
        mode=InputMode(entry["mode"]),
        number=_number(entry, "number", 0, _MOST_INPUTS - 1),
        rows=_number(entry, "rows", 1),
        columns=_number(entry, "columns", 1),
        channels=_number(entry, "channels", 1),
        type=kind,
    )
    if parsed.mode is InputMode.RESIDENT:
        raise ValueError(f"{parsed.name} is resident")
    turned = parsed.mode is InputMode.COLUMNS
    fits = parsed.shape == (1, parsed.columns, parsed.rows, parsed.channels) if turned else True
    if prod(parsed.image) != prod(parsed.shape) or parsed.nbytes > _LARGEST or not fits:
        raise ValueError(f"{parsed.name} has as shape {list(parsed.shape)} and as image {list(parsed.image)}")
    return parsed


def _number(entry: dict[str, Any], key: str, low: int, high: int = _LARGEST) -> int:
    value = entry[key]
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{key} is {value!r}")
    return value


def _text(entry: dict[str, Any], key: str) -> str:
    if not isinstance(entry[key], str):
        raise ValueError(f"{key} is {entry[key]!r}")
    return str(entry[key])


def _scale(entry: dict[str, Any]) -> float:
    scale = entry["scale"]
    if type(scale) not in (int, float) or not (isfinite(scale) and scale > 0):
        raise ValueError(f"scale is {scale!r}")
    return float(scale)


def _check_together(entries: Sequence[OutsideInput], inside: int) -> None:
    positions = [entry.position for entry in entries]
    if len(set(positions)) < len(positions) or any(at >= inside + len(entries) for at in positions):
        raise ValueError(f"the inputs outside are at {positions}, with {inside} inside")
    numbers = sorted(entry.number for entry in entries)
    if numbers != list(range(len(numbers))):
        raise ValueError(f"they have the numbers {numbers}")


def set_outside_inputs(model: Model, entries: Sequence[OutsideInput]) -> Model:
    """Return the model with the given inputs as its metadata; without an entry if there are none."""
    if not entries:
        return remove_metadata(model, OUTSIDE_METADATA)
    content = {"version": _VERSION, "inputs": [entry.to_json() for entry in entries]}
    return set_metadata(model, OUTSIDE_METADATA, json.dumps(content, separators=(",", ":")).encode())


def outside_numbers(model: Model, moved: Sequence[int]) -> dict[int, int]:
    """Return the number of each of the inputs ``moved``, after the inputs that are already outside.

    Raises:
        ModelError: the metadata entry is damaged.
    """
    first = len(outside_inputs(model))
    return {tensor: first + number for number, tensor in enumerate(moved)}


def take_inputs_out(model: Model, images: Mapping[int, tuple[int, int, int]], mode: InputMode) -> Model:
    """Return the model without some of its inputs, which its blocks read from outside the arena, and their metadata.

    Args:
        model: a model whose blocks use the numbers of ``outside_numbers``; inputs that arrive by columns have rows and
            columns exchanged.
        images: for each input that leaves, in the order of their numbers, rows, columns and channels as blocks read it.
        mode: streamed, by columns, or external.

    Raises:
        ModelError: an operator reads one of them, or the metadata entry is damaged.
    """
    if not images:
        return model
    graph, before, numbers = model.main, outside_inputs(model), outside_numbers(model, tuple(images))
    for index, operator in enumerate(graph.operators):
        for tensor in set(operator.inputs or ()) & images.keys():
            label = operator_label(model, index)
            raise ModelError(f"{label} reads input {graph.tensors[tensor].name}, which must therefore be in the arena")
    positions = iter(sorted(set(range(len(graph.inputs) + len(before))) - {entry.position for entry in before}))
    entries = [
        _entry(graph.tensors[tensor], position, mode, numbers[tensor], images[tensor])
        for tensor, position in zip(graph.inputs, positions, strict=True)
        if tensor in images
    ]
    kept = replace(graph, inputs=tuple(tensor for tensor in graph.inputs if tensor not in images))
    model = forget_in_signatures(replace_main(model, kept), images.keys())
    return set_outside_inputs(model, (*before, *entries))


def _entry(tensor: Tensor, position: int, mode: InputMode, number: int, image: tuple[int, int, int]) -> OutsideInput:
    kind, quantization, shape = TensorType(tensor.type), tensor.quantization, tensor.dims
    if mode is InputMode.COLUMNS:
        shape = (shape[0], shape[2], shape[1], shape[3])
    scale, zero_point = 1.0, 0
    if quantization is not None and quantization.scale and quantization.zero_point:
        scale, zero_point = quantization.scale[0], quantization.zero_point[0]
    return OutsideInput(position, tensor.name or "", shape, scale, zero_point, mode, number, *image, kind)


def forget_in_signatures(model: Model, tensors: Collection[int]) -> Model:
    """Return the model with some inputs of its first subgraph removed from its signatures."""
    if not tensors:
        return model

    def without(signature: SignatureDef) -> SignatureDef:
        kept = tuple(entry for entry in signature.inputs or () if entry.tensor_index not in tensors)
        return replace(signature, inputs=kept)

    return with_signatures(model, without)


def with_inputs_inside(model: Model) -> Model:
    """Return the model with all inputs of the original, in their order; those outside are tensors without readers.

    It is used to feed a model and to compare the inputs of two models.

    Raises:
        ModelError: the metadata entry is damaged.
    """
    entries = outside_inputs(model)
    inputs, tensors = list(model.main.inputs), list(model.main.tensors)
    for entry in entries:
        inputs.insert(entry.position, len(tensors))
        tensors.append(_tensor(entry))
    return replace_main(model, replace(model.main, inputs=tuple(inputs), tensors=tuple(tensors))) if entries else model


def _tensor(entry: OutsideInput) -> Tensor:
    if entry.type == TensorType.FLOAT32:
        return Tensor(entry.shape, entry.type, 0, entry.name)
    quantization = Quantization(scale=(entry.scale,), zero_point=(entry.zero_point,))
    return Tensor(entry.shape, entry.type, 0, entry.name, quantization)
