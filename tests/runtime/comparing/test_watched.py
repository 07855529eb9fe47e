"""Runs as a witness alone: tensors between blocks, searched inputs, and the strength of the comparison."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import tflite_fuse
from scripts.zoo import ModelBuilder
from scripts.zoo.networks import inverted_residual_network
from tests.check.test_validate import with_constant
from tests.conftest import shared_models
from tests.test_cli import validate as validate_json
from tests.told import told
from tflite_fuse.check import validate
from tflite_fuse.cli import app
from tflite_fuse.model import Model, load_model, save_model, serialize_model
from tflite_fuse.notes import note
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.comparing.compare import compare
from tflite_fuse.runtime.comparing.mutation import mutation_score
from tflite_fuse.runtime.comparing.watched import watched
from tflite_fuse.runtime.directed import directed
from tflite_fuse.runtime.inputs import generate_inputs

pytestmark = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


def two_halves() -> Model:
    """A block, a softmax that nothing can be fused with, and one more block of which only the sign matters."""
    b = ModelBuilder(5)
    x = b.conv(b.conv(b.input((1, 16, 16, 2)), 8, 3, activation="RELU"), 4, 3, 2, activation="RELU")
    return b.build([b.log_softmax(b.fully_connected(b.mean(b.log_softmax(x)), 3))])


@pytest.fixture(scope="module")
def pair() -> tuple[Model, Model]:
    original = two_halves()
    return original, load_model(tflite_fuse.rewrite(serialize_model(original), verify=False).model)


def damaged(model: Model, at: int) -> Model:
    """One weight of the first block another by one."""
    return with_constant(model, lambda values: np.bitwise_xor(values[at : at + 1], 1, out=values[at : at + 1]))


def test_borders_are_tensors_at_blocks_that_both_models_have(pair: tuple[Model, Model]) -> None:
    found = watched(pair, validate(*pair))
    assert len(found.first) == 5 and not set(found.first) & set(pair[0].main.outputs)
    names = [pair[0].main.tensors[tensor].name for tensor in found.first]
    assert names == [found.opened.main.tensors[tensor].name for tensor in found.second]


def test_a_difference_that_no_output_shows_is_found_between_blocks(pair: tuple[Model, Model]) -> None:
    original, inputs = pair[0], generate_inputs(pair[0], 1)
    found = []
    for wrong in (damaged(pair[1], at) for at in range(12)):
        files, proof = (serialize_model(original), serialize_model(wrong)), validate(original, wrong)
        if compare(*files, inputs).bit_exact:
            found.append(compare(*files, inputs, watch=watched((original, wrong), proof)).first_difference)
    seen = [each for each in found if each is not None]
    assert seen and all(each.inside and str(each).startswith("tensor ") for each in seen)


def test_tensors_compared_inside_are_counted(pair: tuple[Model, Model]) -> None:
    files, inputs = [serialize_model(model) for model in pair], generate_inputs(pair[0], 3)
    found = compare(*files, inputs, watch=watched(pair, validate(*pair)))
    assert found.bit_exact and found.inside == len(watched(pair, validate(*pair)).first) > 0
    assert compare(*files, inputs).inside == 0


_FIRST_WEIGHTS = 64 * 10 * 4


@shared_models("mlperf_tiny_dscnn_kws_int8")
def test_a_keyword_model_whose_first_weights_are_zero_does_not_pass_by_running(path: Path) -> None:
    original = load_model(path)
    rewritten = load_model(tflite_fuse.rewrite(path, verify=False).model)
    wrong = with_constant(rewritten, lambda values: values[:_FIRST_WEIGHTS].fill(0))
    inputs = generate_inputs(original, 4)
    found = compare(
        path.read_bytes(), serialize_model(wrong), inputs, watch=watched((original, wrong), validate(original, wrong))
    )
    assert not found.bit_exact


def test_searched_inputs_show_more_values_than_random_ones() -> None:
    model = inverted_residual_network(12, blocks=1)
    given = generate_inputs(model, 24, seed=3)
    chosen = directed(model, given, seed=3)
    assert len(chosen) == 24
    assert all((a[0] == b[0]).all() for a, b in zip(chosen[:16], given[:16], strict=True))
    assert all(a[0].dtype == b[0].dtype and a[0].shape == b[0].shape for a, b in zip(chosen, given, strict=True))
    again = directed(model, given, seed=3)
    assert all((a[0] == b[0]).all() for a, b in zip(chosen, again, strict=True))
    assert values(model, chosen) > values(model, given)


def values(model: Model, inputs: list[list[np.ndarray]]) -> int:
    """How many pairs of output element and value there are."""
    outputs = [each[0].ravel() for each in tflm.run(serialize_model(model), inputs).outputs]
    return sum(len(set(column)) for column in zip(*outputs, strict=True))


def test_a_model_that_computes_too_much_keeps_its_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tflite_fuse.runtime.directed.WORK", 10)
    model = inverted_residual_network(12, blocks=1)
    given = generate_inputs(model, 9)
    assert all(a[0] is b[0] for a, b in zip(directed(model, given), given, strict=True))


def test_the_score_counts_every_weight_once(pair: tuple[Model, Model]) -> None:
    inputs = directed(pair[0], generate_inputs(pair[0], 24))
    found = mutation_score(pair, validate(*pair), inputs, 30)
    assert found.inputs == 24 and found.altered + found.constant + found.silent == 30
    assert 0 < found.caught <= found.altered and found.share == found.caught / found.altered
    assert f"{found.altered} alter a value" in str(found)
    assert mutation_score(pair, validate(*pair), inputs, 30) == found


def test_one_dull_input_notices_less_than_many(pair: tuple[Model, Model]) -> None:
    proof = validate(*pair)
    one = mutation_score(pair, proof, generate_inputs(pair[0], 1)[:1] and [generate_inputs(pair[0], 9)[2]], 30)
    many = mutation_score(pair, proof, generate_inputs(pair[0], 24), 30)
    assert one.caught < many.caught


def test_a_model_without_blocks_has_no_score() -> None:
    model = two_halves()
    found = mutation_score((model, model), validate(model, model), generate_inputs(model, 2), 5)
    assert found.share is None and found.altered == found.constant == found.silent == 0


def test_seeds_are_reported_and_can_be_set(pair: tuple[Model, Model], tmp_path: Path) -> None:
    paths = [tmp_path / "a.tflite", tmp_path / "b.tflite"]
    for model, path in zip(pair, paths, strict=True):
        save_model(model, path)
    command = ["verify", *map(str, paths), "--inputs", "6"]
    seeds = set()
    for _ in range(2):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
        seeds.add(done.stdout.split("--seed ")[1].split()[0])
    assert len(seeds) == 2
    done = CliRunner().invoke(app, [*command, "--seed", "7", "--mutation-score", "5", "--json"])
    found = json.loads(done.stdout)
    validate_json(found, "comparison")
    assert found["seed"] == 7 and found["inside"] > 0 and found["mutation_score"]["inputs"] == 6


def test_a_rewrite_names_its_seed_which_the_file_gives_or_the_user() -> None:
    data = serialize_model(two_halves())
    first, again, other = (tflite_fuse.rewrite(data, inputs=3, seed=seed).report.records for seed in (None, None, 5))
    assert first == again != other
    (run,) = told(other, "run", "inputs")
    assert run.details["seed"] == 5 and run.details["inside"]


def test_rights_the_runtime_kept_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tflm, "unconfined", lambda: "it may open files")
    data = serialize_model(two_halves())
    kept = note("warned", "rights", rights="it may open files")
    assert kept in tflite_fuse.inspect(data).records
    assert tflite_fuse.verify(data, data, inputs=1).unconfined == "it may open files"
    assert kept in tflite_fuse.rewrite(data, inputs=1).report.records


def test_outputs_of_many_floats_are_looked_at_in_part() -> None:
    builder = ModelBuilder(3)
    model = builder.build([builder.dequantize(builder.conv(builder.input((1, 20, 20, 3)), 16))])
    given = generate_inputs(model, 4)
    assert len(directed(model, given)) == len(given)
