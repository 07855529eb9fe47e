"""Reading and writing loses nothing, aligns every buffer, and survives damaged files."""

from __future__ import annotations

import os
import random
import struct
from dataclasses import replace
from pathlib import Path

import pytest
import tflite

from tests.model.rich_model import rich_model
from tflite_fuse.errors import ModelError, TfliteFuseError, UsageError
from tflite_fuse.files import require_writable
from tflite_fuse.model import load_model, save_model, serialize_model
from tflite_fuse.model.edit import add_operator_code
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.options import make_options
from tflite_fuse.model.schema import Metadata, Model, OperatorCode, OptionsTable, SubGraph
from tflite_fuse.model.types import BUILTIN_CODES


def test_a_model_with_every_part_survives_write_and_read() -> None:
    model = rich_model()
    assert load_model(serialize_model(model)) == model


def test_a_file_with_a_scale_that_is_no_number_equals_itself() -> None:
    model = rich_model()
    quantization = replace(model.main.tensors[0].quantization, scale=(float("nan"),))  # type: ignore[type-var]
    tensors = (replace(model.main.tensors[0], quantization=quantization), *model.main.tensors[1:])
    data = serialize_model(replace(model, subgraphs=(replace(model.main, tensors=tensors), *model.subgraphs[1:])))
    assert load_model(data) == load_model(data)
    assert serialize_model(load_model(data)) == data


@pytest.mark.parametrize("index", [-1, 5, 2**31 - 1])
def test_metadata_buffers_that_do_not_exist_are_refused(index: int) -> None:
    with pytest.raises(ModelError, match="the list of metadata buffers refers to buffer"):
        load_model(serialize_model(replace(rich_model(), metadata_buffer=(index,))))


def test_real_models_survive_read_write_read(shared_model: Path) -> None:
    model = load_model(shared_model)
    assert load_model(serialize_model(model)) == model


def test_another_reader_of_the_format_sees_the_same_content() -> None:
    model = rich_model()
    other = tflite.Model.GetRootAsModel(serialize_model(model), 0)
    assert other.Version() == 3 and other.Description() == b"every part"
    graph = other.Subgraphs(0)
    assert [graph.Tensors(i).Name() for i in (0, 1, 3)] == [b"in", b"weights", b"out"]
    assert list(graph.Tensors(0).ShapeSignatureAsNumpy()) == [-1, 4, 4, 2]
    assert list(graph.Tensors(1).Quantization().ScaleAsNumpy()) == [0.5, 0.25]
    assert graph.Tensors(1).Sparsity().DimMetadata(1).ArrayIndicesType() == tflite.SparseIndexVector.Uint16Vector
    assert graph.Tensors(6).IsVariable()
    options = tflite.Conv2DOptions()
    table = graph.Operators(0).BuiltinOptions()
    options.Init(table.Bytes, table.Pos)
    assert (options.Padding(), options.StrideW(), options.DilationWFactor()) == (tflite.Padding.VALID, 1, 1)
    assert graph.Operators(1).CustomOptionsAsNumpy().tobytes() == b"\x01\x02\x03"
    assert other.SignatureDefs(0).Outputs(0).Name() == b"y"
    assert other.Buffers(1).DataAsNumpy().tobytes() == b"\x01\x02\x03\x04"


def _buffer_addresses(data: bytes) -> list[int]:
    """Positions of all non-empty buffers in a file, found without the code under test."""
    model = tflite.Model.GetRootAsModel(data, 0)
    tables = (model.Buffers(i) for i in range(model.BuffersLength()))
    return [t._tab.Vector(t._tab.Offset(4)) for t in tables if not t.DataIsNone()]


def test_every_buffer_is_aligned(shared_model: Path) -> None:
    addresses = _buffer_addresses(serialize_model(load_model(shared_model)))
    assert addresses and all(address % 16 == 0 for address in addresses)


def test_buffers_of_odd_lengths_are_aligned() -> None:
    model = rich_model()
    odd = tuple(replace(model.buffers[1], data=bytes(n)) for n in range(1, 40))
    addresses = _buffer_addresses(serialize_model(replace(model, buffers=(*model.buffers, *odd))))
    assert len(addresses) >= 39 and all(address % 16 == 0 for address in addresses)


def test_custom_options_are_aligned() -> None:
    data = serialize_model(rich_model())
    table = tflite.Model.GetRootAsModel(data, 0).Subgraphs(0).Operators(1)._tab
    assert table.Vector(table.Offset(14)) % 16 == 0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty"),
        (b"hello world, this is text", "not a TensorFlow Lite model"),
        (b"\x10\0\0\0TFL3", "not a TensorFlow Lite model"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 9\n", "git lfs pull"),
        (b"\xff\xff\xff\x7fTFL3" + bytes(20), "past the end"),
        (b"\x08\0\0\0TFL3\0\0\0\x40" + bytes(12), "1073741816 bytes before the start"),
    ],
)
def test_files_that_are_no_models_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load_model(data)


def test_unreadable_and_unwritable_paths_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"missing\.tflite: cannot be read"):
        load_model(tmp_path / "missing.tflite")
    with pytest.raises(UsageError, match=r"out\.tflite: cannot be written"):
        save_model(rich_model(), tmp_path / "no such folder" / "out.tflite")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "folder.tflite"
    target.mkdir()
    with pytest.raises(UsageError):
        save_model(rich_model(), target)
    assert list(tmp_path.iterdir()) == [target]


def _main(model: Model, **changes: object) -> bytes:
    graph: SubGraph = replace(model.main, **changes)  # type: ignore[arg-type]
    return serialize_model(replace(model, subgraphs=(graph, *model.subgraphs[1:])))


def test_only_regular_files_are_replaced(tmp_path: Path) -> None:
    pipe, link, target = tmp_path / "pipe", tmp_path / "link", tmp_path / "target.tflite"
    os.mkfifo(pipe)
    for place in (pipe, tmp_path):
        with pytest.raises(UsageError, match="cannot be written \\(it is no regular file"):
            save_model(rich_model(), place)
    assert pipe.is_fifo()
    target.write_bytes(b"old")
    link.symlink_to(target)
    save_model(rich_model(), link)
    assert link.is_symlink() and load_model(target) == load_model(link)
    if os.geteuid() != 0:  # who may write everywhere may write here
        target.chmod(0o444)
        with pytest.raises(UsageError, match="read-only"):
            save_model(rich_model(), target)


def test_a_folder_nothing_can_be_written_to_is_known_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_writable(tmp_path / "new.json")
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path or not mode & os.W_OK)
    with pytest.raises(UsageError, match="its folder is read-only"):
        require_writable(tmp_path / "new.json")


def test_inconsistent_models_are_refused_with_the_place() -> None:
    model = rich_model()
    ops, tensors = model.main.operators, model.main.tensors
    cases = {
        "refers to tensor 99": _main(model, inputs=(99,)),
        "operator code 77": _main(model, operators=(replace(ops[0], opcode_index=77), *ops[1:])),
        "output list of operator 0": _main(model, operators=(replace(ops[0], outputs=(-1,)), *ops[1:])),
        "form a cycle": _main(model, operators=(replace(ops[0], inputs=(8,)), *ops[1:])),
        "written by operator 0": _main(model, operators=(ops[0], replace(ops[1], outputs=(3,)), *ops[2:])),
        "buffer 50": _main(model, tensors=(replace(tensors[0], buffer=50), *tensors[1:])),
        "shape": _main(model, tensors=(replace(tensors[0], shape=(-5, 3)), *tensors[1:])),
        "impossible shape": _main(model, tensors=(replace(tensors[0], shape=(70000, 70000)), *tensors[1:])),
        "has 100,000 dimensions, more than 32$": _main(
            model, tensors=(replace(tensors[0], shape=(2**31 - 1,) * 100_000), *tensors[1:])
        ),
        r"tensor 2 .* a constant of 4 bytes, its shape \[5, 999\] needs 4,995": _main(
            model, tensors=(*tensors[:2], replace(tensors[2], shape=(5, 999)), *tensors[3:])
        ),
        r"tensor 2 .* a constant of the dynamic shape \[-1, 2\]": _main(
            model, tensors=(*tensors[:2], replace(tensors[2], shape=(-1, 2)), *tensors[3:])
        ),
        "no subgraph": serialize_model(replace(model, subgraphs=())),
        "newer than this version": _main(
            model, operators=(replace(ops[0], builtin_options=OptionsTable(200)), *ops[1:])
        ),
    }
    for message, data in cases.items():
        with pytest.raises(ModelError, match=message):
            load_model(data)


def test_data_outside_the_flatbuffer_is_refused() -> None:
    model = rich_model()
    weights = replace(model.main.tensors[2], buffer=0, external_buffer=1)
    elsewhere = _main(model, tensors=(*model.main.tensors[:2], weights, *model.main.tensors[3:]))
    with pytest.raises(ModelError, match="the data of tensor the same data in another file, which is not supported"):
        load_model(elsewhere)
    beyond = (*model.buffers[:-1], replace(model.buffers[-1], offset=4096, size=16))
    with pytest.raises(ModelError, match="outside its FlatBuffer"):
        load_model(serialize_model(replace(model, buffers=beyond)))


def test_a_value_that_nothing_writes_is_refused_by_its_name() -> None:
    """An inference without it is undefined, also for an output that a custom operator uses as memory."""
    model = rich_model()
    number, first = len(model.main.tensors), model.main.operators[0]
    model, custom = add_operator_code(model, custom="Foreign")
    output, operand = rf"tensor {number} \(loose\) of subgraph 0 is an output", rf"reads tensor {number} \(loose\)"
    for code, inputs, outputs, refused in (
        (first.opcode_index, (0, 1, -1), (number,), output),
        (custom, (0, 1, number), (number,), output),
        (first.opcode_index, (0, 1, number), (), operand),
    ):
        data = _main(
            model,
            tensors=(*model.main.tensors, replace(model.main.tensors[8], name="loose")),
            operators=(replace(first, opcode_index=code, inputs=inputs), *model.main.operators[1:]),
            outputs=(*model.main.outputs, *outputs),
        )
        with pytest.raises(ModelError, match=f"^the model: .*{refused}.* nothing writes"):
            load_model(data)


@pytest.mark.parametrize("shape", [(), (8,), (1, 8, 8), (1, 1, 8, 8, 3)])
def test_a_window_over_other_than_four_dimensions_is_refused(shape: tuple[int, ...]) -> None:
    """Kernels of the runtime read four without a look at their number."""
    model = rich_model()
    assert operator_name(model, model.main.operators[0]) == "CONV_2D"
    image = replace(model.main.tensors[0], shape=shape)
    with pytest.raises(ModelError, match=r"operator 0 \(CONV_2D\) .* four dimensions, and tensor 0 \(in\) has"):
        load_model(_main(model, tensors=(image, *model.main.tensors[1:])))


def test_outputs_that_hold_something_without_a_writer_are_read() -> None:
    model = rich_model()
    holds = {"in": "an input", "scalar": "a constant", "state": "a variable"}
    for index, tensor in enumerate(model.main.tensors):
        if tensor.name in holds:
            load_model(_main(model, outputs=(index,)))
    load_model(_main(model, operators=()))
    other = replace(model.main, outputs=(0,), inputs=(), operators=model.main.operators[1:2])
    load_model(serialize_model(replace(model, subgraphs=(*model.subgraphs, other))))


@pytest.mark.parametrize("name", ["CONCATENATION", "CONV_2D", "MAX_POOL_2D", "STRIDED_SLICE"])
def test_options_of_another_operator_are_refused(name: str) -> None:
    """Passes change some of an operator's options and keep the others, which must be its own."""
    model = rich_model()
    codes = (*model.operator_codes, OperatorCode(BUILTIN_CODES[name], None, 1, BUILTIN_CODES[name]))
    stranger = replace(
        model.main.operators[0],
        opcode_index=len(codes) - 1,
        builtin_options=make_options("SoftmaxOptions", beta=1.0),
    )
    data = _main(replace(model, operator_codes=codes), operators=(stranger, *model.main.operators[1:]))
    with pytest.raises(ModelError, match=rf"operator 0 \({name}\) .* has the options of another kind of operator"):
        load_model(data)


def test_constants_that_are_packed_may_be_shorter_than_their_shape() -> None:
    model = rich_model()
    tensors = model.main.tensors
    longer = (*tensors[:2], replace(tensors[2], shape=(5, 999)), *tensors[3:])
    compressed = replace(model, metadata=(*(model.metadata or ()), Metadata("COMPRESSION_METADATA", 3)))
    load_model(_main(compressed, tensors=longer))
    sparse = (tensors[0], replace(tensors[1], shape=(2, 1, 1, 9)), *tensors[2:])
    assert tensors[1].sparsity is not None
    load_model(_main(model, tensors=sparse))


def test_a_field_of_a_newer_schema_is_refused_and_not_lost() -> None:
    data = bytearray(serialize_model(replace(rich_model(), trailing=b"")))
    root = struct.unpack_from("<I", data, 0)[0]
    vtable = root - struct.unpack_from("<i", data, root)[0]
    length, size = struct.unpack_from("<HH", data, vtable)
    known = data[vtable + 4 : vtable + length]
    longer = struct.pack("<HH", length + 2, size) + known + struct.pack("<H", struct.unpack_from("<H", known)[0])
    longer_at = len(data) + len(data) % 2
    data += bytes(longer_at - len(data)) + longer
    struct.pack_into("<i", data, root, root - longer_at)
    with pytest.raises(ModelError, match="newer format"):
        load_model(bytes(data))


def test_mutated_files_raise_only_the_projects_own_errors(shared_model: Path) -> None:
    _mutate(shared_model.read_bytes(), rounds=60, seed=1)


def test_a_mutated_rich_model_raises_only_the_projects_own_errors() -> None:
    _mutate(serialize_model(rich_model()), rounds=3000, seed=2)


def _mutate(original: bytes, rounds: int, seed: int) -> None:
    """Flip bytes, set offsets to extremes, truncate: the reader answers with a model or a project error."""
    rng = random.Random(seed)
    structure = min(len(original), 6000)
    for _ in range(rounds):
        data = bytearray(original)
        for _ in range(rng.randint(1, 6)):
            at = rng.choice((rng.randrange(structure), len(data) - 1 - rng.randrange(structure)))
            if rng.random() < 0.5:
                data[at] = rng.randrange(256)
            elif at + 4 <= len(data):
                struct.pack_into("<I", data, at, rng.choice((0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 0x80000000, len(data))))
        if rng.random() < 0.2:
            del data[rng.randrange(len(data)) :]
        try:
            serialize_model(load_model(bytes(data)))
        except TfliteFuseError as error:
            assert str(error)


def test_a_file_that_refers_to_itself_many_times_is_refused_quickly() -> None:
    """Vectors of a million references to one table must not become a million objects a level."""
    model = rich_model()
    graph = replace(model.main, operators=model.main.operators[:1] * 1000)
    data = bytearray(serialize_model(replace(model, subgraphs=(graph,) * 1)))
    root = struct.unpack_from("<I", data, 0)[0]
    vtable = root - struct.unpack_from("<i", data, root)[0]
    field = root + struct.unpack_from("<H", data, vtable + 4 + 2 * 2)[0]
    old = field + struct.unpack_from("<I", data, field)[0]
    subgraph = old + 4 + struct.unpack_from("<I", data, old + 4)[0]
    # A vector placed before the tables it names is impossible here, so let every element wrap to the same forward one.
    count = 3000
    vector = len(data)
    data += struct.pack("<I", count) + b"".join(struct.pack("<I", 4 * (count - i)) for i in range(count))
    data += data[subgraph : subgraph + 64]
    struct.pack_into("<I", data, field, vector - field)
    with pytest.raises(ModelError):
        load_model(bytes(data))
