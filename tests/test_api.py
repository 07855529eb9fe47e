"""The Python interface: its functions, equality with the command line, and goals that are met or refused."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Sequence
from inspect import signature
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest

import tflite_fuse
from scripts.zoo.networks import inverted_residual_network
from tests.told import told
from tflite_fuse import Goal, LimitError, ModelError, UsageError
from tflite_fuse.export.package import export_model
from tflite_fuse.ir.program import program_of
from tflite_fuse.memory.tflm.tail import loading_bytes
from tflite_fuse.model import load_model, serialize_model
from tflite_fuse.passes import declared as given
from tflite_fuse.units import parse_bytes, parse_pair

MODEL = serialize_model(inverted_residual_network(size=48, blocks=4))


def test_the_public_names() -> None:
    offered = {name for name in tflite_fuse.__all__ if not name.endswith("Error")}
    assert {"load", "inspect", "rewrite", "verify", "pareto", "Goal", "Result", "__version__"} <= offered
    assert all(hasattr(tflite_fuse, name) for name in tflite_fuse.__all__)


def test_paths_and_bytes_are_alike(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(MODEL)
    assert tflite_fuse.load(path) == tflite_fuse.load(MODEL)
    assert tflite_fuse.inspect(path).figures == tflite_fuse.inspect(MODEL).figures
    by_path, by_bytes = tflite_fuse.rewrite(path, verify=False), tflite_fuse.rewrite(MODEL, verify=False)
    assert by_path.model == by_bytes.model
    assert tflite_fuse.verify(path, by_bytes.model, inputs=4).bit_exact


def test_a_damaged_block_is_refused_by_the_name_of_its_file(tmp_path: Path) -> None:
    path, fused = tmp_path / "m.tflite", tflite_fuse.rewrite(MODEL, verify=False).model
    options = load_model(fused).main.operators[0].custom_options or b""
    at = fused.index(options) + len(options) // 2
    path.write_bytes(fused[:at] + b"\xff" * 8 + fused[at + 8 :])
    uses: Sequence[Callable[[], object]] = (
        lambda: tflite_fuse.inspect(path),
        lambda: tflite_fuse.rewrite(path),
        lambda: tflite_fuse.pareto(path),
        lambda: tflite_fuse.verify(MODEL, path),
        lambda: export_model(path, tmp_path / "project", "c"),
    )
    for use in uses:
        with pytest.raises(ModelError, match=f"^{path}: TFLITE_FUSE_0 is not a valid fused block"):
            use()


def test_the_default_recomputes_nothing_and_needs_less() -> None:
    report = tflite_fuse.rewrite(MODEL, inputs=4).report
    assert report.compute_factor == 1.0 and report.verified is not None and report.verified.bit_exact
    assert report.after.arena_bytes < report.before.arena_bytes
    assert report.blocks and sum(block.extra_macs for block in report.blocks) == 0
    assert {step: claim.proven for step, claim in report.optimal.items()} == {
        "order": True,
        "fusion": False,
        "plan": True,
    }
    assert report.optimal["fusion"].bound_bytes < report.after.arena_bytes
    assert report.optimal["plan"].bound_bytes == report.after.head_bytes


def test_goals_are_met() -> None:
    default = tflite_fuse.rewrite(MODEL, verify=False).report
    least = tflite_fuse.rewrite(MODEL, verify=False, goal=Goal(least_ram=True)).report
    traded = tflite_fuse.rewrite(MODEL, inputs=4, goal=Goal(max_compute=1.2)).report
    assert least.after.arena_bytes <= traded.after.arena_bytes <= default.after.arena_bytes
    assert traded.compute_factor <= 1.2
    middle = (least.after.arena_bytes + default.after.arena_bytes) // 2
    fitted = tflite_fuse.rewrite(MODEL, inputs=4, goal=Goal(max_ram=middle)).report
    assert fitted.after.arena_bytes <= middle and fitted.compute_factor <= least.compute_factor


def test_a_roomy_limit_changes_nothing_that_need_not_change() -> None:
    report = tflite_fuse.rewrite(MODEL, verify=False, goal=Goal(max_ram=10_000_000)).report
    assert report.compute_factor == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["resident", "external"])
def test_a_limit_at_any_goals_arena_is_kept(mode: str) -> None:
    """Estimates may be above what is needed: no limit is refused that another goal keeps."""
    for size in (11, 20):
        data = serialize_model(inverted_residual_network(size=size, blocks=3))
        for goal in (None, Goal(max_compute=1.2), Goal(max_compute=2.0), Goal(least_ram=True)):
            result = tflite_fuse.rewrite(data, verify=False, goal=goal, input_mode=mode)
            reached, loading = result.report, loading_bytes(program_of(load_model(result.model)))
            limit = max(reached.after.arena_bytes, loading)
            assert bool(told(reached.records, "warned", "loading")) == (limit == loading)
            fitted = tflite_fuse.rewrite(data, verify=False, goal=Goal(max_ram=limit), input_mode=mode).report
            assert fitted.after.arena_bytes <= limit and fitted.prediction and reached.prediction
            no_slower = fitted.prediction.instructions <= 1.01 * reached.prediction.instructions
            assert fitted.compute_factor <= reached.compute_factor or no_slower


@pytest.mark.parametrize("factor", [0, -1, float("-inf"), float("inf"), float("nan"), 1e300, 10**400])
def test_factors_that_are_none_are_refused(factor: float) -> None:
    with pytest.raises(UsageError, match="above 0"):
        Goal(max_compute=factor)


def test_a_limit_below_zero_is_refused() -> None:
    with pytest.raises(UsageError, match=r"0 to 2\^60 bytes, not -5"):
        Goal(max_ram=-5)


def test_a_limit_out_of_reach_carries_its_numbers() -> None:
    with pytest.raises(LimitError) as refused:
        tflite_fuse.rewrite(MODEL, verify=False, goal=Goal(max_ram=500))
    error = pickle.loads(pickle.dumps(refused.value))  # as it comes back from another process
    assert error.limit == 500 and error.reached > 500 and error.operator
    assert f"{error.reached:,} bytes" in str(error) and error.operator in str(error)
    with pytest.raises(LimitError) as refused:
        tflite_fuse.rewrite(MODEL, verify=False, goal=Goal(max_compute=0.5))
    assert refused.value.limit == 0.5 and refused.value.reached is not None and refused.value.reached > 0.5


def test_options_that_a_function_does_not_take_are_refused_by_name() -> None:
    for function, option in ((tflite_fuse.pareto, "goal"), (tflite_fuse.metrics, "tiles")):
        with pytest.raises(TypeError, match=option):
            function(MODEL, **{option: None})
    assert "tiles: Number of tiles" in (tflite_fuse.pareto.__doc__ or "")


def test_limits_out_of_reach_name_the_nearest_point() -> None:
    with pytest.raises(LimitError, match=r"cannot be reached.* nearest point needs [\d,]+ bytes"):
        tflite_fuse.rewrite(MODEL, verify=False, goal=Goal(max_ram=500))
    with pytest.raises(LimitError, match="cannot be reached"):
        tflite_fuse.rewrite(MODEL, verify=False, goal=Goal(max_compute=0.5))
    with pytest.raises(UsageError, match="least RAM at any compute excludes"):
        Goal(least_ram=True, max_ram=64_000)


@pytest.mark.slow
def test_every_scheme_runs_and_is_exact() -> None:
    for scheme in tflite_fuse.SCHEMES:
        report = tflite_fuse.rewrite(MODEL, inputs=3, scheme=scheme, goal=Goal(least_ram=True)).report
        assert report.verified is not None and report.verified.bit_exact, scheme
    with pytest.raises(UsageError, match="there is no scheme"):
        tflite_fuse.rewrite(MODEL, scheme="magic")


def test_a_rewritten_model_can_be_rewritten_again() -> None:
    once = tflite_fuse.rewrite(MODEL, verify=False)
    twice = tflite_fuse.rewrite(once.model, inputs=3)
    assert twice.report.after.arena_bytes <= once.report.after.arena_bytes
    assert twice.report.before.macs == once.report.after.macs


@pytest.mark.parametrize("passes", [("reorder", "plan"), ("reorder", "fuse", "plan")])
def test_a_rewritten_model_has_a_front(passes: tuple[str, ...]) -> None:
    """Its offline plan is for its own tensors, not for those a point of the front leaves."""
    again = tflite_fuse.pareto(tflite_fuse.rewrite(MODEL, verify=False, passes=passes).model)
    original = tflite_fuse.pareto(MODEL)
    assert again.rows[0].ram_bytes <= original.unfused_ram_bytes and again.rows[0].work >= original.unfused_work


def test_sizes_and_tiles_are_read_as_people_write_them() -> None:
    assert [parse_bytes(text) for text in ("64kB", "64KiB", "1.5 kB", "65536", "1MB")] == [
        64_000,
        65_536,
        1_500,
        65_536,
        1_000_000,
    ]
    assert parse_pair("4x8", "a tile size") == (4, 8)
    for text in ("", "x", "64 bananas", "-5", "1e3", "9" * 13, "9" * 400 + "kB", "1." + "0" * 13):
        with pytest.raises(UsageError):
            parse_bytes(text)
    for text in ("8", "0x4", "axb", "9" * 5000 + "x1"):
        with pytest.raises(UsageError, match="is not a tile size"):
            parse_pair(text, "a tile size")


WRONG = (5, None, -1, 1.5, "x", b"", [1], (1, 2), ("a", "b"), {}, object(), True, 10**30)

DOORS: dict[str, tuple[Callable[..., object], dict[str, object]]] = {
    "load": (tflite_fuse.load, {}),
    "inspect": (tflite_fuse.inspect, {}),
    "rewrite": (tflite_fuse.rewrite, {"verify": False, "passes": ("reorder",)}),
    "pareto": (tflite_fuse.pareto, {}),
    "metrics": (tflite_fuse.metrics, {"max_flash": 1}),
    "run": (tflite_fuse.run, {"inputs": []}),
    "verify": (tflite_fuse.verify, {"b": MODEL, "inputs": 1}),
}


@pytest.mark.parametrize("door", DOORS)
def test_an_argument_of_a_wrong_type_is_one_sentence_that_names_it(door: str) -> None:
    function, settings = DOORS[door]
    hints = get_type_hints(function)
    first, *_ = names = list(signature(function).parameters)
    for name in names:
        for wrong in WRONG:
            if given.fits(wrong, hints[name]):
                continue
            arguments = {first: MODEL} | settings | {name: wrong}
            with pytest.raises(UsageError, match=rf"^{name} is .*, not ") as found:
                function(**arguments)
            assert "\n" not in str(found.value)


@pytest.mark.parametrize("field", ["max_ram", "max_compute", "least_ram"])
@pytest.mark.parametrize("wrong", ["64kB", (1,), {}], ids=repr)
def test_a_goal_of_a_wrong_type_is_refused_when_it_is_made(field: str, wrong: object) -> None:
    with pytest.raises(UsageError, match=f"^{field} is "):
        Goal(**{field: wrong})  # type: ignore[arg-type]


def test_arguments_that_signatures_allow_pass() -> None:
    for expected, values in {
        int: (3, np.int64(3)),
        float: (3, 1.5, np.float32(1.5)),
        tuple[int, int]: ((8, 8), [8, 8]),
        Sequence[str]: (("plan",), ["plan"]),
        str | None: ("x", None),
    }.items():
        assert all(given.fits(value, expected) for value in values), expected
    assert not given.fits("plan", Sequence[str]) and not given.fits(True, int)


@pytest.mark.slow
def test_numbers_of_numpy_are_taken_as_pythons() -> None:
    """Those of few bits overflow, and none of whole numbers is JSON."""
    for goal in (Goal(max_ram=np.int16(20_000)), Goal(max_compute=np.float32(1.5)), Goal(max_compute=np.int8(2))):
        assert {type(goal.max_ram), type(goal.max_compute)} <= {int, float, type(None)}
    small = serialize_model(inverted_residual_network(size=16, blocks=2))
    report = tflite_fuse.rewrite(small, goal=Goal(max_compute=np.float32(1.5)), seed=np.int64(3), inputs=2).report
    assert report.verified.inputs and json.loads(json.dumps(report.to_json()))
    streams = [tflite_fuse.rewrite(small, stream_time=step, verify=False) for step in (np.int8(1), 1)]
    assert streams[0].model == streams[1].model


def test_a_goal_beyond_any_memory_is_refused() -> None:
    with pytest.raises(UsageError, match="give max_ram a size like 65536"):
        Goal(max_ram=2**70)


def test_bytes_are_no_file_to_convert() -> None:
    with pytest.raises(UsageError, match="source is a word or a path, not b'onnx'"):
        tflite_fuse.convert(b"onnx")  # type: ignore[arg-type]


def test_a_seed_below_zero_and_bytes_that_can_change() -> None:
    with pytest.raises(UsageError, match="seed is 0 or more, not -1"):
        tflite_fuse.verify(MODEL, MODEL, seed=-1)
    assert tflite_fuse.inspect(bytearray(MODEL)).figures == tflite_fuse.inspect(MODEL).figures
