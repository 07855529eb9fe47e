"""Weights of 16 bits: the same bytes out, what they cost is said, and no others than twice those of 8 are accepted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tflite_fuse
from tflite_fuse import UsageError
from tflite_fuse.errors import BlockError
from tflite_fuse.export import export_model
from tflite_fuse.fusion.block.enums import WeightLayout
from tflite_fuse.fusion.encoding.decode import decode
from tflite_fuse.fusion.encoding.in_model import blocks_in
from tflite_fuse.fusion.encoding.options import Options, read_options, write_options
from tflite_fuse.model.file import load_model, serialize_model
from tflite_fuse.proof import validate
from tflite_fuse.runtime import tflm
from tflite_fuse.zoo import networks

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


@needs_tflm
def test_weights_of_16_bits_compute_the_same_bytes(original: bytes, rewritten: tflite_fuse.Result) -> None:
    assert tflite_fuse.verify(original, rewritten.model, inputs=4).fault is None


def test_the_flash_they_take_is_in_the_notes(original: bytes, rewritten: tflite_fuse.Result) -> None:
    eight = tflite_fuse.rewrite(original, target="cortex-m4", verify=False)
    more = sum(len(constants) for _, constants in encoded(rewritten.model)) - sum(
        len(constants) for _, constants in encoded(eight.model)
    )
    (note,) = [note for note in rewritten.report.notes if "of flash more" in note]
    said = int(note.split(" B of flash more")[0].split()[-1].replace(",", ""))
    assert abs(said - more) <= 16 * 8  # sections start at multiples of 16
    assert rewritten.report.proven.compared["weights"] == eight.report.proven.compared["weights"]
    assert WeightLayout.INT16_DOWN in layouts(rewritten.model)
    assert WeightLayout.INT16_DOWN not in layouts(eight.model)


def test_weights_come_in_8_or_16_bits(original: bytes) -> None:
    with pytest.raises(UsageError, match="weights cannot be '4bit'; they can be 8bit, 16bit"):
        tflite_fuse.rewrite(original, weights="4bit")
    with pytest.raises(UsageError, match="weights are stored by fused blocks"):
        tflite_fuse.rewrite(original, weights="16bit", passes=("reorder", "plan"))


@pytest.mark.parametrize(
    ("section", "message"),
    [("weights_offset", "not twice those of 8"), ("table_offset", "a bias that is not twice another one")],
)
def test_constants_that_are_not_doubled_are_refused(rewritten: tflite_fuse.Result, section: str, message: str) -> None:
    options, constants = encoded(rewritten.model)[0]
    stage = next(stage for stage in options.stages if stage.weight_layout == WeightLayout.INT16_DOWN)
    at = getattr(stage, section)
    damaged = constants[:at] + bytes([constants[at] ^ 1]) + constants[at + 1 :]
    with pytest.raises(BlockError, match=message):
        decode(write_options(options, damaged), damaged)


def test_the_proof_notices_another_weight(original: bytes, rewritten: tflite_fuse.Result) -> None:
    model = load_model(rewritten.model)
    for index, operator in enumerate(model.main.operators):
        options = read_options(operator.custom_options or b"")
        found = [stage for stage in options.stages if stage.weight_layout == WeightLayout.INT16_DOWN]
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
    pytest.fail("no block has weights of 16 bits")


@pytest.mark.parametrize(("weights", "kernel"), [("8bit", "NULL"), ("16bit", "tflite_fuse_conv_int16")])
def test_exports_bring_the_kernel_where_it_is_used(original: bytes, weights: str, kernel: str, tmp_path: Path) -> None:
    export_model(tflite_fuse.rewrite(original, weights=weights, verify=False).model, tmp_path, "platformio")
    (table,) = tmp_path.rglob("tflite_fuse_kinds.c")
    assert f"#define INT16_CONV {kernel}\n" in table.read_text()
