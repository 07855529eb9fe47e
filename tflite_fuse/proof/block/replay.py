"""The schedule of a block: rings, scratch, outputs, and what may lie over what, worked out from the options alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from tflite_fuse.fusion.block.enums import StageKind, Storage
from tflite_fuse.proof.block.regions import NOWHERE, Axis, Program, Tile, pixel_bytes, spans, tiles
from tflite_fuse.proof.block.scratch import scratch_problems
from tflite_fuse.proof.block.spent import scratch_distances
from tflite_fuse.proof.block.state import state_problems
from tflite_fuse.proof.block.tape import NEVER, Ints, Tape, follow, is_source, reads, writes


@dataclass
class ScheduleProof:
    """What the replay of a block found.

    Attributes:
        problems: each a clause; none: no pixel is read before it is written or after it was overwritten.
        distances: (input, output) of the block, by tensor: bytes the output's address must lie below the input's for
            no input to be overwritten before its last reader; negative: it may lie so far above.
        scratch: input of the block → bytes the scratch's address must lie below its own, likewise.
        runs: computations replayed, each kind of tile once.
        tiles: how many there are.
    """

    problems: list[str] = field(default_factory=list)
    distances: dict[tuple[int, int], int] = field(default_factory=dict)
    scratch: dict[int, int] = field(default_factory=dict)
    runs: int = 0
    tiles: int = 0


def replay(program: Program) -> ScheduleProof:
    """Follows a block through all its tiles and its tail.

    Its stages and tensors must name each other soundly; see ``trace.py``.
    """
    proof = ScheduleProof()
    proof.problems += _split_problems(program)
    if proof.problems:
        return proof
    rows, columns = spans(program, 0), spans(program, 1)
    proof.problems += _coverage_problems(program, rows, columns)
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


def _split_problems(program: Program) -> Iterator[str]:
    """Which stages run per tile and which tensor drives them follows from the stages; pixels of the tail are single."""
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
                yield f"stage {s} of the tail reads tensor {t}, of which nothing is left when it runs"
    for s, stage in enumerate(program.stages):
        own = s in program.spatial and stage.output != driven and not is_source(program, s)
        if stage.longest_run and not own:
            yield f"stage {s} has a run of its own that nobody keeps to"
        if stage.runs_ahead > 1 or (stage.runs_ahead and (not own or stage.kind == StageKind.STATE)):
            yield f"stage {s} runs ahead of who waits for it"
    header = program.header
    if not 1 <= header.tile_height <= 65535 or not 1 <= header.tile_width <= 65535 or not 1 <= header.chunk <= 255:
        yield f"tiles of {header.tile_height} x {header.tile_width} in runs of {header.chunk} are out of range"


def _coverage_problems(program: Program, rows: Axis, columns: Axis) -> Iterator[str]:
    for s in program.spatial:
        t = program.stages[s].output
        tensor = program.tensors[t]
        if tensor.storage == Storage.OUTPUT and not (rows.covers(t, tensor.height) and columns.covers(t, tensor.width)):
            yield f"output tensor {t} is left with holes"
        if program.stages[s].kind == StageKind.LSTM:
            whole = rows.covers(t, tensor.height) and columns.covers(t, tensor.width)
            if not (whole and program.one_tile):
                yield f"not all steps of tensor {t} are computed, each once"
        if is_source(program, s) and not program.one_tile:
            yield f"tiles ask the source of tensor {t} for pixels again"


# ---- Rings ----


def _ring_problems(program: Program, needed: dict[int, int]) -> Iterator[str]:
    """A ring holds just the pixels between the oldest one somebody still reads and the newest one."""
    for t, tensor in enumerate(program.tensors):
        in_scratch = tensor.storage == Storage.SCRATCH
        wanted = max(1, needed.get(t, 0)) if in_scratch else 0
        wanted = tensor.height * tensor.width if tensor.storage == Storage.PERSISTENT else wanted
        if tensor.capacity != wanted:
            end = "pixels are overwritten before their last reader" if tensor.capacity < wanted else "none needs more"
            yield f"the ring of tensor {t} holds {tensor.capacity} pixels instead of {wanted}: {end}"


# ---- Output over input ----


def _distances(program: Program, rows: Axis, columns: Axis, tile: Tile, tape: Tape) -> dict[tuple[int, int], int]:
    """For each input and output the most bytes by which the output is ahead of what is still read of the input."""
    found = {}
    for i, source in enumerate(program.tensors):
        if source.storage != Storage.INPUT:
            continue
        tail_reads = any(i in program.inputs[s] and not program.sums_driven(s) for s in program.tail)
        for o, output in enumerate(program.tensors):
            if output.storage != Storage.OUTPUT:
                continue
            if output.producer >= program.header.spatial_stages:
                # The tail writes when all tiles are done: only what the tail itself reads is still needed.
                ahead = pixel_bytes(output) if tail_reads else NOWHERE
            elif program.one_tile:
                ahead = _ahead_in_tile(program, tile, tape, i, o)
            else:
                ahead = _ahead_of_tiles(program, rows, columns, i, o)
            if tail_reads:
                ahead = max(output.height * output.width * pixel_bytes(output), ahead if ahead != NOWHERE else 0)
            nothing_read = -source.height * source.width * pixel_bytes(source)
            found[i, o] = nothing_read if ahead == NOWHERE else max(nothing_read, ahead)
    return found


def _ahead_in_tile(program: Program, tile: Tile, tape: Tape, i: int, o: int) -> int:
    """A run counts as written while what it reads is still needed."""
    written, ends = writes(tape, program.tensors[o].producer)
    at, oldest, _ = reads(program, tile, tape, i)
    if not len(at) or not len(written):
        return NOWHERE
    still = np.append(_least_from_here(oldest), NEVER)[np.searchsorted(at, written)]
    open_ = still < NEVER
    if not open_.any():
        return NOWHERE
    lead = ends[open_] * pixel_bytes(program.tensors[o]) - still[open_] * pixel_bytes(program.tensors[i])
    return int(lead.max())


def _ahead_of_tiles(program: Program, rows: Axis, columns: Axis, i: int, o: int) -> int:
    """As if a tile wrote everything before it reads anything: never less than what it is."""
    source, output = program.tensors[i], program.tensors[o]
    top, left = rows.low[i][:, None], columns.low[i][None, :]
    oldest = np.where((top < NOWHERE) & (left < NOWHERE), top * source.width + left, NEVER).ravel()
    bottom, right = rows.high[o][:, None], columns.high[o][None, :]
    ends = np.maximum.accumulate(((bottom - 1) * output.width + right).ravel())
    still = _least_from_here(oldest)
    open_ = still < NEVER
    if not open_.any():
        return NOWHERE
    return int((ends[open_] * pixel_bytes(output) - still[open_] * pixel_bytes(source)).max())


def _least_from_here(values: Ints) -> Ints:
    return np.minimum.accumulate(values[::-1])[::-1]
