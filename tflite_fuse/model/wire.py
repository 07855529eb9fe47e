"""Dataclasses to and from FlatBuffers, with every read checked.

A dataclass field declared with ``slot(number, kind)`` is one field of a FlatBuffer table. The generated accessors of
this format read beyond ends without an error and drop unknown fields. Here a damaged file raises ``ModelError``, and a
file with an unknown field is rejected, so nothing is lost.

Wire format (FlatBuffers internals, https://flatbuffers.dev/internals): a table starts with a signed offset back to its
vtable ``[vtable bytes, table bytes, offset of slot 0, ...]`` (uint16 each, 0 = absent); vectors, strings and tables are
reached by unsigned forward offsets; a vector starts with its uint32 length.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from enum import Enum
from functools import lru_cache
from typing import Any, TypeVar

import flatbuffers

from tflite_fuse.errors import ModelError

T = TypeVar("T")


class Kind(Enum):
    """Storage of a field. Scalars and scalar vectors have their ``struct`` format character."""

    BOOL = "?"
    INT8 = "b"
    INT32 = "i"
    UINT32 = "I"
    UINT64 = "Q"
    BOOL_VECTOR = "[?"
    UINT16_VECTOR = "[H"
    INT32_VECTOR = "[i"
    INT64_VECTOR = "[q"
    FLOAT32_VECTOR = "[f"
    BYTES = "bytes"
    STRING = "string"
    TABLE = "table"
    TABLE_VECTOR = "tables"
    UNION = "union"
    OPTIONS = "options"
    OPTIONS_2 = "options2"

    __hash__ = object.__hash__  # each kind is one object; Enum's hash of the name took a tenth of the writing time


_SCALARS = frozenset({Kind.BOOL, Kind.INT8, Kind.INT32, Kind.UINT32, Kind.UINT64})
_UNIONS = frozenset({Kind.UNION, Kind.OPTIONS, Kind.OPTIONS_2})


@dataclass(frozen=True)
class _Slot:
    """Slot of a dataclass field. A union takes two slots: its type, then its value."""

    name: str
    number: int
    kind: Kind
    default: Any
    align: int
    table: type | None
    union: tuple[type, ...]
    required: bool


def slot(
    number: int,
    kind: Kind,
    *,
    default: Any = MISSING,
    align: int = 4,
    table: type | None = None,
    union: tuple[type, ...] = (),
    required: bool = False,
) -> Any:
    """Declare a dataclass field as slot ``number`` of a FlatBuffer table.

    Args:
        default: value of an absent scalar (0 or False unless given).
        align: alignment in bytes of a byte vector's first element.
        table: dataclass of a TABLE or of the elements of a TABLE_VECTOR.
        union: dataclasses of a UNION's members 1, 2, ...
        required: an absent vector is read as empty and always written.
    """
    if default is MISSING:
        default = False if kind is Kind.BOOL else 0 if kind in _SCALARS else () if required else None
    spec = {"number": number, "kind": kind, "align": align, "table": table, "union": union, "required": required}
    return field(default=default, metadata={"slot": spec})


@dataclass(frozen=True)
class _Form:
    """The slots of a dataclass, and the slot numbers that they take."""

    slots: tuple[_Slot, ...]
    numbers: frozenset[int]


_forms: dict[Any, _Form] = {}


def _form(cls: Any) -> _Form:
    if cls not in _forms:
        declared = [f for f in fields(cls) if "slot" in f.metadata]
        slots = tuple(_Slot(name=f.name, default=f.default, **f.metadata["slot"]) for f in declared)
        numbers = frozenset(s.number + extra for s in slots for extra in ((0, 1) if s.kind in _UNIONS else (0,)))
        _forms[cls] = _Form(slots, numbers)
    return _forms[cls]


OptionsReader = Callable[["Reader", int, int, Kind], Any]
OptionsWriter = Callable[[flatbuffers.Builder, Any], int]


@lru_cache(maxsize=1024)
def _nan(bits: bytes) -> float:
    """Return one object for each NaN, because tuples with the same object are equal although NaN is not."""
    return float(struct.unpack("<f", bits)[0])


class Reader:
    """Reader of tables from untrusted bytes; ``end`` is the end of the FlatBuffer in bytes.

    The work is bounded by the size of the file even if its parts refer to each other many times.
    """

    def __init__(self, data: bytes, read_options: OptionsReader | None = None) -> None:
        self.data = data
        self.end = 8
        self._read_options = read_options
        self._tables_left = len(data) // 4 + 16
        self._bytes_left = 16 * len(data) + 65536

    def scalar(self, form: str, position: int) -> Any:
        size = struct.calcsize("<" + form)
        if position < 0:
            raise ModelError(f"an offset points {-position} bytes before the start of the file")
        if position + size > len(self.data):
            raise ModelError(f"an offset points {position + size - len(self.data)} bytes past the end of the file")
        self.end = max(self.end, position + size)
        return struct.unpack_from("<" + form, self.data, position)[0]

    def target(self, position: int) -> int:
        """Follow the unsigned offset stored at ``position``."""
        return position + int(self.scalar("I", position))

    def span(self, position: int, element_size: int) -> tuple[int, int]:
        """Return the first byte and the number of elements of the vector at ``position``."""
        count = int(self.scalar("I", position))
        nbytes = count * element_size
        if position + 4 + nbytes > len(self.data):
            raise ModelError(f"a vector of {count} elements at byte {position} reaches past the end of the file")
        self._bytes_left -= nbytes
        if self._bytes_left < 0:
            raise ModelError("the file refers to the same data too many times")
        self.end = max(self.end, position + 4 + nbytes)
        return position + 4, count

    def blob(self, position: int) -> bytes:
        start, count = self.span(position, 1)
        return self.data[start : start + count]

    def vtable(self, position: int) -> tuple[dict[int, int], int]:
        """Return the present slots of the table at ``position`` as {slot: absolute position}, and the table's end."""
        self._tables_left -= 1
        if self._tables_left < 0:
            raise ModelError("the file refers to the same table too many times")
        start = position - int(self.scalar("i", position))
        length, size = int(self.scalar("H", start)), int(self.scalar("H", start + 2))
        if length < 4 or length % 2 or start < 0 or start + length > len(self.data):
            raise ModelError(f"the table at byte {position} has a damaged vtable")
        if size < 4 or position + size > len(self.data):
            raise ModelError(f"the table at byte {position} reaches past the end of the file")
        offsets = struct.unpack_from(f"<{length // 2 - 2}H", self.data, start + 4)
        if any(o and not 4 <= o < size for o in offsets):
            raise ModelError(f"the table at byte {position} has a field outside itself")
        self.end = max(self.end, position + size, start + length)
        return {i: position + o for i, o in enumerate(offsets) if o}, position + size

    def table(self, cls: type[T], position: int) -> T:
        present, _ = self.vtable(position)
        unknown = sorted(present.keys() - _form(cls).numbers)
        if unknown:
            raise ModelError(
                f"a {cls.__name__} has field {unknown[0]}, which belongs to a newer format than this version knows "
                "and would be lost"
            )
        return cls(**{s.name: self._field(s, present) for s in _form(cls).slots})

    def _field(self, s: _Slot, present: dict[int, int]) -> Any:
        if s.kind in _UNIONS:
            return self._union(s, present)
        if s.number not in present:
            return s.default
        position = present[s.number]
        if s.kind in _SCALARS:
            return self.scalar("B", position) != 0 if s.kind is Kind.BOOL else self.scalar(s.kind.value, position)
        position = self.target(position)
        if s.kind is Kind.BYTES:
            return self.blob(position)
        if s.kind is Kind.STRING:
            return self.blob(position).decode("utf-8", "surrogateescape")
        if s.kind is Kind.TABLE:
            assert s.table is not None
            return self.table(s.table, position)
        if s.kind is Kind.TABLE_VECTOR:
            assert s.table is not None
            start, count = self.span(position, 4)
            return tuple(self.table(s.table, self.target(start + 4 * i)) for i in range(count))
        form = s.kind.value[1]
        start, count = self.span(position, struct.calcsize("<" + form))
        values = struct.unpack_from(f"<{count}{form}", self.data, start)
        return values if form != "f" else tuple(x if x == x else _nan(struct.pack("<f", x)) for x in values)

    def _union(self, s: _Slot, present: dict[int, int]) -> Any:
        member = int(self.scalar("B", present[s.number])) if s.number in present else 0
        if member == 0 or s.number + 1 not in present:
            return None
        position = self.target(present[s.number + 1])
        if s.kind is not Kind.UNION:
            assert self._read_options is not None
            return self._read_options(self, member, position, s.kind)
        if member > len(s.union):
            raise ModelError(f"field {s.name} is of kind {member}, newer than this version knows, and would be lost")
        return self.table(s.union[member - 1], position)


class Writer:
    """Writer of dataclasses into one FlatBuffer. Byte vectors get the alignment declared by their field."""

    def __init__(self, size_hint: int, write_options: OptionsWriter) -> None:
        self.builder = flatbuffers.Builder(size_hint)
        self._write_options = write_options

    def blob(self, data: bytes, align: int = 4) -> int:
        """Write a byte vector whose first byte lies at a multiple of ``align`` in the finished file."""
        return self.raw_vector(data, 1, align)

    def raw_vector(self, data: bytes, element_size: int, align: int) -> int:
        """Write a vector of ``len(data) / element_size`` little-endian elements."""
        b = self.builder
        b.StartVector(element_size, len(data) // element_size, align)
        b.head -= len(data)
        b.Bytes[b.head : b.head + len(data)] = data
        return int(b.EndVector())

    def string(self, text: str) -> int:
        return int(self.builder.CreateSharedString(text, "utf-8", "surrogateescape"))

    def tables(self, items: tuple[Any, ...]) -> int:
        offsets = [self.table(item) for item in items]
        b = self.builder
        b.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            b.PrependUOffsetTRelative(offset)
        return int(b.EndVector())

    def table(self, item: Any) -> int:
        slots = _form(type(item)).slots
        offsets = {s.number: self._reference(s, getattr(item, s.name)) for s in slots if s.kind not in _SCALARS}
        b = self.builder
        b.StartObject(max(_form(type(item)).numbers, default=-1) + 1)
        for s in slots:
            value = getattr(item, s.name)
            offset = offsets.get(s.number)
            if offset is not None:
                number = s.number + 1 if s.kind in _UNIONS else s.number
                b.PrependUOffsetTRelativeSlot(number, offset, 0)
                if s.kind in _UNIONS:
                    b.PrependUint8Slot(s.number, _member(s, value), 0)
            elif s.kind in _SCALARS:
                _PREPEND[s.kind](b, s.number, value, s.default)
        return int(b.EndObject())

    def _reference(self, s: _Slot, value: Any) -> int | None:
        if value is None:
            return None
        if s.kind is Kind.BYTES:
            return self.blob(value, s.align)
        if s.kind is Kind.STRING:
            return self.string(value)
        if s.kind is Kind.TABLE_VECTOR:
            return self.tables(value)
        if s.kind in (Kind.TABLE, Kind.UNION):
            return self.table(value)
        if s.kind in _UNIONS:
            return self._write_options(self.builder, value) if value is not None else None
        form = s.kind.value[1]
        size = struct.calcsize("<" + form)
        return self.raw_vector(struct.pack(f"<{len(value)}{form}", *value), size, max(s.align, size))


def _member(s: _Slot, value: Any) -> int:
    return s.union.index(type(value)) + 1 if s.kind is Kind.UNION else int(value.type)


_PREPEND: dict[Kind, Callable[[flatbuffers.Builder, int, Any, Any], None]] = {
    Kind.BOOL: flatbuffers.Builder.PrependBoolSlot,
    Kind.INT8: flatbuffers.Builder.PrependInt8Slot,
    Kind.INT32: flatbuffers.Builder.PrependInt32Slot,
    Kind.UINT32: flatbuffers.Builder.PrependUint32Slot,
    Kind.UINT64: flatbuffers.Builder.PrependUint64Slot,
}
