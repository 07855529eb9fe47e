"""Every combination of the options on small models, verified in the runtime."""

from __future__ import annotations

from functools import cache
from itertools import product

import pytest

import tflite_fuse
from scripts.zoo import ModelBuilder
from scripts.zoo.networks import gated_network, inverted_residual_network
from tflite_fuse import Goal, LimitError
from tflite_fuse.model import load_model, serialize_model
from tflite_fuse.model.file import Model
from tflite_fuse.runtime import tflm

pytestmark = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


def padded() -> Model:
    """PAD, strides, a pool, a residual, and a tail of average, reshape and classifier."""
    b = ModelBuilder(9)
    x = b.conv(b.pad(b.input((1, 15, 17, 3)), (1, 0, 0, 1)), 8, 3, 2, "VALID", "RELU6")
    y = b.conv(b.depthwise(b.conv(x, 16, activation="RELU"), 3, activation="RELU6"), 8)
    z = b.max_pool(b.add(x, y), 2, 2)
    return b.build([b.log_softmax(b.fully_connected(b.reshape(b.average_pool(z, z.shape[1:3]), (1, 8)), 5))])


MODELS = {
    "padded": padded,
    "inverted residuals": lambda: inverted_residual_network(size=16, blocks=2),
    "gates": lambda: gated_network(size=16, blocks=1),
}

SWITCHES = [("auto", *pair) for pair in product((True, False), repeat=2)] + [
    (scheme, True, True) for scheme in tflite_fuse.SCHEMES if scheme != "auto"
]


@cache
def original(name: str) -> bytes:
    return serialize_model(MODELS[name]())


@pytest.mark.parametrize("goal", [None, Goal(least_ram=True)], ids=["no recompute", "least RAM"])
@pytest.mark.parametrize("mode", tflite_fuse.INPUT_MODES)
@pytest.mark.parametrize(("scheme", "overlap", "strips"), SWITCHES)
@pytest.mark.parametrize("name", MODELS)
def test_the_same_bytes(name: str, scheme: str, overlap: bool, strips: bool, mode: str, goal: Goal | None) -> None:
    """Where a scheme cannot do what is asked it says so; everything else computes the original's bytes."""
    try:
        result = tflite_fuse.rewrite(
            original(name), scheme=scheme, input_mode=mode, overlap=overlap, strips=strips, goal=goal, inputs=4
        )
    except (LimitError, tflite_fuse.UsageError) as error:
        assert scheme != "auto", error
        return
    report = result.report
    assert report.verified is not None and report.verified.bit_exact and report.verified.inputs == 4
    assert goal is not None or report.compute_factor <= 1.0  # less: no one reads some pixels in front of the pool
    assert len(load_model(result.model).main.inputs) == (1 if mode == "resident" else 0)
    if scheme == "auto":
        assert report.after.arena_bytes < report.before.arena_bytes
