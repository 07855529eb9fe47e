"""Scratch memory: the executor's own part, rings and sums; what is needed at the same time lies apart."""

from __future__ import annotations

from collections.abc import Iterator

from tflite_fuse.fusion.block.enums import StageKind, Storage
from tflite_fuse.fusion.block.limits import CURSOR_BYTES, POINTER_BYTES, STACK_POINTERS
from tflite_fuse.fusion.encoding.structs import NONE
from tflite_fuse.proof.block.regions import Program, pixel_bytes, reach
from tflite_fuse.proof.block.tape import is_source

_ALIGNMENT = 4
_NARROW_PIXELS = 255
"""int8 values of which sums fit int16."""


def _up(value: int, multiple: int = _ALIGNMENT) -> int:
    return -(-value // multiple) * multiple


def reserved(program: Program) -> int:
    """Bytes at the start of scratch: cursors, and pointers for windows of more pixels than the stack takes."""
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


def _sum_bytes(program: Program, s: int) -> int:
    source, output = program.tensors[program.inputs[s][0]], program.tensors[program.stages[s].output]
    kind = program.stages[s].kind
    if kind == StageKind.GLOBAL_MAX:
        return output.channels
    narrow = kind == StageKind.GLOBAL_AVERAGE and source.height * source.width <= _NARROW_PIXELS
    return output.channels * (2 if narrow else 4)


def scratch_problems(program: Program) -> Iterator[str]:
    """Things that are needed at the same time lie apart; and everything lies where the format puts it."""
    pieces = list(_pieces(program))
    for number, (what, start, size, born, dies) in enumerate(pieces):
        for other, at, bytes_, first, last in pieces[:number]:
            if start < at + bytes_ and at < start + size and born <= last and first <= dies:
                yield f"{what} and {other} lie over each other in scratch while both are needed"
    expected, total = _expected_places(program)
    for what, start, *_ in pieces:
        if what in expected and expected[what] != start:
            yield f"{what} lies at byte {start} of scratch instead of {expected[what]}"
    for t, tensor in enumerate(program.tensors):
        if tensor.storage not in (Storage.SCRATCH, Storage.PERSISTENT) and tensor.offset != 0:
            yield f"tensor {t} is not in scratch but has an offset in it"
    for s, stage in enumerate(program.stages):
        if not program.sums(s) and stage.accumulator_offset != NONE:
            yield f"stage {s} keeps no sums but has a place for them"
    if program.header.scratch_bytes != total:
        yield f"scratch has {program.header.scratch_bytes} bytes instead of {total}"


def needed_from_the_start(program: Program) -> int:
    """Where the last of what is needed before the first pixel is read ends: the executor's own part, sums that tiles
    add to."""
    sums = [
        program.stages[s].accumulator_offset + _up(_sum_bytes(program, s))
        for s in program.tail
        if program.sums_driven(s)
    ]
    return max(reserved(program), *sums) if sums else reserved(program)


def _pieces(program: Program) -> Iterator[tuple[str, int, int, int, int]]:
    """What lies in scratch: (what, start, bytes, when it is first needed, when last). Tiles are time 0, then stages."""
    spatial = program.header.spatial_stages
    yield "the executor's own part", 0, reserved(program), 0, len(program.stages)
    for t, tensor in enumerate(program.tensors):
        if tensor.storage == Storage.SCRATCH:
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


def _expected_places(program: Program) -> tuple[dict[str, int], int]:
    """One behind the other: sums over the driven tensor, rings; what the tail writes lies over the rings again."""
    places: dict[str, int] = {}
    end = reserved(program)
    for s in program.tail:
        if program.sums_driven(s):
            places[f"the sums of stage {s}"] = end
            end += _up(_sum_bytes(program, s))
    tail_end = end
    for s in program.spatial:
        end = _put(program, places, program.stages[s].output, end)
    for s in program.tail:
        tail_end = _put(program, places, program.stages[s].output, tail_end)
        if program.sums(s) and not program.sums_driven(s):
            places[f"the sums of stage {s}"] = tail_end
            tail_end += _up(_sum_bytes(program, s))
    return places, max(end, tail_end)


def _put(program: Program, places: dict[str, int], t: int, end: int) -> int:
    tensor = program.tensors[t]
    if tensor.storage != Storage.SCRATCH:
        return end
    places[f"tensor {t}"] = end
    return end + _up(max(0, tensor.capacity) * pixel_bytes(tensor))
