from __future__ import annotations

import contextlib
import os
import random
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runtime.small_models import int8, model_file
from tflite_fuse.errors import ModelError, UsageError
from tflite_fuse.model import Model, load_model
from tflite_fuse.model import schema as s
from tflite_fuse.model.types import TensorType
from tflite_fuse.runtime.inputs import generate_inputs, input_specs, load_inputs


def model_of(*tensors: s.Tensor) -> Model:
    """A model whose tensors all are inputs and whose only operator reads the first."""
    codes = ["QUANTIZE"]
    output = int8("quantized", tensors[0].dims, scale=0.25, zero_point=-28)
    operators = (s.Operator(0, (0,), (len(tensors),)),)
    return load_model(model_file(codes, (*tensors, output), operators, range(len(tensors)), [len(tensors)]))


def tensor(name: str, shape: tuple[int, ...], kind: TensorType) -> s.Tensor:
    return s.Tensor(shape, kind, 0, name)


IMAGE = model_of(int8("image", (1, 6, 5, 3), zero_point=-7))


def test_edge_values_come_first() -> None:
    images = [image for (image,) in generate_inputs(IMAGE, 24)]
    assert all(image.shape == (1, 6, 5, 3) and image.dtype == np.int8 for image in images)
    assert [np.unique(image).tolist() for image in images[:3]] == [[-128], [127], [-7]]
    corners = [(0, 0), (0, 4), (5, 0), (5, 4), (2, 2)]
    for image, (row, column) in zip(images[3:8], corners, strict=True):
        assert (image[0, row, column] == 127).all()
        assert (image == -7).sum() == image.size - 3
    assert (np.diff(images[8].ravel().astype(int)) >= 0).all()
    assert images[8].min() == -128
    assert images[8].max() == 127


@pytest.mark.parametrize("count", [1, 2, 3, 8, 16, 40])
def test_at_least_a_third_is_random_and_all_differ(count: int) -> None:
    images = [image for (image,) in generate_inputs(IMAGE, count)]
    assert len(images) == count
    assert len({image.tobytes() for image in images}) == count
    busy = [image for image in images if np.unique(image).size > 20]
    assert len(busy) >= max(1, count // 3)


@pytest.mark.parametrize(("side", "most"), [(5, 1 << 23), (4096, 256)])
def test_more_inputs_than_memory_holds_are_refused_before_one_is_made(side: int, most: int) -> None:
    model = model_of(int8("image", (1, side, side, 1)))
    with pytest.raises(UsageError, match=f"{10**12:,} inputs of this model .*: compare at most {most:,}$"):
        generate_inputs(model, 10**12)


def test_random_inputs_use_the_whole_range() -> None:
    for (image,) in generate_inputs(model_of(int8("image", (1, 32, 32, 3))), 16)[9:]:
        assert image.min() < -120
        assert image.max() > 120


def test_same_seed_same_inputs() -> None:
    first, again, other = (generate_inputs(IMAGE, 20, seed) for seed in (5, 5, 6))
    assert all((a[0] == b[0]).all() for a, b in zip(first, again, strict=True))
    assert any((a[0] != b[0]).any() for a, b in zip(first, other, strict=True))


def test_float_inputs_follow_the_models_quantization() -> None:
    """QUANTIZE with scale 0.25 and zero point −28 takes −25…38.75; 5 % more on each side clamps."""
    model = model_of(tensor("real", (1, 8, 8, 1), TensorType.FLOAT32))
    (spec,) = input_specs(model)
    assert spec.low == pytest.approx(-25 - 0.05 * 63.75)
    assert spec.high == pytest.approx(38.75 + 0.05 * 63.75)
    for (image,) in generate_inputs(model, 16):
        assert image.dtype == np.float32
        assert spec.low - 1e-3 <= image.min() <= image.max() <= spec.high + 1e-3


@pytest.mark.parametrize(
    ("kind", "dtype", "low", "high"),
    [
        (TensorType.UINT8, np.uint8, 0, 255),
        (TensorType.INT16, np.int16, -32768, 32767),
        (TensorType.INT32, np.int32, -1000, 1000),
        (TensorType.INT64, np.int64, -1000, 1000),
        (TensorType.BOOL, np.bool_, 0, 1),
        (TensorType.FLOAT16, np.float16, -1, 1),
    ],
)
def test_other_types(kind: TensorType, dtype: type[np.generic], low: int, high: int) -> None:
    model = model_of(int8("image", (1, 4)), tensor("other", (2, 3), kind))
    for _, other in generate_inputs(model, 16):
        assert other.dtype == dtype
        assert other.shape == (2, 3)
        assert low <= other.min() <= other.max() <= high


@pytest.mark.parametrize("shape", [(), (1,), (0,), (5,), (1, 0, 3), (2, 3), (1, 1, 1, 1), (1, 2, 3, 4, 5)])
def test_every_rank(shape: tuple[int, ...]) -> None:
    for _, other in generate_inputs(model_of(int8("image", (1, 4)), int8("other", shape)), 16):
        assert other.shape == shape


def test_index_inputs_stay_in_range() -> None:
    tensors = (int8("table", (2, 4), 1), tensor("row", (1,), TensorType.INT32), int8("found", (1, 4)))
    operators = (s.Operator(0, (0, 1), (2,)),)
    model = load_model(model_file(["GATHER"], tensors, operators, [1], [2], [bytes(8)]))
    assert {int(row[0]) for (row,) in generate_inputs(model, 32)} == {0, 1}


@pytest.mark.parametrize(("shape", "kind"), [((1, -1), TensorType.INT8), ((1, 4), TensorType.STRING)])
def test_inputs_that_cannot_be_fed_are_named(shape: tuple[int, ...], kind: TensorType) -> None:
    with pytest.raises(ModelError, match="strange"):
        generate_inputs(model_of(int8("image", (1, 4)), tensor("strange", shape, kind)))


def test_no_inputs_are_an_error() -> None:
    with pytest.raises(UsageError, match="at least 1"):
        generate_inputs(IMAGE, 0)


TWO = model_of(int8("image", (1, 4, 4, 1)), tensor("gain", (2,), TensorType.INT32))
IMAGES = np.arange(48, dtype=np.int8).reshape(3, 4, 4, 1)
GAINS = np.arange(6, dtype=np.int32).reshape(3, 2)


@pytest.mark.parametrize("names", [("image", "gain"), ("arr_0", "arr_1")])
@pytest.mark.parametrize("with_batch", [False, True])
def test_user_data(tmp_path: Path, names: tuple[str, str], with_batch: bool) -> None:
    path = tmp_path / "data.npz"
    images = IMAGES[:, None] if with_batch else IMAGES
    np.savez(path, **{names[0]: images, names[1]: GAINS})
    samples = load_inputs(path, TWO)
    assert len(samples) == 3
    for index, (image, gain) in enumerate(samples):
        assert image.shape == (1, 4, 4, 1)
        assert (image[0] == IMAGES[index]).all()
        assert (gain == GAINS[index]).all()


def _signature(*names: str, tensors: tuple[int, ...] = (0, 1), subgraph: int = 0) -> s.SignatureDef:
    return s.SignatureDef(tuple(map(s.TensorMap, names, tensors)), (), "serving_default", None, subgraph)


def test_arrays_may_have_the_input_names_of_a_signature(tmp_path: Path) -> None:
    """A converter calls its tensors ``serving_default_image:0``; who wrote the model knows ``image``."""
    named = replace(TWO, signature_defs=(_signature("boost", "camera", tensors=(1, 0)),))
    np.savez(tmp_path / "data.npz", camera=IMAGES, boost=GAINS)
    samples = load_inputs(tmp_path / "data.npz", named)
    assert [image.shape for image, _ in samples] == [(1, 4, 4, 1)] * 3 and (samples[2][1] == GAINS[2]).all()
    np.savez(tmp_path / "data.npz", camera=IMAGES)
    with pytest.raises(UsageError, match="the model's inputs are image, gain or camera, boost; name the arrays"):
        load_inputs(tmp_path / "data.npz", named)


@pytest.mark.parametrize(
    "odd",
    [
        _signature("camera", tensors=(0,)),
        _signature("camera", "camera"),
        _signature("camera", "boost", subgraph=1),
        _signature("camera", "", "boost", tensors=(0, 1, 7)),
    ],
)
def test_signatures_that_do_not_name_each_input_once_are_none(tmp_path: Path, odd: s.SignatureDef) -> None:
    np.savez(tmp_path / "data.npz", camera=IMAGES, boost=GAINS)
    with pytest.raises(UsageError, match="the model's inputs are image, gain; name"):
        load_inputs(tmp_path / "data.npz", replace(TWO, signature_defs=(odd,)))


def test_a_single_array_needs_no_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.zeros((4, 6, 5, 3), np.int8))
    assert len(load_inputs(tmp_path / "data.npz", IMAGE)) == 4


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"image": IMAGES}, "image, gain"),
        ({"image": IMAGES, "gain": GAINS, "more": GAINS}, "more"),
        ({"image": IMAGES.astype(np.float32), "gain": GAINS}, "input image is float32 but the tensor is int8"),
        ({"image": IMAGES[:, :3], "gain": GAINS}, r"input image has shape \[3, 3, 4, 1\]"),
        ({"image": IMAGES, "gain": GAINS[0]}, r"input gain has shape \[2\]"),
        ({"image": IMAGES, "gain": GAINS[:2]}, "different numbers of samples"),
        ({"image": IMAGES[:0], "gain": GAINS[:0]}, "no sample"),
        ({"image": np.array([{}], object), "gain": GAINS}, "cannot be read"),
    ],
)
def test_user_data_that_does_not_fit(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    np.savez(tmp_path / "data.npz", **arrays)
    with pytest.raises(UsageError, match=message):
        load_inputs(tmp_path / "data.npz", TWO)


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 damaged", b"\x93NUMPY damaged"])
def test_damaged_user_data(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "data.npz").write_bytes(content)
    with pytest.raises(UsageError, match=r"data\.npz cannot be read"):
        load_inputs(tmp_path / "data.npz", TWO)


def test_absent_and_single_array_files(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load_inputs(tmp_path / "absent.npz", TWO)
    np.save(tmp_path / "one.npy", IMAGES)
    with pytest.raises(UsageError, match="the arrays arr_0 but"):
        load_inputs(tmp_path / "one.npy", TWO)


def _zipped(path: Path, name: str, content: bytes, *, encrypted: bool = False) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, content)
    if encrypted:  # the flag, in the entry's own header and in the directory
        data = bytearray(path.read_bytes())
        data[6] |= 1
        data[data.index(b"PK\x01\x02") + 8] |= 1
        path.write_bytes(data)
    return path


def _npy(header: str) -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize("name", ["data.npz", "data.npy"])
def test_arrays_come_through_a_pipe(name: str, tmp_path: Path) -> None:
    array = np.arange(2 * 6 * 5 * 3, dtype=np.int8).reshape(2, 6, 5, 3)
    save: Any = np.savez if name == "data.npz" else np.save
    save(tmp_path / name, array)
    reading, writing = os.pipe()
    os.write(writing, (tmp_path / name).read_bytes())
    os.close(writing)
    try:
        samples = load_inputs(f"/dev/fd/{reading}", IMAGE)
    finally:
        os.close(reading)
    assert [each[0].tobytes() for each in samples] == [each.tobytes() for each in array]


def test_an_encrypted_archive_is_a_sentence(tmp_path: Path) -> None:
    path = _zipped(tmp_path / "data.npz", "x.npy", b"secret", encrypted=True)
    with pytest.raises(UsageError, match="encrypted"):
        load_inputs(path, IMAGE)


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '|i1', 'fortran_order': False, 'shape': (1099511627776,), }",
        "{'descr': '|i1', 'fortran_order': False, 'shape': (-1,), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': ('|i1', 4), 'fortran_order': False, 'shape': ",
        "{'shape': 1}",
        "((((((",
        "\x00",
    ],
)
def test_a_malformed_array_is_a_sentence(header: str, tmp_path: Path) -> None:
    path = _zipped(tmp_path / "data.npz", "x.npy", _npy(header))
    with pytest.raises(UsageError, match=r"data\.npz"):
        load_inputs(path, IMAGE)


def test_an_archive_cut_or_damaged_anywhere_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez_compressed(path, x=np.zeros((4, 6, 5, 3), np.int8))
    whole, rng = path.read_bytes(), random.Random(1)
    for _ in range(400):
        damaged = bytearray(whole)
        for _ in range(rng.choice((1, 4))):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path.write_bytes(damaged[: rng.choice((len(damaged), rng.randrange(len(damaged))))])
        with contextlib.suppress(UsageError):
            load_inputs(path, IMAGE)
