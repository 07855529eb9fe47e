"""Removal of channels that are constant or have no effect.

    CONV_2D(x, W) + b   =   CONV_2D(x without c, W without c) + b + (v - zero point) * W[c]    where c is always v

A range [least, greatest] of every channel is propagated through the operators: the sums of a convolution lie between
the sums of its input's ends, each end selected by the sign of the weight, and scaling is monotone. All ranges are safe
bounds; a channel is constant if both ends are equal.

Training with a penalty on weights leaves filters of zeros, whose channels equal their bias; other sums always end below
the activation's lower bound. The convolution that reads such a channel gets its share in the bias, and all operators
that computed the channel become narrower. A channel of any values with zero weights in all its readers is
removed, too. Depthwise convolutions, pools, activations and additions map a channel to the same channel: it is removed
from all tensors that they join, or from none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from operator import and_
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import BlockTensor, Stage, StageKind
from tflite_fuse.memory.tflm.offline_plan import remove_plan
from tflite_fuse.model.edit import Editor, prune, used_tensors
from tflite_fuse.model.operators import make_options, operator_name
from tflite_fuse.model.schema import Model, Operator, Quantization, Tensor
from tflite_fuse.model.types import TensorType
from tflite_fuse.model.witness import Witness
from tflite_fuse.notes import Note, note
from tflite_fuse.ops.arithmetic import Int64Array, multiply_by_quantized_multiplier
from tflite_fuse.ops.entry import required
from tflite_fuse.ops.kinds.lookup import VALUES, answers_of
from tflite_fuse.ops.lowering.lower import Lowerings, lower_model
from tflite_fuse.ops.lowering.operands import Activation
from tflite_fuse.ops.lowering.view import Lowered
from tflite_fuse.ops.table import KINDS
from tflite_fuse.passes.base import PassResult

_INT32 = 2**31
_ROOM = 2**8
"""Margin for a zero point that is added to a scaled sum."""


@dataclass(frozen=True)
class Range:
    """Least and greatest int8 value of each channel, int64 [C] each."""

    low: Int64Array
    high: Int64Array

    @property
    def is_constant(self) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Return for each channel whether it has a single value, bool [C]."""
        constant: np.ndarray[tuple[int, ...], np.dtype[np.bool_]] = self.low == self.high
        return constant

    def arranged(self, channels: int) -> Range:
        """Return the range for another number of channels per pixel, as after RESHAPE."""
        have = len(self.low)
        if channels % have == 0:
            return Range(np.tile(self.low, channels // have), np.tile(self.high, channels // have))
        if have % channels == 0:
            return Range(self.low.reshape(-1, channels).min(0), self.high.reshape(-1, channels).max(0))
        return Range(np.full(channels, self.low.min()), np.full(channels, self.high.max()))


def anything(channels: int, low: int = -128, high: int = 127) -> Range:
    """Return the full range of a tensor's type or clamp."""
    return Range(np.full(channels, low, np.int64), np.full(channels, high, np.int64))


def find_ranges(lowerings: Lowerings) -> dict[int, Range]:
    """Return the range of every tensor that a stage computes; all other tensors have the full range.

    Args:
        lowerings: lowerings of the model's operators, in their order.
    """
    ranges: dict[int, Range] = {}
    for lowered in lowerings:
        if not isinstance(lowered, str) and not any(tensor.is_real for tensor in (*lowered.inputs, lowered.output)):
            ranges[lowered.output.index] = _range_of(lowered, ranges)
    return ranges


def _range_of(lowered: Lowered, ranges: Mapping[int, Range]) -> Range:
    channels = (1, *lowered.output.dims)[-1]
    sources = [ranges.get(source.index) or anything((1, *source.dims)[-1]) for source in lowered.inputs]
    if lowered.stage is None:
        return sources[0].arranged(channels)
    stage = lowered.stage
    try:
        ends = _ends(lowered, stage, sources)
    except BlockError:
        ends = None
    bounds = anything(channels, stage.activation_min, stage.activation_max)
    if ends is None or len(ends.low) != channels:
        return bounds
    return Range(*(np.clip(end, stage.activation_min, stage.activation_max) for end in (ends.low, ends.high)))


def _ends(lowered: Lowered, stage: Stage, sources: Sequence[Range]) -> Range | None:
    """Return the range before the clamp, or None."""
    kind, source = stage.kind, lowered.inputs[0]
    if kind in (StageKind.CONV, StageKind.DEPTHWISE, StageKind.FULLY_CONNECTED):
        return _scaled(stage, sums_of(stage, lowered, sources[0]), lowered.output.zero_point)
    if kind is StageKind.GLOBAL_AVERAGE and stage.requantization is not None:
        count = source.shape[0] * source.shape[1]
        sums = Range(*((end - source.zero_point) * count for end in (sources[0].low, sources[0].high)))
        return _scaled(stage, sums, lowered.output.zero_point)
    if kind in (StageKind.GLOBAL_AVERAGE, StageKind.AVERAGE_POOL, StageKind.MAX_POOL):
        return sources[0]
    if kind is StageKind.PAD:
        return Range(np.minimum(sources[0].low, stage.pad_value), np.maximum(sources[0].high, stage.pad_value))
    if kind is StageKind.LOOKUP:
        return _looked_up(answers_of(stage), sources[0])
    if kind is StageKind.ADD and len(sources[0].low) == len(sources[1].low):
        return _added(lowered, stage, sources)
    return None


def sees_padding(stage: Stage, lowered: Lowered) -> bool:
    """Return whether a window leaves the input."""
    if KINDS[stage.kind].window.name == "PIXEL":
        return False
    shape, output = lowered.inputs[0].shape, lowered.output_shape
    reach = [(output[axis] - 1) * stage.stride[axis] + stage.extent[axis] - stage.padding[axis] for axis in (0, 1)]
    return max(stage.padding) > 0 or any(end > shape[axis] for axis, end in enumerate(reach))


def sums_of(stage: Stage, lowered: Lowered, source: Range) -> Range | None:
    """Return the range of a stage's sums, bias included; None if sums may exceed 32 bits."""
    weights = required(stage.weights, stage, "weights").astype(np.int64)
    point = lowered.inputs[0].zero_point
    low, high = source.low - point, source.high - point
    if sees_padding(stage, lowered):
        low, high = np.minimum(low, 0), np.maximum(high, 0)
    up, down = np.maximum(weights, 0), np.minimum(weights, 0)
    times: Callable[[Int64Array, Int64Array], Int64Array] = np.matmul
    if stage.kind is StageKind.DEPTHWISE:
        low, high = (np.repeat(end, stage.depth_multiplier) for end in (low, high))
        up, down = (part.reshape(-1, part.shape[-1]).sum(0) for part in (up, down))
        times = np.multiply
    else:
        up, down = (part.reshape(len(part), -1) for part in (up, down))
        low, high = (np.tile(end, up.shape[1] // len(end)) for end in (low, high))
    bias = np.int64(0) if stage.bias is None else stage.bias.astype(np.int64)
    most = np.abs(bias) + times(up - down, np.maximum(np.abs(low), np.abs(high)))
    if (most >= _INT32).any():
        return None
    return Range(times(up, low) + times(down, high) + bias, times(up, high) + times(down, low) + bias)


def _scaled(stage: Stage, sums: Range | None, zero_point: int) -> Range | None:
    """Return the range of scaled sums; channels whose left shift might wrap, which is not monotone, are unbounded."""
    table = stage.requantization
    if sums is None or table is None:
        return None
    multiplier, shift = table.multiplier.astype(np.int64), table.shift.astype(np.int64)
    most = np.maximum(np.abs(sums.low), np.abs(sums.high)) << np.maximum(shift, 0)
    ends = [multiply_by_quantized_multiplier(end, multiplier, shift) + zero_point for end in (sums.low, sums.high)]
    wraps = most >= _INT32 - _ROOM
    # A negative scale swaps the ends.
    return Range(np.where(wraps, -_INT32, np.minimum(*ends)), np.where(wraps, _INT32, np.maximum(*ends)))


def _looked_up(answers: Int64Array, source: Range) -> Range:
    """Return the least and the greatest result of a table over the range."""
    inside = (source.low[:, None] <= VALUES) & (source.high[:, None] >= VALUES)
    return Range(np.where(inside, answers, _INT32).min(1), np.where(inside, answers, -_INT32).max(1))


def _added(lowered: Lowered, stage: Stage, sources: Sequence[Range]) -> Range:
    """Return the least and the greatest sum of the ends; one operand may be subtracted."""
    ends = []
    for values in product(*((source.low, source.high) for source in sources)):
        operands = [
            (_pixel(each, len(end)), end.reshape(1, 1, -1)) for each, end in zip(lowered.inputs, values, strict=True)
        ]
        ends.append(KINDS[stage.kind].reference(stage, operands, _pixel(lowered.output, len(values[0]))).reshape(-1))
    return Range(np.minimum.reduce(ends), np.maximum.reduce(ends))


def _pixel(activation: Activation, channels: int) -> BlockTensor:
    return BlockTensor(activation.name, 1, 1, channels, activation.zero_point)


Channels = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]

MULTIPLE = 4
"""Channels are kept in multiples of this number, because kernels read words of four bytes."""

MOST_CHANNELS, MOST_IN_ALL = 1 << 16, 1 << 18
"""Limits of a tensor's channels and of all channels: each is examined, and a small file can declare 2 · 10⁹."""

_MIXING = ("CONV_2D", "FULLY_CONNECTED")
_BY_CHANNEL = frozenset({
    "ABS", "ADD", "AVERAGE_POOL_2D", "DEPTHWISE_CONV_2D", "HARD_SWISH", "LEAKY_RELU", "LOGISTIC", "MAX_POOL_2D", "MEAN",
    "PAD", "QUANTIZE", "RELU", "RELU6", "RESHAPE", "TANH",
})  # fmt: skip
"""Operators whose output channel c depends only on channels c of their inputs."""
_STAGES = frozenset({
    StageKind.ADD, StageKind.AVERAGE_POOL, StageKind.DEPTHWISE, StageKind.GLOBAL_AVERAGE, StageKind.LOOKUP,
    StageKind.MAX_POOL, StageKind.PAD,
})  # fmt: skip


Accepts = Callable[[Model, Model], bool]
"""From the model with channels and the model without them to whether they may be removed."""


@dataclass(frozen=True)
class ConstantChannels:
    """Remove channels that are constant or have no reader.

    Attributes:
        accepts: independent check that a model and the narrower one compute the same; None without one.
    """

    accepts: Accepts | None = None

    name: ClassVar[str] = "constant-channels"

    def run(self, model: Model) -> PassResult:
        """Rewrite a model. If it changes, an offline memory plan is dropped, because tensor indices change."""
        channels = [(1, *tensor.dims)[-1] for tensor in model.main.tensors]
        if max(channels, default=0) > MOST_CHANNELS or sum(channels) > MOST_IN_ALL:
            return PassResult(model, False, (_too_many(channels),))
        lowerings = lower_model(model)
        facts = _Facts(model, lowerings, find_ranges(lowerings), _leaders(model))
        kept = facts.kept()
        if not kept:
            return PassResult(model, False)
        total = sum((1, *model.main.tensors[t].dims)[-1] for op in model.main.operators for t in op.outputs or ())
        removed = sum(model.main.tensors[tensor].dims[-1] - len(channels) for tensor, channels in kept.items())
        rewritten = _narrowed(remove_plan(model), facts, kept)
        origins = tuple(t if t < len(channels) else -1 for t in used_tensors(rewritten))
        result = PassResult(
            prune(rewritten),
            True,
            (note("removed", "channels", count=removed, channels=total),),
            witness=Witness({tensor: tuple(left.tolist()) for tensor, left in kept.items()}),
            origins=origins,
        )
        if self.accepts is not None and not self.accepts(model, result.witnessed):
            return PassResult(model, False, (note("kept", "channels", count=removed),))
        return result


@dataclass(frozen=True)
class _Facts:
    """A model and the facts about its channels.

    Attributes:
        model: the model.
        lowerings: its operators as stages.
        ranges: ranges of its tensors.
        leaders: by tensor, the representative of all tensors joined with it by operators that work channel by channel.
    """

    model: Model
    lowerings: Lowerings
    ranges: Mapping[int, Range]
    leaders: Mapping[int, int]

    def activation_inputs(self, index: int) -> tuple[int, ...]:
        """Return the inputs of operator ``index`` that are computed."""
        return _computed(self.model, self.model.main.operators[index])

    def stage(self, index: int) -> tuple[Lowered, Stage] | None:
        """Return operator ``index`` as a stage, or None."""
        lowered = self.lowerings[index]
        return None if isinstance(lowered, str) or lowered.stage is None else (lowered, lowered.stage)

    def mixing(self, index: int) -> tuple[Lowered, Stage] | None:
        """Return an int8 convolution whose outputs are sums over all channels, or None.

        Float32 is excluded: infinity times a weight of zero is NaN, so every channel has an effect.
        """
        described = self.stage(index)
        mixes = described is not None and described[1].kind is not StageKind.DEPTHWISE
        return described if described is not None and mixes and not described[0].output.is_real else None

    def kept(self) -> dict[int, Channels]:
        """Return the remaining channels of every tensor that loses some."""
        masks = self._removable()
        kept: dict[int, Channels] = {}
        for tensor in sorted(self.model.main.writers):
            mask = masks.get(self.leaders[tensor])
            if mask is not None and mask.any():
                kept[tensor] = np.flatnonzero(~_rounded(mask))
        return {t: channels for t, channels in kept.items() if len(channels) < self.model.main.tensors[t].dims[-1]}

    def _removable(self) -> dict[int, Mask]:
        """Return for each group, by its leader, whether a channel may be removed; nothing if that has no end.

        A convolution limits the group that it reads by the channels that the group behind it keeps. Each round follows
        the groups that changed in the round before.
        """
        limits, readers, writers = self._limits()
        masks, shares = dict[int, Mask](), dict[int, Mask | bool]()
        changed: Iterable[int] = limits
        for _ in self.model.main.operators:
            affected = set[int]() if masks else set(limits)
            for leader in changed:
                for index in writers[leader]:
                    shares[index] = self._unneeded(index, masks.get(leader))
                    affected.add(self.leaders[(self.model.main.operators[index].inputs or (-1,))[0]])
            new = {each: reduce(and_, (shares[index] for index in readers[each]), limits[each]) for each in affected}
            changed = [each for each, mask in new.items() if each not in masks or not np.array_equal(mask, masks[each])]
            if not changed:
                return masks
            masks |= new
        return {}  # two groups may depend on each other, because channels are kept in multiples

    def _limits(self) -> tuple[dict[int, Mask], dict[int, list[int]], dict[int, list[int]]]:
        """Return for each group its channels that only convolutions may need, and those that read and write it."""
        graph, limits = self.model.main, dict[int, Mask]()
        readers, writers = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)

        def allow(tensors: Iterable[int], removable: bool) -> None:
            for tensor in tensors:
                if tensor >= 0:
                    all_channels = np.full((1, *graph.tensors[tensor].dims)[-1], removable, np.bool_)
                    limits[self.leaders[tensor]] = limits.get(self.leaders[tensor], all_channels) & removable

        allow((*graph.inputs, *graph.outputs), False)
        for index, operator in enumerate(graph.operators):
            name, inputs, outputs = operator_name(self.model, operator), operator.inputs or (), operator.outputs or ()
            if name in _MIXING and self.mixing(index) is not None:
                readers[self.leaders[inputs[0]]].append(index)
                writers[self.leaders[operator.output]].append(index)
                allow((inputs[0], operator.output), True)
            elif name in _BY_CHANNEL and self._is_by_channel(index):
                allow((*self.activation_inputs(index), *outputs), True)
            else:
                allow((*inputs, *outputs), False)
        return limits, readers, writers

    def _is_by_channel(self, index: int) -> bool:
        """Return whether an operator maps each channel to the same one and has no per-channel constants."""
        operator, lowered = self.model.main.operators[index], self.lowerings[index]
        tensors = [self.model.main.tensors[t] for t in (*self.activation_inputs(index), *(operator.outputs or ()))]
        if isinstance(lowered, str) or len({(0, *tensor.dims)[-1] for tensor in tensors}) > 1:
            return False
        if any(tensor.type != TensorType.INT8 for tensor in tensors):
            return False
        if lowered.stage is None:
            return operator_name(self.model, operator) in ("PAD", "RESHAPE")
        same = len(lowered.inputs) == len(tensors) - 1 and lowered.stage.kind in _STAGES
        return same and lowered.stage.depth_multiplier == 1

    def _unneeded(self, index: int, output: Mask | None) -> Mask | bool:
        """Return for each input channel of a convolution whether its share is zero or fits into the bias."""
        described = self.mixing(index)
        if described is None:
            return False
        lowered, stage = described
        channels = lowered.inputs[0].dims[-1]
        if stage.weights is None or stage.weights.shape[-1] != channels:
            return False
        weights = stage.weights if output is None else stage.weights[~_rounded(output)]
        unread: Mask = (weights == 0).all(axis=tuple(range(weights.ndim - 1)))
        source = self.ranges.get(lowered.inputs[0].index)
        if source is None:
            return unread
        constant = source.is_constant
        zeros = constant & (source.low == lowered.inputs[0].zero_point)
        # A share of zero needs no bias, so the range of the sums usually need not be computed.
        if (zeros != constant).any():
            fits = stage.bias is not None and sums_of(stage, lowered, source) is not None
            constant = constant if fits and not sees_padding(stage, lowered) else zeros
        return np.asarray(unread | constant)


def _too_many(channels: Sequence[int]) -> Note:
    most, total = max(channels), sum(channels)
    excess = f"a tensor of {most:,}" if most > MOST_CHANNELS else f"{total:,} in all"
    limit = MOST_CHANNELS if most > MOST_CHANNELS else MOST_IN_ALL
    return note("kept", "channels not searched", what=excess, most=limit)


def _computed(model: Model, operator: Operator) -> tuple[int, ...]:
    """Return the inputs of an operator that may be computed."""
    return (operator.inputs or ())[: 2 if operator_name(model, operator) == "ADD" else 1]


def _leaders(model: Model) -> dict[int, int]:
    leaders = {tensor: tensor for tensor in range(len(model.main.tensors))}

    def leader(tensor: int) -> int:
        while leaders[tensor] != tensor:
            tensor = leaders[tensor]
        return tensor

    for operator in model.main.operators:
        tensors = [t for t in (*_computed(model, operator), *(operator.outputs or ())) if t >= 0]
        joins = operator_name(model, operator) in _BY_CHANNEL and bool(tensors)
        if joins and len({(1, *model.main.tensors[t].dims)[-1] for t in tensors}) == 1:
            first, *rest = map(leader, tensors)
            leaders.update(dict.fromkeys(rest, first))
            leaders[first] = first
    return {tensor: leader(tensor) for tensor in leaders}


def _rounded(mask: Mask) -> Mask:
    """Return fewer removable channels, so that a multiple remains; the first ones stay."""
    removable = np.flatnonzero(mask)
    remaining = max(len(mask) - len(removable), 1)
    returned = min(-(-remaining // MULTIPLE) * MULTIPLE - (len(mask) - len(removable)), len(removable))
    rounded = mask.copy()
    rounded[removable[:returned]] = False
    return rounded


# ---- The model without them ----


def _narrowed(model: Model, facts: _Facts, kept: Mapping[int, Channels]) -> Model:
    editor = Editor(model)
    for index, operator in enumerate(model.main.operators):
        activations, output = facts.activation_inputs(index), operator.output
        if output not in kept and not any(tensor in kept for tensor in activations):
            editor.operators.append(operator)
            continue
        name, inputs, edited = operator_name(model, operator), list(operator.inputs or ()), operator
        if name in _MIXING or name == "DEPTHWISE_CONV_2D":
            inputs[1:] = _with_weights(editor, facts, index, kept)
        elif name == "RESHAPE":
            dims = (*editor.dims(output)[:-1], len(kept[output]))
            if len(inputs) > 1:
                inputs[1] = editor.constant(editor.tensors[inputs[1]], np.array(dims, "<i4").tobytes())
            edited = replace(operator, builtin_options=make_options("ReshapeOptions", new_shape=dims))
        editor.operators.append(replace(edited, inputs=tuple(inputs)))
    for tensor, channels in kept.items():
        editor.tensors[tensor] = _with_channels(editor.tensors[tensor], channels)
    return editor.finish()


def _with_channels(tensor: Tensor, channels: Channels) -> Tensor:
    signature = tensor.shape_signature
    return replace(
        tensor,
        shape=(*tensor.dims[:-1], len(channels)),
        shape_signature=None if signature is None else (*signature[:-1], len(channels)),
    )


def _with_weights(editor: Editor, facts: _Facts, index: int, kept: Mapping[int, Channels]) -> Sequence[int]:
    """Add weights and bias of a convolution for the remaining channels; return their tensors."""
    model, operator, described = editor.model, facts.model.main.operators[index], facts.stage(index)
    assert described is not None
    lowered, stage = described
    source, weights, *rest = operator.inputs or ()
    output = operator.output
    by_channel = stage.kind is StageKind.DEPTHWISE
    axis = 3 if by_channel else 0
    tensor = model.main.tensors[weights]
    values = np.frombuffer(model.buffers[tensor.buffer].data or b"", np.int8).reshape(tensor.dims)
    share = np.zeros(values.shape[axis], np.int64)
    if source in kept and not by_channel:
        share = _share(facts, lowered, stage, kept[source])
        values = values[..., kept[source]]
    if output in kept:
        values = values.take(kept[output], axis)
    narrow = _like(editor, tensor, values, kept.get(output), axis)
    if rest and rest[0] >= 0 and (output in kept or share.any()):
        bias = model.main.tensors[rest[0]]
        sums = np.frombuffer(model.buffers[bias.buffer].data or b"", "<i4") + share
        sums = sums if output not in kept else sums[kept[output]]
        rest[0] = _like(editor, bias, sums.astype("<i4"), kept.get(output), 0)
    return narrow, *rest


def _share(facts: _Facts, lowered: Lowered, stage: Stage, kept: Channels) -> npt.NDArray[np.int64]:
    """Return the share of the removed channels in every sum."""
    weights = np.asarray(stage.weights, np.int64)
    removed = np.delete(np.arange(weights.shape[-1]), kept)
    source = facts.ranges.get(lowered.inputs[0].index) or anything(weights.shape[-1])
    values = source.low[removed] - lowered.inputs[0].zero_point
    return np.asarray((weights[..., removed] * values).sum(axis=tuple(range(1, weights.ndim))))


def _like(editor: Editor, tensor: Tensor, values: npt.NDArray[np.generic], channels: Channels | None, axis: int) -> int:
    """Add a constant like another one, with its quantization restricted to the remaining channels."""
    quantization = tensor.quantization
    if quantization is not None and channels is not None:
        quantization = _quantized(quantization, channels, tensor.dims[axis])
    like = replace(tensor, shape=values.shape, shape_signature=None, quantization=quantization)
    return editor.constant(like, values.tobytes())


def _quantized(quantization: Quantization, channels: Channels, before: int) -> Quantization:
    def cut(numbers: tuple[float, ...] | None) -> tuple[float, ...] | None:
        return (
            numbers if numbers is None or len(numbers) != before or before == 1 else tuple(numbers[c] for c in channels)
        )

    points = cut(quantization.zero_point)
    return replace(
        quantization,
        min=cut(quantization.min),
        max=cut(quantization.max),
        scale=cut(quantization.scale),
        zero_point=None if points is None else tuple(map(int, points)),
    )
