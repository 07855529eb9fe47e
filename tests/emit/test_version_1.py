"""Files with blocks of version 1, which tflite-fuse 0.1 wrote, run as ever.

``version_1/`` holds three networks of our own builder (seeds 5, 6, 7) and what version 0.1 made of each: ``_fused`` has
all operators in one block (``pools_fused`` in tiles of 3 x 2 in runs of 2, ``wide_fused`` with tables that may shift
left), ``_streamed`` and ``_external`` have the input outside the arena. Together they have every kind of stage, storage
and weight layout of version 1.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.drawing.host import run_block
from tests.runtime.fused_models import with_version
from tflite_fuse.emit.decode import decode
from tflite_fuse.emit.options import read_options, require_checksum, write_options
from tflite_fuse.errors import BlockError
from tflite_fuse.ir.enums import StageKind, Storage, WeightLayout
from tflite_fuse.model import load_model
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.library.host import host_library, load_library

FILES = Path(__file__).with_name("version_1")
FUSED = sorted(path.stem for path in FILES.glob("*_*.tflite"))

needs_tflm = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


def data(name: str) -> bytes:
    return (FILES / f"{name}.tflite").read_bytes()


def carried(name: str) -> tuple[bytes, bytes]:
    """Options and constants of the file's one block."""
    model = load_model(data(name))
    (operator,) = model.main.operators
    constants = model.main.tensors[operator.inputs[-1]]
    assert operator.custom_options is not None
    return operator.custom_options, bytes(model.buffers[constants.buffer].data or b"")


def images(name: str) -> list[np.ndarray]:
    """Inputs of the network that a file was made of."""
    model = load_model(data(name.partition("_")[0]))
    shape = model.main.tensors[model.main.inputs[0]].dims
    rng = np.random.default_rng(1)
    edges = [np.full(shape, value, np.int8) for value in (-128, 127)]
    return [*edges, *(rng.integers(-128, 128, shape).astype(np.int8) for _ in range(6))]


def expected(name: str) -> list[np.ndarray]:
    """What the runtime makes of the unfused network."""
    found = tflm.run(data(name.partition("_")[0]), [[image] for image in images(name)]).outputs
    return [outputs[0] for outputs in found]


def version_of(options: bytes) -> int:
    (version,) = (number for number in range(256) if with_version(options, number) == options)
    return version


def test_the_files_are_of_version_1_with_all_its_fields() -> None:
    found = [read_options(carried(name)[0]) for name in FUSED]
    assert len(found) == 5 and {version_of(carried(name)[0]) for name in FUSED} == {1}
    assert {stage.kind for options in found for stage in options.stages} == set(range(1, StageKind.SOURCE + 1))
    assert {stage.weight_layout for options in found for stage in options.stages} == set(range(WeightLayout.PACKED + 1))
    stored = {Storage(tensor.storage) for options in found for tensor in options.tensors}
    assert stored == {Storage.SCRATCH, Storage.INPUT, Storage.OUTPUT, Storage.EXTERNAL}


@needs_tflm
@pytest.mark.parametrize("name", FUSED)
def test_the_library_computes_the_same_bytes(name: str) -> None:
    def run(image: np.ndarray) -> np.ndarray:
        if name.endswith("streamed"):
            return run_block(*carried(name), sources=[lambda y, x, count: image[0, y, x : x + count]])[0]
        way = "externals" if name.endswith("external") else "inputs"
        return run_block(*carried(name), **{way: [image]})[0]

    for image, output in zip(images(name), expected(name), strict=True):
        np.testing.assert_array_equal(run(image), output.ravel())


@needs_tflm
@pytest.mark.parametrize("sanitize", [False, True])
@pytest.mark.parametrize("name", FUSED)
def test_the_runtimes_operator_computes_the_same_bytes(name: str, sanitize: bool) -> None:
    inside = name.endswith("fused")
    inputs = [[image] if inside else [] for image in images(name)]
    outside = None if inside else [[image[0]] for image in images(name)]
    found = tflm.run(data(name), inputs, outside, sanitize=sanitize).outputs
    for (output,), wanted in zip(found, expected(name), strict=True):
        np.testing.assert_array_equal(output, wanted)


@pytest.mark.parametrize("name", FUSED)
def test_they_decode_and_are_written_as_version_3_with_the_same_structs(name: str) -> None:
    options, constants = carried(name)
    again = write_options(read_options(options), constants)
    assert read_options(again) == read_options(options)
    assert decode(again, constants).outside == decode(with_version(options, 2), constants).outside
    require_checksum(options, constants + bytes(1))  # an old file has none
    with pytest.raises(BlockError):
        require_checksum(again, constants + bytes(1))
    assert [stage.kind for stage in decode(options, constants).block.stages] == [
        stage.kind for stage in read_options(options).stages
    ]


@pytest.mark.parametrize("version", [0, 4, 2**31, 2**32 - 1])
def test_other_versions_are_refused_on_both_sides(version: int) -> None:
    options, constants = carried("wide_fused")
    changed = with_version(options, version)
    with pytest.raises(BlockError, match=r"this tflite-fuse reads 1 to 3; rewrite the model"):
        decode(changed, constants)
    library = load_library(host_library())
    assert "of another version" in library.message(library.prepare(changed, constants))
