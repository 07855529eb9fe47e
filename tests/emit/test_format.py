"""The options' format in C and Python equals the schema, and unknown parts are refused."""

from __future__ import annotations

import re
import runpy
import shutil
import struct
from pathlib import Path

import pytest

from tests.emit.test_encode import encoded, small_block
from tflite_fuse.check.block.trace import schedule_alone
from tflite_fuse.emit.decode import decode
from tflite_fuse.emit.options import read_options, sealed, write_options
from tflite_fuse.errors import BlockError
from tflite_fuse.ir.enums import StageKind, Storage
from tflite_fuse.ir.structs import FIELDS, LATER, LAYOUTS, StageDesc, TensorDesc
from tflite_fuse.runtime.library.host import host_library, load_library

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(shutil.which("flatc") is None, reason="flatc is not installed")
def test_generating_the_format_again_changes_nothing() -> None:
    generator = runpy.run_path(str(ROOT / "scripts" / "generate_format.py"))
    assert sum(len(files) for files in generator["FILES"].values()) == 6
    for name, files in generator["FILES"].items():
        schema = generator["read_schema"](name)
        for path, make in files.items():
            assert make(schema) == (ROOT / path).read_text(), f"{path}: run scripts/generate_format.py"


def test_every_kind_of_the_schema_has_its_row_in_c() -> None:
    rows = re.findall(r"row\((\w+), (\w+)\)", (ROOT / "arduino/src/executor/tflite_fuse_kinds.c").read_text())
    assert sorted(name for name, _ in rows) == sorted(kind.name for kind in StageKind)
    assert all(name.lower() == entry for name, entry in rows)


# ---- What is not known is refused ----


def message(options: bytes) -> str:
    """What the library says."""
    library = load_library(host_library())
    return library.message(library.prepare(options, encoded(small_block()).constants))


def with_field(options: bytes, number: int) -> bytes:
    """Options whose root table has one field more: a new vtable behind them lends it the version's place."""
    root = struct.unpack_from("<I", options)[0]
    vtable = root - struct.unpack_from("<i", options, root)[0]
    size, table, *slots = struct.unpack_from("<9H", options, vtable)
    assert size == 4 + 2 * len(slots)
    longer = [*slots[:number], *[0] * (number - len(slots)), slots[0], *slots[number + 1 :]]
    found = bytearray(options + bytes(-len(options) % 4))
    struct.pack_into("<i", found, root, root - len(found))
    return bytes(found) + struct.pack(f"<{2 + len(longer)}H", 4 + 2 * len(longer), table, *longer)


@pytest.mark.parametrize("number", [FIELDS.index("persistent_bytes"), len(FIELDS), 40])
def test_fields_of_the_table_that_nothing_fills_yet_are_refused(number: int) -> None:
    options = with_field(encoded(small_block()).options, number)
    with pytest.raises(BlockError, match="rewrite the model"):
        decode(options, encoded(small_block()).constants)
    assert "another version" in message(options)


def unused_bytes(desc: type[TensorDesc | StageDesc]) -> list[int]:
    """Positions in a struct that must be 0: reserved, or of fields that nothing fills yet."""
    ones = desc(*LAYOUTS[desc].unpack(b"\xff" * LAYOUTS[desc].size))
    known = LAYOUTS[desc].pack(*ones._replace(**dict.fromkeys(LATER[desc], 0)))
    return [at for at, byte in enumerate(known) if byte == 0]


def test_a_stage_with_an_unknown_way_of_running_ahead_is_refused() -> None:
    data = encoded(small_block())
    found = read_options(data.options)
    stages = tuple(stage._replace(runs_ahead=2) for stage in found.stages)
    options = write_options(found._replace(stages=stages), data.constants)
    with pytest.raises(BlockError, match="has an unknown value of runs_ahead"):
        decode(options, data.constants)
    assert "out of range" in message(options)


@pytest.mark.parametrize("awaited", [1, 2, 255])
def test_a_stage_that_waits_for_a_later_stage_is_refused(awaited: int) -> None:
    data = encoded(small_block())
    found = read_options(data.options)
    stages = (found.stages[0]._replace(waits_for=awaited), *found.stages[1:])
    options = write_options(found._replace(stages=stages), data.constants)
    with pytest.raises(BlockError, match=r"waits for a tensor that no earlier|names a tensor that does not exist"):
        decode(options, data.constants)
    assert "out of range" in message(options)
    assert schedule_alone(read_options(options)).problems


@pytest.mark.parametrize("desc", [TensorDesc, StageDesc])
def test_bytes_of_structs_that_nothing_fills_yet_are_refused(desc: type[TensorDesc | StageDesc]) -> None:
    options = encoded(small_block()).options
    found = read_options(options)
    row = found.tensors[0] if desc is TensorDesc else found.stages[0]
    start = options.index(LAYOUTS[desc].pack(*row))
    positions = unused_bytes(desc)
    assert len(positions) == {TensorDesc: 3, StageDesc: 9}[desc]
    for at in positions:
        changed = sealed(options[: start + at] + b"\1" + options[start + at + 1 :], encoded(small_block()).constants)
        with pytest.raises(BlockError, match=f"A {desc.__name__} of the fused block has a field"):
            decode(changed, encoded(small_block()).constants)
        assert ("tensor" if desc is TensorDesc else "stage") in message(changed)


@pytest.mark.parametrize("storage", [Storage.PERSISTENT, 5, 255])
def test_storages_a_tensor_cannot_have_are_refused(storage: int) -> None:
    found = read_options(encoded(small_block()).options)
    changed = (found.tensors[0]._replace(storage=storage), *found.tensors[1:])
    options = write_options(found._replace(tensors=changed), encoded(small_block()).constants)
    with pytest.raises(BlockError, match=r"before it is computed|unknown storage"):
        decode(options, encoded(small_block()).constants)
    assert "tensor" in message(options)
