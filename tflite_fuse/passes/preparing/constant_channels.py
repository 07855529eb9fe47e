"""Channels that say nothing are left out: those with one value whatever the model reads, and those nobody reads.

    CONV_2D(x, W) + b   =   CONV_2D(x without c, W without c) + b + (v - zero point) * W[c]    where c is always v

Training with a penalty on weights leaves filters of zeros alone, whose channels are their bias; of others the sum ends
below the activation's lower bound. The convolution that reads such a channel gets its share in its bias, and all that
made it goes. A channel whose weights are zero in everything that reads it goes, too, whatever it holds. Depthwise
convolutions, pools, activations and additions take a channel to a channel: it goes from all tensors they join, or from
none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tflite_fuse.fusion.block.operators.view import Lowered
from tflite_fuse.fusion.block.stages import Stage, StageKind
from tflite_fuse.fusion.lower.operators import Lowerings, lower_model
from tflite_fuse.memory.tflm.offline_plan import has_plan, remove_plan
from tflite_fuse.model.edit import add_buffer, add_tensor, prune, replace_main
from tflite_fuse.model.operators import make_options, operator_name
from tflite_fuse.model.schema import Model, Operator, Quantization, Tensor
from tflite_fuse.model.types import TensorType
from tflite_fuse.passes.base import PassResult
from tflite_fuse.passes.preparing.channel_ranges import Range, anything, find_ranges, sees_padding, sums_of

Channels = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]

MULTIPLE = 4
"""Channels are kept in such numbers: kernels read words of four bytes."""

MOST_CHANNELS, MOST_IN_ALL = 1 << 16, 1 << 18
"""Of a tensor, and of all: a few bytes of a file can claim two thousand million, and each is looked at by itself."""

_MIXING = ("CONV_2D", "FULLY_CONNECTED")
_BY_CHANNEL = frozenset({
    "ABS", "ADD", "AVERAGE_POOL_2D", "DEPTHWISE_CONV_2D", "HARD_SWISH", "LEAKY_RELU", "LOGISTIC", "MAX_POOL_2D", "MEAN",
    "PAD", "QUANTIZE", "RELU", "RELU6", "RESHAPE", "TANH",
})  # fmt: skip
"""Operators that make channel c of what they write of channels c of what they read."""
_STAGES = frozenset({
    StageKind.ADD, StageKind.AVERAGE_POOL, StageKind.DEPTHWISE, StageKind.GLOBAL_AVERAGE, StageKind.LOOKUP,
    StageKind.MAX_POOL, StageKind.PAD,
})  # fmt: skip


@dataclass(frozen=True)
class ConstantChannels:
    """Leave out channels that are constant or that nobody reads.

    Attributes:
        accepts: whether somebody else, too, finds that a model and the narrower one compute the same.
    """

    accepts: Callable[[Model, Model], bool] = lambda before, after: True

    name: ClassVar[str] = "constant-channels"

    def run(self, model: Model) -> PassResult:
        """Rewrite a model. An offline memory plan is dropped where something changed: tensor indices move."""
        channels = [(1, *tensor.dims)[-1] for tensor in model.main.tensors]
        if max(channels, default=0) > MOST_CHANNELS or sum(channels) > MOST_IN_ALL:
            return PassResult(model, False, (_too_many(channels),))
        lowerings = lower_model(model)
        found = _Found(model, lowerings, find_ranges(lowerings), _leaders(model))
        kept = found.kept()
        if not kept:
            return PassResult(model, False)
        every = sum((1, *model.main.tensors[t].dims)[-1] for op in model.main.operators for t in op.outputs or ())
        gone = sum(model.main.tensors[tensor].dims[-1] - len(channels) for tensor, channels in kept.items())
        note = f"{gone:,} of {every:,} channels are the same for all inputs, or read by nobody, and were left out"
        rewritten = remove_plan(model) if has_plan(model) else model
        rewritten = prune(_narrowed(rewritten, found, kept))
        if not self.accepts(model, rewritten):
            return PassResult(
                model, False, (f"{gone:,} channels seem to say nothing and stay: it could not be proven",)
            )
        return PassResult(rewritten, True, (note,))


@dataclass(frozen=True)
class _Found:
    """A model and what is known of its channels.

    Attributes:
        model: the model.
        lowerings: its operators as stages.
        ranges: what its tensors hold.
        leaders: by tensor, one that stands for all it is joined with by operators that take a channel to a channel.
    """

    model: Model
    lowerings: Lowerings
    ranges: Mapping[int, Range]
    leaders: Mapping[int, int]

    def activation_inputs(self, index: int) -> tuple[int, ...]:
        """What operator ``index`` reads that is computed."""
        return _computed(self.model, self.model.main.operators[index])

    def stage(self, index: int) -> tuple[Lowered, Stage] | None:
        """Operator ``index`` as a stage."""
        lowered = self.lowerings[index]
        return None if isinstance(lowered, str) or lowered.stage is None else (lowered, lowered.stage)

    def mixing(self, index: int) -> tuple[Lowered, Stage] | None:
        """A convolution whose outputs are sums over all channels."""
        found = self.stage(index)
        return None if found is None or found[1].kind is StageKind.DEPTHWISE else found

    def kept(self) -> dict[int, Channels]:
        """The channels that are left of every tensor that loses some."""
        masks: dict[int, Mask] = {}  # by leader: whether a channel may go
        for _ in self.model.main.operators:
            found = self._removable(masks)
            if _same(found, masks):
                break
            masks = found
        else:
            return {}  # as channels are kept in multiples, two groups may wait for each other
        kept: dict[int, Channels] = {}
        for tensor in {t for op in self.model.main.operators for t in op.outputs or ()}:
            mask = masks.get(self.leaders[tensor])
            if mask is not None and mask.any():
                kept[tensor] = np.flatnonzero(~_rounded(mask))
        return {t: channels for t, channels in kept.items() if len(channels) < self.model.main.tensors[t].dims[-1]}

    def _removable(self, before: Mapping[int, Mask]) -> dict[int, Mask]:
        """Whether each channel of each group may go, from what may go of the groups behind."""
        graph = self.model.main
        masks: dict[int, Mask] = {}

        def allow(tensor: int, mask: Mask | bool) -> None:
            leader = self.leaders[tensor]
            everything = np.ones((1, *graph.tensors[tensor].dims)[-1], np.bool_)
            masks[leader] = masks.get(leader, everything) & mask

        for tensor in (*graph.inputs, *graph.outputs):
            allow(tensor, False)
        for index, operator in enumerate(graph.operators):
            name, inputs = operator_name(self.model, operator), operator.inputs or ()
            mine = self.activation_inputs(index)
            if name in _MIXING and self.mixing(index) is not None:
                allow(inputs[0], self._unneeded(index, before.get(self.leaders[(operator.outputs or (-1,))[0]])))
                allow((operator.outputs or (-1,))[0], True)
            elif name in _BY_CHANNEL and self._is_by_channel(index):
                for tensor in (*mine, *(operator.outputs or ())):
                    allow(tensor, True)
            else:
                for tensor in (*inputs, *(operator.outputs or ())):
                    if tensor >= 0:
                        allow(tensor, False)
        return masks

    def _is_by_channel(self, index: int) -> bool:
        """Whether an operator takes each channel to the same one, and nothing it has beside is by channel."""
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
        """Of each channel a convolution reads, whether its share can be in the bias, or is nothing."""
        found = self.mixing(index)
        if found is None:
            return False
        lowered, stage = found
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
        # What adds nothing needs no place in the bias, so that mostly nobody has to ask whether there is one.
        if (zeros != constant).any():
            fits = stage.bias is not None and sums_of(stage, lowered, source) is not None
            constant = constant if fits and not sees_padding(stage, lowered) else zeros
        return np.asarray(unread | constant)


def _too_many(channels: Sequence[int]) -> str:
    most, total = max(channels), sum(channels)
    what = f"a tensor of {most:,}" if most > MOST_CHANNELS else f"{total:,} in all"
    limit = MOST_CHANNELS if most > MOST_CHANNELS else MOST_IN_ALL
    return f"channels that say nothing are not looked for: there is {what}, and {limit:,} are the most"


def _computed(model: Model, operator: Operator) -> tuple[int, ...]:
    """What an operator reads that may be computed."""
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
            first, *others = map(leader, tensors)
            leaders.update(dict.fromkeys(others, first))
            leaders[first] = first
    return {tensor: leader(tensor) for tensor in leaders}


def _same(first: Mapping[int, Mask], second: Mapping[int, Mask]) -> bool:
    return all(leader in second and np.array_equal(mask, second[leader]) for leader, mask in first.items())


def _rounded(mask: Mask) -> Mask:
    """Fewer channels that go, so that a multiple is left; the first ones stay."""
    gone = np.flatnonzero(mask)
    left = max(len(mask) - len(gone), 1)
    more = min(-(-left // MULTIPLE) * MULTIPLE - (len(mask) - len(gone)), len(gone))
    rounded = mask.copy()
    rounded[gone[:more]] = False
    return rounded


# ---- The model without them ----


def _narrowed(model: Model, found: _Found, kept: Mapping[int, Channels]) -> Model:
    operators = list(model.main.operators)
    for index, operator in enumerate(operators):
        mine, output = found.activation_inputs(index), (operator.outputs or (-1,))[0]
        if output not in kept and not any(tensor in kept for tensor in mine):
            continue
        name, inputs, edited = operator_name(model, operator), list(operator.inputs or ()), operator
        if name in _MIXING or name == "DEPTHWISE_CONV_2D":
            model, inputs[1:] = _with_weights(model, found, index, kept)
        elif name == "RESHAPE":
            dims = (*model.main.tensors[output].dims[:-1], len(kept[output]))
            model, inputs[1:] = _constant(model, np.array(dims, "<i4"), inputs[1:])
            edited = replace(operator, builtin_options=make_options("ReshapeOptions", new_shape=dims))
        operators[index] = replace(edited, inputs=tuple(inputs))
    tensors = [
        _with_channels(tensor, kept[index]) if index in kept else tensor
        for index, tensor in enumerate(model.main.tensors)
    ]
    return replace_main(model, replace(model.main, tensors=tuple(tensors), operators=tuple(operators)))


def _with_channels(tensor: Tensor, channels: Channels) -> Tensor:
    signature = tensor.shape_signature
    return replace(
        tensor,
        shape=(*tensor.dims[:-1], len(channels)),
        shape_signature=None if signature is None else (*signature[:-1], len(channels)),
    )


def _constant(model: Model, values: npt.NDArray[np.int32], old: Sequence[int]) -> tuple[Model, Sequence[int]]:
    """The numbers in place of an operand, if there is one."""
    if not old:
        return model, ()
    model, buffer = add_buffer(model, values.tobytes())
    model, tensor = add_tensor(model, replace(model.main.tensors[old[0]], buffer=buffer))
    return model, (tensor, *old[1:])


def _with_weights(model: Model, found: _Found, index: int, kept: Mapping[int, Channels]) -> tuple[Model, Sequence[int]]:
    """Weights and bias of a convolution for the channels that are left."""
    operator, described = found.model.main.operators[index], found.stage(index)
    assert described is not None
    lowered, stage = described
    source, weights, *rest = operator.inputs or ()
    output = (operator.outputs or (-1,))[0]
    by_channel = stage.kind is StageKind.DEPTHWISE
    axis = 3 if by_channel else 0
    tensor = model.main.tensors[weights]
    values = np.frombuffer(model.buffers[tensor.buffer].data or b"", np.int8).reshape(tensor.dims)
    share = np.zeros(values.shape[axis], np.int64)
    if source in kept and not by_channel:
        share = _share(found, lowered, stage, kept[source])
        values = values[..., kept[source]]
    if output in kept:
        values = values.take(kept[output], axis)
    model, narrow = _like(model, tensor, values, kept.get(output), axis)
    if rest and rest[0] >= 0 and (output in kept or share.any()):
        bias = model.main.tensors[rest[0]]
        sums = np.frombuffer(model.buffers[bias.buffer].data or b"", "<i4") + share
        sums = sums if output not in kept else sums[kept[output]]
        model, rest[0] = _like(model, bias, sums.astype("<i4"), kept.get(output), 0)
    return model, (narrow, *rest)


def _share(found: _Found, lowered: Lowered, stage: Stage, kept: Channels) -> npt.NDArray[np.int64]:
    """What the channels that go add to every sum."""
    weights = np.asarray(stage.weights, np.int64)
    gone = np.delete(np.arange(weights.shape[-1]), kept)
    source = found.ranges.get(lowered.inputs[0].index) or anything(weights.shape[-1])
    values = source.low[gone] - lowered.inputs[0].zero_point
    return np.asarray((weights[..., gone] * values).sum(axis=tuple(range(1, weights.ndim))))


def _like(
    model: Model, tensor: Tensor, values: npt.NDArray[np.generic], channels: Channels | None, axis: int
) -> tuple[Model, int]:
    """A constant in place of another, with its quantization of the channels that are left."""
    model, buffer = add_buffer(model, values.tobytes())
    quantization = tensor.quantization
    if quantization is not None and channels is not None:
        quantization = _quantized(quantization, channels, tensor.dims[axis])
    return add_tensor(
        model, replace(tensor, shape=values.shape, shape_signature=None, buffer=buffer, quantization=quantization)
    )


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
