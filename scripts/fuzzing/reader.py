"""Damaged files through everything that reads one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from random import Random

import tflite_fuse
from scripts.fuzzing.bounded import Case
from scripts.fuzzing.mutate import mutated
from scripts.fuzzing.seeds import SEEDS
from tflite_fuse.errors import TfliteFuseError
from tflite_fuse.model.file import load_model
from tflite_fuse.model.schema import Model
from tflite_fuse.runtime import tflm


@functools.cache
def seed_files() -> tuple[bytes, ...]:
    """The sound files, made once."""
    return tuple(make() for make in SEEDS.values())


@functools.cache
def _seed_models() -> dict[bytes, Model]:
    return {data: load_model(data) for data in seed_files()}


def damaged_file(number: int) -> bytes:
    """The file of a case: of its number alone."""
    rng = Random(number)
    data = rng.choice(seed_files())
    return mutated(rng, data, _seed_models()[data])


def _inspected(data: bytes) -> str:
    return _answered(tflite_fuse.inspect, data)


def _rewritten(data: bytes) -> str:
    return _answered(lambda data: tflite_fuse.rewrite(data, verify=False), data)


def _answered(call: Callable[[bytes], object], data: bytes) -> str:
    """``ok`` or the class of the project's own error. The runtime, which is not ours, is left out."""
    tflm.available = lambda: False
    try:
        call(data)
    except TfliteFuseError as error:
        return type(error).__name__
    return "ok"


INSPECT = Case(damaged_file, _inspected)
REWRITE = Case(damaged_file, _rewritten)
