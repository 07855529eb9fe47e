"""Random models, rewritten with random options, proven, and run beside the original in the real runtime."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from random import Random
from typing import Any

import tflite_fuse
from scripts.fuzzing.bounded import Case
from scripts.zoo import networks
from scripts.zoo.float_twin import float_from, float_twin
from tests.builders import random_graph
from tests.builders.mixed import mixed_graph
from tests.drawing.converter_models import converter_model
from tflite_fuse import Goal, LimitError, UsageError
from tflite_fuse.errors import VerificationError
from tflite_fuse.model.file import serialize_model
from tflite_fuse.model.schema import Model
from tflite_fuse.model.types import TensorType

_INPUTS = 6
_NOT_RUN = ("TensorFlow Lite Micro cannot load the original", "the runtime leaves bytes of the original undefined")
_UNPROVEN = ("no proof", "no proof of blocks", "file, not proven")


def _small_network(rng: Random) -> Model:
    networks_of_a_seed: tuple[Callable[[int], Model], ...] = (
        lambda seed: networks.inverted_residual_network(
            rng.randint(8, 20), 4, rng.randint(2, 4), rng.randint(1, 3), 4, seed
        ),
        lambda seed: networks.one_dimensional_network(
            rng.randint(12, 40), 4, rng.randint(1, 3), 4, rng.random() < 0.5, seed
        ),
        lambda seed: networks.branching_network(rng.randint(6, 16), 4, rng.randint(2, 3), 2, seed),
        lambda seed: networks.cell_network(rng.randint(8, 16), 4, 1, 4, seed),
        lambda seed: networks.gated_network(rng.randint(8, 16), 4, rng.randint(1, 2), seed),
        lambda seed: networks.pyramid_network(rng.randint(16, 24), 4, seed),
    )
    return rng.choice(networks_of_a_seed)(rng.randrange(1 << 16))


def random_model(number: int) -> bytes:
    """Return the file of a case: of int8, or in three of ten cases on float32, all of it or from some operator on.

    A model with variables is on float32 as a whole, because a variable has one type.
    """
    rng = Random(number)
    model = _int8_model(rng)
    if rng.random() < 0.7:
        return serialize_model(model)
    first = rng.choice((None, rng.randrange(len(model.main.operators))))
    first = None if any(tensor.type == TensorType.RESOURCE for tensor in model.main.tensors) else first
    return serialize_model(float_twin(model) if first is None else float_from(model, first))


def _int8_model(rng: Random) -> Model:
    kind = rng.random()
    if kind < 0.2:
        return _small_network(rng)
    if kind < 0.5:
        return mixed_graph(rng.randint)
    if kind < 0.7:
        return converter_model(rng.randint)
    return random_graph(rng.randint, 14, variables=rng.random() < 0.2)


def random_options(rng: Random) -> dict[str, Any]:
    """Return a random combination of options."""
    goals = (None, None, Goal(least_ram=True), Goal(max_compute=1.0 + rng.random()))
    return {
        "goal": rng.choice(goals),
        "scheme": rng.choice(("auto", "auto", "auto", *tflite_fuse.SCHEMES)),
        "input_mode": rng.choice(("resident", *tflite_fuse.INPUT_MODES)),
        "overlap": rng.random() < 0.8,
        "strips": rng.random() < 0.8,
        "target": rng.choice(tflite_fuse.TARGETS),
        "int8_io": rng.random() < 0.3,
    }


def _compared(data: bytes) -> str:
    """Return the outcome; a difference, as any error but that a goal or scheme is out of reach, is a defect.

    So is an operator left out of blocks because a block with it could not be proven. What the runtime cannot run is
    proven, and runs in LiteRT where that is possible.

    Raises:
        VerificationError: there is such an operator.
    """
    options = random_options(Random(zlib.crc32(data)))
    try:
        report = tflite_fuse.rewrite(data, inputs=_INPUTS, **options).report
    except LimitError:
        return "out of reach"
    except UsageError:
        if options["scheme"] == "auto":
            raise
        return "contradictory options"
    unproven = [str(each) for each in report.records if each.reason in _UNPROVEN]
    if unproven:
        raise VerificationError("; ".join(unproven))
    if report.verified is None and report.unchanged is None:
        if not (report.unverified or "").startswith(_NOT_RUN):
            raise VerificationError(report.unverified or "nothing was run")
        return "proven" if report.second_witness is None else "same bytes in LiteRT"
    return "same bytes, fused" if report.blocks else "same bytes"


DIFFERENTIAL = Case(random_model, _compared)
