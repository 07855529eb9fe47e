"""What a block's scratch may lie over of its inputs, by the replay: pixels that nobody reads again."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tflite_fuse.fusion.block.enums import Storage
from tflite_fuse.proof.block.regions import Axis, Program, Tile, pixel_bytes
from tflite_fuse.proof.block.scratch import needed_from_the_start
from tflite_fuse.proof.block.tape import NEVER, Ints, Tape, begins, reads, writes


def scratch_distances(program: Program, rows: Axis, tile: Tile, tape: Tape) -> dict[int, int]:
    """For each input the bytes that scratch must lie below it; all of scratch where the two share nothing.

    Args:
        rows: of the tiles.
        tile, tape: the last tile; where it is not the only one, scratch lies over no input.
    """
    found = {}
    for i, source in enumerate(program.tensors):
        if source.storage == Storage.INPUT:
            tail_reads = any(i in program.inputs[s] and not program.sums_driven(s) for s in program.tail)
            whole = tail_reads or not program.one_tile
            distance = program.header.scratch_bytes if whole else max(_ahead(program, rows, tile, tape, i))
            found[i] = min(program.header.scratch_bytes, distance)
    return found


def _ahead(program: Program, rows: Axis, tile: Tile, tape: Tape, i: int) -> Iterator[int]:
    """Bytes of scratch in use, less those of the input that are spent by then."""
    yield needed_from_the_start(program)
    at, oldest, _ = reads(program, tile, tape, i)
    still = np.minimum.accumulate(np.append(oldest, NEVER)[::-1])[::-1]
    for s in program.spatial:
        ring = program.tensors[program.stages[s].output]
        if ring.storage != Storage.SCRATCH:
            continue
        written, ends = writes(tape, s)
        needed = still[np.searchsorted(at, written)]
        open_ = needed < NEVER
        if open_.any():
            filled = ring.offset + _filled(program, rows, s, ends[open_]) * pixel_bytes(ring)
            yield int((filled - needed[open_] * pixel_bytes(program.tensors[i])).max())


def _filled(program: Program, rows: Axis, s: int, ends: Ints) -> Ints:
    """Pixels from the start of a ring that were written: all, unless it fills from there on and has not come round."""
    output = program.stages[s].output
    capacity = program.tensors[output].capacity
    in_order = begins(program, s) == 0 and int(rows.low[output][0]) == 0
    return np.minimum(ends, capacity) if in_order else np.full_like(ends, capacity)
