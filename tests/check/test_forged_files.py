"""Forged rewrites that only a run would detect, or no run at all: the proof refuses each."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from scripts.zoo import ModelBuilder
from tflite_fuse import api
from tflite_fuse.check import validate
from tflite_fuse.emit.in_model import block_overlaps
from tflite_fuse.errors import ModelError
from tflite_fuse.ir.program import CUSTOM_CODE
from tflite_fuse.memory.checker import plan_fault
from tflite_fuse.memory.tflm.offline_plan import METADATA_NAME
from tflite_fuse.model.edit import get_metadata, replace_main, replace_operators, set_metadata
from tflite_fuse.model.file import load_model, serialize_model
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.outside import OUTSIDE_METADATA
from tflite_fuse.model.schema import Buffer, Metadata, Model


def reshaped_ends() -> Model:
    """Convolutions between two RESHAPEs, one at the input and one at the output."""
    b = ModelBuilder(7)
    y = b.conv(b.conv(b.reshape(b.input((1, 16, 4)), (1, 8, 8, 1)), 6, 3), 4, 3)
    return b.build([b.reshape(y, (1, 256))])


def image() -> Model:
    b = ModelBuilder(9)
    return b.build([b.mean(b.conv(b.conv(b.input((1, 12, 12, 3)), 8, 3, 2), 4, 3))])


def rewritten(model: Model, **options: str) -> Model:
    after = load_model(api.rewrite(serialize_model(model), verify=False, **options).model)
    assert validate(model, after).proven
    return after


def refused(before: Model, after: Model) -> bool:
    """Whether the proof refuses a file, or the file is called damaged, as any reader of it would."""
    try:
        return not validate(before, load_model(serialize_model(after))).proven
    except ModelError:
        return True


@pytest.mark.parametrize("end", ["inputs", "outputs"])
def test_an_end_replaced_by_its_reshaped_alias_is_refused(end: str) -> None:
    before = reshaped_ends()
    first, *_, last = before.main.operators
    alias = (first.outputs or ())[0] if end == "inputs" else (last.inputs or ())[0]
    assert refused(before, replace_main(before, replace(before.main, **{end: (alias,)})))


@pytest.mark.parametrize("end", ["inputs", "outputs"])
def test_an_end_of_a_rewrite_that_becomes_its_reshaped_alias_is_refused(end: str) -> None:
    before = reshaped_ends()
    after = rewritten(before)
    first, *_, last = before.main.operators
    alias = before.main.tensors[(first.outputs or ())[0] if end == "inputs" else (last.inputs or ())[0]]
    ((named,), tensors) = getattr(after.main, end), list(after.main.tensors)
    assert alias.dims != tensors[named].dims
    tensors[named] = replace(alias, buffer=tensors[named].buffer)
    assert refused(before, replace_main(after, replace(after.main, tensors=tuple(tensors))))


@pytest.mark.parametrize("mode", ["streamed", "external"])
@pytest.mark.parametrize(
    "content", ["the same", b"", b"{}", b"[]", b'{"version": 1, "inputs": []}', b"\xff\xfe", b"null"]
)
@pytest.mark.parametrize("place", ["before", "behind", "instead"])
def test_another_entry_of_inputs_outside_is_refused(mode: str, content: str | bytes, place: str) -> None:
    before = image()
    after = rewritten(before, input_mode=mode)
    true = get_metadata(after, OUTSIDE_METADATA)
    assert true is not None
    data = true if isinstance(content, str) else content
    if place == "instead" and data == true:
        return
    entry = Metadata(OUTSIDE_METADATA, len(after.buffers))
    entries = [each for each in after.metadata or () if place != "instead" or each.name != OUTSIDE_METADATA]
    entries.insert(0 if place == "before" else len(entries), entry)
    forged = replace(after, buffers=(*after.buffers, Buffer(data=data)), metadata=tuple(entries))
    assert refused(before, forged)


def test_a_second_plan_is_refused() -> None:
    before = image()
    after = rewritten(before)
    entry = Metadata(METADATA_NAME, len(after.buffers))
    plan = Buffer(data=get_metadata(after, METADATA_NAME))
    assert refused(before, replace(after, buffers=(*after.buffers, plan), metadata=(*(after.metadata or ()), entry)))


def test_a_block_that_reads_a_source_twice_is_refused() -> None:
    """A source hands out each pixel once: the second block would wait for pixels that never come."""
    before = image()
    after = rewritten(before, input_mode="streamed")
    (index,) = [at for at, each in enumerate(after.main.operators) if CUSTOM_CODE in operator_name(after, each)][:1]
    block = after.main.operators[index]
    tensors = list(after.main.tensors)
    copies = []
    for output in block.outputs or ():
        copies.append(len(tensors))
        tensors.append(replace(tensors[output], name=f"{tensors[output].name}_copy"))
    graph = replace(after.main, tensors=tuple(tensors))
    for outputs in (block.outputs, tuple(copies)):
        for at in (index, index + 1):
            operators = list(after.main.operators)
            operators.insert(at, replace(block, outputs=outputs))
            assert refused(before, replace_operators(replace_main(without_plan(after), graph), operators))


def without_plan(model: Model) -> Model:
    return replace(model, metadata=tuple(each for each in model.metadata or () if each.name != METADATA_NAME))


def test_plans_that_the_files_overlap_does_not_cover_are_refused() -> None:
    """Only as far as a block says itself may its output lie over its input, whatever a replay of it would find."""
    before = image()
    after = rewritten(before)
    entry = get_metadata(after, METADATA_NAME)
    assert entry is not None
    plan = np.frombuffer(entry, "<i4").copy()
    rng, found = Random(0), 0
    for _ in range(60):
        moved = plan.copy()
        at = rng.randrange(3, len(moved))
        if moved[at] < 0:
            continue
        moved[at] = max(0, moved[at] + 16 * rng.choice((-8, -4, -2, -1, 1, 2, 4)))
        if (moved == plan).all():
            continue
        forged = set_metadata(after, METADATA_NAME, moved.tobytes())
        fault = plan_fault(forged, block_overlaps(forged))
        if fault is not None:
            found += 1
            assert refused(before, forged), (at, fault)
    assert found > 5
