"""Tensors that hold channels, a part, or repeated rows and columns of another tensor, through any chain of moves.

Each chain of operators that move values is applied to the numbers 0, 1, 2 … in place of the values. A tensor that holds
the same channels of every pixel of an earlier tensor is also known as a GATHER of it; with all channels in order both
are one value. A part is also known as a SLICE, an enlarged image as a RESIZE_NEAREST_NEIGHBOR.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import prod

import numpy as np
import numpy.typing as npt

from tflite_fuse.check.original.values import RENAMING, Original, Step, image_of
from tflite_fuse.model.options import make_options

Numbers = npt.NDArray[np.int64]

MOST_VALUES = 1 << 22
"""Largest tensor, in values, whose moves are followed; a number for each takes 8 bytes."""
_MOST_KEPT, _MOST_LOOKED_UP, _LEAST = 1 << 25, 1 << 26, 1 << 8
"""Limits of the work: numbers kept for all tensors, numbers looked up in all chains, least count of a look-up."""


def is_followed(dims: tuple[int, ...]) -> bool:
    """Return whether the moves of a tensor of this shape are followed."""
    return min(dims, default=1) > 0 and prod(dims) <= MOST_VALUES


def add_gathers(original: Original) -> None:
    """Add to the original, for every tensor that holds channels of an earlier one, the GATHER that would make it."""
    # tensor -> (its source, index into the source of each of its values)
    held: dict[int, tuple[int, Numbers]] = {}
    kept = looked_up = 0
    for step in tuple(original.steps):
        source = step.operand(1 if step.name == "SPLIT" else 0)
        if source < 0 or original.encoding(source) is None or not is_followed(original.tensors[source].dims):
            continue
        dims = original.tensors[source].dims
        parts = parts_of(original, step, np.arange(prod(dims)).reshape(dims))
        shapes = [original.tensors[tensor].dims for tensor in step.outputs]
        alike = all(original.encoding(tensor) == original.encoding(source) for tensor in step.outputs)
        if parts is None or [part.shape for part in parts] != shapes or not alike:
            continue
        for tensor, part in zip(step.outputs, parts, strict=True):
            kept += part.size
            if kept > _MOST_KEPT or looked_up > _MOST_LOOKED_UP:
                return
            held[tensor] = source, part
            looked_up += _add(original, step, tensor, held)


def _further_up(held: dict[int, tuple[int, Numbers]], tensor: int) -> Iterator[tuple[int, Numbers]]:
    """Return the earlier tensors whose values a tensor holds, nearest first, with the index of each value in them."""
    further, numbers = held[tensor]
    yield further, numbers
    while further in held:
        further, inner = held[further]
        numbers = inner.ravel()[numbers]
        yield further, numbers


def _add(original: Original, step: Step, tensor: int, held: dict[int, tuple[int, Numbers]]) -> int:
    """Add the operators that would make a tensor from earlier ones; return the count of numbers looked up."""
    output, looked_up = original.image(tensor), 0
    for source, numbers in _further_up(held, tensor):
        looked_up += max(numbers.size, _LEAST)
        image = image_of(original.tensors[source].dims)
        if image is None or output is None or image[0] * image[1] != output[0] * output[1]:
            _add_other(original, step, source, tensor, numbers)
            continue
        pixels = numbers.reshape(-1, output[2])
        channels = pixels[0].tolist()
        steps = pixels - pixels[:1]
        if max(channels) >= image[2] or (steps != image[2] * np.arange(len(pixels)).reshape(-1, 1)).any():
            continue
        if channels == list(range(image[2])):
            original.unite(source, tensor)
            continue
        result, natural = tensor, (*original.tensors[source].dims[:-1], len(channels))
        if original.tensors[tensor].dims != natural:  # such as a slice that drops the axis
            result = original.add_like(tensor, natural)
            original.unite(tensor, result)
        options = make_options("GatherOptions", axis=len(natural) - 1)
        original.add_operator(step, "GATHER", (source, original.add_numbers(channels)), result, options)
    return looked_up


def _add_other(original: Original, step: Step, source: int, tensor: int, numbers: Numbers) -> None:
    """Add the SLICE that cuts a tensor from an earlier one, or the operator that repeats the earlier one's rows and
    columns."""
    dims, sizes = original.tensors[source].dims, original.tensors[tensor].dims
    if len(dims) != len(sizes) or not numbers.size or not 2 <= len(dims) <= 4 or min(*dims, *sizes) < 1:
        return
    values, held = np.arange(prod(dims)).reshape(dims), numbers.reshape(sizes)
    begin = [int(place) for place in np.unravel_index(int(held.flat[0]), dims)]
    part = values[tuple(slice(start, start + size) for start, size in zip(begin, sizes, strict=True))]
    if np.array_equal(part, held):
        constants = [original.add_numbers(begin), original.add_numbers(sizes)]
        original.add_operator(step, "SLICE", (source, *constants), tensor)
    if len(dims) != 4 or dims[1] < 1 or dims[2] < 1 or sizes[1] % dims[1] or sizes[2] % dims[2]:
        return
    if np.array_equal(values.repeat(sizes[1] // dims[1], 1).repeat(sizes[2] // dims[2], 2), held):
        options = make_options("ResizeNearestNeighborOptions", half_pixel_centers=True)
        operands = (source, original.add_numbers(sizes[1:3]))
        original.add_operator(step, "RESIZE_NEAREST_NEIGHBOR", operands, tensor, options)


def add_ends(original: Original, windows: Sequence[int]) -> None:
    """Add the SLICE that makes each shorter window of a longer one; all windows end with the same values."""
    for longer in windows:
        for shorter in windows:
            size, all_ = (prod(original.tensors[tensor].dims) for tensor in (shorter, longer))
            if shorter != longer and size <= all_:
                step = original.written_by(shorter)
                assert step is not None
                _add_other(original, step, longer, shorter, np.arange(all_ - size, all_))


def gathered_channels(original: Original, step: Step) -> tuple[int, ...] | None:
    """Return the channels that a GATHER along the last dimension takes; None for any other GATHER."""
    dims, listed = original.tensors[step.inputs[0]].dims, original.numbers(step.operand(1))
    if step.number("axis") not in (-1, len(dims) - 1) or step.number("batch_dims") or not listed:
        return None
    return listed if min(listed) >= 0 and max(listed) < dims[-1] else None


def origin(original: Original, tensor: int) -> tuple[int, Numbers]:
    """Return the earliest tensor whose values a tensor holds through moves alone, and the index of each value in it.

    The indices have the tensor's shape. A tensor that is too large to follow is its own origin, with an empty array.
    """
    place, dims = original.in_file.get(tensor, -1), original.tensors[tensor].dims
    if not is_followed(dims):
        return tensor, np.empty(0, np.int64)
    own = np.arange(prod(dims), dtype=np.int64).reshape(dims)
    if place < 0:
        return tensor, own
    step = original.steps[place]
    source = step.operand(1 if step.name == "SPLIT" else 0)
    if source < 0 or original.activation(source) is None or original.activation(source) != original.activation(tensor):
        return tensor, own
    if not is_followed(original.tensors[source].dims):
        return tensor, own
    further, numbers = origin(original, source)
    parts = parts_of(original, step, numbers)
    if parts is None or tensor not in step.outputs or len(parts) != len(step.outputs):
        return tensor, own
    part = parts[step.outputs.index(tensor)]
    return (further, part) if part.shape == dims else (tensor, own)


def parts_of(original: Original, step: Step, values: Numbers) -> list[Numbers] | None:
    """Return the values of each output of an operator that moves ``values``; None if that is unknown."""
    rank = values.ndim
    if step.name in RENAMING and len(step.outputs) == 1:
        dims = original.tensors[step.outputs[0]].dims
        return [values.reshape(dims)] if prod(dims) == values.size and min(dims, default=1) > 0 else None
    if step.name == "TRANSPOSE":
        order = original.numbers(step.operand(1))
        return [np.moveaxis(values, order, range(rank))] if sorted(order) == list(range(rank)) else None
    if step.name == "GATHER":
        return _gathered(original, step, values)
    if step.name == "TILE":
        times = original.numbers(step.operand(1))
        sound = len(times) == rank and min(times) > 0 and prod(times) * values.size <= MOST_VALUES
        return [np.tile(values, times)] if sound else None
    if step.name == "PACK":
        axis = step.number("axis")
        return [np.expand_dims(values, axis)] if len(step.inputs) == 1 and -rank <= axis + 1 <= rank + 1 else None
    if step.name == "UNPACK":
        axis = step.number("axis")
        sound = -rank <= axis < rank and values.shape[axis] == len(step.outputs)
        return list(np.moveaxis(values, axis, 0)) if sound else None
    if step.name in ("SPLIT", "SPLIT_V"):
        return _split(original, step, values)
    if step.name in ("SLICE", "STRIDED_SLICE"):
        cuts = list(kept_parts(original, step, values.shape))
        return [values[tuple(cuts)]] if len(cuts) == rank and None not in cuts else None
    return None


def _gathered(original: Original, step: Step, values: Numbers) -> list[Numbers] | None:
    axis, listed = step.number("axis"), original.indices(step.operand(1))
    if not -values.ndim <= axis < values.ndim or step.number("batch_dims") or not listed:
        return None
    if min(listed) < 0 or max(listed) >= values.shape[axis]:
        return None
    if values.size // values.shape[axis] * len(listed) > MOST_VALUES:
        return None
    indices, first = np.array(listed).reshape(original.tensors[step.operand(1)].dims), axis % values.ndim
    taken = np.moveaxis(values, first, 0)[indices]
    return [np.moveaxis(taken, range(indices.ndim), range(first, first + indices.ndim))]


def _split(original: Original, step: Step, values: Numbers) -> list[Numbers] | None:
    named = original.numbers(step.operand(0 if step.name == "SPLIT" else 2))
    if len(named) != 1 or not -values.ndim <= named[0] < values.ndim:
        return None
    if any(len(original.tensors[tensor].dims) != values.ndim for tensor in step.outputs):
        return None
    lengths = [original.tensors[tensor].dims[named[0]] for tensor in step.outputs]
    listed = original.numbers(step.operand(1)) if step.name == "SPLIT_V" else lengths
    sizes = [length if size == -1 else size for size, length in zip(listed, lengths, strict=False)]
    if sizes != lengths or sum(lengths) != values.shape[named[0]] or (step.name == "SPLIT" and len(set(lengths)) > 1):
        return None
    ends = list(accumulate(lengths))
    along = np.moveaxis(values, named[0], 0)
    return [np.moveaxis(along[end - size : end], 0, named[0]) for size, end in zip(lengths, ends, strict=True)]


def kept_parts(original: Original, step: Step, dims: tuple[int, ...]) -> Iterator[slice | int | None]:
    """Return the places of each dimension that a SLICE, STRIDED_SLICE or even GATHER keeps; None if out of range."""
    if step.name == "GATHER":
        yield from _gathered_parts(original, step, dims)
        return
    starts, second = (original.numbers(step.operand(place)) for place in (1, 2))
    if step.name == "SLICE":
        for start, size, length in zip(starts, second, dims, strict=False):
            end = length if size == -1 else start + size
            yield slice(start, end) if 0 <= start < end <= length else None
        return
    if any(step.options.get(name, 0) for name in ("ellipsis_mask", "new_axis_mask", "offset")):
        return
    steps = original.numbers(step.operand(3))
    for axis, (start, end, by, length) in enumerate(zip(starts, second, steps, dims, strict=False)):
        begins, ends, shrinks = (step.number(f"{what}_mask") >> axis & 1 for what in ("begin", "end", "shrink_axis"))
        if by < 1 or not -length <= start < length or not -length <= end <= length:
            yield None
        elif shrinks:
            yield 0 if begins else start
        else:
            yield slice(0 if begins else start % length, length if ends else end + length * (end < 0), by)


def _gathered_parts(original: Original, step: Step, dims: tuple[int, ...]) -> Iterator[slice | int | None]:
    along, listed = step.number("axis"), list(original.numbers(step.operand(1)))
    rank = len(original.tensors[step.operand(1)].dims) if step.operand(1) >= 0 else 2
    if rank > 1 or not -len(dims) <= along < len(dims) or step.number("batch_dims") or not listed:
        return
    by = listed[1] - listed[0] if len(listed) > 1 else 1
    for axis, length in enumerate(dims):
        if axis != along % len(dims):
            yield slice(0, length, 1)
        elif by < 1 or listed[0] < 0 or listed[-1] >= length or listed != list(range(listed[0], listed[-1] + 1, by)):
            yield None
        else:
            yield slice(listed[0], listed[-1] + 1, by) if rank else listed[0]
