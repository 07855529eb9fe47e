"""Switches that disable one technique, and the estimate of the search beside the exact result."""

from __future__ import annotations

import json
from functools import cache
from itertools import product
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tflite_fuse
from scripts.zoo.networks import cell_network, inverted_residual_network
from tests.test_cli import validate
from tflite_fuse import Goal, LimitError, UsageError
from tflite_fuse.cli import app
from tflite_fuse.ir.program import program_of
from tflite_fuse.memory.tflm.tail import loading_bytes
from tflite_fuse.model import load_model, save_model, serialize_model
from tflite_fuse.runtime import tflm

needs_tflm = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


@cache
def network() -> bytes:
    return serialize_model(inverted_residual_network(size=32, blocks=3))


@cache
def rewritten(mode: str, overlap: bool, strips: bool) -> tflite_fuse.Result:
    return tflite_fuse.rewrite(
        network(), input_mode=mode, goal=Goal(least_ram=True), overlap=overlap, strips=strips, inputs=3
    )


@needs_tflm
@pytest.mark.parametrize("mode", tflite_fuse.INPUT_MODES)
def test_every_switch_costs_memory_and_no_bytes_of_output(mode: str) -> None:
    arenas = {}
    for overlap, strips in product((True, False), repeat=2):
        report = rewritten(mode, overlap, strips).report
        assert report.verified is not None and report.verified.bit_exact
        assert strips or report.compute_factor == 1.0
        arenas[overlap, strips] = report.after.arena_bytes
    assert arenas[True, True] <= min(arenas[True, False], arenas[False, True])
    assert max(arenas[True, False], arenas[False, True]) <= arenas[False, False]
    if mode != "streamed":  # of a stream this network is one block without strips, whatever is allowed
        assert arenas[True, True] < arenas[False, False]


@needs_tflm
@pytest.mark.parametrize("mode", tflite_fuse.INPUT_MODES)
def test_the_estimate_is_near_the_truth(mode: str) -> None:
    for overlap, strips in product((True, False), repeat=2):
        report = rewritten(mode, overlap, strips).report
        assert report.estimate_bytes is not None
        assert report.after.arena_bytes == pytest.approx(report.estimate_bytes, rel=0.1)
        validate(json.loads(json.dumps(report.to_json())), "report")


def test_without_the_search_there_is_no_estimate() -> None:
    report = tflite_fuse.rewrite(network(), passes=["reorder", "plan"], verify=False).report
    assert report.estimate_bytes is None
    validate(json.loads(json.dumps(report.to_json())), "report")


def test_fronts_separate_the_gain_of_each_idea() -> None:
    least = {
        (overlap, strips): tflite_fuse.pareto(network(), input_mode="external", overlap=overlap, strips=strips).rows
        for overlap, strips in product((True, False), repeat=2)
    }
    ram = {switches: rows[0].ram_bytes for switches, rows in least.items()}
    assert ram[True, True] <= min(ram[True, False], ram[False, True]) < ram[False, False]
    assert all(row.compute_factor == 1.0 for row in (*least[True, False], *least[False, False]))
    assert any(row.compute_factor > 1.0 for row in least[True, True])


def test_strips_are_switched_off_for_the_scheme_auto_alone() -> None:
    with pytest.raises(UsageError, match="only the scheme auto can do without strips; the scheme h-cache"):
        tflite_fuse.pareto(network(), scheme="h-cache", strips=False)


@needs_tflm
def test_a_limit_counts_the_real_arena_and_loading() -> None:
    """Whatever the estimate says: the answer fits, and one byte less than the least there is does not."""
    front = tflite_fuse.pareto(network(), input_mode="external")
    for limit in (front.rows[0].ram_bytes, front.rows[len(front.rows) // 2].ram_bytes, front.rows[-1].ram_bytes + 64):
        goal = Goal(max_ram=limit)
        result = tflite_fuse.rewrite(network(), input_mode="external", goal=goal, inputs=1)
        assert result.report.after.arena_bytes <= limit and loading_bytes(program_of(load_model(result.model))) <= limit
    least = tflite_fuse.rewrite(network(), input_mode="external", goal=Goal(least_ram=True), inputs=1)
    needed = max(least.report.after.arena_bytes, loading_bytes(program_of(load_model(least.model))))
    with pytest.raises(LimitError, match="cannot be reached"):
        tflite_fuse.rewrite(network(), input_mode="external", goal=Goal(max_ram=needed - 1), verify=False)
    exact = tflite_fuse.rewrite(network(), input_mode="external", goal=Goal(max_ram=needed), inputs=1)
    assert exact.report.after.arena_bytes <= needed


@needs_tflm
def test_candidates_are_put_in_order_before_they_are_compared() -> None:
    """With the order pass a branching model is never worse than with its blocks left where they came."""
    model = serialize_model(cell_network(size=32, cells=2))
    ordered = tflite_fuse.rewrite(model, inputs=2).report
    as_it_came = tflite_fuse.rewrite(model, passes=["fuse", "plan"], inputs=2).report
    assert ordered.after.arena_bytes <= as_it_came.after.arena_bytes


@needs_tflm
def test_the_commands(tmp_path: Path) -> None:
    source, target = str(tmp_path / "in.tflite"), str(tmp_path / "out.tflite")
    save_model(load_model(network()), source)
    runner = CliRunner()
    switches = ["--input", "external", "--no-strips", "--no-overlap"]
    done = runner.invoke(app, ["rewrite", source, target, "--least-ram", *switches, "--inputs", "1", "--verbose"])
    assert done.exit_code == 0 and "the search for blocks estimated" in done.stdout
    fronts = [
        json.loads(runner.invoke(app, ["pareto", source, "--input", "external", "--json", *extra]).stdout)["points"]
        for extra in ([], ["--no-strips"], ["--no-overlap"])
    ]
    assert fronts[0] != fronts[1] != fronts[2]
    assert {point["compute_factor"] for point in fronts[1]} == {1.0}
