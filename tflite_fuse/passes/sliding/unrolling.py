"""Conversion of a model over a window of T steps to one that takes the H new ones.

A tensor of the window's model has rows; row r of one call is row r + H of the previous call, in the tensor's own
spacing of rows. The new model computes only new rows, and keeps as many earlier ones as their readers need.

    spacing S (input steps from row to row: the product of the strides before), hop H, gap g = gcd(S, H)

One row per g input steps is computed, H / g in each call, and readers use every (S / g)-th. If S divides H, these are
the window's rows; otherwise they are the rows of all phases, of which a window contains one. Convolutions of stride s
get stride gcd(S s, H) / g and dilation S / g: the strides move into the dilations of their readers.

If windows pad in time, rows that cover the window's edges differ in every call, and so do the rows computed from them.
They are computed again, from earlier rows as far as these are kept anyway, otherwise from the window's first steps on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import gcd

import numpy as np
import numpy.typing as npt

from tflite_fuse.errors import BlockError
from tflite_fuse.memory.tflm.offline_plan import remove_plan
from tflite_fuse.model.edit import Editor, prune, renumber_signatures, replace_main
from tflite_fuse.model.operators import VALID, get_options, make_options, operator_label, operator_name, with_options
from tflite_fuse.model.schema import Model, Operator, Quantization, Tensor
from tflite_fuse.model.types import TensorType
from tflite_fuse.notes import Note, note
from tflite_fuse.ops.kinds.state import STATE_OPERATOR
from tflite_fuse.ops.lowering.operands import read_constant
from tflite_fuse.passes.sliding.time_windows import Time, TimeWindow, WindowKind, time_window_of

LEAST = -128


class Writing(Editor):
    """Additions to a model for other numbers of time steps; equal constants are shared."""

    def __init__(self, model: Model) -> None:
        super().__init__(remove_plan(model))
        self._constants: dict[tuple[bytes, tuple[int, ...], Quantization | None], int] = {}
        self._names: dict[str, int] = {}

    # ---- Parts ----

    def over(self, tensor: int, time: Time, steps: int) -> int:
        """Append a tensor like another one with a different number of steps; return its index."""
        old, dims = self.tensors[tensor].name, list(self.dims(tensor))
        dims[time.axis] = steps * time.each
        count = self._names[old or ""] = self._names.get(old or "", 0) + 1
        return self.like(tensor, dims, f"{old}/{count}" if count > 1 or steps != time.steps else old)

    def shared(self, values: npt.NDArray[np.generic], type_: TensorType, like: int | None = None) -> int:
        """Return a constant with a tensor's quantization; equal constants are shared."""
        quantization = None if like is None else self.tensors[like].quantization
        data = values.astype(values.dtype.newbyteorder("<")).tobytes()
        key = (data, values.shape, quantization)
        if key not in self._constants:
            described = Tensor(values.shape, type_, 0, f"stream/constant {len(self._constants)}", quantization)
            self._constants[key] = self.constant(described, data)
        return self._constants[key]

    def integers(self, values: Sequence[int]) -> int:
        return self.shared(np.array(values, np.int32), TensorType.INT32)

    def state(self, new: int, time: Time, steps: int) -> int:
        """Append a state of ``steps`` earlier and new steps; return its output. Its reset value is set later."""
        rows = self.over(new, time, steps)
        fill = self.tensor(Tensor((1,), TensorType.INT8, 0, f"{self.tensors[rows].name}/reset"))
        return self.add(f"CUSTOM:{STATE_OPERATOR}", (new, fill), rows)

    # ---- Steps ----

    def cut(self, tensor: int, time: Time, begin: int, end: int, stride: int = 1) -> int:
        """Return every ``stride``-th of the steps begin … end - 1."""
        dims = self.tensors[tensor].dims
        if (begin, end, stride) == (0, dims[time.axis] // time.each, 1):
            return tensor
        assert stride == 1 or time.each == 1
        at, to, by = [0] * len(dims), list(dims), [1] * len(dims)
        at[time.axis], to[time.axis], by[time.axis] = begin * time.each, end * time.each, stride
        output = self.over(tensor, time, -(-(end - begin) // stride))
        operands = (tensor, *map(self.integers, (at, to, by)))
        return self.add("STRIDED_SLICE", operands, output, make_options("StridedSliceOptions"))

    def padded(self, tensor: int, axes: Mapping[int, tuple[int, int]], value: int | None) -> int:
        """Return the tensor with more values before and behind some axes: ``value``, or the zero point's."""
        dims = list(self.tensors[tensor].dims)
        if not any(map(any, axes.values())):
            return tensor
        amounts = np.zeros((len(dims), 2), np.int32)
        for axis, amount in axes.items():
            amounts[axis] = amount
            dims[axis] += sum(amount)
        output = self.like(tensor, dims, f"{self.tensors[tensor].name}/padded {len(self.tensors)}")
        operands = [tensor, self.shared(amounts, TensorType.INT32)]
        if value is None:
            return self.add("PAD", operands, output, make_options("PadOptions"))
        operands.append(self.shared(np.array([value], np.int8), TensorType.INT8, tensor))
        return self.add("PADV2", operands, output)

    def joined(self, parts: Sequence[int], time: Time) -> int:
        """Return steps joined along time.

        Each part is padded to the whole with the least value, and the maximum of all is taken. A block has no other way
        to join along time, and this one only copies values.
        """
        if len(parts) == 1:
            return parts[0]
        sizes = [self.tensors[part].dims[time.axis] for part in parts]
        whole, result = sum(sizes), -1
        for number, part in enumerate(parts):
            before = sum(sizes[:number])
            placed = self.padded(part, {time.axis: (before, whole - before - sizes[number])}, LEAST)
            if result < 0:
                result = placed
                continue
            result = self.add("MAXIMUM", (result, placed), self.over(part, time, whole))
        return result

    # ---- Operators ----

    def applied(
        self, operator: Operator, window: TimeWindow, replacements: Mapping[int, int], edges: tuple[int, int] = (0, 0),
        *, dilation: int = 0, stride: int = 0, steps: int | None = None,
    ) -> tuple[int, ...]:  # fmt: skip
        """Append an operator of the original for other numbers of steps; return its outputs.

        Args:
            operator: the operator.
            window: its window along time.
            replacements: new tensors in place of its inputs.
            edges: steps outside the window before and behind these.
            dilation, stride: those of its windows along time; 0 for its own.
            steps: steps of its output; None for those of the window.

        Returns:
            Replacements of its outputs.
        """
        inputs = [replacements.get(tensor, tensor) for tensor in operator.inputs or ()]
        count = window.steps if steps is None else steps
        outputs = tuple(
            self.over(tensor, time, count) for tensor, time in zip(operator.outputs or (), window.times, strict=True)
        )
        changed = operator
        if window.kind is WindowKind.SLIDING:
            axis = window.times[0].axis
            inputs[0] = self.padded(inputs[0], {axis: edges, 3 - axis: window.columns}, window.fill)
            changed = self._other_window(operator, window, dilation, stride)
        elif window.kind is WindowKind.PAD:
            amounts = read_constant(self.model, inputs[1], TensorType.INT32, "paddings").reshape(-1, 2).copy()
            amounts[window.times[0].axis] = edges
            inputs[1] = self.shared(amounts.astype(np.int32), TensorType.INT32)
        else:
            changed = self._other_shapes(operator, inputs, outputs[0], window.times[0])
        self.operators.append(replace(changed, inputs=tuple(inputs), outputs=outputs))
        return outputs

    def _other_window(self, operator: Operator, window: TimeWindow, dilation: int, stride: int) -> Operator:
        sign = "hw"[window.times[0].axis - 1]
        changes = {"padding": VALID, f"stride_{sign}": stride or window.stride}
        if not operator_name(self.model, operator).endswith("POOL_2D"):
            changes[f"dilation_{sign}_factor"] = dilation or window.dilation
        return with_options(self.model, operator, **changes)

    def _other_shapes(self, operator: Operator, inputs: list[int], output: int, time: Time) -> Operator:
        """Return the operator with constants and options for the new shapes."""
        name = operator_name(self.model, operator)
        dims = self.tensors[output].dims
        if name == "RESHAPE":
            if len(inputs) > 1 and inputs[1] >= 0:
                inputs[1] = self.integers(dims)
            return replace(operator, builtin_options=make_options("ReshapeOptions", new_shape=dims))
        if name == "SLICE":
            sizes = [-1 if axis == time.axis else size for axis, size in enumerate(dims)]
            inputs[2] = self.integers(sizes)
        if name == "STRIDED_SLICE":
            options = get_options(operator)
            masks = {what: _number(options[what]) | 1 << time.axis for what in ("begin_mask", "end_mask")}
            return with_options(self.model, operator, **masks)
        return operator

    # ---- The end ----

    def between(self, inputs: Sequence[int], outputs: Sequence[int]) -> Model:
        """Return the model from inputs to outputs, without operators and tensors that no output depends on."""
        read, kept = set(outputs), []
        for operator in reversed(self.operators):
            if read.intersection(operator.outputs or ()):
                read.update(operator.inputs or ())
                kept.append(operator)
        self.operators = kept[::-1]
        moved = dict(zip((*self.model.main.inputs, *self.model.main.outputs), (*inputs, *outputs), strict=True))
        model = renumber_signatures(self.finish(), moved)
        return prune(replace_main(model, replace(model.main, inputs=tuple(inputs), outputs=tuple(outputs))))


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


@dataclass
class Stream:
    """A tensor of the window's model of which only new rows are computed.

    Attributes:
        time: its rows.
        spacing: input steps from row to row.
        gap: input steps from one computed row to the next.
        before, behind: rows at the window's edges that no other call shares.
        lag: computed rows behind the window's last shared one.
        operator, window: operator that computes it and its window; None for an input.
        new: tensor of the rows computed in a call, once it is written.
        kept: rows behind the last shared one from which edges are computed.
        state: tensor of earlier and new rows, once it is written.
    """

    time: Time
    spacing: int
    gap: int
    before: int = 0
    behind: int = 0
    lag: int = 0
    operator: Operator | None = None
    window: TimeWindow | None = None
    new: int = -1
    kept: int = 1
    state: int = -1

    @property
    def shared(self) -> tuple[int, int]:
        """Return the range of rows that are computed once."""
        return self.before, self.time.steps - self.behind

    def distance(self, window: TimeWindow, row: int) -> int:
        """Return the computed rows between the last shared row and the last one that a reader's row ``row`` needs."""
        last = window.stride * row - window.before + window.reach - 1
        return (self.time.steps - self.behind - 1 - last) * self.spacing // self.gap


@dataclass
class Unrolled:
    """Result of the conversion: the model, with states that have no initial values yet.

    Attributes:
        model: the model.
        notes: places from which on rows are no longer shared, with reasons.
        streams: number of operators that compute only new rows.
        spacings: input steps from row to row of all operators with a window.
    """

    model: Model
    notes: tuple[Note, ...]
    streams: int
    spacings: frozenset[int]


@dataclass
class Unrolling:
    """Conversion of one model.

    Attributes:
        depths: for each stream, by tensor, the number of computed rows that its readers need, from an earlier run.
    """

    model: Model
    hop: int
    inputs: Mapping[int, Time]
    depths: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.write = Writing(self.model)
        self.streams: dict[int, Stream] = {}
        self.whole: dict[int, int] = {}
        self.depths_read: dict[int, int] = {}
        self._rows: dict[tuple[int, int, int], int] = {}
        self._rows_by_distance: dict[tuple[int, int, int, int], int] = {}
        self._notes: list[Note] = []
        self._spacings: set[int] = set()

    def run(self) -> Unrolled:
        """Return the new model."""
        inputs = []
        for tensor in self.model.main.inputs:
            time = self.inputs[tensor]
            stream = Stream(time, 1, 1, new=self.write.over(tensor, time, self.hop))
            self.streams[tensor] = stream
            inputs.append(stream.new)
        count = 0
        for index, operator in enumerate(self.model.main.operators):
            count += self._visit(index, operator)
        outputs = [self._whole_window(tensor) for tensor in self.model.main.outputs]
        return Unrolled(self.write.between(inputs, outputs), tuple(self._notes), count, frozenset(self._spacings))

    # ---- Operators, one after the other ----

    def _visit(self, index: int, operator: Operator) -> bool:
        read = [tensor for tensor in operator.inputs or () if tensor in self.streams]
        if not read:
            self._on_whole_window(operator)
            return False
        try:
            window = time_window_of(self.model, operator, {t: self.streams[t].time for t in read})
            self._spacings.update(window.stride * self.streams[t].spacing for t in read)
            pools = "POOL" in operator_name(self.model, operator)
            result = stream_behind([self.streams[t] for t in read], window, self.hop, pools)
        except BlockError as error:
            self._notes.append(note("kept", "whole window", operator_label(self.model, index), why=str(error)))
            self._on_whole_window(operator)
            return False
        times, streams = {t: stream.time for t, stream in self.streams.items()}, []
        for tensor, time in zip(operator.outputs or (), window.times, strict=True):
            kept = rows_kept(self.model, times, tensor, time)
            streams.append(replace(result, time=time, operator=operator, kept=kept))
        self.streams.update(zip(operator.outputs or (), streams, strict=True))
        if not window.late:
            self._compute_new_rows(operator, window, streams)
        return True

    def _on_whole_window(self, operator: Operator) -> None:
        """Write an operator unchanged, on the whole window."""
        replacements = {t: self._whole_window(t) for t in operator.inputs or () if t in self.streams or t in self.whole}
        inputs = tuple(replacements.get(tensor, tensor) for tensor in operator.inputs or ())
        self.write.operators.append(replace(operator, inputs=inputs))
        self.whole.update({tensor: tensor for tensor in operator.outputs or ()})

    def _whole_window(self, tensor: int) -> int:
        """Return the tensor of all rows of the window."""
        if tensor in self.streams and tensor not in self.whole:
            self.whole[tensor] = self._rows_of_window(tensor, 0, self.streams[tensor].time.steps, all_rows=True)
        return self.whole.get(tensor, tensor)

    def _compute_new_rows(self, operator: Operator, window: TimeWindow, streams: list[Stream]) -> None:
        """Write the operator that computes the new rows."""
        result = streams[0]
        new = self.hop // result.gap
        replacements, dilation, stride = {}, 1, 1
        for tensor in operator.inputs or ():
            source = self.streams.get(tensor)
            if source is None:
                continue
            dilation, stride = window.dilation * source.spacing // source.gap, result.gap // source.gap
            _, end = result.shared
            newest = -source.lag - source.distance(window, end - 1)
            reach = (window.taps - 1) * dilation
            oldest = newest - reach - (new - 1) * stride
            if window.taps > 1 and "POOL" in operator_name(self.model, operator) and source.spacing > source.gap:
                replacements[tensor] = self._since_newest(tensor, oldest, newest, dilation)
                dilation = 1
            else:
                replacements[tensor] = self._since_newest(tensor, oldest, newest)
        outputs = self.write.applied(operator, window, replacements, dilation=dilation, stride=stride, steps=new)
        for stream, tensor in zip(streams, outputs, strict=True):
            stream.new = tensor

    # ---- Rows ----

    def _since_newest(self, tensor: int, oldest: int, newest: int, stride: int = 1) -> int:
        """Return computed rows by their distance to the newest one (0 or negative), from a state if they are older."""
        key = tensor, oldest, newest, stride
        if key not in self._rows_by_distance:
            self._rows_by_distance[key] = self._cut_rows(*key)
        return self._rows_by_distance[key]

    def _cut_rows(self, tensor: int, oldest: int, newest: int, stride: int) -> int:
        stream = self.streams[tensor]
        if stream.window is not None and stream.operator is not None and stream.window.late:
            source = next(t for t in stream.operator.inputs or () if t in self.streams)
            rows = self._since_newest(source, oldest, newest, stride)
            if stream.window.kind is WindowKind.VIEW:
                return rows
            count = (newest - oldest) // stride + 1
            return self.write.applied(stream.operator, stream.window, {source: rows}, steps=count)[0]
        new = self.hop // stream.gap
        if oldest > -new:
            return self.write.cut(stream.new, stream.time, new - 1 + oldest, new + newest, stride)
        self.depths_read[tensor] = max(self.depths_read.get(tensor, 0), 1 - oldest)
        depth = max(self.depths.get(tensor, 0), 1 - oldest)
        if stream.state < 0 or self.write.tensors[stream.state].dims[stream.time.axis] < depth:
            stream.state = self.write.state(stream.new, stream.time, depth)
        return self.write.cut(stream.state, stream.time, depth - 1 + oldest, depth + newest, stride)

    def _rows_of_window(self, tensor: int, begin: int, end: int, *, all_rows: bool = False) -> int:
        """Return rows of the window: kept ones if available, otherwise computed again."""
        key = tensor, begin, end
        if key not in self._rows:
            self._rows[key] = self._kept_or_recomputed(tensor, begin, end, all_rows)
        return self._rows[key]

    def _kept_or_recomputed(self, tensor: int, begin: int, end: int, all_rows: bool) -> int:
        stream = self.streams[tensor]
        first, last = stream.shared
        if stream.window is not None and stream.window.kind is WindowKind.PAD:  # rows of padding have no input rows
            return self._recomputed_rows(tensor, begin, end)
        if not all_rows and stream.operator is not None:
            first = max(first, last - stream.kept)
        parts = []
        if begin < min(end, first):
            parts.append(self._recomputed_rows(tensor, begin, min(end, first)))
        if max(begin, first) < min(end, last):
            parts.append(self._kept_rows(tensor, max(begin, first), min(end, last)))
        if max(begin, last) < end:
            parts.append(self._recomputed_rows(tensor, max(begin, last), end))
        return self.write.joined(parts, stream.time)

    def _kept_rows(self, tensor: int, begin: int, end: int) -> int:
        stream = self.streams[tensor]
        dilation = stream.spacing // stream.gap
        _, last = stream.shared
        newest = -stream.lag - (last - end) * dilation
        return self._since_newest(tensor, newest - (end - 1 - begin) * dilation, newest, dilation)

    def _recomputed_rows(self, tensor: int, begin: int, end: int) -> int:
        """Return rows computed as in the window's model, from the rows under their windows."""
        stream = self.streams[tensor]
        operator, window = stream.operator, stream.window
        assert operator is not None and window is not None
        low = window.stride * begin - window.before
        high = window.stride * (end - 1) - window.before + window.reach
        replacements: dict[int, int] = {}
        edges = (0, 0)
        for each in operator.inputs or ():
            if each in self.streams:
                steps = self.streams[each].time.steps
                edges = max(-low, 0), max(high - steps, 0)
                inside = max(low, 0), min(high, steps)
                if inside[0] >= inside[1]:
                    raise BlockError("one of its windows covers only padding")
                replacements[each] = self._rows_of_window(each, *inside)
        if window.kind is WindowKind.VIEW:
            (only,) = replacements.values()
            return self.write.cut(only, stream.time, 0, high - low, window.stride)
        outputs = self.write.applied(operator, window, replacements, edges, steps=end - begin)
        for each, output in zip(operator.outputs or (), outputs, strict=True):
            self._rows[each, begin, end] = output
        return self._rows[tensor, begin, end]


def stream_behind(sources: Sequence[Stream], window: TimeWindow, hop: int, pools: bool) -> Stream:
    """Return the output of an operator on streams.

    Raises:
        BlockError: as much would be computed as over the whole window, or its inputs do not match.
    """
    source, steps = sources[0], window.steps
    if any(other.spacing != source.spacing or other.gap != source.gap for other in sources):
        raise BlockError("its inputs have different rates of steps")
    before = max(0, *(-(-(each.before + window.before) // window.stride) for each in sources))
    ends = ((each.time.steps - each.behind + window.before - window.reach) // window.stride for each in sources)
    end = min(steps - 1, *ends)
    spacing = source.spacing * window.stride
    gap = source.gap if window.late else gcd(spacing, hop)
    new, behind = hop // gap, steps - 1 - end
    if end < before or (not window.late and before + behind + new >= steps):
        few = f"{steps} rows are few enough to be computed every time"
        raise BlockError(f"{few}{_fewer(spacing, gap, new, steps - before - behind)}")
    if pools and source.spacing > source.gap and new > 1 and window.taps > 1:
        raise BlockError(f"it pools rows of several phases; hops that are multiples of {source.spacing} have one")
    lag = source.lag + source.distance(window, end) if window.late else 0
    return Stream(window.times[0], spacing, gap, before, behind, lag, window=window)


def _fewer(spacing: int, gap: int, new: int, shared: int) -> str:
    """Return a clause with hops that have fewer new rows, for a hop that is no multiple of the strides."""
    if gap == spacing or shared < 2 or new == 1:
        return ""
    most = (shared - 1) * spacing
    hops = f"multiples of {spacing} up to {most}" if most > spacing else f"{spacing}"
    return f", {new} of them new ones, as the strides make one of {spacing} steps; hops that are {hops} share some"


def rows_kept(model: Model, times: Mapping[int, Time], tensor: int, time: Time) -> int:
    """Return the rows of a tensor that are kept for its readers anyway, through readers that compute nothing."""
    most, all_times = 1, {**times, tensor: time}
    for index in model.main.readers.get(tensor, ()):
        reader = model.main.operators[index]
        try:
            window = time_window_of(model, reader, all_times)
        except BlockError:
            continue
        beyond = zip(reader.outputs or (), window.times, strict=True)
        behind = max(rows_kept(model, all_times, t, each) for t, each in beyond) if window.late else 1
        most = max(most, window.reach + (behind - 1) * window.stride)
    return most


def unroll(model: Model, hop: int, inputs: Mapping[int, Time]) -> Unrolled:
    """Return the model that takes ``hop`` steps per call.

    It is written twice: the first run determines the number of earlier rows that are needed.

    Args:
        model: model over a window.
        hop: new steps in each call.
        inputs: steps of every input.
    """
    first = Unrolling(model, hop, inputs)
    first.run()
    return Unrolling(model, hop, inputs, first.depths_read).run()
