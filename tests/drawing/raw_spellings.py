"""States of streaming models in many forms: of several ranks, cut twice, assigned late, or no rings."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
from hypothesis import strategies as st

from tests.drawing.raw_streams import RawStream, affine, handle_options
from tflite_fuse.model.options import make_options
from tflite_fuse.model.schema import Model, Operator, Tensor
from tflite_fuse.model.types import TensorType

_CUTS = ("STRIDED_SLICE", "SLICE", "SPLIT_V", "SPLIT", "GATHER")


class Speller(RawStream):
    """A stream that spells as chance will have it."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.chance, self.rng = Random(seed), np.random.default_rng(seed)
        self.late: list[Operator] = []

    def may(self, probability: float) -> bool:
        return self.chance.random() < probability

    def of_shape(self, tensor: int, dims: Sequence[int]) -> int:
        return self.tensor(tuple(dims), *affine(self.tensors[tensor]))

    def reshape(self, tensor: int, dims: Sequence[int]) -> int:
        output = self.of_shape(tensor, dims)
        shape = self.constant(np.array(dims, np.int32))
        self.operator("RESHAPE", (tensor, shape), (output,), make_options("ReshapeOptions", new_shape=tuple(dims)))
        return output

    def part(self, tensor: int, axis: int, begin: int, end: int) -> int:
        """The steps from ``begin`` to ``end``."""
        dims = list(self.tensors[tensor].dims)
        size, rank, how = dims[axis], len(dims), self.chance.choice(_CUTS)
        kept = [*dims[:axis], end - begin, *dims[axis + 1 :]]
        named = axis if self.may(0.5) else axis - rank
        if how == "SPLIT" and size % (end - begin) == begin % (end - begin) == 0:
            parts = [self.of_shape(tensor, kept) for _ in range(size // (end - begin))]
            options = make_options("SplitOptions", num_splits=len(parts))
            self.operator("SPLIT", (self.constant(np.int32(axis)), tensor), parts, options)
            return parts[begin // (end - begin)]
        if how == "SPLIT_V":
            sizes = {place: length for place, length in enumerate((begin, end - begin, size - end)) if length}
            parts = [self.of_shape(tensor, [*dims[:axis], n, *dims[axis + 1 :]]) for n in sizes.values()]
            listed = self.constant(np.array([*sizes.values()], np.int32))
            options = make_options("SplitVOptions", num_splits=len(parts))
            self.operator("SPLIT_V", (tensor, listed, self.constant(np.int32(named))), parts, options)
            return parts[[*sizes].index(1)]
        output = self.of_shape(tensor, kept)
        if how == "GATHER":
            listed = self.constant(np.arange(begin, end, dtype=np.int32))
            self.operator("GATHER", (tensor, listed), (output,), make_options("GatherOptions", axis=named))
            return output
        from_, to = [0] * rank, list(dims)
        from_[axis], to[axis] = begin, end
        if how == "STRIDED_SLICE":
            masks = {f"{name}_mask": sum(1 << a for a in range(rank) if a != axis and self.may(0.6)) for name in "be"}
            from_[axis] -= size if begin and self.may(0.5) else 0
            operands = [self.constant(np.array(each, np.int32)) for each in (from_, to, [1] * rank)]
            options = make_options("StridedSliceOptions", begin_mask=masks["b_mask"], end_mask=masks["e_mask"])
            self.operator("STRIDED_SLICE", (tensor, *operands), (output,), options)
        else:
            sizes_ = [-1 if end == size and a == axis else n for a, n in enumerate(kept)]
            operands = [self.constant(np.array(each, np.int32)) for each in (from_, sizes_)]
            self.operator("SLICE", (tensor, *operands), (output,), None)
        return output

    def joined(self, axis: int, *parts: int) -> int:
        dims = list(self.tensors[parts[0]].dims)
        dims[axis] = sum(self.tensors[part].dims[axis] for part in parts)
        output, named = self.of_shape(parts[0], dims), axis if self.may(0.5) else axis - len(dims)
        self.operator("CONCATENATION", parts, (output,), make_options("ConcatenationOptions", axis=named))
        return output

    def handle(self, name: bytes) -> int:
        self.tensors.append(Tensor((), TensorType.RESOURCE, name=f"{name.decode()} {len(self.tensors)}"))
        self.operator("VAR_HANDLE", (), (len(self.tensors) - 1,), handle_options(name))
        return len(self.tensors) - 1

    def layer(self, number: int, x: int, outputs: list[int]) -> int:
        """A convolution over the window of a state; what else is read of it goes to ``outputs``."""
        _, hop, side, depth = self.tensors[x].dims
        flat = side * depth
        forms = [((1, hop, side, depth), 1), ((1, hop, flat), 1), ((hop, flat), 0), ((1, 1, hop, flat), 2)]
        dims, axis = self.chance.choice(forms)
        is_image = (dims, axis) == forms[0]
        new = x if is_image else self.reshape(x, dims)
        taps, apart = self.chance.randint(2, 4), self.chance.choice([1, 1, 2])
        earlier = (taps - 1) * apart
        held = earlier + self.chance.choice([0, 0, 0, 1, hop, 5])
        state = [*dims[:axis], held, *dims[axis + 1 :]]
        stored = [int(np.prod(state))] if self.may(0.3) else state
        name = f"v{number}".encode()
        handle = self.handle(name)
        if self.called >= 0 and self.may(0.8):
            point = np.full(int(np.prod(state)), affine(self.tensors[x])[1], np.int8)
            values = self.rng.integers(-128, 128, point.size).astype(np.int8) if self.may(0.6) else point
            self.first[name] = self.of_shape(x, stored), values.tobytes()
        other = self.handle(name) if self.may(0.3) else handle
        read = self.of_shape(x, stored)
        self.operator("READ_VARIABLE", (handle,), (read,), None)
        history = whole = self.reshape(read, state) if stored != state else read
        if held > earlier + 1 and self.may(0.3):
            history = self.part(self.part(whole, axis, 1, held), axis, held - earlier - 1, held - 1)
        elif held > earlier:
            history = self.part(whole, axis, held - earlier, held)
        window, total = self.joined(axis, history, new), earlier + hop
        if total >= held and self.may(0.7):
            kept = self.part(window, axis, total - held, total) if total > held else window
        else:
            kept = self.part(self.joined(axis, whole, new), axis, hop, held + hop)
        kept = self.reshape(kept, stored) if stored != state else kept
        self.operator("ASSIGN_VARIABLE", (other, kept), (), None)
        if self.may(0.4):
            self.late.append(self.operators.pop())
        spoilt = self.chance.random()
        if spoilt < 0.07:
            outputs.append(history)
        elif spoilt < 0.14:
            outputs.append(self.of_shape(x, stored))
            self.operator("READ_VARIABLE", (handle,), (outputs[-1],), None)
        elif spoilt < 0.18:
            self.operator("ASSIGN_VARIABLE", (handle, kept), (), None)
        if 0.07 <= spoilt < 0.18:
            self.late.append(self.operators.pop())
        image = window if is_image else self.reshape(window, (1, total, side, depth))
        depthwise, channels = self.may(0.3), self.chance.choice([2, 4, 5])
        return self.convolution(image, channels, (taps, 1), (apart, 1), self.rng, depthwise=depthwise)


def spelled_stream(seed: int) -> Model:
    """Up to three layers, each over a window of the last steps."""
    made = Speller(seed)
    if made.may(0.5):
        made.call_once()
    shape = (1, made.chance.choice([1, 1, 2, 3]), made.chance.choice([1, 1, 1, 3]), made.chance.choice([1, 2, 4, 8]))
    source = x = made.tensor(shape, 0.1, made.chance.choice([-128, 0, 5, 127]))
    outputs: list[int] = []
    for number in range(made.chance.randint(1, 3)):
        x = made.layer(number, x, outputs)
    made.operators += made.late
    return made.stream([source], [x, *outputs])


spelled_streams = st.integers(0, 2**32 - 1).map(spelled_stream)
