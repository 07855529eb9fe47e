"""The proof in commands: rewrite proves, verify proves a rewrite, and both report what was proven and run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tflite_fuse
from scripts.zoo import networks
from tests.check.test_validate import with_constant
from tflite_fuse.check import validate
from tflite_fuse.errors import ModelError, RuntimeUnavailableError, VerificationError
from tflite_fuse.model.edit import add_operator_code, replace_operators
from tflite_fuse.model.file import load_model, serialize_model
from tflite_fuse.model.schema import Model
from tflite_fuse.passes.base import PassResult
from tflite_fuse.rewriting import rewrite as rewriting
from tflite_fuse.runtime import tflm

needs_tflm = pytest.mark.skipif(not tflm.available(), reason="TensorFlow Lite Micro is not installed")


@pytest.fixture(scope="module")
def original() -> bytes:
    return serialize_model(networks.inverted_residual_network(12, blocks=1))


def unknown_to_any_runtime(data: bytes) -> bytes:
    """The model with a custom operator nobody has behind its output."""
    model = load_model(data)
    (output,) = model.main.outputs
    model, code = add_operator_code(model, custom="NOBODY_HAS_IT")
    tensors = (*model.main.tensors, replace(model.main.tensors[output], name="behind it"))
    graph = replace(model.main, tensors=tensors, outputs=(len(tensors) - 1,))
    operator = replace(
        model.main.operators[-1],
        opcode_index=code,
        inputs=(output,),
        outputs=(len(tensors) - 1,),
        builtin_options=None,
        builtin_options_2=None,
    )
    model = replace(model, subgraphs=(graph,))
    return serialize_model(replace_operators(model, (*graph.operators, operator)))


def test_a_report_contains_the_proof(original: bytes) -> None:
    report = tflite_fuse.rewrite(original, verify=False).report
    assert report.proven.blocks == len(report.blocks)
    assert report.proven.compared["weights"] > 0
    assert report.claim() == "constants, options and schedule proven equal; kernels not run"
    assert report.to_json()["proven"]["compared"]["weights"] == report.proven.compared["weights"]


def test_a_block_that_is_not_proven_is_never_written(original: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaging(model: Model, steps: object) -> tuple[Model, list[PassResult]]:
        rewritten, results = run_passes(model, steps)  # type: ignore[arg-type]
        if not any(operator.custom_options for operator in rewritten.main.operators):
            return rewritten, results
        return with_constant(rewritten, lambda values: np.add(values, 1, out=values)), results

    run_passes = rewriting.run_passes
    monkeypatch.setattr(rewriting, "run_passes", damaging)
    found = tflite_fuse.rewrite(original, verify=False)
    assert not found.report.blocks
    assert any("please report" in note for note in found.report.notes)
    assert validate(original, found.model).proven


@needs_tflm
def test_verify_proves_a_rewrite_and_names_the_weight_that_differs(original: bytes) -> None:
    rewritten = tflite_fuse.rewrite(original, verify=False).model
    found = tflite_fuse.verify(original, rewritten, inputs=2)
    assert found.certificate is not None and found.certificate.proven and found.fault is None
    damaged = with_constant(load_model(rewritten), lambda values: np.add(values[:1], 1, out=values[:1]))
    fault = tflite_fuse.verify(original, serialize_model(damaged), inputs=2).fault
    assert fault is not None and "weight of CONV_2D_0, channel 0, element [0, 0, 0]" in fault


@needs_tflm
def test_models_that_are_no_rewrites_are_compared_by_running_alone(original: bytes) -> None:
    other = serialize_model(networks.inverted_residual_network(12, blocks=1, seed=7))
    found = tflite_fuse.verify(original, other, inputs=2)
    assert found.certificate is None and not found.bit_exact


def test_models_no_runtime_runs_are_proven_alone(original: bytes) -> None:
    strange = unknown_to_any_runtime(original)
    result = tflite_fuse.rewrite(strange)
    assert result.report.verified is None and result.report.proven.blocks
    found = tflite_fuse.verify(strange, result.model)
    assert found.not_run and found.inputs == 0 and found.fault is None
    with pytest.raises((VerificationError, RuntimeUnavailableError)):
        tflite_fuse.rewrite(strange, verify=True)


def test_a_model_that_cannot_be_run_and_is_not_proven_is_an_error(original: bytes) -> None:
    strange = unknown_to_any_runtime(original)
    damaged = with_constant(load_model(tflite_fuse.rewrite(strange).model), lambda values: values.fill(0))
    with pytest.raises((ModelError, RuntimeUnavailableError)):
        tflite_fuse.verify(strange, serialize_model(damaged))


def test_a_written_file_equals_the_proven_one(original: bytes, tmp_path: Path) -> None:
    result = tflite_fuse.rewrite(original, verify=False)
    result.save(tmp_path / "out.tflite")
    assert (tmp_path / "out.tflite").read_bytes() == result.model
