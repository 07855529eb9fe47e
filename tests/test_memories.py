"""Rewrites for a fast and a slow memory."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import tflite_fuse
from scripts.zoo import networks
from tests.test_cli import validate as validate_json
from tflite_fuse.check import validate
from tflite_fuse.cli import app
from tflite_fuse.emit.in_model import blocks_in
from tflite_fuse.errors import LimitError, ModelError, UsageError
from tflite_fuse.memory.regions import memories_of
from tflite_fuse.model import load_model, serialize_model
from tflite_fuse.model.edit import set_metadata
from tflite_fuse.model.memories import MEMORIES_METADATA, Memories, slow_tensors, slow_tensors_entry
from tflite_fuse.passes.goal import Goal
from tflite_fuse.runtime import litert, tflm
from tflite_fuse.runtime.inputs import generate_inputs

MODEL = serialize_model(networks.inverted_residual_network(size=48, blocks=3))


def memories(size: int, slow: int = 64_000) -> Memories:
    """An SRAM of so many bytes and a slow memory."""
    return memories_of({"region": [{"name": "sram", "size": size}, {"name": "psram", "size": slow}]})


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
@pytest.mark.parametrize("size", [6000, 4000, 3200])
def test_the_arena_fits_the_fast_memory_and_computes_the_same(size: int) -> None:
    """The head is that of a runtime that has bound the other tensors to a second memory."""
    result = tflite_fuse.rewrite(MODEL, memory=memories(size), verify=True, inputs=4)
    found = result.report.memories
    assert found is not None and result.report.verified is not None and result.report.verified.bit_exact
    assert found.fast_bytes == result.report.after.arena_bytes <= size
    assert result.report.after.head_source == "tflite-micro"
    assert found.tensors and found.slow_bytes <= 64_000


def test_less_of_the_fast_memory_takes_more_traffic() -> None:
    found = [tflite_fuse.rewrite(MODEL, memory=memories(s), verify=False).report.memories for s in (6000, 4000, 3200)]
    traffic = [each.read_bytes + each.written_bytes for each in found if each is not None]
    assert len(traffic) == 3 and traffic == sorted(traffic) and traffic[0] < traffic[-1]


def test_what_fits_the_fast_memory_stays_in_it() -> None:
    result = tflite_fuse.rewrite(MODEL, memory=memories(64_000), verify=False)
    found = result.report.memories
    assert found is not None and (found.tensors, found.slow_bytes, found.read_bytes) == ((), 0, 0)
    assert slow_tensors(load_model(result.model)) is None


@pytest.mark.skipif(not litert.available(), reason="LiteRT is not installed")
def test_a_runtime_without_a_second_memory_runs_it_all_the_same() -> None:
    result = tflite_fuse.rewrite(MODEL, memory=memories(3200), verify=False)
    samples = generate_inputs(load_model(MODEL), 3)
    for (values,) in samples:
        outputs = []
        for data in (MODEL, result.model):
            each = tflite_fuse.litert.interpreter(data)
            each.allocate_tensors()
            each.set_tensor(each.get_input_details()[0]["index"], values)
            each.invoke()
            outputs.append(each.get_tensor(each.get_output_details()[0]["index"]))
        assert np.array_equal(*outputs)


def test_too_small_a_memory_is_refused_by_name() -> None:
    with pytest.raises(LimitError, match=r"the fast memory sram has 1,000 bytes: .* keeps the least arena at"):
        tflite_fuse.rewrite(MODEL, memory=memories(1000), verify=False)
    with pytest.raises(LimitError, match=r"the slow memory has 1,024 bytes, and tensors between blocks need"):
        tflite_fuse.rewrite(MODEL, memory=memories(3200, slow=1024), verify=False)


def test_other_limits_contradict_memories() -> None:
    with pytest.raises(UsageError, match="give no goal beside them"):
        tflite_fuse.rewrite(MODEL, memory=memories(3200), goal=Goal(max_ram=5000))
    with pytest.raises(UsageError, match="the fuse pass must run"):
        tflite_fuse.rewrite(MODEL, memory=memories(3200), passes=("reorder", "plan"))


def test_a_model_with_slow_tensors_is_not_rewritten_again() -> None:
    result = tflite_fuse.rewrite(MODEL, memory=memories(3200), verify=False)
    again = tflite_fuse.rewrite(result.model, verify=False)
    assert again.model == result.model and "slow memory" in (again.report.unchanged or "")


def test_places_in_metadata_and_blocks_are_compared() -> None:
    """A tensor elsewhere, over another one, or beyond the memory is found, and so is damaged metadata."""
    model = load_model(tflite_fuse.rewrite(MODEL, memory=memories(3200), verify=False).model)
    found = slow_tensors(model)
    assert found is not None and validate(load_model(MODEL), model).proven
    tensor, offset = max(found.offsets.items(), key=lambda entry: entry[1])
    for offsets in (found.offsets | {tensor: offset + 16}, {t: o for t, o in found.offsets.items() if t != tensor}):
        entry = slow_tensors_entry(replace(found, offsets=offsets))
        certificate = validate(load_model(MODEL), set_metadata(model, MEMORIES_METADATA, entry))
        assert [each.where for each in certificate.findings] and not certificate.proven
    small = replace(found, memories=memories(3200, slow=16))
    certificate = validate(load_model(MODEL), set_metadata(model, MEMORIES_METADATA, slow_tensors_entry(small)))
    assert any("arena of 16 bytes" in each.what for each in certificate.findings)
    with pytest.raises(ModelError, match="is damaged"):
        slow_tensors(set_metadata(model, MEMORIES_METADATA, b'{"version": 1, "tensors": [[0, 8]]}'))


def test_blocks_carry_the_places_of_the_metadata() -> None:
    model = load_model(tflite_fuse.rewrite(MODEL, memory=memories(3200), verify=False).model)
    found = slow_tensors(model)
    assert found is not None
    carried = {offset for plan in blocks_in(model).values() for offset in plan.slow.values()}
    assert carried == set(found.offsets.values())


def test_the_command_takes_a_file(tmp_path: Path) -> None:
    (tmp_path / "memory.toml").write_text(
        '[[region]]\nname = "sram"\nsize = 4000\n[[region]]\nname = "psram"\nsize = "64kB"\n'
    )
    (tmp_path / "in.tflite").write_bytes(MODEL)
    typed = ["rewrite", tmp_path / "in.tflite", tmp_path / "out.tflite", "--memory", tmp_path / "memory.toml"]
    found = CliRunner().invoke(app, [*map(str, typed), "--no-verify", "--json"])
    printed = json.loads(found.stdout)
    assert found.exit_code == 0 and printed["memories"]["fast_bytes"] <= 4000
    validate_json(printed, "report")
