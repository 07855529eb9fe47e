"""Chains over tensors of any rank: operators that drop, move and turn dimensions, and readers of the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from hypothesis import strategies as st

from tests.drawing.raw_models import RawModel, edgy_int8, seeds
from tflite_fuse.model.options import make_options
from tflite_fuse.model.schema import Model

SHAPES = (
    *((1, 6, 5, 4), (1, 9, 7, 2), (1, 1, 24, 3), (1, 30, 1, 2), (2, 5, 4, 3), (1, 12, 1, 1)),
    *((1, 14, 6), (3, 6, 4), (20, 5), (1, 40), (7, 1), (1, 3, 2, 5, 4), (1, 1, 39, 1)),
)
_MOST_VALUES = 2000


class _Chain:
    """A model as it grows.

    Attributes:
        model: the model.
        draw: as of hypothesis.
        made: its tensors, newest last.
    """

    def __init__(self, draw: st.DrawFn) -> None:
        self.model, self.draw = RawModel(), draw
        self.rng = np.random.default_rng(draw(seeds))
        self.made = [self.model.tensor(draw(st.sampled_from(SHAPES)), 0.125, draw(st.sampled_from([-128, 0, 127])))]

    def dims(self, tensor: int) -> tuple[int, ...]:
        return tuple(self.model.tensors[tensor].dims)

    def numbers(self, values: int | Sequence[int]) -> int:
        return self.model.constant(np.array(values, np.int32))

    def axis(self, rank: int) -> int:
        return self.draw(st.integers(0, rank - 1))

    def signed(self, axis: int, rank: int) -> int:
        return self.draw(st.sampled_from([axis, axis - rank]))

    def like(self, tensor: int, dims: Sequence[int]) -> int:
        quantization = self.model.tensors[tensor].quantization
        assert quantization is not None and quantization.scale and quantization.zero_point
        return self.model.tensor(dims, quantization.scale[0], quantization.zero_point[0])

    def other(self, dims: Sequence[int], scale: float = 0.125) -> int:
        return self.model.tensor(dims, scale, self.draw(st.sampled_from([-128, -5, 127])))

    def reduced(self, source: int) -> int:
        dims, rank = self.dims(source), len(self.dims(source))
        axes = self.draw(st.lists(st.integers(0, rank - 1), min_size=1, max_size=3, unique=True))
        keeps = self.draw(st.booleans()) or len(axes) == rank
        shape = [1 if axis in axes else size for axis, size in enumerate(dims) if keeps or axis not in axes]
        name = self.draw(st.sampled_from(["MEAN", "MEAN", "SUM", "REDUCE_MAX"]))
        output = self.like(source, shape) if name == "REDUCE_MAX" else self.other(shape)
        listed = self.numbers([self.signed(axis, rank) for axis in axes])
        self.model.operator(name, [source, listed], [output], make_options("ReducerOptions", keep_dims=keeps))
        return output

    def reshaped(self, source: int) -> int:
        dims = self.dims(source)
        shapes = [(1, *dims), (prod(dims),), (1, prod(dims)), tuple(size for size in dims if size > 1) or (1,)]
        shapes += [(*dims[:at], dims[at] * dims[at + 1], *dims[at + 2 :]) for at in range(len(dims) - 1)]
        shapes += [(1, *dims[:0:-1], dims[0]), (1, 1, *dims[1:])] if len(dims) < 5 else []
        shape = self.draw(st.sampled_from([each for each in shapes if len(each) <= 5 and prod(each) == prod(dims)]))
        output = self.like(source, shape)
        listed = list(shape)
        if self.draw(st.booleans()):
            listed[self.axis(len(listed))] = -1
        self.model.operator(
            "RESHAPE", [source, self.numbers(listed)], [output], make_options("ReshapeOptions", new_shape=tuple(listed))
        )
        return output

    def turned(self, source: int) -> int:
        dims = self.dims(source)
        order = self.draw(st.permutations(range(len(dims))))
        output = self.like(source, [dims[axis] for axis in order])
        self.model.operator("TRANSPOSE", [source, self.numbers(order)], [output], make_options("TransposeOptions"))
        return output

    def gathered(self, source: int) -> int:
        dims, at = self.dims(source), self.axis(len(self.dims(source)))
        place = st.integers(0, dims[at] - 1)
        taken = self.draw(st.lists(place, min_size=1, max_size=4) | (place if len(dims) > 1 else st.just([0])))
        kept = [len(taken)] if isinstance(taken, list) else []
        output = self.like(source, [*dims[:at], *kept, *dims[at + 1 :]])
        options = make_options("GatherOptions", axis=self.signed(at, len(dims)))
        self.model.operator("GATHER", [source, self.numbers(taken)], [output], options)
        return output

    def sliced(self, source: int) -> int:
        """A STRIDED_SLICE along one axis, which may drop it."""
        dims, at = self.dims(source), self.axis(len(self.dims(source)))
        if len(dims) > 4:
            return source
        begins, ends, steps = [0] * len(dims), list(dims), [1] * len(dims)
        begins[at] = self.draw(st.integers(0, dims[at] - 1))
        drops = len(dims) > 1 and self.draw(st.booleans())
        ends[at] = begins[at] + 1 if drops else self.draw(st.integers(begins[at] + 1, dims[at]))
        steps[at] = 1 if drops else self.draw(st.integers(1, 3))
        kept = [] if drops else [len(range(begins[at], ends[at], steps[at]))]
        output = self.like(source, [*dims[:at], *kept, *dims[at + 1 :]])
        options = make_options("StridedSliceOptions", shrink_axis_mask=drops << at)
        constants = [self.numbers(each) for each in (begins, ends, steps)]
        self.model.operator("STRIDED_SLICE", [source, *constants], [output], options)
        return output

    def dense(self, source: int) -> int:
        *before, depth = self.dims(source)
        keeps, units = self.draw(st.booleans()), self.draw(st.integers(1, 6))
        weights = self.model.constant(edgy_int8(self.rng, (units, depth)), [1 / 128])
        output = self.other((*before, units) if keeps else (prod(before), units))
        options = make_options("FullyConnectedOptions", keep_num_dims=keeps)
        self.model.operator("FULLY_CONNECTED", [source, weights, -1], [output], options)
        return output

    def shares(self, source: int) -> int:
        output = self.model.tensor(self.dims(source), 1 / 256, -128)
        self.model.operator("SOFTMAX", [source], [output], make_options("SoftmaxOptions", beta=1.0))
        return output

    def mapped(self, source: int) -> int:
        output = self.model.tensor(self.dims(source), 1 / 256, -128)
        self.model.operator("LOGISTIC", [source], [output], None)
        return output

    def paired(self, source: int) -> int:
        """An ADD or MUL with an earlier tensor or a constant that broadcasts, first or second."""
        dims, name = self.dims(source), self.draw(st.sampled_from(["ADD", "MUL"]))
        alike = [tensor for tensor in self.made if self.dims(tensor) == dims]
        if alike and self.draw(st.booleans()):
            second, shape = self.draw(st.sampled_from(alike)), dims
        else:
            shape = tuple(size if self.draw(st.booleans()) else 1 for size in dims)[
                self.draw(st.integers(0, len(dims))) :
            ]
            second = self.model.constant(edgy_int8(self.rng, shape), [0.125], zero_point=3)
        output = self.other(dims, 0.25)
        operands = self.draw(st.permutations([source, second]))
        options = make_options(
            f"{name.title()}Options", fused_activation_function=self.draw(st.sampled_from([0, 1, 3]))
        )
        self.model.operator(name, operands, [output], options)
        return output

    def grow(self) -> None:
        """Append one operator; most read the newest tensor, some an earlier one, so that a few have no reader."""
        steps: list[Callable[[int], int]] = [
            *(self.reduced, self.reshaped, self.turned, self.gathered, self.sliced),
            *(self.dense, self.shares, self.mapped, self.paired),
        ]
        source = self.draw(st.sampled_from([self.made[-1], self.made[-1], *self.made]))
        output = self.draw(st.sampled_from(steps))(source)
        if output != source:
            self.made.append(output)


@st.composite
def chains(draw: st.DrawFn) -> Model:
    """Two to eight operators over tensors of one to five dimensions, with one or two outputs."""
    chain = _Chain(draw)
    for _ in range(draw(st.integers(2, 8))):
        chain.grow()
    if len(chain.made) == 1:
        chain.made.append(chain.mapped(chain.made[0]))
    outputs = dict.fromkeys([chain.made[-1], draw(st.sampled_from(chain.made[1:]))])
    return chain.model.build([chain.made[0]], list(outputs))
