"""Options of a fused block as bytes: writing and reading the FlatBuffer of ``schemas/fused_block.fbs``.

Versions 1 to 3 are read: a struct of version 1 is one of version 2 whose new fields are 0 (see the schema), and version
3 has a checksum over options and constants. The checksum detects accidents, such as a damaged update or a half-written
flash. A description for viewers follows the FlatBuffer; readers of blocks ignore it. The bytes are untrusted: the
result is always the structs, with unchecked numbers, or a ``BlockError``.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import flatbuffers

from tflite_fuse.errors import BlockError, ModelError
from tflite_fuse.ir.description import description
from tflite_fuse.ir.limits import MAX_STAGES, MAX_TENSORS
from tflite_fuse.ir.structs import (
    CHECKED_VERSION,
    FIELDS,
    IDENTIFIER,
    LATER,
    LAYOUTS,
    OLDEST_VERSION,
    VERSION,
    BlockHeader,
    StageDesc,
    TensorDesc,
)
from tflite_fuse.model.wire import Reader

_T = TypeVar("_T")
_Desc = TypeVar("_Desc", BlockHeader, TensorDesc, StageDesc)


class Options(NamedTuple):
    """The fields of ``FusedBlock`` except its version."""

    header: BlockHeader
    tensors: tuple[TensorDesc, ...]
    stages: tuple[StageDesc, ...]
    stage_inputs: tuple[int, ...]


# ---- Writing ----


def write_options(options: Options, constants: bytes) -> bytes:
    """Return the FlatBuffer of a block's options, with the checksum over them and the constants."""
    builder = flatbuffers.Builder(1024)
    stage_inputs = _vector(builder, [(index,) for index in options.stage_inputs])
    stages = _vector(builder, [_words(stage) for stage in options.stages])
    tensors = _vector(builder, [_words(tensor) for tensor in options.tensors])
    builder.StartObject(len(FIELDS))
    _prepend(builder, _words(options.header))
    builder.PrependStructSlot(FIELDS.index("header"), builder.Offset(), 0)
    builder.PrependUOffsetTRelativeSlot(FIELDS.index("tensors"), tensors, 0)
    builder.PrependUOffsetTRelativeSlot(FIELDS.index("stages"), stages, 0)
    builder.PrependUOffsetTRelativeSlot(FIELDS.index("stage_inputs"), stage_inputs, 0)
    builder.PrependInt32Slot(FIELDS.index("version"), VERSION, 0)
    builder.PrependUint32Slot(FIELDS.index("checksum"), 0, 1)
    builder.Finish(builder.EndObject(), file_identifier=IDENTIFIER)
    return sealed(bytes(builder.Output()), constants)


def sealed(options: bytes, constants: bytes) -> bytes:
    """Return the options with the checksum over them and the constants; unchanged if their version has none.

    Raises:
        BlockError: the bytes are no options, or truncated.
    """
    at = _Fields(options).checksum()
    return options if at is None else options[:at] + struct.pack("<I", _sum(options, at, constants)) + options[at + 4 :]


def described(options: bytes, constants: bytes) -> bytes:
    """Return the options followed by a description for viewers of models: see ``ir/description.py``.

    Raises:
        BlockError: the bytes are no options.
    """
    parsed = read_options(options)
    return sealed(options + description(parsed.header, parsed.tensors, parsed.stages), constants)


def _words(desc: BlockHeader | TensorDesc | StageDesc) -> tuple[int, ...]:
    """Return a struct as int32 words; all its fields are aligned within them."""
    data = LAYOUTS[type(desc)].pack(*desc)
    return struct.unpack(f"<{len(data) // 4}i", data)


def _vector(builder: flatbuffers.Builder, rows: Sequence[Sequence[int]]) -> int:
    builder.StartVector(4 * len(rows[0]) if rows else 4, len(rows), 4)
    for row in reversed(rows):
        _prepend(builder, row)
    return int(builder.EndVector())


def _prepend(builder: flatbuffers.Builder, words: Sequence[int]) -> None:
    builder.Prep(4, 4 * len(words))
    for word in reversed(words):
        builder.PrependInt32(word)


# ---- Reading ----


def read_options(data: bytes) -> Options:
    """Return the structs in the options, with unchecked numbers.

    Raises:
        BlockError: the bytes are no FlatBuffer of this kind and these versions, truncated, or contain fields of a later
            version.
    """
    fields = _Fields(data)
    if not OLDEST_VERSION <= fields.version <= VERSION or fields.holds_more():
        raise BlockError(
            f"The fused block's options have version {fields.version}, this tflite-fuse reads {OLDEST_VERSION} to "
            f"{VERSION}; rewrite the model."
        )
    fields.checksum()
    (header,) = _structs(fields.inline("header", LAYOUTS[BlockHeader].size), BlockHeader)
    tensors = _structs(fields.vector("tensors", LAYOUTS[TensorDesc].size), TensorDesc)
    stages = _structs(fields.vector("stages", LAYOUTS[StageDesc].size), StageDesc)
    inputs = fields.vector("stage_inputs", 4)
    if not (1 <= len(tensors) <= MAX_TENSORS and 1 <= len(stages) <= MAX_STAGES):
        raise BlockError(f"The fused block's options hold {len(tensors)} tensors and {len(stages)} stages.")
    return Options(header, tensors, stages, struct.unpack(f"<{len(inputs) // 4}i", inputs))


def require_checksum(options: bytes, constants: bytes) -> None:
    """Raise BlockError if the options have a checksum that does not match them and the constants."""
    at = _Fields(options).checksum()
    if at is not None and _sum(options, at, constants) != int.from_bytes(options[at : at + 4], "little"):
        raise BlockError("The fused block's options or constants are damaged: their checksum differs.")


def _sum(options: bytes, at: int, constants: bytes) -> int:
    return zlib.crc32(constants, zlib.crc32(options[:at] + bytes(4) + options[at + 4 :]))


def _structs(data: bytes, kind: type[_Desc]) -> tuple[_Desc, ...]:
    """Return consecutive structs; raise BlockError if a byte of them is unknown."""
    layout, later = LAYOUTS[kind], LATER[kind]
    rows = tuple(kind(*row) for row in layout.iter_unpack(data))
    reserved = b"".join(layout.pack(*row) for row in rows) != data
    if reserved or any(getattr(row, name) for row in rows for name in later):
        raise BlockError(f"A {kind.__name__} of the fused block has a field unknown to this tflite-fuse.")
    return rows


class _Fields:
    """The fields of a FlatBuffer's root table."""

    def __init__(self, data: bytes) -> None:
        if data[4:8] != IDENTIFIER:
            raise BlockError("The custom options are no fused block of tflite-fuse.")
        self.reader = Reader(data)
        self.places, self.end = _sound(lambda: self.reader.vtable(self.reader.target(0)))
        (self.version,) = struct.unpack("<i", self.inline("version", 4))

    def holds_more(self) -> bool:
        """Return whether there is a reserved field, an unknown one, or one of a later version."""
        permitted = {FIELDS.index("checksum")} if self.version >= CHECKED_VERSION else set()
        return not self.places.keys() <= {*range(FIELDS.index("stage_inputs") + 1)} | permitted

    def checksum(self) -> int | None:
        """Return the position of the checksum, None if this version has none."""
        return self._place("checksum", 4) if self.version >= CHECKED_VERSION else None

    def inline(self, field: str, size: int) -> bytes:
        """Return the bytes of a field in the table itself."""
        place = self._place(field, size)
        return self.reader.data[place : place + size]

    def vector(self, field: str, size: int) -> bytes:
        """Return the elements of a vector, ``size`` bytes each."""
        place = self._place(field, 4)
        start, count = _sound(lambda: self.reader.span(self.reader.target(place), size))
        if start % 4:
            raise BlockError(_DAMAGED)
        return self.reader.data[start : start + count * size]

    def _place(self, field: str, size: int) -> int:
        """Return the position of a field of the table."""
        place = self.places.get(FIELDS.index(field), self.end)
        if place + size > self.end:
            raise BlockError(f"The fused block's options lack their {field}.")
        if place % 4:
            raise BlockError(_DAMAGED)
        return place


def _sound(read: Callable[[], _T]) -> _T:
    """Return the result of a reading function. Raises BlockError if it meets damage."""
    try:
        return read()
    except ModelError as error:
        raise BlockError(_DAMAGED) from error


_DAMAGED = "The fused block's options are truncated or damaged."
