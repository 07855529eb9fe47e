"""The description of a block for viewers matches its structs and does not affect runs."""

from __future__ import annotations

from typing import Any

import pytest
from flatbuffers import flexbuffers

import tflite_fuse
from scripts.zoo.networks import inverted_residual_network
from tflite_fuse.check.block import options as proof
from tflite_fuse.emit.decode import decode
from tflite_fuse.emit.options import Options, described, read_options, sealed, write_options
from tflite_fuse.ir.description import description
from tflite_fuse.ir.enums import StageKind, Storage
from tflite_fuse.ir.structs import BlockHeader, StageDesc, TensorDesc
from tflite_fuse.model import load_model, serialize_model
from tflite_fuse.runtime.library.host import host_library, load_library


def blocks() -> list[tuple[bytes, bytes]]:
    """Options and constants of the blocks of a rewritten model."""
    model = load_model(
        tflite_fuse.rewrite(serialize_model(inverted_residual_network(size=24, blocks=2)), verify=False).model
    )
    return [
        (each.custom_options, model.buffers[model.main.tensors[(each.inputs or ())[-1]].buffer].data or b"")
        for each in model.main.operators
        if each.custom_options
    ]


BLOCKS = blocks()


def shown(options: bytes) -> dict[str, Any]:
    """What a viewer reads, which knows nothing of this project."""
    found = flexbuffers.Loads(bytearray(options))
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(("options", "constants"), BLOCKS)
def test_a_viewer_reads_stages_rings_scratch_and_tile(options: bytes, constants: bytes) -> None:
    found, block, structs = shown(options), decode(options, constants).block, read_options(options)
    rings = [structs.tensors[stage.output] for stage in structs.stages]
    assert [text.split()[0] for text in found["stages"]] == [stage.kind.name for stage in block.stages]
    assert [text.split()[-1] for text in found["stages"]] == [f"{t.height}x{t.width}x{t.channels}" for t in rings]
    assert found["ring bytes"] == [each.capacity * each.channels * (each.storage == Storage.SCRATCH) for each in rings]
    assert found["scratch bytes"] == structs.header.scratch_bytes
    assert found["tile"] == f"{structs.header.tile_height}x{structs.header.tile_width}"


@pytest.mark.parametrize(("options", "constants"), BLOCKS)
def test_the_library_runs_it_with_and_without(options: bytes, constants: bytes) -> None:
    structs = read_options(options)
    words = description(structs.header, structs.tensors, structs.stages)
    bare = sealed(options.removesuffix(words), constants)
    library = load_library(host_library())
    assert len(bare) + len(words) == len(options) and described(bare, constants) == options
    assert library.prepare(bare, constants) == library.prepare(options, constants) == 0
    assert proof.read_options(bare)._replace(checksum=0) == proof.read_options(options)._replace(checksum=0, words=b"")


@pytest.mark.parametrize(("options", "constants"), BLOCKS)
def test_no_byte_of_the_description_may_differ(options: bytes, constants: bytes) -> None:
    structs = read_options(options)
    start = len(options) - len(description(structs.header, structs.tensors, structs.stages))
    for at in range(start, len(options)):
        changed = bytearray(options)
        changed[at] ^= 1
        with pytest.raises(proof.DamagedError, match="the description behind the options"):
            proof.read_options(sealed(bytes(changed), constants))
    for longer in (options + b"\0", options[:-1]):
        with pytest.raises(proof.DamagedError):
            proof.read_options(longer)


def test_structs_that_cannot_be_described_make_a_proof_fail_and_nothing_else() -> None:
    header, tensor = BlockHeader(1, 4, scratch_bytes=8), TensorDesc(1, 4, 2, storage=Storage.SCRATCH, capacity=1 << 31)
    for stage in (StageDesc(kind=250), StageDesc(kind=1, output=9), StageDesc(kind=1, output=0)):
        with pytest.raises((LookupError, ValueError, OverflowError)):
            description(header, [tensor], [stage])
    bare = write_options(Options(header, (tensor._replace(capacity=1),), (StageDesc(kind=250),), ()), b"")
    assert proof.read_options(bare).words == b""
    with pytest.raises(proof.DamagedError, match="the description behind the options"):
        proof.read_options(sealed(bare + b"\0", b""))


@pytest.mark.parametrize("capacity", [1, 40_000])
def test_numbers_of_any_size_fit(capacity: int) -> None:
    tensor = TensorDesc(48, 48, 8, storage=Storage.SCRATCH, capacity=capacity)
    stage = StageDesc(kind=StageKind.CONV, output=0, kernel_height=3, kernel_width=3, stride_height=2)
    found = shown(description(BlockHeader(1, 48, scratch_bytes=capacity), [tensor] * 3, [stage] * 200))
    assert found["stages"] == ["CONV 3x3/2 48x48x8"] * 200 and found["ring bytes"] == [8 * capacity] * 200
