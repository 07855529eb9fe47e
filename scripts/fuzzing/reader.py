"""Damaged files through all code that reads them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from random import Random

import tflite_fuse
from scripts.fuzzing.bounded import Case
from scripts.fuzzing.mutate import mutated
from scripts.fuzzing.seeds import SEEDS, without_runtime
from tflite_fuse.errors import TfliteFuseError
from tflite_fuse.model.file import load_model
from tflite_fuse.model.schema import Model

_LONGEST_REWRITTEN = 1 << 15
"""A sound model of real size may take a second or two: what is above the budget then would say nothing."""


@functools.cache
def _seeds() -> tuple[tuple[bytes, ...], tuple[float, ...], dict[bytes, Model]]:
    """Return the sound files, the weight of each in the draw (small ones take less time), their models."""
    files = tuple(make() for make in SEEDS.values())
    return files, tuple(len(data) ** -0.5 for data in files), {data: load_model(data) for data in files}


def damaged_file(number: int, longest: int | None = None) -> bytes:
    """Return the file of a case: of its number alone. ``longest`` is the size of the largest sound one to damage."""
    files, weights, models = _seeds()
    rng = Random(number)
    allowed = [
        (data, weight) for data, weight in zip(files, weights, strict=True) if len(data) <= (longest or len(data))
    ]
    (data,) = rng.choices([data for data, _ in allowed], [weight for _, weight in allowed])
    return mutated(rng, data, models[data])


def _inspected(data: bytes) -> str:
    return _answered(tflite_fuse.inspect, data)


def _rewritten(data: bytes) -> str:
    return _answered(lambda data: tflite_fuse.rewrite(data, verify=False), data)


def _answered(call: Callable[[bytes], object], data: bytes) -> str:
    """Return ``ok`` or the class of the project's own error."""
    with without_runtime():
        try:
            call(data)
        except TfliteFuseError as error:
            return type(error).__name__
        return "ok"


def _warm() -> None:
    """Make the sound files and load what reading and rewriting them needs."""
    for data in _seeds()[0]:
        _inspected(data)
    _rewritten(_seeds()[0][-1])


INSPECT = Case(damaged_file, _inspected, _warm)
REWRITE = Case(lambda number: damaged_file(number, _LONGEST_REWRITTEN), _rewritten, _warm)
