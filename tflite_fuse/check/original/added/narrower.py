"""Operators as they are without channels that say nothing.

A tensor may be made without some of its channels: what writes it then has no filters for them. What reads it, reads the
same where each of them has one value in every inference, which then is in the bias, or is multiplied by zeros alone.
Which channels a rewrite leaves out is guessed here, the way it is chosen; that an operator without them computes the
same of the others is worked out for every operator, whatever was guessed.
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

_MULTIPLE = 4
_MOST_CHANNELS, _MOST_IN_ALL = 1 << 16, 1 << 18  # a rewrite that looked at more left none out
_MIXING = ("CONV_2D", "FULLY_CONNECTED")
_BY_CHANNEL = frozenset({
    "ABS", "ADD", "AVERAGE_POOL_2D", "DEPTHWISE_CONV_2D", "HARD_SWISH", "LEAKY_RELU", "LOGISTIC", "MAX_POOL_2D", "MEAN",
    "PAD", "QUANTIZE", "RELU", "RELU6", "RESHAPE", "TANH",
})  # fmt: skip
_KINDS = (
    StageKind.ADD, StageKind.AVERAGE_POOL, StageKind.DEPTHWISE, StageKind.GLOBAL_AVERAGE, StageKind.MAX_POOL,
    StageKind.PAD,
)  # fmt: skip


def add_narrower(original: Original) -> None:
    """Adds to the original what its operators are without such channels."""
    channels = [(1, *tensor.dims)[-1] for tensor in original.model.main.tensors]
    if max(channels, default=0) > _MOST_CHANNELS or sum(channels) > _MOST_IN_ALL:
        return
    meanings = meanings_in_file(original)
    known = extents(original, meanings)
    looked = [_look(original, *each) for each in zip(original.steps, meanings, strict=False)]
    kept = _guess(original, looked, known)
    if not kept:
        return
    made = {
        tensor: original.add_tensor(_without(original.tensors[tensor], channels, -1, ()))
        for tensor, channels in kept.items()
    }
    original.narrower.update(made.values())
    for each in looked:
        if not any(tensor in made for tensor in (*each.step.inputs, *each.step.outputs)):
            continue
        narrower = _Narrower(original, each.step, kept, made, known)
        if each.mixes is not None:
            narrower.add_mixing(each.mixes)
        elif each.goes_by_channel:
            narrower.add_by_channel()


@dataclass(frozen=True)
class _Looked:
    """An operator of the file, and what it does to channels.

    Attributes:
        step: the operator.
        mixes: what it asks for, if it sums over all channels of its input.
        goes_by_channel: whether channel c of what it writes is made of channels c alone, wherever they are.
    """

    step: Step
    mixes: Meaning | None
    goes_by_channel: bool


def _look(original: Original, step: Step, meaning: Meaning | None) -> _Looked:
    sums = step.name in _MIXING and meaning is not None and meaning.kind is not StageKind.DEPTHWISE
    by_channel = step.name in _BY_CHANNEL and _goes_by_channel(original, step, meaning)
    return _Looked(step, meaning if sums else None, by_channel)


# ---- What is left of an operator ----


@dataclass(frozen=True)
class _Narrower:
    """An operator between tensors some of which lack channels.

    Attributes:
        original: the model.
        step: the operator.
        kept: by tensor, the channels that are left.
        made: by tensor, the one that has only those.
        known: what its tensors can hold.
    """

    original: Original
    step: Step
    kept: Mapping[int, Int64s]
    made: Mapping[int, int]
    known: Mapping[int, Extent]

    def add_mixing(self, meaning: Meaning) -> None:
        """A convolution, if what its input lacks is nothing to it but a number."""
        original, step = self.original, self.step
        if meaning.weights is None:
            return
        source, output = step.inputs[0], step.outputs[0]
        if step.name == "CONV_2D" and meaning.weights.shape[-1] != original.tensors[source].dims[-1]:
            return  # of groups, which filters belong to by their number
        filters = self.kept.get(output, np.arange(len(meaning.weights)))
        share = np.zeros(len(filters), np.int64)
        if source in self.kept:
            found = self._share(meaning, filters)
            if found is None:
                return
            share = found
        if share.any() and step.operand(2) < 0:
            return
        weights = original.weights(step.inputs[1])
        if weights is None:
            return
        narrow = weights[filters]
        if source in self.kept:
            narrow = narrow[..., self.kept[source]]
        self._add(self._constants(narrow, filters if output in self.kept else None, 0, share))

    def _share(self, meaning: Meaning, filters: Int64s) -> Int64s | None:
        """What missing channels add to the sums of some filters; None where that is not one number."""
        source = meaning.sources[0]
        channels, point = self.original.tensors[source].dims[-1], affine(self.original, source)[1]
        extent = self.known.get(source) or whole(channels)
        gone = np.delete(np.arange(channels), self.kept[source])
        weights = np.asarray(meaning.weights, np.int64)
        if weights.shape[-1] != channels:
            return None
        seen = weights[filters][..., gone].reshape(len(filters), -1, len(gone))
        values = extent.least[gone] - point
        read = (seen != 0).any((0, 1))
        if (read & (extent.least[gone] != extent.greatest[gone])).any():
            return None
        if (read & (values != 0)).any() and (leaves_image(meaning) or sums(self.original, meaning, extent) is None):
            return None
        share: Int64s = (seen * values).sum((1, 2))
        return share

    def add_by_channel(self) -> None:
        """What takes channels one by one takes those that are left, if they are the same everywhere."""
        step, read = self.step, _computed(self.step)
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
                self._add(self._constants(weights[..., channels], channels, -1, share))
        else:
            self._add({})
        if keeps_bytes(self.original, step):
            self.original.unite(self.made[read[0]], self.made[step.outputs[0]])

    def _constants(
        self, weights: npt.NDArray[np.int8], filters: Int64s | None, axis: int, share: Int64s
    ) -> dict[int, int]:
        """Weights and bias by the place of the operand."""
        original, (stored, bias) = self.original, (self.step.operand(1), self.step.operand(2))
        tensor = replace(original.tensors[stored], shape=weights.shape, shape_signature=None)
        if filters is not None:
            tensor = _without(tensor, filters, axis, original.tensors[stored].dims)
        found = {1: original.add_tensor(replace(tensor, shape=weights.shape), weights.tobytes())}
        if bias >= 0 and (filters is not None or share.any()):
            numbers = np.array(original.numbers(bias), np.int64)
            numbers = (numbers if filters is None else numbers[filters]) + share
            tensor = replace(original.tensors[bias], shape=numbers.shape, shape_signature=None)
            if filters is not None:
                tensor = _without(tensor, filters, 0, original.tensors[bias].dims)
            found[2] = original.add_tensor(tensor, numbers.astype("<i4").tobytes())
        return found

    def _add(self, constants: Mapping[int, int]) -> None:
        read = _computed(self.step)
        inputs = [self.made.get(t, t) if place < len(read) else t for place, t in enumerate(self.step.inputs)]
        for place, tensor in constants.items():
            inputs[place] = tensor
        outputs = tuple(self.made.get(tensor, tensor) for tensor in self.step.outputs)
        operator = replace(self.step.operator, inputs=tuple(inputs), outputs=outputs)
        self.original.add_step(Step(self.step.label, self.step.name, operator, self.step.code))


def _without(tensor: Tensor, channels: Int64s, axis: int, before: tuple[int, ...]) -> Tensor:
    """A tensor with these channels alone; of a constant, ``before`` are the extents its scales went with."""
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


# ---- Which channels that may be ----


def _computed(step: Step) -> tuple[int, ...]:
    return step.inputs[: 2 if step.name == "ADD" else 1]


def _goes_by_channel(original: Original, step: Step, meaning: Meaning | None) -> bool:
    tensors = (*_computed(step), *step.outputs)
    if len(step.outputs) != 1 or any(original.activation(tensor) is None for tensor in tensors):
        return False
    if len({(0, *original.tensors[tensor].dims)[-1] for tensor in tensors}) > 1:
        return False
    if any(original.tensors[tensor].type != TensorType.INT8 for tensor in tensors):
        return False
    if keeps_bytes(original, step):
        return step.name in ("PAD", "RESHAPE")
    if table_of(original, step) is not None:
        return True
    one_by_one = meaning is not None and meaning.kind in _KINDS and len(meaning.sources) == len(tensors) - 1
    return one_by_one and meaning is not None and meaning.multiplier_of_depth == 1


def _guess(original: Original, looked: Sequence[_Looked], known: Mapping[int, Extent]) -> dict[int, Int64s]:
    """By tensor, the channels a rewrite leaves: of joined tensors the same, of as many as may go a multiple stays."""
    joined, constant = _joined(original, looked), _constant(original, looked, known)
    gone: dict[int, npt.NDArray[np.bool_]] = {}
    for _ in looked:
        found = _may_go(original, looked, joined, constant, gone)
        if found.keys() == gone.keys() and all(np.array_equal(mask, gone[group]) for group, mask in found.items()):
            break
        gone = found
    else:
        return {}
    kept = {}
    for tensor in {tensor for each in looked for tensor in each.step.outputs}:
        mask = gone.get(joined[tensor])
        if mask is not None and not (stays := _stays(mask)).all():
            kept[tensor] = np.flatnonzero(stays)
    return dict(sorted(kept.items()))


def _stays(gone: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    wanted = -(-max(1, int((~gone).sum())) // _MULTIPLE) * _MULTIPLE
    stays = ~gone
    stays[np.flatnonzero(gone)[: wanted - int(stays.sum())]] = True
    return stays


def _joined(original: Original, looked: Sequence[_Looked]) -> dict[int, int]:
    """By tensor, one that stands for all between which channels go one by one."""
    joined = {tensor: tensor for tensor in range(len(original.tensors))}
    for each in looked:
        if each.goes_by_channel:
            tensors = [*_computed(each.step), *each.step.outputs]
            groups = {joined[tensor] for tensor in tensors}
            for tensor, group in joined.items():
                if group in groups:
                    joined[tensor] = min(groups)
    return joined


def _may_go(
    original: Original,
    looked: Sequence[_Looked],
    joined: Mapping[int, int],
    constant: Mapping[int, npt.NDArray[np.bool_]],
    before: Mapping[int, npt.NDArray[np.bool_]],
) -> dict[int, npt.NDArray[np.bool_]]:
    found: dict[int, npt.NDArray[np.bool_]] = {}

    def permit(tensor: int, channels: npt.NDArray[np.bool_] | bool) -> None:
        if tensor < 0:
            return
        mask = found.setdefault(joined[tensor], np.ones((1, *original.tensors[tensor].dims)[-1], np.bool_))
        found[joined[tensor]] = mask & channels

    for tensor in (*original.model.main.inputs, *original.model.main.outputs):
        permit(tensor, False)
    for place, each in enumerate(looked):
        step = each.step
        if each.mixes is not None:
            ends, behind = constant.get(place), before.get(joined[step.outputs[0]])
            permit(step.inputs[0], ends is not None and _nothing_to(each.mixes, ends, behind))
            permit(step.outputs[0], True)
        elif each.goes_by_channel:
            for tensor in (*_computed(step), *step.outputs):
                permit(tensor, True)
        else:
            for tensor in (*step.inputs, *step.outputs):
                permit(tensor, False)
    return found


def _constant(
    original: Original, looked: Sequence[_Looked], known: Mapping[int, Extent]
) -> dict[int, npt.NDArray[np.bool_]]:
    """Of convolutions by their place, the channels they read that have one value, which can be moved into the bias."""
    found = {}
    for place, each in enumerate(looked):
        meaning = each.mixes
        if meaning is None or meaning.weights is None:
            continue
        source = meaning.sources[0]
        channels = original.tensors[source].dims[-1]
        if meaning.weights.shape[-1] != channels:
            continue
        extent = known.get(source) or whole(channels)
        constant = extent.least == extent.greatest
        zeros = constant & (extent.least == affine(original, source)[1])
        if (zeros != constant).any():
            has_bias = each.step.operand(2) >= 0
            fits = has_bias and not leaves_image(meaning) and sums(original, meaning, extent) is not None
            constant = constant if fits else zeros
        found[place] = constant
    return found


def _nothing_to(
    meaning: Meaning, constant: npt.NDArray[np.bool_], gone: npt.NDArray[np.bool_] | None
) -> npt.NDArray[np.bool_]:
    """The channels that are nothing to a convolution but a number."""
    weights = np.asarray(meaning.weights)
    unread = ~(weights if gone is None else weights[_stays(gone)]).any((0, 1, 2))
    return np.asarray(unread | constant)
