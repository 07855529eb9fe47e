"""Without TensorFlow Lite Micro, blocks run in C and numpy, and reports name this comparison."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tflite_fuse
from scripts.zoo.networks import inverted_residual_network
from tests.float_models import with_float_borders
from tests.uint8_models import with_uint8_borders
from tflite_fuse.emit.in_model import blocks_in
from tflite_fuse.errors import RuntimeUnavailableError, VerificationError
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.comparing import witnesses
from tflite_fuse.runtime.comparing.witnesses import blocks_beside_reference

SMALL = inverted_residual_network(size=24, blocks=2)


def rewritten(model: Model = SMALL, **options: str) -> Model:
    return load_model(tflite_fuse.rewrite(serialize_model(model), verify=False, **options).model)  # type: ignore[arg-type]


def test_all_blocks_that_stand_alone_are_run() -> None:
    for model in (rewritten(), rewritten(with_float_borders(SMALL))):
        (found,) = blocks_beside_reference(model, 0)
        assert found.details == {"run": len(blocks_in(model)), "blocks": len(blocks_in(model))}


def test_blocks_whose_inputs_are_unknown_are_left_out_and_counted() -> None:
    for model in (rewritten(input_mode="streamed"), rewritten(with_uint8_borders(SMALL))):
        (found,) = blocks_beside_reference(model, 0)
        assert found.details["run"] < found.details["blocks"] == len(blocks_in(model))


def test_large_blocks_are_not_run_in_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witnesses, "MOST_MACS", 0)
    (found,) = blocks_beside_reference(rewritten(), 0)
    assert found.details["run"] == 0


def test_another_byte_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    reference = witnesses.run_block_reference
    monkeypatch.setattr(witnesses, "run_block_reference", lambda *given: [each ^ 1 for each in reference(*given)])
    with pytest.raises(VerificationError, match="other bytes than its reference; nothing was written"):
        blocks_beside_reference(rewritten(), 0)


def test_without_a_compiler_there_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise RuntimeUnavailableError("no compiler")

    monkeypatch.setattr(witnesses, "host_library", none)
    (found,) = blocks_beside_reference(rewritten(), 0)
    assert found.fate == "warned" and found.details == {"why": "no compiler"}


def test_a_rewrite_without_tflm_names_the_runtime_of_its_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tflm, "available", lambda: False)
    monkeypatch.setattr(tflm, "built_for_this_machine", lambda: False)
    report = tflite_fuse.rewrite(serialize_model(SMALL)).report
    assert report.verified is None and report.second_witness is None
    assert any("numpy reference; that is not TensorFlow Lite Micro" in note for note in report.notes)
    monkeypatch.setattr(tflm, "built_for_this_machine", lambda: True)
    here = tflite_fuse.rewrite(serialize_model(SMALL)).report
    assert not any("numpy reference" in note for note in here.notes)
    assert replace(here, records=()).after == report.after
