"""Models to export, and the results of their exports."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from scripts.zoo import ModelBuilder
from tests import PATIENCE
from tests.runtime.fused_models import fuse, fuse_outside, whole
from tflite_fuse.export import FORMATS
from tflite_fuse.ir.block import Storage
from tflite_fuse.model import load_model, serialize_model
from tflite_fuse.model.schema import Model
from tflite_fuse.ops.lowering.extract import extract

SHAPE = (1, 12, 10, 3)
FOR_ANY_MODEL = tuple(format for format in FORMATS if format != "esphome")
"""Formats of exports that are not for models of one kind."""


@cache
def network(tail: str = "softmax") -> bytes:
    """CONV, DEPTHWISE, CONV, ADD, MEAN, FULLY_CONNECTED and a tail: ``softmax``, ``float``, ``reshape`` or ``none``."""
    b = ModelBuilder(seed=11)
    x = b.input(SHAPE)
    x = b.conv(x, 8, 3, 2, activation="RELU6", name="stem")
    y = b.conv(b.depthwise(x, 3, activation="RELU6"), 8, 1)
    y = b.fully_connected(b.mean(b.add(x, y)), 5, name="scores")
    if tail == "softmax":
        y = b.softmax(y)
    elif tail == "float":
        y = b.dequantize(b.softmax(y))
    elif tail == "reshape":
        y = b.reshape(y, (1, 1, 5))
    return serialize_model(b.build(outputs=[y]))


FUSED_OPERATORS = range(6)


@cache
def fused(tail: str = "softmax") -> bytes:
    """The network with all but its tail in one block."""
    return fuse(network(tail), FUSED_OPERATORS)


@cache
def chained(tail: str = "softmax") -> bytes:
    """The same in two blocks, which meet in two tensors."""
    return fuse(fuse(network(tail), range(2, 6)), range(2))


def outside(storage: Storage) -> bytes:
    """The network, reading its input from elsewhere."""
    model = network("none")
    return fuse_outside(model, FUSED_OPERATORS, storage, whole(extract(load_model(model), FUSED_OPERATORS).block))


def images(count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    edges = [np.full(SHAPE, value, np.int8) for value in (0, -128, 127)]
    return (edges + [rng.integers(-128, 128, SHAPE).astype(np.int8) for _ in range(count)])[:count]


def renamed(model_bytes: bytes, name: str) -> bytes:
    """The model with all its tensors called ``name``."""
    model = load_model(model_bytes)
    tensors = tuple(replace(tensor, name=name) for tensor in model.main.tensors)
    return serialize_model(replace(model, subgraphs=(replace(model.main, tensors=tensors),)))


def changed(model_bytes: bytes, **fields: object) -> bytes:
    """The model with other fields in its first subgraph."""
    model: Model = load_model(model_bytes)
    return serialize_model(replace(model, subgraphs=(replace(model.main, **fields),)))  # type: ignore[arg-type]


def run(command: list[str | Path], **options: object) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=PATIENCE, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)
