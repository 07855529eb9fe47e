"""What a user may ask of a rewrite: the one set of options, checked where they enter.

Search, placement and pricing look at views of it (``search``, ``arena``), none of them at names a user typed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from tflite_fuse.cost.instructions import Target
from tflite_fuse.cost.layer_graph import WorkUnit
from tflite_fuse.cost.targets import read_target
from tflite_fuse.errors import UsageError
from tflite_fuse.ir.block import WeightForm
from tflite_fuse.memory.arena import ArenaOptions
from tflite_fuse.memory.tflm.in_place_kernels import KERNEL_SETS
from tflite_fuse.memory.tflm.offline_plan import ALIGNMENT
from tflite_fuse.model.outside import InputMode
from tflite_fuse.ops.entry import Kernels
from tflite_fuse.passes.goal import NOTHING_RECOMPUTED, Goal
from tflite_fuse.search.fusion_front import SearchOptions
from tflite_fuse.search.schemes import Scheme
from tflite_fuse.tuning import TUNING, Tuning

DEFAULT_PASSES = ("reorder", "fuse", "plan")
"""What ``rewrite`` runs. With ``reorder`` among them the operators are put in order again once blocks are in."""

AS_TARGET = "auto"
"""Weights in the form that takes no more flash and fewest instructions on the target."""

TOO_MUCH_EXPECTED = 1.02
"""Instructions the search may expect over those that follow from the schedule: it looks at rows in general only."""


@dataclass(frozen=True)
class Hop:
    """That a model over a window of steps is to take only the new ones.

    Attributes:
        steps: new ones in each call.
        axis: ``height`` or ``width``, along which they lie; None for whichever is longer than 1.
    """

    steps: int
    axis: str | None = None

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise UsageError(f"a hop of {self.steps} steps is none")
        if self.axis not in (None, "height", "width"):
            raise UsageError(f"steps lie along height or width, not along {self.axis!r}")


Name = TypeVar("Name", bound=Enum)


def named(kinds: type[Name], name: str, what: str) -> Name:
    """The member of an enumeration that users call ``name``. Raises UsageError."""
    for kind in kinds:
        if kind.value == name:
            return kind
    raise UsageError(what.format(name, ", ".join(str(kind.value) for kind in kinds)))


@dataclass(frozen=True)
class FuseOptions:
    """How to rewrite a model. Options that contradict each other raise UsageError.

    Attributes:
        goal: what to reach.
        passes: which of ``DEFAULT_PASSES``, in order.
        scheme: which blocks and configurations are allowed.
        tiles, tile_size: number of tiles along height and width of the scheme ``inverted-residual``, or their height
            and width in pixels; at most one of the two is given.
        input_mode: where the model's inputs are from now on.
        overlap: let blocks write their output over input they need no more, where offsets are planned.
        strips: let blocks run in strips that compute some columns twice; without, every block runs over its full width.
            For the scheme ``auto``.
        int8_io: make float32 and uint8 inputs and outputs int8 where only a QUANTIZE or DEQUANTIZE is between.
        target: the core whose instructions are predicted.
        cost: what counts as compute where a goal speaks of it.
        in_place: kernel set whose operators may overwrite their input; None: none does.
        time_limit: seconds until searches answer with what they have; None for as long as their work takes.
        stream: make a stream of a model over a window; None for no such thing.
        weights: how weights are stored where kernels can take any.
        count_tail: whether RAM is the whole arena or its head alone, for comparisons with figures that count no more.
        tuning: the rules of thumb of all searches.
    """

    goal: Goal = NOTHING_RECOMPUTED
    passes: tuple[str, ...] = DEFAULT_PASSES
    scheme: Scheme = Scheme.AUTO
    tiles: tuple[int, int] | None = None
    tile_size: tuple[int, int] | None = None
    input_mode: InputMode = InputMode.RESIDENT
    overlap: bool = True
    strips: bool = True
    int8_io: bool = False
    target: Target = Target.GENERIC
    cost: WorkUnit = WorkUnit.MACS
    in_place: str | None = None
    time_limit: float | None = None
    stream: Hop | None = None
    weights: WeightForm = WeightForm.EIGHT
    count_tail: bool = True
    tuning: Tuning = TUNING

    def __post_init__(self) -> None:
        for name in self.passes:
            if name not in DEFAULT_PASSES:
                raise UsageError(f"there is no pass {name!r}; the passes are {', '.join(DEFAULT_PASSES)}")
        if "plan" in self.passes and self.passes[-1] != "plan":
            raise UsageError(
                "the plan pass must be the last one: its offsets belong to the order of operators and tensors"
            )
        if len(set(self.passes)) != len(self.passes):
            raise UsageError("a pass is named twice")
        if self.in_place is not None and self.in_place not in KERNEL_SETS:
            raise UsageError(f"there is no kernel set {self.in_place!r}; the sets are {', '.join(KERNEL_SETS)}")
        if "fuse" not in self.passes:
            self._refuse_without_fusion()
        if self.stream is not None and (self.int8_io or self.input_mode is not InputMode.RESIDENT):
            raise UsageError(
                "a stream takes its few steps as the model takes its window: in the arena, of the same type"
            )
        if self.stream is not None and self.scheme is not Scheme.AUTO:
            raise UsageError(f"{self.scheme.value} has no blocks that keep the state of a stream")
        self.search()

    def _refuse_without_fusion(self) -> None:
        reasons = {
            f"inputs that are {self.input_mode.value} are read by fused blocks": (
                self.input_mode is not InputMode.RESIDENT
            ),
            "tiles are those of fused blocks": self.tiles is not None or self.tile_size is not None,
            "instructions are predicted for fused blocks": self.cost is WorkUnit.INSTRUCTIONS,
            "a trade of RAM for compute is what fused blocks offer": (
                self.goal.least_ram or self.goal.max_compute is not None
            ),
            "the state of a stream is kept by fused blocks": self.stream is not None,
            "weights are stored by fused blocks": self.weights is not WeightForm.EIGHT,
            f"{self.scheme.value} is a scheme of fused blocks": self.scheme is not Scheme.AUTO,
        }
        for reason, asked in reasons.items():
            if asked:
                raise UsageError(f"{reason}: the fuse pass must run")

    @property
    def shares(self) -> bool:
        """Whether blocks may write over their input: offsets that allow it must be planned."""
        return self.overlap and "plan" in self.passes

    @property
    def counted(self) -> Target | None:
        """The core whose instructions are the goal's compute; None for multiply-accumulates, as without a goal."""
        return self.target if self.cost is WorkUnit.INSTRUCTIONS and self.goal != NOTHING_RECOMPUTED else None

    @property
    def _most_compute(self) -> float | None:
        limit = self.goal.compute_limit
        return limit if limit is None or self.counted is None else limit * TOO_MUCH_EXPECTED

    def search(self, moved: Collection[int] = ()) -> SearchOptions:
        """What is searched: RAM is the whole arena; a published scheme gets none of this package's own ideas, but for
        the choice among lengths of runs where instructions count.

        Args:
            moved: the inputs that leave the arena.
        """
        own = self.scheme is Scheme.AUTO
        return SearchOptions(
            scheme=self.scheme,
            tiles=self.tiles,
            tile_size=self.tile_size,
            alignment=ALIGNMENT,
            input_mode=self.input_mode,
            moved=frozenset(moved),
            overlap=own and self.shares,
            strips=self.strips,
            single_operators=own,
            count_tail=self.count_tail,
            target=self.counted,
            most_compute=self._most_compute if own else None,
        )

    def arena(self) -> ArenaOptions:
        """Under which conditions arenas are worked out."""
        return ArenaOptions(self.in_place, planned="plan" in self.passes, tuning=self.tuning)


def read_options(
    *,
    passes: Sequence[str] = DEFAULT_PASSES,
    goal: Goal | None = None,
    scheme: str = Scheme.AUTO.value,
    input_mode: str = InputMode.RESIDENT.value,
    target: str = Target.GENERIC.value,
    cost: str = WorkUnit.MACS.value,
    weights: str = AS_TARGET,
    **others: object,
) -> FuseOptions:
    """The options a user gave by name; the others are fields of ``FuseOptions``. Raises UsageError.

    Weights that are not bytes are for cores with the DSP extension: without a target it is one of these. Unless a form
    is asked for, such a target has them in pairs, which take as much flash as bytes.
    """
    core = read_target(target).target
    for_dsp = core.kernels is Kernels.DSP and "fuse" in passes
    asked = (WeightForm.PAIRED if for_dsp else WeightForm.EIGHT).value if weights == AS_TARGET else weights
    form = named(WeightForm, asked, "weights cannot be {!r}; they can be auto, {}")
    if form is not WeightForm.EIGHT and core is Target.GENERIC:
        core = Target.CORTEX_M4
    return FuseOptions(
        goal=goal or NOTHING_RECOMPUTED,
        passes=tuple(passes),
        scheme=named(Scheme, scheme, "there is no scheme {!r}; the schemes are {}"),
        input_mode=named(InputMode, input_mode, "inputs cannot be {!r}; they can be {}"),
        target=core,
        weights=form,
        cost=named(WorkUnit, cost, "compute is counted in macs or instructions, not in {!r}"),
        **others,  # type: ignore[arg-type]
    )


def hop_of(steps: int | None, axis: str | None) -> Hop | None:
    """The stream a user asked for, if so. Raises UsageError."""
    if steps is None and axis is not None:
        raise UsageError("an axis of time is that of a stream: say how many new steps a call takes")
    return None if steps is None else Hop(steps, axis)
