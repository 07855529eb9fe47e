"""Options and constants damaged after writing are errors in the library, in Python and in the proof."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable

import pytest

from scripts.zoo import networks
from tests.check.mutants import mutants
from tests.check.test_validate import LEAST, rewritten
from tests.drawing.random_blocks import random_block
from tests.drawing.sanitized import damage
from tests.emit.test_encode import encoded
from tests.emit.test_version_1 import carried, data
from tflite_fuse.check import validate
from tflite_fuse.emit.decode import decode
from tflite_fuse.emit.encode import EncodedBlock
from tflite_fuse.emit.options import sealed
from tflite_fuse.errors import BlockError
from tflite_fuse.ir.structs import FIELDS
from tflite_fuse.model import load_model
from tflite_fuse.runtime.library.host import HostLibrary, host_library, load_library

BLOCKS = [encoded(random_block(random.Random(seed), largest=6)) for seed in range(20)]


@pytest.fixture(scope="module")
def library() -> HostLibrary:
    return load_library(host_library())


def changed(seed: int) -> tuple[bytes, bytes]:
    """A block with bytes or numbers changed, or its end cut off: every second in its constants."""
    rng = random.Random(seed)
    block = rng.choice(BLOCKS)
    while True:
        options = block.options if seed % 2 else damage(rng, block.options)
        constants = damage(rng, block.constants) if seed % 2 else block.constants
        if (options, constants) != (block.options, block.constants):
            return options, constants


def test_a_thousand_random_changes_are_a_thousand_errors(library: HostLibrary) -> None:
    for seed in range(1000):
        options, constants = changed(seed)
        assert library.prepare(options, constants) != 0, seed
        with pytest.raises(BlockError):
            decode(options, constants)


@pytest.mark.parametrize("block", BLOCKS[:2])
def test_every_single_bit_counts(library: HostLibrary, block: EncodedBlock) -> None:
    assert library.prepare(block.options, block.constants) == 0
    for part, other in ((0, block.constants), (1, block.options)):
        whole = (block.options, block.constants)[part]
        for bit in range(8 * len(whole)):
            flipped = bytearray(whole)
            flipped[bit // 8] ^= 1 << bit % 8
            pair = (other, bytes(flipped)) if part else (bytes(flipped), other)
            assert library.prepare(*pair) != 0, (part, bit)


def test_the_switch_leaves_out_the_comparison() -> None:
    careless = load_library(host_library(flags=("-DTFLITE_FUSE_NO_CRC", "-O0")))
    accepted = sum(careless.prepare(*changed(seed)) == 0 for seed in range(200))
    assert accepted > 20, "the test above could not fail"


def test_the_checksum_is_that_of_zlib_with_its_own_field_as_zeros() -> None:
    for block in BLOCKS:
        at = field(block.options)
        blank = block.options[:at] + bytes(4) + block.options[at + 4 :]
        assert block.options[at : at + 4] == struct.pack("<I", zlib.crc32(blank + block.constants))
        assert sealed(blank, block.constants) == block.options


def field(options: bytes, name: str = "checksum") -> int:
    """Where the table keeps a field."""
    (root,) = struct.unpack_from("<I", options)
    (back,) = struct.unpack_from("<i", options, root)
    (slot,) = struct.unpack_from("<H", options, root - back + 4 + 2 * FIELDS.index(name))
    return int(root + slot)


def without_slot(options: bytes) -> bytes:
    (root,) = struct.unpack_from("<I", options)
    at = root - struct.unpack_from("<i", options, root)[0] + 4 + 2 * FIELDS.index("checksum")
    return options[:at] + bytes(2) + options[at + 2 :]


def shorter_table(options: bytes) -> bytes:
    (root,) = struct.unpack_from("<I", options)
    at = root - struct.unpack_from("<i", options, root)[0]
    return options[:at] + bytes([4 + 2 * FIELDS.index("persistent_bytes")]) + options[at + 1 :]


def of_version_2(options: bytes) -> bytes:
    at = field(options, "version")
    return options[:at] + bytes([2]) + options[at + 1 :]


@pytest.mark.parametrize("change", [without_slot, shorter_table, of_version_2])
def test_no_changed_option_turns_the_checksum_off(library: HostLibrary, change: Callable[[bytes], bytes]) -> None:
    block = BLOCKS[0]
    assert library.prepare(change(block.options), block.constants) != 0
    with pytest.raises(BlockError):
        decode(change(block.options), block.constants)


def test_older_files_are_accepted_with_a_note(library: HostLibrary) -> None:
    model = load_model(data("wide_fused"))
    assert library.prepare(*carried("wide_fused")) == 0
    found = validate(load_model(data("wide")), model)
    assert not any("checksum" in str(finding) for finding in found.findings)
    assert any("without a checksum" in note for note in found.notes)


def test_the_proof_finds_damage_of_any_byte() -> None:
    before, after = rewritten(networks.inverted_residual_network(8, channels=4, blocks=1), goal=LEAST)
    for mutant in mutants(after, random.Random(1), 100, sealed=False):
        assert not validate(before, mutant.model).proven, (mutant.what, mutant.place)
