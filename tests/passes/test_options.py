"""Options: contradictions are refused before any file is read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import tflite_fuse
from tflite_fuse import Goal, UsageError
from tflite_fuse.cost.instructions import Target
from tflite_fuse.cost.priced_program import WorkUnit
from tflite_fuse.memory.regions import memories_of
from tflite_fuse.model.outside import InputMode
from tflite_fuse.passes.fusing.objective import objective_of
from tflite_fuse.passes.options import FuseOptions
from tflite_fuse.search.schemes import Scheme
from tflite_fuse.tuning import TUNING

UNFUSED = ("reorder", "plan")
MEMORIES = memories_of({"region": [{"name": "fast", "size": 5000}, {"name": "slow", "size": 100_000}]})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scheme": "magic"}, "there is no scheme 'magic'; the schemes are auto, "),
        ({"input_mode": "piped"}, "inputs cannot be 'piped'; they can be resident, streamed, columns, external"),
        ({"target": "z80"}, "'z80' is no target; choose from cortex-m7, "),
        ({"in_place": "mkl"}, "there is no kernel set 'mkl'; the sets are reference, "),
        ({"passes": ("reorder", "paint")}, "there is no pass 'paint'; the passes are reorder, fuse, plan"),
        ({"passes": ("plan", "fuse")}, "the plan pass must be the last one"),
        ({"passes": ("fuse", "fuse")}, "a pass is named twice"),
        ({"passes": UNFUSED, "input_mode": "streamed"}, "inputs that are streamed are read by fused blocks"),
        ({"passes": UNFUSED, "tile_size": (4, 4)}, "tiles are those of fused blocks"),
        ({"passes": UNFUSED, "cost": "instructions"}, "instructions are predicted for fused blocks"),
        ({"cost": "cycles"}, "cycles of generic cannot be predicted: choose a target with a timing model from"),
        ({"cost": "watts"}, "compute is counted in macs, instructions or cycles, not in 'watts'"),
        ({"passes": UNFUSED, "goal": Goal(max_compute=1.3)}, "a trade of RAM for compute is what fused blocks offer"),
        ({"passes": UNFUSED, "scheme": "h-cache"}, "h-cache is a scheme of fused blocks"),
        ({"tiles": (4, 4)}, "tiles belong to the scheme inverted-residual, not to auto"),
        ({"scheme": "inverted-residual", "tiles": (4, 4), "tile_size": (4, 4)}, "not by both"),
        ({"scheme": "inverted-residual", "tiles": (0, 4)}, "0x4 makes no tiles"),
        ({"scheme": "h-cache", "strips": False}, "only the scheme auto can do without strips"),
    ],
)
def test_contradictions_are_refused_before_the_file_is_read(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        tflite_fuse.rewrite("no such file.tflite", **options)


def test_names_become_their_values() -> None:
    assert FuseOptions(goal=None, target="generic", weights="auto") == FuseOptions()
    options = FuseOptions(scheme="h-cache", input_mode="external", target="cortex-m4", passes=["fuse"], overlap=False)
    assert (options.scheme, options.input_mode, options.target) == (
        Scheme.H_CACHE,
        InputMode.EXTERNAL,
        Target.CORTEX_M4,
    )
    assert options.passes == ("fuse",) and not options.shares


def test_views_agree_with_the_options() -> None:
    options = FuseOptions(in_place="reference", input_mode=InputMode.STREAMED)
    searched = options.search([3])
    assert (searched.moved, searched.input_mode, searched.overlap, searched.count_tail) == (
        frozenset({3}),
        InputMode.STREAMED,
        True,
        True,
    )
    assert (options.arena().in_place, options.arena().planned) == ("reference", True)
    unplanned = FuseOptions(passes=("reorder", "fuse"))
    assert not unplanned.search().overlap and not unplanned.arena().planned
    published = FuseOptions(scheme=Scheme.STREAM_2D).search()
    assert not published.overlap and not published.single_operators


def test_instructions_are_the_compute_of_a_goal_only() -> None:
    assert FuseOptions(cost=WorkUnit.INSTRUCTIONS).counted is None
    assert FuseOptions(goal=Goal(max_ram=1000), target=Target.CORTEX_M4).counted is None
    asked = FuseOptions(goal=Goal(max_ram=1000), target=Target.CORTEX_M4, cost=WorkUnit.INSTRUCTIONS)
    assert asked.counted is asked.search().target is Target.CORTEX_M4


def test_streams_leave_more_of_the_arena_to_speed_unless_a_goal_is_set() -> None:
    slacks = (TUNING.slack, TUNING.slack_streamed, TUNING.slack_calls)

    def ceilings(goal: Goal, least: int) -> list[int]:
        common = SimpleNamespace(own_macs=1, target=None, tuning=TUNING, slack_bytes=TUNING.slack_bytes)
        sites = [SimpleNamespace(**vars(common), slack=slack) for slack in slacks]
        return [objective_of(site, goal).ceiling(least) for site in sites]

    assert ceilings(Goal(), 24_000) == [25_000, 25_500, 27_000]
    assert set(ceilings(Goal(), 1_200)) == {1_712}
    for asked in (Goal(max_ram=30_000), Goal(max_compute=1.0), Goal(max_compute=1.3), Goal(least_ram=True)):
        assert len(set(ceilings(asked, 24_000))) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"goal": Goal(least_ram=True)},
        {"goal": Goal(max_compute=1.3)},
        {"goal": Goal(max_ram=5000), "cost": "instructions", "target": "cortex-m7"},
        {"weights": "16bit"},
        {"scheme": "inverted-residual", "tiles": (4, 4)},
        {"memory": MEMORIES},
    ],
)
def test_a_rewrite_without_proven_blocks_keeps_only_passes_that_need_none(options: dict[str, Any]) -> None:
    given = FuseOptions(**options)
    bare = given.without_fusion
    assert "fuse" not in bare.passes and bare.passes[-1] == "plan"
    assert bare.effective_goal.max_ram == given.effective_goal.max_ram and bare.target == given.target
