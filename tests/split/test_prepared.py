"""A model is prepared for a split as for fusing: without constant channels, with direct moves, as far as proven."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.zoo.float_twin import float_twin
from tests.conftest import shared_models
from tests.drawing.raw_models import RawModel
from tests.passes.preparing.chains_of_zeros import PARTS, chain
from tests.passes.preparing.test_join_rows import halves
from tests.passes.preparing.test_split_groups import shuffled
from tests.split.networks import cluster
from tests.split.test_command import WORKERS, run
from tflite_fuse.api import rewrite
from tflite_fuse.model import Model, load_model, save_model, serialize_model
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.options import make_options
from tflite_fuse.model.types import TensorType
from tflite_fuse.ops.table import KINDS
from tflite_fuse.runtime import tflm
from tflite_fuse.split.cluster.folder import read_deployment
from tflite_fuse.split.cut import network as rooms
from tflite_fuse.split.cut.network import Network, network_of
from tflite_fuse.split.splitting import SplitOptions, split_model

needs_tflm = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")

ZEROS = chain(3, ["same", "depth", "point", "same", "point", "head"])


def macs(network: Network) -> int:
    """Multiply-accumulates of one inference."""
    stages = [node.stage for node in network.nodes if node.stage is not None]
    pixels = [network.values[stage.output].height * network.values[stage.output].width for stage in stages]
    each = [KINDS[stage.kind].macs(stage, network.values) for stage in stages]
    return sum(count * pixel for count, pixel in zip(each, pixels, strict=True))


@needs_tflm
@pytest.mark.parametrize("seed", range(6))
def test_bytes_stay_without_channels_of_no_effect(seed: int) -> None:
    parts = [PARTS[(seed + step) % len(PARTS)] for step in range(5)]
    split = split_model(chain(seed, ["same", *parts, "head"]), cluster(), SplitOptions(verify=3))
    assert split.verified is not None and split.verified.bit_exact, split.verified


def test_channels_without_effect_are_left_out_and_reported() -> None:
    network, report = network_of(ZEROS), rewrite(serialize_model(ZEROS), verify=False).report
    assert macs(network) == report.after.macs < report.before.macs
    assert any("were removed" in note for note in network.notes) and network.model is ZEROS


@shared_models("mlperf_tiny_vww96_int8")
def test_vww96_has_the_work_of_its_rewrite(path: Path) -> None:
    assert macs(network_of(load_model(path))) == rewrite(path, verify=False).report.after.macs


def test_channels_stay_without_a_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refused:
        proven = False

    narrow = macs(network_of(ZEROS))
    monkeypatch.setattr(rooms, "validate", lambda before, after: Refused())
    network = network_of(ZEROS)
    assert macs(network) > narrow and network.prepared is ZEROS and not network.changes


def test_the_plan_is_that_of_the_model_as_it_was_given(tmp_path: Path) -> None:
    save_model(ZEROS, tmp_path / "model.tflite")
    (tmp_path / "workers.toml").write_text(WORKERS)
    code, text = run(tmp_path, "-o", str(tmp_path / "plan"), "--json")
    found = read_deployment(tmp_path / "plan")
    assert code == 0 and "were removed" in text
    assert found.network.values == network_of(ZEROS).values and macs(found.network) == macs(network_of(ZEROS))
    assert (tmp_path / "plan" / "model.tflite").read_bytes() == (tmp_path / "model.tflite").read_bytes()
    assert json.loads(text)["workers"]


@needs_tflm
def test_groups_are_convolutions_of_workers() -> None:
    split = split_model(shuffled(), cluster(), SplitOptions(verify=2))
    assert all(node.stage is not None for node in split.network.nodes)
    assert split.verified is not None and split.verified.bit_exact


@needs_tflm
def test_joins_of_float32_rows_run_whole() -> None:
    split = split_model(float_twin(halves()), cluster(), SplitOptions(verify=2))
    assert split.verified is not None and split.verified.bit_exact
    names = [operator_name(split.network.prepared, op) for op in split.network.prepared.main.operators]
    assert "CONCATENATION" in names and not {"PAD", "BITWISE_XOR"} & set(names)


def two_tables(apart: bool) -> Model:
    """A function of one value in float32, and beside it one whose operators may stand apart."""
    raw, dims = RawModel(), (1, 4, 5, 8)

    def real() -> int:
        return raw.tensor(dims, type_=TensorType.FLOAT32, quantization=None)

    x, curved, squashed, shared = raw.tensor(dims, 0.05, 3), raw.tensor(dims, 1 / 256, -128), raw.tensor(dims), real()
    raw.operator("DEQUANTIZE", [x], [shared], None)
    if apart:
        x, y = raw.tensor(dims, 1 / 16, 127), x
        raw.operator("LOG_SOFTMAX", [y], [x], None)
    other, wide, again, quotient = real(), real(), real(), real()
    raw.operator("DEQUANTIZE", [x], [other], None)
    raw.operator("LOGISTIC", [other], [wide], None)
    raw.operator("QUANTIZE", [wide], [curved], None)
    raw.operator("DEQUANTIZE", [curved], [again], None)
    raw.operator("DIV", [shared, again], [quotient], make_options("DivOptions", fused_activation_function=0))
    raw.operator("QUANTIZE", [quotient], [squashed], None)
    return raw.build([0], [squashed, curved])


@needs_tflm
@pytest.mark.parametrize("apart", [False, True])
def test_operators_that_are_one_table_go_to_workers_together_or_not_at_all(apart: bool) -> None:
    split = split_model(two_tables(apart), cluster(), SplitOptions(verify=3))
    assert split.verified is not None and split.verified.bit_exact, split.verified
    alone = [node.name for node in split.network.nodes if node.stage is None]
    assert ("DIV_6" in alone) == apart and not {"LOGISTIC_2", "LOGISTIC_3"} & set(alone)


def test_many_operators_at_the_coordinator_are_named_in_few_sentences() -> None:
    raw, dims = RawModel(), (1, 16)
    x = first = raw.tensor(dims, 1 / 16, 127)
    for _ in range(12):
        x, y = raw.tensor(dims, 1 / 16, 127), x
        raw.operator("LOG_SOFTMAX", [y], [x], None)
    notes = network_of(raw.build([first], [x])).notes
    assert (
        len(notes) == 8 and notes[-1].startswith("5 more run there: LOG_SOFTMAX_7, ") and "LOG_SOFTMAX_11" in notes[-1]
    )
