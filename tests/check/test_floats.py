"""Damaged float32 blocks: every changed byte of their constants and options is found, whatever its effect."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

import tflite_fuse
from scripts.zoo import networks
from scripts.zoo.float_twin import float_twin
from tflite_fuse.check import validate
from tflite_fuse.check.block.options import read_options
from tflite_fuse.emit.options import sealed
from tflite_fuse.errors import BlockError
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.edit import replace_operators

NETWORKS = {
    "residuals": networks.inverted_residual_network(size=12, blocks=1),
    "gates": networks.gated_network(12, 4),
    "bilinear neck": networks.neck_network(size=16, channels=4, bilinear=True),
}


def changed(model: Model, rng: Random, *, options: bool) -> Model | None:
    """The model with one byte of one block's constants or options changed, its checksum made to fit."""
    index = rng.choice([n for n, operator in enumerate(model.main.operators) if operator.custom_options])
    operator = model.main.operators[index]
    buffer = model.main.tensors[(operator.inputs or ())[-1]].buffer
    data, code = bytearray(model.buffers[buffer].data or b""), bytearray(operator.custom_options or b"")
    damaged = code if options else data
    at = rng.randrange(len(damaged))
    damaged[at] ^= 1 << rng.randrange(8)
    try:
        again = sealed(bytes(code), bytes(data))
    except BlockError:
        return None
    if again == operator.custom_options and bytes(data) == model.buffers[buffer].data:
        return None  # a byte of the checksum
    buffers = [replace(each, data=bytes(data)) if n == buffer else each for n, each in enumerate(model.buffers)]
    operators = list(model.main.operators)
    operators[index] = replace(operator, custom_options=again, plan=None)
    return replace_operators(replace(model, buffers=tuple(buffers)), operators)


def runs_alone_differ(model: Model, other: Model) -> bool:
    """Whether blocks compute the same, in tiles that are larger than all there is or in other runs of pixels."""
    pairs = zip(model.main.operators, other.main.operators, strict=True)
    found = [[computed(each.custom_options) for each in pair if each.custom_options] for pair in pairs]
    same = all(a == b for a, b in filter(None, found))
    return same and all(a.data == b.data for a, b in zip(model.buffers, other.buffers, strict=True))


def computed(options: bytes) -> tuple[object, ...]:
    """What a block computes, however."""
    read = read_options(options)
    stages = [each._replace(runs_ahead=0, longest_run=0) for each in read.stages]
    return read.tensors, stages, read.stage_inputs


@pytest.mark.parametrize("options", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_changed_byte_is_found(name: str, options: bool) -> None:
    original = load_model(serialize_model(float_twin(NETWORKS[name])))
    fused = load_model(tflite_fuse.rewrite(serialize_model(original), verify=False).model)
    assert validate(original, fused).proven
    rng, found = Random(7), 0
    for _ in range(60):
        damaged = changed(fused, rng, options=options)
        if damaged is not None:
            found += 1
            assert not validate(original, damaged).proven or runs_alone_differ(fused, damaged)
    assert found > 20
