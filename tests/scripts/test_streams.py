"""The bench of streams: its result for a small model, and its detection of a ring that differs from the variable."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from scripts.streams import driving, variables
from tests.drawing.raw_streams import RawStream
from tests.passes.streaming.ring_contents import Ring
from tflite_fuse.model.file import serialize_model
from tflite_fuse.runtime import tflm

pytestmark = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


def test_a_model_is_driven_and_its_rings_are_its_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driving, "ROUNDS", 4)
    rng, model = np.random.default_rng(3), RawStream()
    source = model.tensor((1, 1, 1, 4), 0.1, -5)
    first = model.convolution(model.window(source, 2, 2, "SLICE"), 4, (3, 1), (1, 1), rng)
    last = model.convolution(model.window(first, 2, 3, "GATHER"), 2, (2, 1), (2, 1), rng)
    path = tmp_path / "model.tflite"
    path.write_bytes(serialize_model(model.stream([source], [last])))
    found = variables.measure(path, [], 30)
    assert (found.steps, found.different, found.rings, found.variables) == (30, 0, 2, 2)
    assert found.outputs > 5 and found.arena_after < found.arena_before


def test_a_ring_that_holds_something_else_is_seen() -> None:
    ring = Ring(output=1, offset=0, slots=3, slot_bytes=2, history=2, follows=False)
    state = (3).to_bytes(4, "little") + b"aabbcc"  # the oldest one is the third
    assert ring.in_time_order([b"", state]) == b"ccaa"
    assert not variables.differ([b"x", b"ddccaa"], [b"x", state], 1, [1], [ring])
    assert variables.differ([b"x", b"ddaacc"], [b"x", state], 1, [1], [ring])
    assert variables.differ([b"y", b"ddccaa"], [b"x", state], 1, [1], [ring])
