"""Reads a custom operator's options and writes them again, so every byte of them is accounted for."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import flatbuffers

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

_Desc = TypeVar("_Desc", BlockHeader, TensorDesc, StageDesc)

_FILLED = ("version", "header", "tensors", "stages", "stage_inputs")


class Options(NamedTuple):
    """The contents of the options; ``words`` is the description for model viewers behind them."""

    version: int
    header: BlockHeader
    tensors: tuple[TensorDesc, ...]
    stages: tuple[StageDesc, ...]
    stage_inputs: tuple[int, ...]
    checksum: int | None = None
    words: bytes = b""


class DamagedError(Exception):
    """The options cannot be read; the message is a clause."""


def read_options(data: bytes) -> Options:
    """Return the structs of the options.

    Raises:
        DamagedError: they are no FlatBuffer of this kind and a known version, or hold a byte without a meaning.
    """
    try:
        options = _parse(data)
        again = canonical(options)
    except struct.error as error:
        raise DamagedError("the options are cut short") from error
    if not data.startswith(again):
        raise DamagedError("the options hold bytes without a meaning, or another order than this version writes")
    if len(data) > len(again):
        options = options._replace(words=data[len(again) :])
        _require_true_words(options)
    for part in (options.header, *options.tensors, *options.stages):
        for name in LATER[type(part)]:
            if getattr(part, name):
                raise DamagedError(f"field {name} of a {type(part).__name__} is {getattr(part, name)} and must be 0")
    return options


def _require_true_words(options: Options) -> None:
    """Raise unless the description for model viewers agrees with the structs."""
    try:
        true = description(options.header, options.tensors, options.stages)
    except (LookupError, ValueError, OverflowError):
        true = b""
    if options.words != true:
        raise DamagedError("the description behind the options differs from them")


def _parse(data: bytes) -> Options:
    if data[4:8] != IDENTIFIER:
        raise DamagedError("the options are no fused block")
    (root,) = struct.unpack_from("<I", data, 0)
    (back,) = struct.unpack_from("<i", data, _inside(root, data))
    (size,) = struct.unpack_from("<H", data, _inside(root - back, data))
    slots = struct.unpack_from(f"<{2 + len(_FILLED)}H", data, _inside(root - back, data))[2:]
    places = {name: root + slot for name, slot in zip(FIELDS, slots, strict=False)}
    (version,) = struct.unpack_from("<i", data, _inside(places["version"], data))
    if not OLDEST_VERSION <= version <= VERSION:
        raise DamagedError(f"the options have version {version}; {OLDEST_VERSION} to {VERSION} can be validated")
    checksum = None
    if version >= CHECKED_VERSION:
        if size != 4 + 2 * len(FIELDS):
            raise DamagedError("the options have no checksum")
        (slot,) = struct.unpack_from("<H", data, root - back + size - 2)
        (checksum,) = struct.unpack_from("<I", data, _inside(root + slot, data))
    header = BlockHeader(*LAYOUTS[BlockHeader].unpack_from(data, _inside(places["header"], data)))
    tensors = _structs(data, places["tensors"], TensorDesc)
    stages = _structs(data, places["stages"], StageDesc)
    inputs = _vector(data, places["stage_inputs"], 4)
    if not 1 <= len(tensors) <= MAX_TENSORS or not 1 <= len(stages) <= MAX_STAGES:
        raise DamagedError(f"the options hold {len(tensors)} tensors and {len(stages)} stages")
    return Options(version, header, tensors, stages, struct.unpack(f"<{len(inputs) // 4}i", inputs), checksum)


def checksum(options: Options, constants: bytes) -> int:
    """Return the CRC-32 of options and constants that the options must hold."""
    return zlib.crc32(canonical(options._replace(checksum=0)) + options.words + constants)


def _inside(position: int, data: bytes) -> int:
    if not 0 <= position < len(data):
        raise DamagedError("an offset in the options leads out of them")
    return position


def _vector(data: bytes, field: int, size: int) -> bytes:
    """Return the bytes of a vector's elements."""
    (relative,) = struct.unpack_from("<I", data, _inside(field, data))
    start = _inside(field + relative, data)
    (count,) = struct.unpack_from("<I", data, start)
    if start + 4 + count * size > len(data):
        raise DamagedError("a vector in the options leads out of them")
    return data[start + 4 : start + 4 + count * size]


def _structs(data: bytes, field: int, kind: type[_Desc]) -> tuple[_Desc, ...]:
    layout = LAYOUTS[kind]
    return tuple(kind(*row) for row in layout.iter_unpack(_vector(data, field, layout.size)))


def canonical(options: Options) -> bytes:
    """Return the options' bytes in their only permitted order: inputs of stages, stages, tensors, table, header."""
    builder = flatbuffers.Builder(4096)
    inputs = _add_vector(builder, [struct.pack("<i", number) for number in options.stage_inputs], 4)
    stages = _add_vector(builder, _packed(options.stages), LAYOUTS[StageDesc].size)
    tensors = _add_vector(builder, _packed(options.tensors), LAYOUTS[TensorDesc].size)
    builder.StartObject(len(_FILLED) if options.checksum is None else len(FIELDS))
    header = b"".join(_packed([options.header]))
    builder.Prep(4, len(header))
    builder.head -= len(header)
    builder.Bytes[builder.head : builder.head + len(header)] = header
    builder.PrependStructSlot(FIELDS.index("header"), builder.Offset(), 0)
    for name, offset in (("tensors", tensors), ("stages", stages), ("stage_inputs", inputs)):
        builder.PrependUOffsetTRelativeSlot(FIELDS.index(name), offset, 0)
    builder.PrependInt32Slot(FIELDS.index("version"), options.version, 0)
    if options.checksum is not None:
        builder.PrependUint32Slot(FIELDS.index("checksum"), options.checksum, options.checksum ^ 1)
    builder.Finish(builder.EndObject(), file_identifier=IDENTIFIER)
    return bytes(builder.Output())


def _packed(rows: Sequence[BlockHeader] | Sequence[TensorDesc] | Sequence[StageDesc]) -> list[bytes]:
    return [LAYOUTS[type(row)].pack(*row) for row in rows]


def _add_vector(builder: flatbuffers.Builder, rows: Sequence[bytes], size: int) -> int:
    data = b"".join(rows)
    builder.StartVector(size, len(rows), 4)
    builder.head -= len(data)
    builder.Bytes[builder.head : builder.head + len(data)] = data
    return int(builder.EndVector())
