"""Sentences about inputs that lie outside the arena."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tflite_fuse.model.outside import InputMode, OutsideInput
from tflite_fuse.model.types import TensorType, type_name


def outside_notes(entries: Sequence[OutsideInput], read: Mapping[int, tuple[InputMode, int]]) -> Iterator[str]:
    """One sentence per input outside the arena, and one per number where the file and its blocks disagree.

    Args:
        entries: what the file's metadata says.
        read: what the blocks read by number: how, and its bytes.
    """
    for entry in entries:
        how = f"source {entry.number}" if entry.mode is InputMode.STREAMED else f"external tensor {entry.number}"
        order = "row by row" if entry.mode is InputMode.STREAMED else "in any order"
        real = entry.type == TensorType.FLOAT32
        meaning = "" if real else f", scale {entry.scale:g}, zero point {entry.zero_point}"
        pixel = f"{entry.channels} floats" if real else f"{entry.channels} bytes"
        yield (
            f"input {entry.name} ({type_name(entry.type)} {list(entry.shape)}{meaning}) is "
            f"{entry.mode.value}: {entry.rows} rows of {entry.columns} pixels of {pixel} are read "
            f"{order} from {how}, outside the arena"
        )
    told = {entry.number: (entry.mode, entry.nbytes) for entry in entries}
    for number in sorted(told.keys() | read.keys()):
        if told.get(number) != read.get(number):
            says, does = (_described(each.get(number)) for each in (told, read))
            yield f"the metadata about inputs outside the arena is wrong: number {number} is {says}, blocks read {does}"


def _described(what: tuple[InputMode, int] | None) -> str:
    return "nothing" if what is None else f"{what[1]:,} {what[0].value} bytes"
