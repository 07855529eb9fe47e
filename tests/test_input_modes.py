"""Models whose inputs leave the arena: the same bytes, read from memory or row by row, in a smaller arena."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tflite_fuse
from scripts.bench_small_networks import small_network, tiny_network
from scripts.zoo import ModelBuilder
from scripts.zoo.float_twin import float_twin
from tests.builders import random_graph
from tests.conftest import SHARED
from tests.input_mode_models import MODELS, float32_behind_a_cast, int16_input, two_towers
from tests.test_cli import validate
from tests.told import told
from tflite_fuse import BlockError, Goal, LimitError, ModelError, UsageError, VerificationError
from tflite_fuse.check import Certificate
from tflite_fuse.cli import app
from tflite_fuse.emit.insert_blocks import insert_blocks
from tflite_fuse.ir.block import BlockChoice, BlockConfig
from tflite_fuse.ir.program import program_of
from tflite_fuse.model import Model, load_model, save_model, serialize_model
from tflite_fuse.model.edit import set_metadata
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.outside import OUTSIDE_METADATA, InputMode, outside_inputs, set_outside_inputs
from tflite_fuse.model.types import TensorType
from tflite_fuse.rewriting.proving import Unproven, UnprovenError
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.inputs import generate_inputs
from tflite_fuse.tuning import TUNING

pytestmark = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")

OUTSIDE = ("streamed", "external")
GOALS = {"no recompute": None, "least RAM": Goal(least_ram=True)}


@cache
def original(name: str) -> bytes:
    return serialize_model(MODELS[name]())


@cache
def rewritten(name: str, mode: str, goal: str = "no recompute") -> tflite_fuse.Result:
    return tflite_fuse.rewrite(original(name), input_mode=mode, goal=GOALS[goal], inputs=10)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("mode", OUTSIDE)
def test_a_refusal_without_a_proof_names_that_reason(mode: str, named: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def unproven(model: Model, *_: object) -> Certificate:
        reader = model.main.operators[0]
        written = model.main.tensors[(reader.outputs or (-1,))[0]].name or ""
        raise UnprovenError("the weights differ", [Unproven(written, "CONV_2D_0", "weights")] if named else [])

    monkeypatch.setattr("tflite_fuse.rewriting.rewrite.prove", unproven)
    with pytest.raises(LimitError, match=r"could not be proven.*the weights differ"):
        tflite_fuse.rewrite(original("two towers"), input_mode=mode, verify=False)


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("mode", OUTSIDE)
@pytest.mark.parametrize("name", MODELS)
def test_the_same_bytes_without_the_input_in_the_arena(name: str, mode: str, goal: str) -> None:
    report, before = rewritten(name, mode, goal).report, load_model(original(name))
    assert report.verified is not None and report.verified.bit_exact and report.verified.inputs == 10
    after = load_model(rewritten(name, mode, goal).model)
    stayed = 1 if name == "image and vector" else 0
    assert len(after.main.inputs) == stayed and len(report.outside) == len(before.main.inputs) - stayed
    for entry in report.outside:
        tensor = before.main.tensors[before.main.inputs[entry.position]]
        assert (entry.name, entry.shape, entry.mode.value) == (tensor.name, tensor.dims, mode)
        copied = any(each.details["tensor"] == tensor.name for each in told(report.records, "changed", "input copied"))
        assert copied == (tensor.name in {t.name for t in after.main.tensors})
    graph = program_of(after)
    assert sum(graph.sizes[tensor] for tensor in graph.inputs) == (16 if stayed else 0) // 4
    if mode == "external" or goal == "no recompute":  # a stream forbids strips, which may save more than the image
        assert report.after.arena_bytes < rewritten(name, "resident", goal).report.after.arena_bytes


@pytest.mark.parametrize("name", ["skipped over", "two images"])
def test_the_head_is_smaller_by_the_image(name: str) -> None:
    """The same block, its image inside the arena and outside; a stream has a ring of scratch instead."""
    model = load_model(original(name))
    operators = tuple(range(len(model.main.operators)))
    choice = BlockChoice(operators, BlockConfig(99, 99), 0, 0, 0, "line-buffers")
    heads, scratch = {}, {}
    for mode in InputMode:
        inserted, (block,) = insert_blocks(model, [choice], mode, model.main.inputs)
        heads[mode] = tflm.measure(serialize_model(inserted)).head_bytes
        scratch[mode] = -(-block.plan.schedule.scratch_bytes // 16) * 16
    images = sum(int(np.prod(model.main.tensors[tensor].dims)) for tensor in model.main.inputs)
    assert heads[InputMode.EXTERNAL] == heads[InputMode.RESIDENT] - images
    rings = scratch[InputMode.STREAMED] - scratch[InputMode.EXTERNAL]
    assert 0 < rings < images // 2 and heads[InputMode.STREAMED] == heads[InputMode.EXTERNAL] + rings


def readers(entries: Any, inputs: list[np.ndarray], asked: list[tuple[int, int, int]]) -> list[Any]:
    """Functions in place of the inputs that are streamed; they note who was asked for which pixel."""
    given: list[Any] = list(inputs)
    for entry in entries:
        image = inputs[entry.position].reshape(entry.image)

        def read(y: int, x: int, count: int, image: np.ndarray = image, number: int = entry.number) -> np.ndarray:
            asked.extend((number, y, x + i) for i in range(count))
            return image[y, x : x + count]

        given[entry.position] = read
    return given


@pytest.mark.parametrize("name", MODELS)
def test_run_takes_arrays_for_every_model_and_functions_for_streams(name: str) -> None:
    samples = generate_inputs(load_model(original(name)), 10)
    entries = rewritten(name, "streamed").report.outside
    for inputs in (samples[0], samples[-1]):
        expected = [output.tobytes() for output in tflite_fuse.run(original(name), inputs)]
        for mode in OUTSIDE:
            outputs = tflite_fuse.run(rewritten(name, mode).model, inputs)
            assert [output.tobytes() for output in outputs] == expected
        asked: list[tuple[int, int, int]] = []
        outputs = tflite_fuse.run(rewritten(name, "streamed").model, readers(entries, inputs, asked))
        assert [output.tobytes() for output in outputs] == expected
        for entry in entries:
            pixels = [(y, x) for number, y, x in asked if number == entry.number]
            assert pixels == sorted(set(pixels)) and len(pixels) <= entry.rows * entry.columns


def test_run_refuses_arrays_that_do_not_fit() -> None:
    inputs = generate_inputs(load_model(original("two towers")), 1)[0]
    model = rewritten("two towers", "streamed").model
    for given, message in (
        (inputs[:1], "has 2 inputs but 1 were given"),
        (inputs[::-1], r"input input_0 is int8 \[1, 32, 32, 3\]"),
        ([inputs[0], lambda y, x, count: b"12"], "gave 2 bytes for"),
    ):
        with pytest.raises(UsageError, match=message):
            tflite_fuse.run(model, given)  # type: ignore[arg-type]


def test_models_are_verified_in_both_directions_and_against_each_other() -> None:
    models = [original("two towers"), *(rewritten("two towers", mode).model for mode in OUTSIDE)]
    for a in models:
        for b in models:
            assert tflite_fuse.verify(a, b, inputs=3).bit_exact
    with pytest.raises(VerificationError, match="has 2 inputs but"):
        tflite_fuse.verify(models[1], original("reshaped"), inputs=3)


def test_a_model_that_was_moved_can_be_rewritten_again() -> None:
    moved = rewritten("skipped over", "streamed")
    again = tflite_fuse.rewrite(moved.model, inputs=4)
    assert again.report.outside == moved.report.outside
    assert tflite_fuse.verify(original("skipped over"), again.model, inputs=4).bit_exact
    with pytest.raises(LimitError, match="no input can be external: the model has none in the arena"):
        tflite_fuse.rewrite(moved.model, input_mode="external")


def test_inputs_may_move_in_two_steps_and_ways() -> None:
    """The second tower's image first, streamed; then the first one's, external: positions and numbers differ."""
    model = load_model(original("two towers"))
    for operators, number, mode in (((4, 5, 6, 7), 1, InputMode.STREAMED), ((0, 1, 2, 3), 0, InputMode.EXTERNAL)):
        choice = BlockChoice(operators, BlockConfig(99, 99), 0, 0, 0, "line-buffers")
        model, _ = insert_blocks(model, [choice], mode, model.main.inputs[number : number + 1])
    found = [(entry.position, entry.number, entry.mode.value) for entry in outside_inputs(model)]
    assert found == [(0, 1, "external"), (1, 0, "streamed")]
    moved = serialize_model(model)
    assert tflite_fuse.verify(original("two towers"), moved, inputs=4).bit_exact
    inputs = generate_inputs(load_model(original("two towers")), 10)[-1]
    (expected,) = tflite_fuse.run(original("two towers"), inputs)
    (output,) = tflite_fuse.run(moved, [inputs[0], lambda y, x, count: inputs[1][0, y, x : x + count]])
    assert (output == expected).all()
    with pytest.raises(UsageError, match="input input_0 of the model is read in any order"):
        tflite_fuse.run(moved, [lambda y, x, count: b"", inputs[1]])


def test_blocks_that_cannot_read_a_moved_input_are_refused() -> None:
    model = load_model(original("two images"))
    first, both = BlockChoice((0,), BlockConfig(99, 99), 0, 0, 0, ""), model.main.inputs
    with pytest.raises(BlockError, match="no block reads input input_1, so it cannot be streamed"):
        insert_blocks(model, [first], InputMode.STREAMED, both)
    skipped = load_model(original("skipped over"))
    with pytest.raises(ModelError, match="ADD_3 reads input input_0, which must therefore be in the arena"):
        insert_blocks(skipped, [first], InputMode.EXTERNAL, skipped.main.inputs)
    second = replace(first, operators=(3,))
    with pytest.raises(BlockError, match="two blocks read input input_0, and a stream can be read only once"):
        insert_blocks(skipped, [first, second], InputMode.STREAMED, skipped.main.inputs)
    shared, blocks = insert_blocks(skipped, [first, second], InputMode.EXTERNAL, skipped.main.inputs)
    assert [block.input for block in blocks] == ["input_0", "conv_2d_2"]
    assert tflite_fuse.verify(original("skipped over"), serialize_model(shared), inputs=4).bit_exact
    (strips,) = (replace(first, operators=(0,), config=BlockConfig(99, 3)),)
    with pytest.raises(BlockError, match="would read pixels of input_0 again"):
        insert_blocks(skipped, [strips, second], InputMode.STREAMED, skipped.main.inputs)


@pytest.mark.parametrize("mode", OUTSIDE)
def test_notes_name_inputs_that_moved_and_that_did_not(mode: str) -> None:
    notes = rewritten("image and vector", mode).report.records
    (stays,), (moved,) = told(notes, "kept", "input in the arena"), told(notes, "changed", "input outside the arena")
    assert (stays.details["tensor"], stays.details["mode"]) == ("input_1", mode)
    assert str(stays.details["why"]).startswith("LOG_SOFTMAX")
    expected = {"tensor": "input_0", "type": "int8", "shape": "[1, 16, 16, 3]", "mode": mode, "rows": 16}
    assert expected.items() <= dict(moved.details).items()


def test_models_of_other_types_are_refused_with_a_remedy() -> None:
    model = int16_input()
    read = r"input_0 cannot be streamed: it is int16 and QUANTIZE_0 reads it.*: convert the model with int8 inputs"
    with pytest.raises(LimitError, match=read):
        tflite_fuse.rewrite(serialize_model(model), input_mode="streamed")
    first = model.main.operators[0].opcode_index
    signal = replace(
        model.operator_codes[first], custom_code="SignalWindow", deprecated_builtin_code=32, builtin_code=32
    )
    codes = tuple(signal if index == first else each for index, each in enumerate(model.operator_codes))
    with pytest.raises(LimitError, match=r"SignalWindow_0 reads it.*: keep it in the arena$"):
        tflite_fuse.rewrite(serialize_model(replace(model, operator_codes=codes)), input_mode="streamed")


def test_modes_need_the_fuse_pass_and_exist() -> None:
    with pytest.raises(UsageError, match="the fuse pass must run"):
        tflite_fuse.rewrite(original("reshaped"), input_mode="streamed", passes=["reorder", "plan"])
    with pytest.raises(UsageError, match="they can be resident, streamed, columns, external"):
        tflite_fuse.rewrite(original("reshaped"), input_mode="telepathic")


def test_strips_only_where_pixels_may_be_read_again() -> None:
    """Least RAM of a streamed input: one full-width strip for the block that reads it."""
    streamed = rewritten("inverted residuals", "streamed", "least RAM").report
    external = rewritten("inverted residuals", "external", "least RAM").report
    assert streamed.blocks[0].extra_macs == 0
    assert external.after.head_bytes < streamed.after.head_bytes and external.compute_factor > 1


def test_limits_hold_for_models_without_input() -> None:
    arena = rewritten("skipped over", "external").report.after.arena_bytes
    goal = Goal(max_ram=arena)
    report = tflite_fuse.rewrite(original("skipped over"), input_mode="external", goal=goal, inputs=3).report
    assert report.after.arena_bytes <= arena and len(report.outside) == 1
    roomy = Goal(max_ram=1 << 30)
    report = tflite_fuse.rewrite(original("skipped over"), input_mode="streamed", goal=roomy, inputs=3).report
    assert len(report.outside) == 1
    with pytest.raises(LimitError, match="cannot be reached"):
        tflite_fuse.rewrite(original("skipped over"), input_mode="streamed", goal=Goal(max_ram=100))


@pytest.mark.parametrize("quantized", [True, False])
@pytest.mark.parametrize("mode", ["resident", *OUTSIDE])
def test_a_float32_network_reads_bytes_through_a_cast(mode: str, quantized: bool) -> None:
    """TFLM casts no uint8: what it should be is what int8 values of 128 less give, with 128 added."""
    signed, spread = (
        serialize_model(float32_behind_a_cast(TensorType.INT8, quantized=quantized, spread=each))
        for each in (False, True)
    )
    reports = [tflite_fuse.rewrite(each, input_mode=mode, inputs=4).report for each in (signed, spread)]
    unsigned = tflite_fuse.rewrite(
        serialize_model(float32_behind_a_cast(TensorType.UINT8, quantized=quantized)), input_mode=mode
    )
    assert unsigned.report.verified is None
    for report in (*reports, unsigned.report):
        assert len(report.blocks) == 1 and report.after.arena_bytes < report.before.arena_bytes / 4
    image = np.random.default_rng(1).integers(0, 256, (1, 16, 16, 3)).astype(np.uint8)
    (expected,) = tflite_fuse.run(spread, [(image.astype(np.int16) - 128).astype(np.int8)])
    (output,) = tflite_fuse.run(unsigned.model, [image])
    assert output.tobytes() == expected.tobytes()


def test_bytes_without_a_scale_are_copied_for_readers_in_different_blocks() -> None:
    model = serialize_model(float32_behind_a_cast(TensorType.INT8, parts=2))
    report = tflite_fuse.rewrite(model, input_mode="streamed", inputs=4).report
    assert report.verified is not None and told(report.records, "changed", "input copied")


@pytest.mark.parametrize("channels", [32, 33, 100])
def test_a_pixel_of_any_depth_with_two_readers_is_copied(channels: int) -> None:
    """A pixel of more than 32 channels could arrive in pieces, which no copy for two convolutions does."""
    b = ModelBuilder(seed=0)
    x = b.input((1, 1, 1, channels))
    data = serialize_model(b.build([b.conv(x, 16, 1), b.conv(x, 12, 1)]))
    resident, streamed = (
        tflite_fuse.rewrite(data, verify=False, input_mode=mode).report.after.arena_bytes
        for mode in ("resident", "streamed")
    )
    assert streamed <= resident


@pytest.mark.parametrize("scheme", tflite_fuse.SCHEMES)
@pytest.mark.parametrize("mode", OUTSIDE)
def test_every_scheme_moves_the_input_or_has_a_reason(scheme: str, mode: str) -> None:
    try:
        report = tflite_fuse.rewrite(
            original("inverted residuals"), input_mode=mode, scheme=scheme, goal=Goal(least_ram=True), inputs=3
        ).report
    except LimitError as error:
        assert mode in str(error)
        return
    assert report.verified is not None and report.verified.bit_exact and len(report.outside) == 1


@pytest.mark.parametrize("scheme", ["auto", "inverted-residual"])
def test_an_input_that_cannot_move_exits_with_1_for_every_reason(scheme: str, tmp_path: Path) -> None:
    """An int16 input for any scheme, and an int8 one that no inverted residual reads."""
    save_model(int16_input() if scheme == "auto" else two_towers(), tmp_path / "in.tflite")
    arguments = ["rewrite", "in.tflite", "out.tflite", "--input", "streamed", "--scheme", scheme]
    done = CliRunner().invoke(app, [str(tmp_path / a) if a.endswith(".tflite") else a for a in arguments])
    assert done.exit_code == 1 and "cannot be streamed" in done.stderr and " input_0" in done.stderr
    assert not (tmp_path / "out.tflite").exists()


@pytest.mark.parametrize("seed", range(10))
def test_random_models_move_their_inputs_or_have_a_reason(seed: int) -> None:
    model = serialize_model(random_graph(Random(seed).randint))
    for mode in OUTSIDE:
        try:
            result = tflite_fuse.rewrite(model, input_mode=mode, inputs=4)
        except LimitError as error:
            assert mode in str(error)
            continue
        assert result.report.verified is not None and result.report.verified.bit_exact
        found = load_model(result.model)
        assert any(operator_name(found, operator) == "CUSTOM:TFLITE_FUSE" for operator in found.main.operators)


ONE_OPERATOR = 32
"""Bytes of the runtime's structs for an operator more than a resident input needs, less those of the input."""
DRAWN = {
    "small": lambda seed: small_network(Random(seed).randint),
    "tiny": lambda seed: tiny_network(Random(seed).randint),
    "graph": lambda seed: random_graph(Random(seed).randint, several_inputs=False),
}


@pytest.mark.parametrize("goal", [None, Goal(max_compute=1.0), Goal(least_ram=True)], ids=["default", "F1", "least"])
@pytest.mark.parametrize("seed", [3, 13, 16, 23, 36])
@pytest.mark.parametrize("drawn", DRAWN)
def test_a_streamed_input_takes_no_more_than_a_resident_one(drawn: str, seed: int, goal: Goal | None) -> None:
    """Where rows in blocks take more than the whole input, the input is copied to where a resident one lies.

    Without a goal each may trade a share of its arena for speed.
    """
    model = serialize_model(DRAWN[drawn](seed))
    resident, streamed = (
        tflite_fuse.rewrite(model, input_mode=mode, goal=goal, verify=False).report for mode in ("resident", "streamed")
    )
    slack = max(resident.after.arena_bytes // TUNING.slack, TUNING.slack_bytes) if goal is None else 0
    assert streamed.after.arena_bytes <= resident.after.arena_bytes + slack + ONE_OPERATOR
    assert len(streamed.outside) == 1


def test_an_input_that_no_block_can_read_is_copied() -> None:
    """LOG_SOFTMAX is in no block, and reads the picture from the arena."""
    b = ModelBuilder(3)
    y = b.conv(b.conv(b.log_softmax(b.input((1, 12, 12, 4))), 8, 3, activation="RELU6"), 4, 3, 2)
    model = serialize_model(b.build([b.fully_connected(b.mean(y), 4)]))
    report = tflite_fuse.rewrite(model, input_mode="streamed", inputs=6).report
    assert report.verified is not None and report.verified.bit_exact and len(report.outside) == 1
    (copied,) = told(report.records, "changed", "input copied")
    assert (copied.details["tensor"], copied.details["copied_bytes"]) == ("input_0", 12 * 12 * 4)


def test_a_flat_float32_input_is_not_held_twice() -> None:
    """Its only pixel is a ring as large as the input: later layers have to be in other blocks."""
    b = ModelBuilder(3)
    y = b.input((1, 640))
    for width in (128, 128, 128, 8, 128, 128, 640):
        y = b.fully_connected(y, width, activation="RELU")
    data = serialize_model(float_twin(b.build([y])))
    resident, streamed = (
        tflite_fuse.rewrite(data, input_mode=mode, verify=False).report.after.arena_bytes
        for mode in ("resident", "streamed")
    )
    assert streamed <= resident + ONE_OPERATOR


PUBLIC = [
    "mlperf_tiny_vww96_int8",
    "tflm_person_detect_int8",
    "mlperf_tiny_resnet8_int8",
    "mlperf_tiny_dscnn_kws_int8",
    "mlperf_tiny_wakeword1d_int8",
]


@pytest.mark.parametrize("mode", OUTSIDE)
@pytest.mark.parametrize("name", PUBLIC)
def test_public_models(name: str, mode: str) -> None:
    path = SHARED / f"models/{name}.tflite"
    if not path.exists():
        pytest.skip("no models beside the project")
    report = tflite_fuse.rewrite(path, input_mode=mode, inputs=10).report
    assert report.verified is not None and report.verified.bit_exact and len(report.outside) == 1
    resident = tflite_fuse.rewrite(path, verify=False).report
    assert report.after.arena_bytes < resident.after.arena_bytes


# ---- Commands ----


def command(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_commands(tmp_path: Path) -> None:
    source, target = tmp_path / "in.tflite", tmp_path / "out.tflite"
    save_model(two_towers(), source)
    done = command("rewrite", source, target, "--input", "streamed", "--json")
    assert done.exit_code == 0, done.stderr
    report = json.loads(done.stdout)
    validate(report, "report")
    assert [(entry["name"], entry["mode"], entry["number"]) for entry in report["outside"]] == [
        ("input_0", "streamed", 0),
        ("input_1", "streamed", 1),
    ]
    inspection = json.loads(command("inspect", target, "--json").stdout)
    validate(inspection, "inspection")
    assert inspection["outside"] == report["outside"]
    assert "from source 1, outside the arena" in command("inspect", target, "--verbose").stdout
    assert command("verify", source, target, "--inputs", 3).exit_code == 0
    data = tmp_path / "mine.npz"
    np.savez(data, input_0=np.zeros((2, 32, 32, 3), np.int8), input_1=np.ones((2, 24, 24, 1), np.int8))
    assert command("verify", source, target, "--data", data).exit_code == 0
    assert command("verify", target, source, "--data", data).exit_code == 0


def test_the_commands_refuse(tmp_path: Path) -> None:
    source, target = tmp_path / "in.tflite", tmp_path / "out.tflite"
    save_model(int16_input(), source)
    for mode in OUTSIDE:
        done = command("rewrite", source, target, "--input", mode)
        assert done.exit_code == 1 and "inference_input_type" in done.stderr and not target.exists()
        assert command("pareto", source, "--input", mode).exit_code == 1
    assert command("rewrite", source, target, "--input", "sideways").exit_code == 2
    assert command("rewrite", source, target, "--input", "streamed", "--no-fuse").exit_code == 2


def test_inspect_names_disagreements_of_file_and_blocks(tmp_path: Path) -> None:
    model = load_model(rewritten("two towers", "streamed").model)
    path = tmp_path / "lies.tflite"
    save_model(set_outside_inputs(model, [replace(outside_inputs(model)[0], mode=InputMode.EXTERNAL)]), path)
    records = json.loads(command("inspect", path, "--json").stdout)["records"]
    assert [each["details"] for each in records if each["reason"] == "metadata"] == [
        {"number": 0, "says": "3,072 external bytes", "does": "3,072 streamed bytes"},
        {"number": 1, "says": "nothing", "does": "576 streamed bytes"},
    ]
    save_model(set_metadata(model, OUTSIDE_METADATA, b"{}"), path)
    for arguments in (("inspect", path), ("verify", path, path), ("rewrite", path, tmp_path / "out.tflite")):
        done = command(*arguments)
        assert done.exit_code == 2 and "the metadata tflite_fuse.outside" in done.stderr


def test_the_front_without_the_input(tmp_path: Path) -> None:
    source = tmp_path / "in.tflite"
    save_model(MODELS["inverted residuals"](), source)
    without_recompute = {}
    for mode in tflite_fuse.INPUT_MODES:
        done = command("pareto", source, "--input", mode, "--json")
        assert done.exit_code == 0, done.stderr
        without_recompute[mode] = json.loads(done.stdout)["points"][-1]["ram_bytes"]
    assert without_recompute["external"] <= without_recompute["streamed"] < without_recompute["resident"]
    assert without_recompute["columns"] == without_recompute["streamed"]  # the image is as wide as high
