"""Damaged options and constants are refused with a message, or run within their memory, under sanitizers."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import astuple, replace
from pathlib import Path

import pytest

from tests import PATIENCE
from tests.drawing.witness import plan
from tests.emit.test_encode import encoded, small_block
from tflite_fuse.emit.decode import decode
from tflite_fuse.emit.encode import encode
from tflite_fuse.emit.options import Options, read_options, write_options
from tflite_fuse.errors import BlockError, RuntimeUnavailableError
from tflite_fuse.ir.block import Block, BlockConfig, BlockTensor, Stage, StageKind, Storage
from tflite_fuse.runtime.library.compiler import sanitizer_environment
from tflite_fuse.runtime.library.host import HostLibrary, host_library, load_library

ROOT = Path(__file__).resolve().parents[2]
_LITTLE_WORK = "-DTFLITE_FUSE_MAX_WORK=0x1000000"


def run_sanitized(what: str, first: int, count: int, *flags: str) -> str:
    """Output of ``sanitized.py``; its sanitizers end it at the first wrong access.

    One library serves damaged blocks, which must not take long, and sound ones, which are small enough not to.
    """
    try:
        environment = {**os.environ, **dict(sanitizer_environment())}
        library = host_library(sanitize=True, flags=(_LITTLE_WORK, *flags))
    except RuntimeUnavailableError as error:
        pytest.skip(str(error))
    command = [sys.executable, "-m", "tests.drawing.sanitized", str(library), what, str(first), str(count)]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_random_blocks_under_sanitizers() -> None:
    assert run_sanitized("exercise", 50_000, 120) == "{'equal': 120}\n"


def test_damaged_blocks_under_sanitizers() -> None:
    outcome = run_sanitized("fuzz", 0, 400)
    assert "'ran'" in outcome
    assert "'refused'" in outcome


def test_the_sanitizers_see_scratch_that_is_too_short() -> None:
    """The proof that the two tests above can fail: scratch is four bytes shorter than what the blocks use."""
    with pytest.raises(AssertionError, match="heap-buffer-overflow"):
        run_sanitized("overrun", 0, 20)


# ---- What prepare says ----


@pytest.fixture(scope="module")
def library() -> HostLibrary:
    return load_library(host_library())


def edited(part: str, index: int, **changes: int) -> bytes:
    """The options of a small block with fields of its header, a tensor or a stage changed."""
    options, constants, _ = astuple(encoded(small_block()))
    found = read_options(options)
    if part == "header":
        return write_options(found._replace(header=found.header._replace(**changes)), constants)
    rows = list(getattr(found, part))
    rows[index] = rows[index]._replace(**changes)
    return write_options(Options(**{**found._asdict(), part: tuple(rows)}), constants)


HUGE = 2**31 - 1


@pytest.mark.parametrize(
    ("part", "index", "changes", "message"),
    [
        ("header", 0, {"tile_height": 0}, "tiles"),
        ("header", 0, {"tile_width": HUGE}, "tiles"),
        ("header", 0, {"chunk": 256}, "tiles"),
        ("header", 0, {"driven": 2}, "tiles"),
        ("header", 0, {"driven": -1}, "tiles"),
        ("header", 0, {"spatial_stages": 2}, "tiles"),
        ("header", 0, {"spatial_stages": 0}, "tiles"),
        ("header", 0, {"scratch_bytes": 8}, "outside the scratch"),
        ("tensors", 0, {"height": 0}, "tensor"),
        ("tensors", 0, {"width": 65536}, "tensor"),
        ("tensors", 0, {"channels": HUGE}, "tensor"),
        ("tensors", 0, {"storage": 4}, "tensor"),
        ("tensors", 0, {"element_type": 2}, "tensor"),
        ("tensors", 0, {"element_order": 1}, "tensor"),
        ("tensors", 0, {"first_row": 1}, "tensor"),
        ("tensors", 1, {"producer": 1}, "tensor"),
        ("tensors", 1, {"zero_point": 128}, "tensor"),
        ("tensors", 1, {"storage": 0, "capacity": 16, "offset": 0}, "outside the scratch"),
        ("tensors", 1, {"storage": 0, "capacity": 17, "offset": 16}, "outside the scratch"),
        ("tensors", 1, {"storage": 0, "capacity": 16, "offset": HUGE}, "outside the scratch"),
        ("tensors", 0, {"channels": 30}, "constants"),
        ("stages", 0, {"kind": 0}, "stage"),
        ("stages", 0, {"kind": 11}, "stage"),
        ("stages", 0, {"first_input": -1}, "stage"),
        ("stages", 0, {"input_count": 2}, "stage"),
        ("stages", 0, {"stride_height": 0}, "stage"),
        ("stages", 0, {"stride_width": -1}, "stage"),
        ("stages", 0, {"dilation_width": 0}, "stage"),
        ("stages", 0, {"kernel_width": HUGE}, "stage"),
        ("stages", 0, {"pad_top": -32768}, "stage"),
        ("stages", 0, {"activation_min": 1, "activation_max": 0}, "stage"),
        ("stages", 0, {"weight_layout": 4}, "stage"),
        ("stages", 0, {"flags": 1}, "stage"),
        ("stages", 0, {"first_channel": 1}, "stage"),
        ("stages", 0, {"first_row": 1}, "stage"),
        ("stages", 0, {"phase": 1}, "stage"),
        ("stages", 0, {"kernel_height": 32767, "kernel_width": 32767}, "fit together"),
        ("stages", 0, {"kind": 2}, "fit together"),
        ("stages", 0, {"kernel_height": 50}, "constants"),
        ("stages", 0, {"weights_offset": HUGE}, "constants"),
        ("stages", 0, {"weights_offset": -1}, "constants"),
        ("stages", 0, {"weights_offset": 2}, "constants"),
        ("stages", 0, {"table_offset": -1}, "constants"),
        ("stages", 0, {"table_offset": 66}, "constants"),
        ("stages", 0, {"pad_offset": -1}, "constants"),
        ("stages", 0, {"pad_offset": HUGE}, "constants"),
    ],
)
def test_prepare_names_the_defect(
    library: HostLibrary, part: str, index: int, changes: dict[str, int], message: str
) -> None:
    status = library.prepare(edited(part, index, **changes), encoded(small_block()).constants)
    assert status != 0
    assert message in library.message(status)


@pytest.mark.parametrize("field", ["weights_offset", "table_offset", "pad_offset"])
def test_offsets_a_stage_does_not_use_lie_within_the_constants_too(library: HostLibrary, field: str) -> None:
    """Pointers are formed of them, and would wrap on a device of 32 bits."""
    tensors = BlockTensor("x", 4, 4, 2, 0, Storage.INPUT), BlockTensor("y", 4, 4, 2, 0, Storage.OUTPUT)
    block = Block(tensors, (Stage(StageKind.MAX_POOL, (0,), 1),), (0,), (1,))
    data = encode(block, plan(block, BlockConfig(4, 4, 1)))
    found = read_options(data.options)
    for offset, sound in ((-1, True), (len(data.constants), True), (len(data.constants) + 16, False), (HUGE, False)):
        options = write_options(found._replace(stages=(found.stages[0]._replace(**{field: offset}),)), data.constants)
        assert (library.prepare(options, data.constants) == 0) is sound


def test_work_beyond_all_bounds_is_refused() -> None:
    data = encoded(small_block())
    sound = edited("header", 0, tile_height=1)
    library = load_library(host_library(flags=("-DTFLITE_FUSE_MAX_WORK=4096", "-O0")))
    assert "work" in library.message(library.prepare(sound, data.constants))


def test_every_truncation_is_refused(library: HostLibrary) -> None:
    data = encoded(small_block())
    assert library.prepare(data.options, data.constants) == 0
    assert all(library.prepare(data.options[:length], data.constants) != 0 for length in range(len(data.options)))
    assert library.prepare(data.options, data.constants[:-16]) != 0


@pytest.mark.parametrize(("beside", "is_sound"), [(0, True), (2, False), (4, True)])
def test_rings_begin_at_multiples_of_4(library: HostLibrary, beside: int, is_sound: bool) -> None:
    """A source writes floats there, which not every core stores anywhere."""
    source, output = small_block().tensors
    (stage,) = small_block().stages
    ring, copy = replace(output, storage=Storage.SCRATCH), Stage(StageKind.PAD, (1,), 2)
    options, constants, _ = astuple(encoded(Block((source, ring, output), (stage, copy), (0,), (2,))))
    found = read_options(options)
    header = found.header._replace(scratch_bytes=found.header.scratch_bytes + 4)
    tensors = (found.tensors[0], found.tensors[1]._replace(offset=found.tensors[1].offset + beside), found.tensors[2])
    moved = write_options(found._replace(header=header, tensors=tensors), constants)
    assert (library.prepare(moved, constants) == 0) is is_sound
    with nullcontext() if is_sound else pytest.raises(BlockError, match="lies at byte"):
        decode(moved, constants)


def test_every_status_has_its_own_message(library: HostLibrary) -> None:
    messages = [library.message(status) for status in range(14)]
    assert len(set(messages)) == 14
    assert library.message(14) == "unknown status"
