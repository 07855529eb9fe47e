from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.runtime.small_models import custom_model, dense_model, run_in
from tflite_fuse.errors import ModelError
from tflite_fuse.model import load_model, serialize_model
from tflite_fuse.runtime import litert, tflm
from tflite_fuse.runtime.inputs import generate_inputs

pytestmark = pytest.mark.skipif(not litert.available(), reason="LiteRT is not installed")


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
def test_agrees_with_tflm_but_for_rounding() -> None:
    inputs = generate_inputs(load_model(dense_model()), 16)
    result = run_in(litert, dense_model(), inputs)
    for (ours,), (theirs,) in zip(tflm.run(dense_model(), inputs).outputs, result, strict=True):
        assert theirs.shape == ours.shape
        assert theirs.dtype == ours.dtype
        np.testing.assert_allclose(theirs.astype(int), ours.astype(int), atol=1)


def test_public_models_written_again_are_accepted(shared_model: Path) -> None:
    """The original and the copy this package writes run and agree to the last bit."""
    model = load_model(shared_model)
    inputs = generate_inputs(model, 2)
    try:
        original = run_in(litert, shared_model.read_bytes(), inputs)
    except ModelError:  # an old file with quantization LiteRT holds to be wrong; the copy says the same
        with pytest.raises(ModelError, match="invalid quantization parameters"):
            run_in(litert, serialize_model(model), inputs)
        return
    rewritten = run_in(litert, serialize_model(model), inputs)
    for before, after in zip(original, rewritten, strict=True):
        assert all((a == b).all() for a, b in zip(before, after, strict=True))


def test_unknown_operator_is_named() -> None:
    with pytest.raises(ModelError, match=r"LiteRT cannot load the model: .*SOME_OPERATOR"):
        run_in(litert, custom_model("SOME_OPERATOR", b""), [])


@pytest.mark.parametrize("content", [b"", b"TFL3", dense_model()[:500]])
def test_damaged_files(content: bytes) -> None:
    with pytest.raises(ModelError):
        run_in(litert, content, [])
