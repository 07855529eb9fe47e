"""No model is refused as a whole or made worse: unsupported parts are passed through, or the file stays."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tflite_fuse
from scripts.zoo import ModelBuilder
from tests.conftest import SHARED
from tests.drawing.converter_models import converter_model
from tests.drawing.raw_models import RawModel
from tests.drawing.raw_models import add_convolution as conv
from tflite_fuse.cli import app
from tflite_fuse.errors import LimitError
from tflite_fuse.memory.tflm.offline_plan import ONLINE, tensor_count, write_plan
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.edit import replace_operators, set_metadata
from tflite_fuse.model.file import COMPRESSION_METADATA
from tflite_fuse.model.schema import OperatorCode
from tflite_fuse.model.types import CUSTOM
from tflite_fuse.passes.base import PassResult
from tflite_fuse.report.sentences import headline
from tflite_fuse.rewriting import rewrite as rewriting
from tflite_fuse.runtime import litert, tflm
from tflite_fuse.runtime.comparing.compare import compare
from tflite_fuse.runtime.comparing.comparison import Comparison, Difference

needs_tflm = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
needs_litert = pytest.mark.skipif(not litert.available(), reason="LiteRT is not installed")


def images(custom: str | None = None) -> Model:
    """Convolutions and a LOG_SOFTMAX, or a custom operator in its place."""
    b = ModelBuilder(5)
    y = b.conv(b.conv(b.input((1, 16, 16, 3)), 16, 3), 8, 3, 2)
    model = b.build([b.log_softmax(b.fully_connected(b.mean(y), 4))])
    if custom is None:
        return model
    codes = [*model.operator_codes]
    codes[model.main.operators[-1].opcode_index] = OperatorCode(CUSTOM, custom, 1, CUSTOM)
    operators = [
        *model.main.operators[:-1],
        replace(model.main.operators[-1], builtin_options=None, custom_options=b"x"),
    ]
    return replace_operators(replace(model, operator_codes=tuple(codes)), operators)


def tiled() -> bytes:
    """TILE, which TensorFlow Lite Micro does not have, twice."""
    raw = RawModel()
    x, y, z = raw.tensor((1, 8)), raw.tensor((1, 16)), raw.tensor((1, 32))
    for source, target in ((x, y), (y, z)):
        raw.operator("TILE", [source, raw.constant(np.array([1, 2], np.int32))], [target], None)
    return serialize_model(raw.build([x], [z]))


def batches() -> bytes:
    """A picture that becomes two of half the size, five-dimensional, and one again between convolutions."""
    raw = RawModel()
    x = raw.tensor((1, 8, 8, 3))
    tensor = conv(raw, conv(raw, x, (1, 8, 8, 16), kernel=3), (1, 8, 8, 4))
    quantization = raw.tensors[tensor].quantization
    assert quantization and quantization.scale and quantization.zero_point
    for shape in ((2, 4, 8, 4), (2, 1, 4, 8, 4), (1, 8, 8, 4)):
        renamed = raw.tensor(shape, quantization.scale, quantization.zero_point[0])
        raw.operator("RESHAPE", [tensor, raw.constant(np.array(shape, np.int32))], [renamed], None)
        tensor = renamed
    return serialize_model(raw.build([x], [conv(raw, tensor, (1, 8, 8, 8), kernel=3)]))


@needs_tflm
def test_a_batch_or_five_dimensions_in_the_middle_refuse_nothing() -> None:
    report = tflite_fuse.rewrite(batches()).report
    assert report.verified is not None and report.verified.bit_exact
    assert report.blocks and report.after.arena_bytes < report.before.arena_bytes


@needs_tflm
def test_a_model_the_runtime_cannot_load_is_rewritten_and_called_unverified(tmp_path: Path) -> None:
    source, out = tmp_path / "in.tflite", tmp_path / "out.tflite"
    source.write_bytes(serialize_model(images("STRANGE")))
    done = CliRunner().invoke(app, ["rewrite", str(source), str(out)])
    assert done.exit_code == 0 and out.exists()
    told = done.stdout.splitlines()[3]
    assert told.startswith("UNVERIFIED: TensorFlow Lite Micro cannot load the original") and "STRANGE" in told
    report = json.loads(CliRunner().invoke(app, ["rewrite", str(source), str(out), "--json"]).stdout)
    assert report["verified"] is None and "STRANGE" in report["unverified"] and report["blocks"]
    out.unlink()
    refused = CliRunner().invoke(app, ["rewrite", str(source), str(out), "--verify"])
    assert refused.exit_code == 1 and not out.exists() and "nothing was written" in refused.stderr


@needs_tflm
@needs_litert
def test_litert_is_the_second_witness_of_a_model_without_blocks() -> None:
    report = tflite_fuse.rewrite(tiled()).report
    assert report.verified is None and report.unverified is not None
    assert report.second_witness is not None and report.second_witness.runtime == litert.RUNTIME_NAME
    assert "litert" in report.claim() and report.second_witness.inputs == 16


def dilated() -> bytes:
    """A dilated convolution by SPACE_TO_BATCH_ND, whose batches TFLM would take from the file and leave unwritten."""
    return serialize_model(converter_model(Random(10_000_004).randint))


@needs_tflm
@needs_litert
def test_litert_runs_fused_blocks_where_the_runtime_leaves_bytes_of_the_original_undefined() -> None:
    report = tflite_fuse.rewrite(dilated(), inputs=6).report
    assert report.blocks and report.verified is None and "undefined" in (report.unverified or "")
    assert report.second_witness is not None and report.second_witness.bit_exact
    assert report.claim().endswith("gives the same on 6 inputs")
    assert headline(report, "small.tflite", "")[0].endswith("not run in TFLM")


@needs_tflm
@needs_litert
def test_blocks_that_litert_s_kernels_differ_from_are_not_refused_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def differs(*files: object, runtime: object = tflm, **options: Any) -> Comparison:
        found = compare(*files, runtime=runtime, **options)  # type: ignore[arg-type]
        if runtime is not litert:
            return found
        return replace(found, bit_exact=False, first_difference=Difference(0, "y", (0,), 1, 2, 1))

    monkeypatch.setattr("tflite_fuse.runtime.comparing.witnesses.compare", differs)
    report = tflite_fuse.rewrite(dilated(), inputs=6).report
    assert report.second_witness is None and headline(report, "small.tflite", "")[0].endswith("NOT RUN")
    assert any("no second witness: LiteRT's kernels round differently" in each for each in report.notes)


@needs_tflm
@needs_litert
def test_a_published_network_of_dilated_convolutions_runs_in_litert_with_the_same_bytes() -> None:
    report = tflite_fuse.rewrite(real("real/gesture_tcn_int8.tflite"), inputs=4).report
    assert report.blocks and report.second_witness is not None and report.second_witness.bit_exact


def branches() -> Model:
    """Two branches that widen and shrink, level by level: one after the other they need less."""
    b = ModelBuilder(3)
    x = b.input((1, 8, 8, 2))
    wide = [b.conv(x, 24), b.conv(x, 24)]
    return b.build([b.add(*(b.mean(each) for each in wide))])


@dataclass(frozen=True)
class Worse:
    """A pass that makes things worse: both branches are wide at the same time."""

    name = "worse"

    def run(self, model: Model) -> PassResult:
        return PassResult(replace_operators(model, [model.main.operators[at] for at in (0, 2, 1, 3, 4)]), True)


def test_a_rewrite_that_needs_more_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    model = branches()
    one_by_one = [model.main.operators[at] for at in (0, 2, 1, 3, 4)]
    data = serialize_model(replace_operators(model, one_by_one))
    monkeypatch.setattr(rewriting, "make_passes", lambda *_, **__: [Worse()])
    result = tflite_fuse.rewrite(data, verify=False)
    report = result.report
    assert result.model == data and report.before == report.after and not report.blocks
    assert report.unchanged is not None and f"instead of {report.before.arena_bytes:,}" in report.unchanged
    assert "the file is as it was" in report.claim() and report.unverified is None
    with pytest.raises(LimitError, match=r"would need an arena of .* instead of .*; the requested inputs"):
        tflite_fuse.rewrite(data, int8_io=True)


def accelerated() -> bytes:
    """A plan of somebody else's and a custom operator that may count on it."""
    model = images("ethos-u")
    return serialize_model(write_plan(model, (0, *[ONLINE] * (tensor_count(model) - 1))))


def compressed() -> bytes:
    return serialize_model(set_metadata(images(), COMPRESSION_METADATA, bytes(8)))


@pytest.mark.parametrize(("make", "why"), [(accelerated, "ethos-u"), (compressed, "compressed")])
def test_models_that_rely_on_offsets_or_tensor_numbers_are_left_alone(make: object, why: str, tmp_path: Path) -> None:
    assert callable(make)
    data = make()
    source, out = tmp_path / "in.tflite", tmp_path / "out.tflite"
    source.write_bytes(data)
    done = CliRunner().invoke(app, ["rewrite", str(source), str(out)])
    assert done.exit_code == 0 and out.read_bytes() == data and why in done.stdout
    assert "left as it is" in done.stdout and "UNVERIFIED" not in done.stdout
    asked = CliRunner().invoke(app, ["rewrite", str(source), str(tmp_path / "no.tflite"), "--input", "streamed"])
    assert asked.exit_code == 1 and not (tmp_path / "no.tflite").exists()


def test_a_model_that_decodes_its_weights_as_it_runs_survives() -> None:
    model = images("TFLM_DECODE")
    result = tflite_fuse.rewrite(serialize_model(model), verify=False)
    codes = [code.custom_code for code in load_model(result.model).operator_codes]
    assert "TFLM_DECODE" in codes and result.report.blocks


def real(path: str) -> Path:
    found = SHARED / path
    if not found.exists():
        pytest.skip(f"no {found.name} beside the project")
    return found


@needs_tflm
def test_a_detector_with_a_channel_shuffle_goes_through() -> None:
    report = tflite_fuse.rewrite(real("real/fastestdet_person_int8.tflite"), inputs=4).report
    assert report.verified is not None and report.verified.bit_exact
    assert report.after.arena_bytes <= 161_400


@needs_tflm
@needs_litert
def test_a_model_of_uint8_convolutions_goes_through() -> None:
    report = tflite_fuse.rewrite(real("models/swiftnet_vww224_uint8.tflite"), inputs=4).report
    assert report.after.arena_bytes <= 337_696 and report.verified is None
    assert report.second_witness is not None and report.second_witness.bit_exact


@needs_tflm
def test_a_block_whose_last_map_was_reshaped_runs_in_tiles_no_larger_than_it() -> None:
    report = tflite_fuse.rewrite(real("real/microwakeword_okay_nabu_v2.tflite"), inputs=2).report
    assert report.verified is not None and report.verified.bit_exact
    assert report.blocks and report.after.arena_bytes < report.before.arena_bytes


@needs_tflm
def test_inspect_names_refusals_of_the_runtime_and_reasons_of_operators_outside(tmp_path: Path) -> None:
    path = tmp_path / "strange.tflite"
    path.write_bytes(serialize_model(images("STRANGE")))
    shown = CliRunner().invoke(app, ["inspect", str(path), "--verbose"])
    assert shown.exit_code == 0 and "cannot load the model" in shown.stdout
    assert "not fused: custom operator STRANGE is not a fusable operator" in shown.stdout


@needs_tflm
def test_a_constant_among_the_outputs_keeps_its_bytes() -> None:
    raw = RawModel()
    x, points = raw.tensor((1, 8, 8, 3)), raw.constant(np.arange(6, dtype=np.int32))
    model = raw.build([x], [conv(raw, conv(raw, x, (1, 8, 8, 16), kernel=3), (1, 8, 8, 4)), points])
    report = tflite_fuse.rewrite(serialize_model(model), inputs=2).report
    assert report.verified is not None and report.verified.bit_exact and report.blocks


@needs_tflm
def test_a_model_that_returns_nothing_is_rewritten() -> None:
    raw = RawModel()
    x = raw.tensor((1, 8, 8, 3))
    conv(raw, x, (1, 8, 8, 16), kernel=3)
    assert tflite_fuse.rewrite(serialize_model(raw.build([x], []))).report.verified is not None
