"""Time limits of inferences: never shorter for more work, bounded on both sides."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from scripts.zoo import ModelBuilder
from tests.conftest import shared_models
from tests.runtime.fused_models import fuse
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.edit import add_operator_code, replace_operators
from tflite_fuse.model.macs import operator_macs
from tflite_fuse.runtime.processes.worker import LONGEST_SECONDS, SHORTEST_SECONDS, inference_seconds

SLOW_MACHINE = 4_000_000
"""Multiply-accumulates per second of a machine slower than any that should give up."""


def square(size: int, channels: int = 8) -> Model:
    b = ModelBuilder(1)
    return b.build([b.conv(b.conv(b.input((1, size, size, 3)), channels, 3), channels, 3)])


def test_more_work_is_given_more_time_between_two_bounds() -> None:
    seconds = [inference_seconds(serialize_model(square(*shape))) for shape in ((4, 1), (64, 8), (64, 32), (64, 96))]
    assert seconds == sorted(seconds) and len(set(seconds)) == 4
    assert SHORTEST_SECONDS < seconds[0] <= SHORTEST_SECONDS + 1 and seconds[-1] == LONGEST_SECONDS


@shared_models("mcunet_vww1_float_io_int8", "mlperf_tiny_vww96_int8", "mlperf_tiny_resnet8_int8")
def test_a_slow_machine_finishes_public_models_in_time(path: Path) -> None:
    needed = sum(operator_macs(load_model(path))) / SLOW_MACHINE
    assert needed < inference_seconds(path.read_bytes()) < LONGEST_SECONDS


def test_macs_of_fused_blocks_count() -> None:
    model = serialize_model(square(64))
    assert inference_seconds(fuse(model, [0, 1])) == pytest.approx(inference_seconds(model), abs=1)


def test_all_the_time_there_is_for_work_that_is_not_known() -> None:
    model = square(4)
    unknown, code = add_operator_code(model, custom="SORT")
    operators = (replace(model.main.operators[0], opcode_index=code), *model.main.operators[1:])
    loops = replace(model, subgraphs=(model.main, model.main))
    for data in (serialize_model(replace_operators(unknown, operators)), serialize_model(loops), b"no model"):
        assert inference_seconds(data) == LONGEST_SECONDS
