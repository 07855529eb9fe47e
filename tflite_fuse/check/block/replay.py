"""Replay of a block's schedule from the options alone: rings, scratch, outputs, and permitted overlaps.

Ranges of scratch that are needed at the same time must be disjoint. Scratch and outputs may overlap the part of an
input that no stage reads again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from tflite_fuse.check.block.options import Options
from tflite_fuse.check.block.regions import (
    BY_VALUE,
    FLOATS,
    NOWHERE,
    Axis,
    BlockProgram,
    Tile,
    both_types,
    pixel_bytes,
    reach,
    spans,
    tiles,
)
from tflite_fuse.check.block.tape import NEVER, Ints, Tape, first_computed, follow, is_source, reads, writes
from tflite_fuse.ir.enums import StageKind, Storage, WeightLayout
from tflite_fuse.ir.limits import CURSOR_BYTES, MAX_COPIED_FLOATS, MAX_PATCH_VALUES, POINTER_BYTES, STACK_POINTERS
from tflite_fuse.ir.structs import NONE, StageDesc, TensorDesc

_ALIGNMENT = 4
_NARROW_PIXELS = 255
"""Largest count of int8 values whose sum fits int16."""


def _up(value: int, multiple: int = _ALIGNMENT) -> int:
    return -(-value // multiple) * multiple


def reserved(program: BlockProgram) -> int:
    """Return the bytes at the start of scratch: cursors, and pointers of windows that exceed the stack."""
    most = 0
    for s, stage in enumerate(program.stages):
        if not is_source(program, s):
            _, _, tall, apart = reach(stage, 0)
            _, _, wide, beside = reach(stage, 1)
            rows = stage.kernel_height if apart == 1 else _up(tall, apart) // apart
            columns = _up(wide, beside) // beside
            most = max(most, rows * columns + (2 if stage.kind == StageKind.ADD else 1))
    cursors = _up(CURSOR_BYTES * len(program.spatial), POINTER_BYTES)
    return cursors + (POINTER_BYTES * most if most > STACK_POINTERS else 0)


def _sum_bytes(program: BlockProgram, s: int) -> int:
    source, output = program.tensors[program.inputs[s][0]], program.tensors[program.stages[s].output]
    kind = program.stages[s].kind
    if kind == StageKind.GLOBAL_MAX:
        return output.channels
    narrow = kind == StageKind.GLOBAL_AVERAGE and source.height * source.width <= _NARROW_PIXELS
    return output.channels * (2 if narrow else 4)


def scratch_problems(program: BlockProgram) -> Iterator[str]:
    """Report ranges of scratch that overlap while both are needed, and offsets that differ from the format's."""
    pieces = list(_pieces(program))
    for number, (what, start, size, born, dies) in enumerate(pieces):
        for other, at, bytes_, first, last in pieces[:number]:
            if start < at + bytes_ and at < start + size and born <= last and first <= dies:
                yield f"{what} and {other} overlap in scratch while both are needed"
    expected, total = _expected_places(program)
    for what, start, *_ in pieces:
        if what in expected and expected[what] != start:
            yield f"{what} lies at byte {start} of scratch instead of {expected[what]}"
    for t, tensor in enumerate(program.tensors):
        if tensor.storage not in (Storage.SCRATCH, Storage.PERSISTENT) and tensor.offset != 0 and not tensor.region:
            yield f"tensor {t} is not in scratch but has an offset in it"
    for s, stage in enumerate(program.stages):
        if not program.sums(s) and stage.accumulator_offset != NONE:
            yield f"stage {s} keeps no sums but has a place for them"
    if program.header.scratch_bytes != total:
        yield f"scratch has {program.header.scratch_bytes} bytes instead of {total}"


def needed_from_the_start(program: BlockProgram) -> int:
    """Return the bytes of scratch in use before the first pixel is read: the executor's part and running sums."""
    sums = [
        program.stages[s].accumulator_offset + _up(_sum_bytes(program, s))
        for s in program.tail
        if program.sums_driven(s)
    ]
    return max(reserved(program), *sums) if sums else reserved(program)


def _pieces(program: BlockProgram) -> Iterator[tuple[str, int, int, int, int]]:
    """Return the ranges of scratch: (name, start, bytes, first use, last use). Time 0 is all tiles; each tail stage
    follows."""
    spatial = program.header.spatial_stages
    yield "the executor's own part", 0, reserved(program), 0, len(program.stages)
    in_place = {program.stages[s].output for s in program.spatial if program.overwritten(s) >= 0}
    for t, tensor in enumerate(program.tensors):
        if tensor.storage == Storage.SCRATCH and t not in in_place:
            born = max(0, tensor.producer - spatial + 1)
            readers = [s - spatial + 1 for s in program.tail if t in program.inputs[s] and not program.sums_driven(s)]
            size = max(0, tensor.capacity) * pixel_bytes(tensor)
            yield f"tensor {t}", tensor.offset, size, born, max([born, *readers])
    for s in program.tail:
        if program.sums(s):
            born = 0 if program.sums_driven(s) else s - spatial + 1
            yield (
                f"the sums of stage {s}",
                program.stages[s].accumulator_offset,
                _sum_bytes(program, s),
                born,
                s - spatial + 1,
            )


def _expected_places(program: BlockProgram) -> tuple[dict[str, int], int]:
    """Return the offsets that the format prescribes, and the total: running sums, then rings; outputs of the tail reuse
    the rings' space."""
    places: dict[str, int] = {}
    end = reserved(program)
    for s in program.tail:
        if program.sums_driven(s):
            places[f"the sums of stage {s}"] = end
            end += _up(_sum_bytes(program, s))
    tail_end = end
    for s in program.spatial:
        if program.overwritten(s) < 0:
            end = _put(program, places, program.stages[s].output, end)
    for s in program.tail:
        tail_end = _put(program, places, program.stages[s].output, tail_end)
        if program.sums(s) and not program.sums_driven(s):
            places[f"the sums of stage {s}"] = tail_end
            tail_end += _up(_sum_bytes(program, s))
    return places, max(end, tail_end)


def _put(program: BlockProgram, places: dict[str, int], t: int, end: int) -> int:
    tensor = program.tensors[t]
    if tensor.storage != Storage.SCRATCH:
        return end
    places[f"tensor {t}"] = end
    return end + _up(max(0, tensor.capacity) * pixel_bytes(tensor))


def scratch_distances(program: BlockProgram, rows: Axis, tile: Tile, tape: Tape) -> dict[int, int]:
    """Return for each input the bytes that scratch must lie below it; all of scratch if the two may not overlap.

    Args:
        rows: spans of the bands.
        tile, tape: the last tile; if it is not the only one, scratch overlaps no input.
    """
    distances = {}
    for i, source in enumerate(program.tensors):
        if source.storage == Storage.INPUT:
            tail_reads = any(i in program.inputs[s] and not program.sums_driven(s) for s in program.tail)
            whole = tail_reads or not program.one_tile
            distance = program.header.scratch_bytes if whole else max(_ahead(program, rows, tile, tape, i))
            distances[i] = min(program.header.scratch_bytes, distance)
    return distances


def _ahead(program: BlockProgram, rows: Axis, tile: Tile, tape: Tape, i: int) -> Iterator[int]:
    """Yield for each write to a ring the bytes of scratch in use, less those of the input that are no longer read."""
    yield needed_from_the_start(program)
    at, still = _read_later(program, tile, tape, i)
    for s in program.spatial:
        ring = program.tensors[program.stages[s].output]
        if ring.storage != Storage.SCRATCH:
            continue
        written, ends = writes(tape, s)
        filled = ring.offset + _filled(program, rows, s, ends) * pixel_bytes(ring)
        lead = _lead(filled, still[np.searchsorted(at, written)], pixel_bytes(program.tensors[i]))
        if lead != NOWHERE:
            yield lead


def _filled(program: BlockProgram, rows: Axis, s: int, ends: Ints) -> Ints:
    """Return the pixels in use from the ring's start on: all, unless it fills from there and has not wrapped yet."""
    output = program.stages[s].output
    capacity = program.tensors[output].capacity
    in_order = first_computed(program, s) == 0 and int(rows.low[output][0]) == 0
    return np.minimum(ends, capacity) if in_order else np.full_like(ends, capacity)


@dataclass
class ScheduleProof:
    """Results of the replay of a block.

    Attributes:
        problems: clauses; if there are none, no pixel is read before it is written or after it was overwritten.
        distances: (input, output) tensors of the block → bytes that the output's address must lie below the input's, or
            the output overwrites pixels still to be read; negative: the output may lie above by that much.
        scratch: input tensor → bytes that the scratch's address must lie below the input's, likewise.
        runs: number of computations replayed, one tile of each class.
        tiles: number of tiles.
    """

    problems: list[str] = field(default_factory=list)
    distances: dict[tuple[int, int], int] = field(default_factory=dict)
    scratch: dict[int, int] = field(default_factory=dict)
    runs: int = 0
    tiles: int = 0


def replay(program: BlockProgram) -> ScheduleProof:
    """Replay a block through all its tiles and its tail.

    Stages and tensors must refer to each other soundly; ``trace.py`` checks that.
    """
    proof = ScheduleProof()
    proof.problems += _split_problems(program)
    if proof.problems:
        return proof
    rows, columns = spans(program, 0), spans(program, 1)
    proof.problems += [*_coverage_problems(program, rows, columns), *_wait_problems(program, rows, columns)]
    proof.problems += _in_place_problems(program)
    needed: dict[int, int] = {}
    last: tuple[Tile, Tape] | None = None
    for tile in tiles(program, rows, columns):
        seen = follow(program, tile)
        for tensor, pixels in seen.needed.items():
            needed[tensor] = max(pixels, needed.get(tensor, 0))
        proof.problems += [f"tensor {tensor} is read before it is computed" for tensor in seen.missing]
        proof.runs += seen.runs
        proof.tiles += tile.count
        last = tile, seen.tape
    proof.problems += _ring_problems(program, needed)
    proof.problems += scratch_problems(program)
    proof.problems += state_problems(program)
    if last is not None:
        proof.distances = _distances(program, rows, columns, *last)
        proof.scratch = scratch_distances(program, rows, *last)
    return proof


# ---- Tiles and tail ----


def _split_problems(program: BlockProgram) -> Iterator[str]:
    """Check which stages run per tile, which tensor drives the tiles, and that tensors of the tail have one pixel."""
    summing = [s for s in range(len(program.stages)) if program.sums(s)]
    spatial = summing[0] if summing else len(program.stages)
    driven = program.inputs[spatial][0] if summing else program.stages[-1].output
    if program.header.spatial_stages != spatial:
        yield f"{program.header.spatial_stages} stages run by tiles instead of {spatial}"
        return
    if program.header.driven != driven:
        yield f"tensor {program.header.driven} is driven instead of {driven}"
        return
    inside = {program.stages[s].output for s in program.spatial}
    for s in program.tail:
        output = program.tensors[program.stages[s].output]
        if output.height * output.width != 1:
            yield f"stage {s} of the tail writes more than one pixel"
        for t in program.inputs[s]:
            single = program.tensors[t].height * program.tensors[t].width == 1
            if not program.sums_driven(s) and (t in inside or not single):
                yield f"stage {s} of the tail reads tensor {t}, which is overwritten by then"
    for s, stage in enumerate(program.stages):
        own = s in program.spatial and stage.output != driven and not is_source(program, s)
        if stage.longest_run and not own:
            yield f"stage {s} has a run of its own, which the executor ignores"
        if stage.runs_ahead > 1 or (stage.runs_ahead and (not own or stage.kind == StageKind.STATE)):
            yield f"stage {s} may not run ahead of its readers"
    header = program.header
    width = program.tensors[driven].width
    if header.tile_width < width and any(
        program.sums_driven(s) and program.stages[s].kind in FLOATS for s in program.tail
    ):
        yield f"strips of {header.tile_width} columns of {width} sum float32 in another order"
    if not 1 <= header.tile_height <= 65535 or not 1 <= header.tile_width <= 65535 or not 1 <= header.chunk <= 255:
        yield f"tiles of {header.tile_height} x {header.tile_width} in runs of {header.chunk} are out of range"


def _coverage_problems(program: BlockProgram, rows: Axis, columns: Axis) -> Iterator[str]:
    for s in program.spatial:
        t = program.stages[s].output
        tensor = program.tensors[t]
        if tensor.storage == Storage.OUTPUT and not (rows.covers(t, tensor.height) and columns.covers(t, tensor.width)):
            yield f"some pixels of output tensor {t} are never written"
        if program.stages[s].kind == StageKind.LSTM:
            whole = rows.covers(t, tensor.height) and columns.covers(t, tensor.width)
            if not (whole and program.one_tile):
                yield f"not all steps of tensor {t} are computed, each once"
        if is_source(program, s) and not program.one_tile:
            yield f"several tiles read the source of tensor {t}, which gives each pixel once"


def _wait_problems(program: BlockProgram, rows: Axis, columns: Axis) -> Iterator[str]:
    """Check the tensors that stages wait for without reading them: the executor only runs as far as both go."""
    for s, stage in enumerate(program.stages):
        t = stage.waits_for - 1
        if t < 0:
            continue
        if s not in program.spatial or not program.one_tile:
            yield f"stage {s} waits for tensor {t} outside of a single tile"
            continue
        tensor, output = program.tensors[t], program.tensors[stage.output]
        spans_differ = any(
            span[t][0] != span[stage.output][0] for axis in (rows, columns) for span in (axis.low, axis.high)
        )
        if (tensor.height, tensor.width) != (output.height, output.width) or spans_differ:
            yield f"stage {s} waits for tensor {t}, of which other pixels are computed"
        if tensor.storage not in (Storage.SCRATCH, Storage.OUTPUT) or not 0 <= tensor.producer < s:
            yield f"stage {s} waits for tensor {t}, which is no ring or output of an earlier stage"


def _in_place_problems(program: BlockProgram) -> Iterator[str]:
    """Check stages whose outputs replace the pixels of an input: no pixel may be needed again, in any kernel."""
    for o, output in enumerate(program.tensors):
        if not output.overwrites:
            continue
        s, t = output.producer, output.overwrites - 1
        if s not in program.spatial or t not in program.inputs[s]:
            yield f"tensor {o} overwrites a tensor that no stage reads for it"
            continue
        stage, source = program.stages[s], program.tensors[t]
        readers = [n for n, inputs in enumerate(program.inputs) if t in inputs]
        if readers != [s] or source.producer not in program.spatial:
            yield f"stage {s} overwrites tensor {t}, which others read or no stage computes"
        if (source.storage, output.storage) != (Storage.SCRATCH, Storage.SCRATCH):
            yield f"stage {s} overwrites tensor {t} outside of scratch"
        alike = ("height", "width", "channels", "element_type", "capacity", "offset")
        if any(getattr(source, name) != getattr(output, name) for name in alike):
            yield f"stage {s} overwrites tensor {t}, whose pixels have other places"
        if stage.kind not in BY_VALUE and not _is_one_small_pixel(stage, source):
            yield f"stage {s} overwrites tensor {t}, of which its kernel may read overwritten pixels"


def _is_one_small_pixel(stage: StageDesc, source: TensorDesc) -> bool:
    """Return whether a window is the pixel at the same place, and kernels of float32 or packed weights copy it."""
    most = MAX_COPIED_FLOATS if stage.kind in FLOATS else MAX_PATCH_VALUES
    copies = stage.kind in FLOATS or stage.weight_layout != WeightLayout.PLAIN
    if stage.kind not in both_types("CONV", "FULLY_CONNECTED") or not copies:
        return False
    window = stage.kernel_height, stage.kernel_width, stage.stride_height, stage.stride_width
    return window == (1, 1, 1, 1) and (stage.pad_top, stage.pad_left) == (0, 0) and source.channels <= most


# ---- Rings ----


def _ring_problems(program: BlockProgram, needed: dict[int, int]) -> Iterator[str]:
    """Check that each ring holds exactly the pixels from the oldest one still to be read to the newest one."""
    for t, tensor in enumerate(program.tensors):
        in_scratch = tensor.storage == Storage.SCRATCH
        size = max(1, needed.get(t, 0)) if in_scratch else 0
        size = tensor.height * tensor.width if tensor.storage == Storage.PERSISTENT else size
        if tensor.capacity != size:
            end = "pixels are overwritten before their last reader" if tensor.capacity < size else "fewer are enough"
            yield f"the ring of tensor {t} holds {tensor.capacity} pixels instead of {size}: {end}"


# ---- Output over input ----


def _distances(program: BlockProgram, rows: Axis, columns: Axis, tile: Tile, tape: Tape) -> dict[tuple[int, int], int]:
    """Return for each input and output the largest lead, in bytes, of the output over the part of the input still to be
    read."""
    distances = {}
    for i, source in enumerate(program.tensors):
        if source.storage != Storage.INPUT:
            continue
        tail_reads = any(i in program.inputs[s] and not program.sums_driven(s) for s in program.tail)
        for o, output in enumerate(program.tensors):
            if output.storage != Storage.OUTPUT:
                continue
            if output.producer >= program.header.spatial_stages:
                # The tail writes after all tiles: only inputs of the tail are still needed.
                ahead = pixel_bytes(output) if tail_reads else NOWHERE
            elif program.one_tile:
                ahead = _ahead_in_tile(program, tile, tape, i, o)
            else:
                ahead = _ahead_of_tiles(program, rows, columns, i, o)
            if tail_reads:
                ahead = max(output.height * output.width * pixel_bytes(output), ahead if ahead != NOWHERE else 0)
            nothing_read = -source.height * source.width * pixel_bytes(source)
            distances[i, o] = nothing_read if ahead == NOWHERE else max(nothing_read, ahead)
    return distances


def _ahead_in_tile(program: BlockProgram, tile: Tile, tape: Tape, i: int, o: int) -> int:
    """Return the lead within one tile; a run's output counts as written while its inputs are still needed."""
    written, ends = writes(tape, program.tensors[o].producer)
    at, still = _read_later(program, tile, tape, i)
    filled = ends * pixel_bytes(program.tensors[o])
    return _lead(filled, still[np.searchsorted(at, written)], pixel_bytes(program.tensors[i]))


def _ahead_of_tiles(program: BlockProgram, rows: Axis, columns: Axis, i: int, o: int) -> int:
    """Return an upper bound of the lead over several tiles, as if each tile wrote all its output before it reads."""
    source, output = program.tensors[i], program.tensors[o]
    top, left = rows.low[i][:, None], columns.low[i][None, :]
    oldest = np.where((top < NOWHERE) & (left < NOWHERE), top * source.width + left, NEVER).ravel()
    bottom, right = rows.high[o][:, None], columns.high[o][None, :]
    ends = np.maximum.accumulate(((bottom - 1) * output.width + right).ravel())
    return _lead(ends * pixel_bytes(output), _least_from_here(oldest), pixel_bytes(source))


def _read_later(program: BlockProgram, tile: Tile, tape: Tape, i: int) -> tuple[Ints, Ints]:
    """Return the events that read an input, and the first pixel that is read from each of them on, NEVER at the end."""
    at, oldest, _ = reads(program, tile, tape, i)
    return at, np.append(_least_from_here(oldest), NEVER)


def _lead(filled: Ints, still: Ints, size: int) -> int:
    """Return the most bytes filled less those before the first pixel that is still read; NOWHERE if none ever is.

    Args:
        filled: bytes filled by each write.
        still: first pixel of an input that is read from then on.
        size: bytes of a pixel.
    """
    open_ = still < NEVER
    return int((filled[open_] - still[open_] * size).max()) if open_.any() else NOWHERE


def _least_from_here(values: Ints) -> Ints:
    return np.minimum.accumulate(values[::-1])[::-1]


# ---- State ----
# Rings that outlive a run hold all pixels of their tensor: when a run begins, a ring holds the earlier steps and room
# for the new ones, which overwrite the oldest. Each ring must lie at its offset in the state.

_NUMBER = 4
"""Bytes of the number in front of a ring, and alignment of the ring's end."""


def state_size(options: Options) -> int:
    """Return the bytes of a block's state, 0 if it keeps none."""
    return sum(
        -(-(_NUMBER + tensor.height * tensor.width * tensor.channels) // _NUMBER) * _NUMBER
        for tensor in options.tensors
        if tensor.storage == Storage.PERSISTENT
    )


def is_memory(options: Options, t: int) -> bool:
    """Return whether a tensor is the memory of one LSTM: its last input, with no other reader and no writer."""
    tensor = options.tensors[t]
    readers = [
        (stage.kind, n) for stage in options.stages for n, read in
        enumerate(options.stage_inputs[stage.first_input :][: stage.input_count]) if read == t
    ]  # fmt: skip
    return tensor.storage == Storage.PERSISTENT and tensor.producer < 0 and readers == [(StageKind.LSTM, 1)]


def state_problems(program: BlockProgram) -> Iterator[str]:
    """Check a block's persistent tensors: each is a ring written by a STATE or the memory of an LSTM.

    They are contiguous. The memory is one pixel of twice three bytes for each channel of the LSTM's output.
    """
    end = 0
    for t, tensor in enumerate(program.tensors):
        kept = tensor.storage == Storage.PERSISTENT
        written = tensor.producer >= 0 and program.stages[tensor.producer].kind == StageKind.STATE
        reader = next((s for s, inputs in enumerate(program.inputs) if t in inputs[1:]), -1)
        memory = kept and tensor.producer < 0 and reader >= 0 and program.stages[reader].kind == StageKind.LSTM
        if memory:
            half = -(-3 * program.tensors[program.stages[reader].output].channels // 2) * 2
            expected = (1, 1, 2 * half, 0)
            if (tensor.height, tensor.width, tensor.channels, tensor.zero_point) != expected:
                yield f"tensor {t} is no memory of {expected[2]} bytes"
        elif kept != written:
            yield f"tensor {t} has storage {tensor.storage} and is {'' if written else 'not '}the output of a STATE"
        if not kept:
            continue
        if not program.one_tile:
            yield f"tiles write tensor {t}, which outlives the run, again"
        if tensor.producer >= program.header.spatial_stages:
            yield f"tensor {t}, which outlives the run, is written by the tail"
        if tensor.offset != end:
            yield f"tensor {t} lies at byte {tensor.offset} of the state instead of {end}"
        end += -(-(_NUMBER + tensor.height * tensor.width * tensor.channels) // _NUMBER) * _NUMBER
