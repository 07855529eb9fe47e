"""Sources cannot write out of bounds, whatever a model declares, and have only one reader."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.drawing.witness import plan
from tflite_fuse.emit.encode import EncodedBlock, encode
from tflite_fuse.emit.options import read_options, write_options
from tflite_fuse.errors import BlockError, UsageError
from tflite_fuse.ir.block import Block, BlockConfig, BlockTensor, Stage, StageKind, Storage
from tflite_fuse.ops.kinds.pairs import AddParameters
from tflite_fuse.runtime.library.host import HostLibrary, host_library, load_library


def two_sources() -> EncodedBlock:
    """The sum of two pictures of 4 x 6 pixels of 2 values, both streamed, and the one of the pair that is written."""
    tensors = [BlockTensor(f"t{index}", 4, 6, 2, 0, Storage.SCRATCH) for index in range(2)]
    tensors.append(BlockTensor("sum", 4, 6, 2, 0, Storage.OUTPUT))
    add = AddParameters(20, 2**30, 0, 2**30, 0, 2**30, -19)
    stages = (
        Stage(StageKind.SOURCE, (), 0),
        Stage(StageKind.SOURCE, (), 1),
        Stage(StageKind.ADD, (0, 1), 2, parameters=add),
    )
    block = Block(tuple(tensors), stages, (), (2,))
    return encode(block, plan(block, BlockConfig(4, 6, 1)))


def with_numbers(encoded: EncodedBlock, *numbers: int) -> bytes:
    found = read_options(encoded.options)
    tensors = [t._replace(operand=number) for t, number in zip(found.tensors, numbers, strict=False)]
    return write_options(found._replace(tensors=(*tensors, *found.tensors[len(numbers) :])), encoded.constants)


@pytest.fixture(scope="module")
def library() -> HostLibrary:
    return load_library(host_library())


def test_two_sources_with_one_number_are_refused(library: HostLibrary) -> None:
    encoded = two_sources()
    assert library.prepare(with_numbers(encoded, 0, 1), encoded.constants) == 0
    status = library.prepare(with_numbers(encoded, 1, 1), encoded.constants)
    assert "tensor" in library.message(status)


def test_a_function_receives_the_capacity_of_its_buffer(library: HostLibrary) -> None:
    encoded, wide = two_sources(), np.zeros(10_000, np.int8)
    with pytest.raises(UsageError, match="gave 10000 bytes"):
        library.run(encoded.options, encoded.constants, sources=[lambda y, x, n: wide, lambda y, x, n: wide])


class _Place(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint32), ("bytes", ctypes.c_uint32))


class _Step(ctypes.Structure):
    _fields_ = (
        ("options", ctypes.c_void_p),
        ("constants", ctypes.c_void_p),
        ("options_bytes", ctypes.c_uint32),
        ("constants_bytes", ctypes.c_uint32),
        ("inputs", ctypes.c_void_p),
        ("outputs", ctypes.POINTER(_Place)),
        ("input_count", ctypes.c_uint8),
        ("output_count", ctypes.c_uint8),
        ("scratch", _Place),
        ("state", _Place),
        ("flash", ctypes.c_void_p),
    )


class _Model(ctypes.Structure):
    _fields_ = (("steps", ctypes.POINTER(_Step)), ("step_count", ctypes.c_uint32), ("arena_bytes", ctypes.c_uint32))


def test_two_blocks_that_read_one_source_are_not_loaded(library: HostLibrary) -> None:
    encoded = two_sources()
    first, second = with_numbers(encoded, 0, 1), with_numbers(encoded, 2, 3)
    for pair, sound in (((first, second), True), ((first, first), False), ((second, second), False)):
        kept = [ctypes.create_string_buffer(data, len(data)) for data in (*pair, encoded.constants)]
        constants = ctypes.cast(kept[2], ctypes.c_void_p)
        output = _Place(0, 48)
        steps = (_Step * 2)(
            *(
                _Step(
                    ctypes.cast(options, ctypes.c_void_p),
                    constants,
                    len(options),
                    len(encoded.constants),
                    None,
                    ctypes.pointer(output),
                    0,
                    1,
                    _Place(48, 4000),
                    _Place(0, 0),
                )
                for options in kept[:2]
            )
        )
        model, blocks = _Model(steps, 2, 4096), ctypes.create_string_buffer(1024)
        assert (library.functions.tflite_fuse_load(ctypes.byref(model), blocks) == 0) is sound


def test_the_host_library_takes_sources_by_their_geometry(library: HostLibrary) -> None:
    encoded = two_sources()
    image = np.arange(48, dtype=np.int8).reshape(4, 6, 2)
    sources = [lambda y, x, n: image[y, x : x + n]] * 2
    (output,) = library.run(encoded.options, encoded.constants, sources=sources)
    assert output.size == 48
    with pytest.raises(BlockError):
        library.run(encoded.options, encoded.constants, sources=sources[:1])
