"""Rewrites for a fast and a slow memory."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tflite_fuse
from scripts.zoo import ModelBuilder, networks
from scripts.zoo.float_twin import float_twin
from tests.test_cli import validate as validate_json
from tflite_fuse.boards.table import known_boards
from tflite_fuse.check import validate
from tflite_fuse.cli import app
from tflite_fuse.emit.in_model import blocks_in
from tflite_fuse.errors import LimitError, ModelError, UsageError
from tflite_fuse.memory.regions import memories_of
from tflite_fuse.model import load_model, serialize_model
from tflite_fuse.model.edit import set_metadata
from tflite_fuse.model.memories import MEMORIES_METADATA, Memories, slow_tensors, slow_tensors_entry
from tflite_fuse.model.types import tensor_nbytes
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


def test_runs_of_each_block_grow_into_the_rest_of_the_fast_memory() -> None:
    """Each block by itself: the runs of one pixel, with which tensors are placed, are more than doubled."""
    model = load_model(tflite_fuse.rewrite(MODEL, memory=memories(4000), verify=False).model)
    runs = [plan.config.chunk for plan in blocks_in(model).values()]
    assert slow_tensors(model) is not None and len(runs) > 1 and min(runs) > 2


@pytest.mark.parametrize("model", ["blocks in a row", "branches"])
def test_rewrite_reaches_each_point_of_a_front_with_its_limit(model: str) -> None:
    """More of the fast memory takes less traffic, from the least that suffices to one that holds the whole model."""
    data = MODEL if model == "blocks in a row" else branching()
    rows = tflite_fuse.pareto(data, memory=memories(64_000)).rows
    found = [row.memories for row in rows if row.memories is not None]
    assert len(found) == len(rows) > 3 and found[0].tensors and not found[-1].tensors
    for each in found:
        made = tflite_fuse.rewrite(data, memory=memories(each.fast_room), verify=False).report.memories
        assert made is not None and replace(made, tensors=()) == replace(each, tensors=())
        assert sorted(made.tensors) == sorted(each.tensors)
    cycles = [each.cycles for each in found]
    assert cycles == sorted(set(cycles), reverse=True) and cycles[-1] == 0
    with pytest.raises(LimitError):
        tflite_fuse.rewrite(data, memory=memories(found[0].fast_room - 16), verify=False)


def test_a_front_ends_at_the_size_of_the_fast_memory() -> None:
    rows = tflite_fuse.pareto(MODEL, memory=memories(4000)).rows
    assert rows[-1].memories is not None and rows[-1].memories.tensors and rows[-1].memories.fast_room <= 4000
    with pytest.raises(LimitError, match=r"the fast memory sram has 1,000 bytes: .* keeps the least arena at"):
        tflite_fuse.pareto(MODEL, memory=memories(1000))
    with pytest.raises(LimitError, match=r"the slow memory has 1,024 bytes"):
        tflite_fuse.pareto(MODEL, memory=memories(2500, slow=1024))


def test_the_least_arena_of_the_message_suffices() -> None:
    for data in (MODEL, branching()):
        with pytest.raises(LimitError) as refused:
            tflite_fuse.rewrite(data, memory=memories(1000), verify=False)
        assert refused.value.reached is not None
        least = int(refused.value.reached)
        found = tflite_fuse.rewrite(data, memory=memories(least), verify=False).report.memories
        assert found is not None and found.fast_bytes == least


def test_tensors_that_fit_the_fast_memory_stay_in_it() -> None:
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
    with pytest.raises(UsageError, match="give no goal beside them except max_compute"):
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


def branching(unread: bool = False, as_rows: bool = False) -> bytes:
    """A map with an output of its own besides the rest of the network, of which an operator may have no reader.

    A detector has outputs as rows of boxes.
    """
    b = ModelBuilder(seed=0)
    x = b.conv(b.conv(b.conv(b.input((1, 48, 48, 3)), 8, 3, 2), 16, 3), 8, 3)
    y = b.conv(b.conv(x, 16, 3, 2), 16, 3)
    if unread:
        b.max_pool(y, 2, 2)
    ends = [b.logistic(b.conv(x, 4)), b.logistic(b.conv(y, 4))]
    ends = [b.reshape(each, (1, each.shape[1] * each.shape[2], 4)) for each in ends] if as_rows else ends
    return serialize_model(b.build(ends))


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
def test_a_block_copies_out_a_tensor_that_it_reads_itself() -> None:
    """So a tensor that two blocks read is written once and read once from the slow memory."""
    result = tflite_fuse.rewrite(branching(), memory=memories(4000), verify=True, inputs=4)
    model, found = load_model(result.model), result.report.memories
    slow, graph = slow_tensors(model), model.main
    assert found is not None and slow is not None
    assert result.report.verified is not None and result.report.verified.bit_exact
    sizes = {tensor: tensor_nbytes(graph.tensors[tensor]) for tensor in slow.offsets}
    assert found.read_bytes == sum(size for tensor, size in sizes.items() if tensor not in graph.outputs)
    assert found.written_bytes == sum(size for tensor, size in sizes.items() if tensor not in graph.inputs)
    copied = [
        tensor
        for plan in blocks_in(model).values()
        for tensor in plan.slow
        if any(stage.waits_for == tensor for stage in plan.block.stages)
    ]
    assert copied


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
def test_tensors_in_one_place_of_the_slow_memory_are_compared_one_by_one() -> None:
    """At the end a later tensor lies there; float32 blocks have no inner tensors to compare and keep their form."""
    b = ModelBuilder(seed=0)
    x = b.conv(b.input((1, 16, 16, 2)), 4, 3)
    for _ in range(3):
        x = b.mul(x, b.logistic(b.conv(b.mean(x, keep_dims=True), 4)))
    data = serialize_model(float_twin(b.build([x])))
    result = tflite_fuse.rewrite(data, memory=memories(4000), verify=True, inputs=4)
    slow, verified = slow_tensors(load_model(result.model)), result.report.verified
    assert slow is not None and len(set(slow.offsets.values())) < len(slow.offsets)
    assert verified is not None and verified.bit_exact


@pytest.mark.parametrize(("model", "size"), [({"unread": True}, 4500), ({"as_rows": True}, 6000)])
def test_operators_that_no_block_holds_keep_to_the_fast_memory(model: dict[str, bool], size: int) -> None:
    """An operator without readers, and the RESHAPE of a detector's outputs."""
    found = tflite_fuse.rewrite(branching(**model), memory=memories(size), verify=None, inputs=4).report.memories
    assert found is not None and found.tensors and found.fast_bytes <= size


def test_a_project_for_esp_idf_switches_its_psram_on(tmp_path: Path) -> None:
    """Otherwise the second array would lie in SRAM, without a word."""
    for name, size in (("two", 4000), ("one", 64_000)):
        path = tmp_path / f"{name}.tflite"
        path.write_bytes(tflite_fuse.rewrite(MODEL, memory=memories(size), verify=False).model)
        typed = ["export", path, tmp_path / name, "--format", "esp-idf"]
        assert CliRunner().invoke(app, [*map(str, typed)]).exit_code == 0
        assert ("CONFIG_SPIRAM=y" in (tmp_path / name / "sdkconfig.defaults").read_text()) == (name == "two")
        assert ("bytes of a second memory" in (tmp_path / name / "README.md").read_text()) == (name == "two")


def test_blocks_carry_the_places_of_the_metadata() -> None:
    model = load_model(tflite_fuse.rewrite(MODEL, memory=memories(3200), verify=False).model)
    found = slow_tensors(model)
    assert found is not None
    carried = {offset for plan in blocks_in(model).values() for offset in plan.slow.values()}
    assert carried == set(found.offsets.values())


def test_compute_keeps_a_model_in_the_fast_memory_where_it_is_allowed() -> None:
    """The arena of the fast memory alone is reached with recompute; without a limit on it tensors move instead."""
    size = tflite_fuse.rewrite(MODEL, goal=Goal(least_ram=True), verify=False).report.after.arena_bytes
    found = [
        tflite_fuse.rewrite(MODEL, memory=memories(size), goal=goal, verify=False).report
        for goal in (None, Goal(max_compute=3.0), Goal(max_ram=size))
    ]
    assert [bool(each.memories and each.memories.tensors) for each in found] == [True, False, False]
    assert found[0].compute_factor <= 1 < found[2].compute_factor <= 3


BOARD = 'name = "mine"\nmhz = 100\nram = "4kB"\nflash = "1MB"\n'
REGIONS = '[[region]]\nname = "sram"\nsize = 4000\n[[region]]\nname = "psram"\nsize = "64kB"\n'
THIRD = '[[region]]\nname = "sdram"\nsize = "64kB"\n'
SECOND = '[second]\nname = "psram"\nsize = "64kB"\nread_cycles_per_byte = 6\nwrite_cycles_per_byte = 2\n'


def typed(tmp_path: Path, *options: object) -> tuple[int, dict[str, Any], str]:
    """Exit code, JSON and error of a rewrite of ``MODEL``; ``two.toml`` and ``one.toml`` are boards of 4,000 bytes,
    ``three.toml`` and ``over.toml`` memories that are none."""
    (tmp_path / "in.tflite").write_bytes(MODEL)
    files = {"two": BOARD + SECOND, "one": BOARD, "three": REGIONS + THIRD}
    files["over"] = REGIONS.replace("4000", "4000\naddress = 0") + "address = 2000\n"
    for name, text in files.items():
        (tmp_path / f"{name}.toml").write_text(text)
    paths = ["rewrite", tmp_path / "in.tflite", tmp_path / "out.tflite", "--no-verify", "--json"]
    words = [tmp_path / each if str(each).endswith(".toml") else each for each in options]
    result = CliRunner().invoke(app, [*map(str, paths), *map(str, words)])
    return result.exit_code, json.loads(result.stdout) if result.exit_code == 0 else {}, result.stderr


def test_a_limit_of_two_sizes_names_the_memories(tmp_path: Path) -> None:
    code, printed, _ = typed(tmp_path, "--max-ram", "dtcm=4000,axi=64kB")
    found = printed["memories"]
    assert code == 0 and (found["fast"], found["slow"], found["slow_room"]) == ("dtcm", "axi", 64_000)
    assert found["fast_bytes"] <= 4000 and found["cycles"] == found["read_bytes"] + found["written_bytes"] > 0


def test_a_board_has_a_second_memory_where_its_ram_is_too_small(tmp_path: Path) -> None:
    code, printed, _ = typed(tmp_path, "--board", "two.toml", "--reserve", 0)
    found = printed["memories"]
    assert code == 0 and (found["fast_room"], found["slow"], found["slow_room"]) == (4000, "psram", 64_000)
    assert found["fast_bytes"] <= 4000 and found["cycles"] == 6 * found["read_bytes"] + 2 * found["written_bytes"] > 0
    assert "ms of it for the bytes in psram" in printed["time"]["sentence"]
    code, printed, _ = typed(tmp_path, "--board", "two.toml", "--max-ram", "fast=2500,slow=50kB")
    found = printed["memories"]
    assert code == 0 and (found["fast_room"], found["slow"], found["slow_room"]) == (2500, "psram", 50_000)


def test_boards_without_a_second_memory_are_not_named_for_a_model_that_needs_one(tmp_path: Path) -> None:
    (tmp_path / "in.tflite").write_bytes(MODEL)
    typed = ["rewrite", tmp_path / "in.tflite", tmp_path / "out.tflite", "--no-verify", "--max-ram", "a=4kB,b=300kB"]
    fit = CliRunner().invoke(app, [*map(str, typed)]).stdout.splitlines()[2]
    known = [board for board in known_boards() if board.second is not None]
    assert fit.startswith(f"fits {len(known)} of {len(known_boards())} known boards")
    assert re.search("and [0-9,]+ bytes of their second memory, the smallest are", fit)


def test_a_board_whose_ram_suffices_needs_no_second_memory(tmp_path: Path) -> None:
    """The file is that of a limit on RAM alone."""
    typed(tmp_path, "--board", "esp32s3box")
    found = (tmp_path / "out.tflite").read_bytes()
    typed(tmp_path, "--max-ram", 327_680 * 3 // 4, "--target", "esp32s3")
    assert (tmp_path / "out.tflite").read_bytes() == found


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--board", "one.toml", "--reserve", 0), 1, "because of CONV_2D_0.*; mine has no second memory"),
        (("--board", "two.toml", "--reserve", "3kB"), 1, "has 1,000 bytes: the block from .* keeps the least arena at"),
        (("--board", "one.toml", "--max-ram", "a=3kB,b=4kB"), 2, "mine has no second memory, for which b is a size"),
        (("--board", "two.toml", "--max-ram", "a=3kB,b=1MB"), 2, "mine has 64,000 bytes of psram, not 1,000,000"),
        (("--board", "two.toml", "--max-ram", "a=4kB,b=1kB"), 2, "mine has 3,000 bytes of ram, not 4,000"),
        (("--memory", "none.toml", "--max-ram", "3kB"), 2, r"none\.toml"),
        (("--memory", "three.toml"), 2, r"three\.toml: two tables \[\[region\]\] are needed, not 3"),
        (("--memory", "over.toml"), 2, r"over\.toml: the regions sram and psram overlap: sram ends at 0xfa0"),
        (("--max-ram", "a=1kB,b=2kB,c=3kB"), 2, "is not two memories: write the fast one first"),
        (("--max-ram", "a=1kB,b=64kB"), 1, "the fast memory a has 1,000 bytes: the block from CONV_2D_1 to CONV_2D_3"),
    ],
)
def test_memories_that_a_board_has_not_are_refused_in_a_sentence(
    tmp_path: Path, options: tuple[object, ...], code: int, said: str
) -> None:
    found, _, error = typed(tmp_path, *options)
    assert found == code and re.search(said, error) and error.count("\n") == 1
    assert not (tmp_path / "out.tflite").exists()


def test_the_front_is_printed_as_a_table_as_json_and_as_csv(tmp_path: Path) -> None:
    (tmp_path / "memory.toml").write_text(REGIONS)
    (tmp_path / "in.tflite").write_bytes(MODEL)
    command = ["pareto", str(tmp_path / "in.tflite"), "--memory", str(tmp_path / "memory.toml")]
    texts = [CliRunner().invoke(app, [*command, *more]).stdout for more in ([], ["--json"], ["--csv"])]
    printed = json.loads(texts[1])
    validate_json(printed, "front")
    table = [[int(cell.replace(",", "")) for cell in re.findall(r"\d[\d,]*", line)] for line in texts[0].splitlines()]
    _, *rows = (line.split(",") for line in texts[2].splitlines())
    assert len(rows) == len(printed["points"]) > 2
    for point, row in zip(printed["points"], rows, strict=True):
        found = point["memories"]
        numbers = [found[name] for name in ("fast_room", "fast_bytes", "slow_bytes", "read_bytes", "written_bytes")]
        assert [int(cell) for cell in row[-6:]] == [*numbers, found["cycles"]]
        assert any(line[:6] == [*numbers, found["cycles"]] for line in table)
    plotted = CliRunner().invoke(app, [*command, "--plot", str(tmp_path / "front.svg")])
    assert plotted.exit_code == 2 and "leave it out with --memory" in plotted.stderr


def test_the_command_takes_a_file(tmp_path: Path) -> None:
    (tmp_path / "memory.toml").write_text(REGIONS)
    (tmp_path / "in.tflite").write_bytes(MODEL)
    typed = ["rewrite", tmp_path / "in.tflite", tmp_path / "out.tflite", "--memory", tmp_path / "memory.toml"]
    found = CliRunner().invoke(app, [*map(str, typed), "--no-verify", "--json"])
    printed = json.loads(found.stdout)
    assert found.exit_code == 0 and printed["memories"]["fast_bytes"] <= 4000
    validate_json(printed, "report")
