"""Inputs outside the arena as Python objects: arrays, and functions that return pixels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tflite_fuse.errors import UsageError
from tflite_fuse.model import Model
from tflite_fuse.model.outside import InputMode, OutsideInput, outside_inputs
from tflite_fuse.model.types import TensorType

Array = npt.NDArray[Any]

INT8 = np.dtype(np.int8)
_DTYPES: dict[int, np.dtype[Any]] = {
    TensorType.INT8: INT8,
    TensorType.UINT8: np.dtype(np.uint8),
    TensorType.FLOAT32: np.dtype(np.float32),
}

PixelSource = Callable[[int, int, int], Any]
"""(y, x, count) → array of the input's type, or bytes: ``count`` pixels of row y from column x on, channels last."""


@dataclass(frozen=True)
class Stream:
    """A source of pixels.

    Attributes:
        read: the function.
        image: rows, columns and channels.
        dtype: type of its elements.
    """

    read: PixelSource
    image: tuple[int, int, int]
    dtype: np.dtype[Any] = INT8

    def pixels(self, y: int, x: int, count: int) -> bytes:
        """Return the bytes of ``count`` pixels; raises as ``pixel_bytes`` does."""
        return pixel_bytes(self.read, y, x, count, self.image[2], self.dtype)


Outside = Array | Stream
"""Data of one of a model's external tensors or sources; an array serves both."""


@dataclass(frozen=True)
class Feed:
    """The data of one inference: arrays for the model's inputs, and data outside the arena by number."""

    inputs: tuple[Array, ...]
    outside: tuple[Outside, ...]


def pixel_bytes(read: PixelSource, y: int, x: int, count: int, channels: int, dtype: np.dtype[Any] = INT8) -> bytes:
    """Return the bytes of ``count`` pixels of row y from column x on.

    Raises:
        UsageError: the source returned another type or number of bytes.
        Exception: any that the source raises.
    """
    values = read(y, x, count)
    if not isinstance(values, (bytes, bytearray, memoryview)):
        values = np.asarray(values)
        if values.dtype != dtype:
            raise UsageError(f"the source of an input gave {values.dtype} pixels; the model reads {dtype}")
    pixels = values.tobytes() if isinstance(values, np.ndarray) else bytes(values)
    if len(pixels) != count * channels * dtype.itemsize:
        raise UsageError(
            f"the source of an input gave {len(pixels)} bytes for {count} pixels of {channels} channels "
            f"(row {y}, column {x})"
        )
    return pixels


def make_feed(model: Model, inputs: Sequence[Array | PixelSource], name: str = "the model") -> Feed:
    """Divide the arrays and functions for a model's inputs among those inside and outside the arena.

    Args:
        model: any model.
        inputs: one per input of the model, in the order of the model it was rewritten from. A streamed input may be an
            array or a function, all others are arrays.
        name: of the model in messages.

    Raises:
        UsageError: another number of inputs, a function for an input that is not streamed, or an array that does not
            fit an input outside the arena.
        ModelError: the metadata of inputs outside the arena is damaged.
    """
    entries = outside_inputs(model)
    total = len(model.main.inputs) + len(entries)
    if len(inputs) != total:
        raise UsageError(f"{name} has {total} inputs but {len(inputs)} were given")
    outside: dict[int, Outside] = {}
    for entry in entries:
        value = inputs[entry.position]
        if not callable(value):
            outside[entry.number] = _image(value, entry)
        elif entry.mode.streams:
            outside[entry.number] = Stream(value, entry.image, _DTYPES[entry.type])
        else:
            raise UsageError(f"input {entry.name} of {name} is read in any order: give an array, not a function")
    positions = {entry.position for entry in entries}
    inside = [value for position, value in enumerate(inputs) if position not in positions]
    if any(callable(value) for value in inside):
        raise UsageError(f"{name} has an input in the arena that was given as a function; only streamed ones may")
    return Feed(tuple(np.asarray(value) for value in inside), tuple(outside[number] for number in sorted(outside)))


def _image(values: Any, entry: OutsideInput) -> Array:
    array, dtype = np.asarray(values), _DTYPES[entry.type]
    if array.dtype != dtype or array.shape not in (entry.shape, entry.image):
        raise UsageError(
            f"input {entry.name} is {dtype} {list(entry.shape)} but the array given for it is {array.dtype} "
            f"{list(array.shape)}"
        )
    if entry.mode is InputMode.COLUMNS and array.shape == entry.shape:
        array = np.ascontiguousarray(array.swapaxes(1, 2))
    return array.reshape(entry.image)
