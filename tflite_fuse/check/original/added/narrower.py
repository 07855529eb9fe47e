"""Operators without channels that carry no information.

A tensor may lack some of its channels: its writer then has no filters for them. Its reader gives the same result if
each of the missing channels has one value in every inference, which moves into the bias, or is multiplied by zeros
alone. The witness claims which channels remain; here each operator is checked to compute the same on the remaining
channels, so a wrong claim cannot succeed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tflite_fuse.check.original.functions import table_of
from tflite_fuse.check.original.meaning import Int64s, Meaning, affine
from tflite_fuse.check.original.meanings import meanings_in_file
from tflite_fuse.check.original.ranges import Extent, extents, keeps_bytes, leaves_image, sums, whole
from tflite_fuse.check.original.values import Original, Step
from tflite_fuse.ir.enums import StageKind
from tflite_fuse.model.schema import Quantization, Tensor
from tflite_fuse.model.types import TensorType

_MOST_CHANNELS = 1 << 20
"""Most channels of all tensors together: a hostile file can claim 2^31 of them in a few bytes."""

_BY_CHANNEL = (
    StageKind.ADD, StageKind.AVERAGE_POOL, StageKind.DEPTHWISE, StageKind.GLOBAL_AVERAGE, StageKind.MAX_POOL,
    StageKind.PAD,
)  # fmt: skip
"""Stages whose output channel c depends on input channels c alone."""


def add_narrower(original: Original, kept: Mapping[int, Sequence[int]]) -> None:
    """Add to the original its operators on the remaining channels of its tensors.

    Args:
        original: the model.
        kept: tensor → its remaining channels, ascending and within its last dimension.
    """
    if not kept or sum((1, *tensor.dims)[-1] for tensor in original.model.main.tensors) > _MOST_CHANNELS:
        return
    meanings = meanings_in_file(original)
    ranges = extents(original, meanings)
    left = {tensor: np.array(channels, np.int64) for tensor, channels in kept.items()}
    narrower = {
        tensor: original.add_tensor(_without(original.tensors[tensor], channels, -1, ()))
        for tensor, channels in left.items()
    }
    original.narrower.update(narrower.values())
    for step, meaning in zip(tuple(original.steps), meanings, strict=False):
        if any(tensor in narrower for tensor in (*step.inputs, *step.outputs)):
            _Narrower(original, step, meaning, left, narrower, ranges).add()


@dataclass(frozen=True)
class _Narrower:
    """An operator some of whose tensors lack channels.

    Attributes:
        original: the model.
        step: the operator.
        meaning: its stage, None if no stage computes it.
        kept: tensor → the remaining channels.
        narrower: tensor → the added tensor of only those.
        ranges: of its tensors.
    """

    original: Original
    step: Step
    meaning: Meaning | None
    kept: Mapping[int, Int64s]
    narrower: Mapping[int, int]
    ranges: Mapping[int, Extent]

    def add(self) -> None:
        """Add the operator without channels if that is sound."""
        meaning = self.meaning
        if meaning is not None and meaning.kind in (StageKind.CONV, StageKind.FULLY_CONNECTED):
            self._add_mixing(meaning)
        elif read := self._read_by_channel():
            self._add_by_channel(read)

    def _read_by_channel(self) -> tuple[int, ...]:
        """Return the operands if output channel c depends on their channels c alone; else nothing."""
        original, step, meaning = self.original, self.step, self.meaning
        renames = keeps_bytes(original, step)
        one = renames or table_of(original, step) is not None
        read = step.inputs[:1] if one or meaning is None else meaning.sources
        tensors = (*read, *step.outputs)
        if len(step.outputs) != 1 or any(original.activation(tensor) is None for tensor in tensors):
            return ()
        if len({(0, *original.tensors[tensor].dims)[-1] for tensor in tensors}) > 1:
            return ()
        if any(original.tensors[tensor].type != TensorType.INT8 for tensor in tensors):
            return ()
        if not one and (meaning is None or meaning.kind not in _BY_CHANNEL or meaning.multiplier_of_depth != 1):
            return ()
        # A CONV_2D that is a DEPTHWISE has its filters along another axis and keeps all channels.
        return read if step.inputs[: len(read)] == read and step.name != "CONV_2D" else ()

    def _add_mixing(self, meaning: Meaning) -> None:
        """Add a convolution if the missing input channels contribute a constant."""
        original, step = self.original, self.step
        weights = original.weights(step.operand(1))
        source, output = step.inputs[0], step.outputs[0]
        if weights is None or meaning.weights is None or original.tensors[output].dims[-1] != len(meaning.weights):
            return  # a MEAN, or outputs that are not one per filter
        if step.name == "CONV_2D" and meaning.weights.shape[-1] != original.tensors[source].dims[-1]:
            return  # grouped: a filter's number determines its group
        filters = self.kept.get(output, np.arange(len(meaning.weights)))
        share = np.zeros(len(filters), np.int64)
        if source in self.kept:
            contribution = self._share(meaning, filters)
            if contribution is None:
                return
            share = contribution
        if share.any() and step.operand(2) < 0:
            return
        narrow = weights[filters]
        if source in self.kept:
            narrow = narrow[..., self.kept[source]]
        self._add((source,), self._constants(narrow, filters if output in self.kept else None, 0, share))

    def _share(self, meaning: Meaning, filters: Int64s) -> Int64s | None:
        """Return the missing channels' contribution to the sums of some filters; None if it is not constant."""
        source = meaning.sources[0]
        channels, point = self.original.tensors[source].dims[-1], affine(self.original, source)[1]
        extent = self.ranges.get(source) or whole(channels)
        gone = np.delete(np.arange(channels), self.kept[source])
        weights = np.asarray(meaning.weights, np.int64)
        if weights.shape[-1] != channels:
            return None
        seen = weights[filters][..., gone]
        values = extent.least[gone] - point
        read = (seen != 0).any((0, 1, 2))
        if (read & (extent.least[gone] != extent.greatest[gone])).any():
            return None
        if (read & (values != 0)).any() and (leaves_image(meaning) or sums(self.original, meaning, extent) is None):
            return None
        share: Int64s = (seen * values).sum((1, 2, 3))
        return share

    def _add_by_channel(self, read: tuple[int, ...]) -> None:
        """Add a channelwise operator on the remaining channels if these are the same in all of its tensors."""
        step = self.step
        tensors = (*read, *step.outputs)
        if not all(tensor in self.kept for tensor in tensors):
            return
        channels = self.kept[step.outputs[0]]
        if not all(np.array_equal(self.kept[tensor], channels) for tensor in tensors):
            return
        if step.name == "DEPTHWISE_CONV_2D":
            weights = self.original.weights(step.inputs[1])
            if weights is not None:
                share = np.zeros(len(channels), np.int64)
                self._add(read, self._constants(weights[..., channels], channels, -1, share))
        else:
            self._add(read, {})
        if keeps_bytes(self.original, step):
            self.original.unite(self.narrower[read[0]], self.narrower[step.outputs[0]])

    def _constants(
        self, weights: npt.NDArray[np.int8], filters: Int64s | None, axis: int, share: Int64s
    ) -> dict[int, int]:
        """Return weights and bias by the position of the operand."""
        original, (stored, bias) = self.original, (self.step.operand(1), self.step.operand(2))
        tensor = replace(original.tensors[stored], shape=weights.shape, shape_signature=None)
        if filters is not None:
            tensor = _without(tensor, filters, axis, original.tensors[stored].dims)
        constants = {1: original.add_tensor(replace(tensor, shape=weights.shape), weights.tobytes())}
        if bias >= 0 and (filters is not None or share.any()):
            numbers = np.array(original.numbers(bias), np.int64)
            numbers = (numbers if filters is None else numbers[filters]) + share
            tensor = replace(original.tensors[bias], shape=numbers.shape, shape_signature=None)
            if filters is not None:
                tensor = _without(tensor, filters, 0, original.tensors[bias].dims)
            constants[2] = original.add_tensor(tensor, numbers.astype("<i4").tobytes())
        return constants

    def _add(self, read: tuple[int, ...], constants: Mapping[int, int]) -> None:
        inputs = [self.narrower.get(t, t) if place < len(read) else t for place, t in enumerate(self.step.inputs)]
        for place, tensor in constants.items():
            inputs[place] = tensor
        outputs = tuple(self.narrower.get(tensor, tensor) for tensor in self.step.outputs)
        self.original.add_copy(self.step, inputs, outputs)


def _without(tensor: Tensor, channels: Int64s, axis: int, before: tuple[int, ...]) -> Tensor:
    """Return a tensor with only these channels; for a constant, ``before`` is the shape that its scales belong to."""
    dims, signature = list(tensor.dims), tensor.shape_signature
    dims[axis] = len(channels)
    if signature is not None:
        signature = (*signature[:-1], len(channels))
    quantization = tensor.quantization
    if before and quantization is not None:
        quantization = _cut(quantization, channels, before[axis])
    return replace(tensor, shape=tuple(dims), shape_signature=signature, quantization=quantization)


def _cut(quantization: Quantization, channels: Int64s, number: int) -> Quantization:
    chosen: dict[str, Any] = {}
    for name in ("min", "max", "scale", "zero_point"):
        values = getattr(quantization, name)
        if values is not None and len(values) == number > 1:
            chosen[name] = tuple(values[channel] for channel in channels.tolist())
    return replace(quantization, **chosen)
