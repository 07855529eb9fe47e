"""Weights in halfwords: the same bytes, reported costs, and only for 8-bit weights."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tflite_fuse
from scripts.zoo import networks
from tests.told import told
from tflite_fuse import UsageError
from tflite_fuse.check import validate
from tflite_fuse.emit.decode import decode
from tflite_fuse.emit.in_model import blocks_in
from tflite_fuse.emit.options import Options, read_options, write_options
from tflite_fuse.errors import BlockError
from tflite_fuse.export import export_model
from tflite_fuse.ir.block import Stage, StageKind
from tflite_fuse.ir.enums import WeightLayout
from tflite_fuse.model.file import load_model, serialize_model
from tflite_fuse.ops.packing import can_pair, from_paired, to_paired
from tflite_fuse.runtime import tflm

needs_tflm = pytest.mark.skipif(not tflm.available(), reason="TensorFlow Lite Micro is not installed")


@pytest.fixture(scope="module")
def original() -> bytes:
    return serialize_model(networks.inverted_residual_network(12, blocks=1))


@pytest.fixture(scope="module")
def rewritten(original: bytes) -> tflite_fuse.Result:
    return tflite_fuse.rewrite(original, weights="16bit", verify=False)


def encoded(data: bytes) -> list[tuple[Options, bytes]]:
    return [
        (read_options(plan.encoded.options), plan.encoded.constants) for plan in blocks_in(load_model(data)).values()
    ]


def layouts(data: bytes) -> set[int]:
    return {stage.weight_layout for options, _ in encoded(data) for stage in options.stages}


@pytest.fixture(scope="module")
def paired(original: bytes) -> tflite_fuse.Result:
    return tflite_fuse.rewrite(original, target="cortex-m7", verify=False)


@needs_tflm
@pytest.mark.parametrize("form", ["rewritten", "paired"])
def test_weights_in_halfwords_compute_the_same_bytes(
    original: bytes, form: str, request: pytest.FixtureRequest
) -> None:
    assert tflite_fuse.verify(original, request.getfixturevalue(form).model, inputs=4).fault is None


def test_pairs_are_for_cores_with_the_dsp_extension_and_take_no_more_flash(
    original: bytes, paired: tflite_fuse.Result
) -> None:
    eight = tflite_fuse.rewrite(original, target="cortex-m7", weights="8bit", verify=False)
    assert WeightLayout.PAIRED_DOWN in layouts(paired.model)
    assert WeightLayout.PAIRED_DOWN not in layouts(eight.model)
    assert WeightLayout.PAIRED_DOWN not in layouts(tflite_fuse.rewrite(original, verify=False).model)
    sizes = [sum(len(constants) for _, constants in encoded(each.model)) for each in (paired, eight)]
    assert sizes[0] == sizes[1]
    assert paired.report.proven.compared["weights"] == eight.report.proven.compared["weights"]
    assert paired.report.prediction is not None and eight.report.prediction is not None
    assert paired.report.prediction.cycles is not None and eight.report.prediction.cycles is not None
    assert paired.report.prediction.cycles.cycles < eight.report.prediction.cycles.cycles


def test_weights_that_make_no_pair_stay_bytes() -> None:
    rng = np.random.default_rng(0)
    for first, second, bias, fits in (
        (-127, -1, 0, True),
        (-128, 0, 0, True),
        (-128, -1, 0, False),
        (1, 1, 2**23, False),
    ):
        packed = rng.integers(-127, 0, (1, 2, 4)).astype(np.int8)
        packed[0, :, 3] = first, second
        weights = packed.reshape(2, 1, 1, 4)
        stage = Stage(StageKind.CONV, (0,), 1, weights=weights)
        table = np.array([[bias, 2**30, 5], [2**29, 2**30, 5]])
        assert can_pair(stage, packed.ravel(), table) == fits
        if fits:
            assert np.array_equal(from_paired(to_paired(packed.ravel())), packed.ravel())


def test_the_flash_they_take_is_in_the_notes(original: bytes, rewritten: tflite_fuse.Result) -> None:
    eight = tflite_fuse.rewrite(original, target="cortex-m4", weights="8bit", verify=False)
    more = sum(len(constants) for _, constants in encoded(rewritten.model)) - sum(
        len(constants) for _, constants in encoded(eight.model)
    )
    (note,) = told(rewritten.report.records, "expected", "16-bit weights")
    said = note.details["flash_bytes"]
    assert isinstance(said, int) and abs(said - more) <= 16 * 8  # sections start at multiples of 16
    assert rewritten.report.proven.compared["weights"] == eight.report.proven.compared["weights"]
    assert WeightLayout.INT16_DOWN in layouts(rewritten.model)
    assert WeightLayout.INT16_DOWN not in layouts(eight.model)


def test_weights_come_in_three_forms(original: bytes) -> None:
    with pytest.raises(UsageError, match="weights cannot be '4bit'; they can be auto, 8bit, paired, 16bit"):
        tflite_fuse.rewrite(original, weights="4bit")
    with pytest.raises(UsageError, match="weights are stored by fused blocks"):
        tflite_fuse.rewrite(original, weights="16bit", passes=("reorder", "plan"))


@pytest.mark.parametrize(
    ("form", "section", "damage", "message"),
    [
        ("rewritten", "weights_offset", b"\1", "not twice those of 8"),
        ("rewritten", "table_offset", b"\1", "a bias that is not twice another one"),
        ("paired", "weights_offset", b"\x80\x7f", "a pair of weights of which one is 128"),
        ("paired", "table_offset", b"\1", "a bias that does not belong to the next one"),
    ],
)
def test_constants_that_are_not_made_of_bytes_are_refused(
    form: str, section: str, damage: bytes, message: str, request: pytest.FixtureRequest
) -> None:
    options, constants = encoded(request.getfixturevalue(form).model)[0]
    stage = next(stage for stage in options.stages if stage.weight_layout >= WeightLayout.INT16_DOWN)
    at = getattr(stage, section)
    behind = at + len(damage)
    changed = bytes([constants[at] ^ 1]) if len(damage) == 1 else damage
    damaged = constants[:at] + changed + constants[behind:]
    with pytest.raises(BlockError, match=message):
        decode(write_options(options, damaged), damaged)


@pytest.mark.parametrize("form", ["rewritten", "paired"])
def test_the_proof_notices_another_weight(original: bytes, form: str, request: pytest.FixtureRequest) -> None:
    model = load_model(request.getfixturevalue(form).model)
    for index, operator in enumerate(model.main.operators):
        options = read_options(operator.custom_options or b"")
        found = [stage for stage in options.stages if stage.weight_layout >= WeightLayout.INT16_DOWN]
        if not found:
            continue
        tensor = (operator.inputs or ())[-1]
        buffer = model.main.tensors[tensor].buffer
        values = np.frombuffer(model.buffers[buffer].data or b"", np.uint8).copy()
        values[found[0].weights_offset] ^= 2
        buffers = list(model.buffers)
        buffers[buffer] = replace(buffers[buffer], data=values.tobytes())
        operators = list(model.main.operators)
        operators[index] = replace(operator, custom_options=write_options(options, values.tobytes()))
        graph = replace(model.main, operators=tuple(operators))
        damaged = replace(model, buffers=tuple(buffers), subgraphs=(graph,))
        certificate = validate(load_model(original), damaged)
        assert not certificate.proven
        return
    pytest.fail("no block has weights in halfwords")


@pytest.mark.parametrize(
    ("weights", "loop"),
    [("8bit", None), ("16bit", WeightLayout.INT16_DOWN), ("paired", WeightLayout.PAIRED_DOWN)],
)
def test_exports_bring_the_loop_where_it_is_used(
    original: bytes, weights: str, loop: WeightLayout | None, tmp_path: Path
) -> None:
    export_model(tflite_fuse.rewrite(original, weights=weights, verify=False).model, tmp_path, "platformio")
    (loops,) = tmp_path.rglob("tflite_fuse_loops.h")
    (bits,) = re.findall(r"#define TFLITE_FUSE_CONV_LOOPS (\w+)", loops.read_text())
    halfwords = (WeightLayout.INT16_DOWN, WeightLayout.PAIRED_DOWN)
    assert [each for each in halfwords if int(bits, 0) >> each & 1] == [loop] * (loop is not None)
