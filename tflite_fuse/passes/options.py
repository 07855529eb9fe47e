"""Options of a rewrite, each declared once: default, help, choices, and the functions and commands that take it.

Search, placement and pricing use views of them (``search``, ``arena``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Any, ClassVar, TypeVar

from tflite_fuse.cost.instructions import Core, Cycles, Target
from tflite_fuse.cost.priced_program import WorkUnit
from tflite_fuse.cost.targets import read_target
from tflite_fuse.errors import UsageError
from tflite_fuse.ir.block import WeightForm
from tflite_fuse.memory.arena import ArenaOptions
from tflite_fuse.memory.regions import read_memories
from tflite_fuse.memory.tflm.in_place_kernels import KERNEL_SETS
from tflite_fuse.memory.tflm.offline_plan import ALIGNMENT
from tflite_fuse.memory.tflm.runtimes import DEFAULT_RUNTIME, RUNTIMES, runtime_named
from tflite_fuse.model.memories import Memories
from tflite_fuse.model.outside import InputMode
from tflite_fuse.ops.entry import Kernels
from tflite_fuse.passes.declared import described, option, words
from tflite_fuse.passes.goal import NOTHING_RECOMPUTED, Goal
from tflite_fuse.search.fusion_front import SearchOptions
from tflite_fuse.search.schemes import Scheme
from tflite_fuse.tuning import TUNING, Tuning
from tflite_fuse.units import parse_bytes, parse_pair

Progress = Callable[[str, int, int], None]

DEFAULT_PASSES = ("reorder", "fuse", "plan")
"""Default passes of ``rewrite``. With ``reorder``, operators are ordered again after blocks are inserted."""

AS_TARGET = "auto"
"""Weights in the form with the fewest instructions on the target that takes no additional flash."""


AXES = ("height", "width")


@dataclass(frozen=True)
class Hop:
    """Request to convert a model over a window of steps to a stream that takes only the new ones.

    Attributes:
        steps: new steps in each call.
        axis: ``height`` or ``width`` along which they lie; None for the one longer than 1.
    """

    steps: int
    axis: str | None = None

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise UsageError(f"a hop of {self.steps} steps is too small: give at least 1")
        if self.axis is not None and self.axis not in AXES:
            raise UsageError(f"steps lie along height or width, not along {self.axis!r}")


def listed(typed: str) -> tuple[str, ...]:
    """Return the names in ``reorder,plan``."""
    return tuple(name.strip() for name in typed.split(",") if name.strip())


def read_hop(typed: str) -> dict[str, Any]:
    """Return hop and axis of ``H`` or ``H,axis=height``, by keyword. Raises UsageError."""
    steps, _, rest = typed.partition(",")
    name, _, axis = rest.partition("=")
    if not steps.isdecimal() or len(steps) > 9 or (rest and name != "axis"):
        raise UsageError(f"--stream-time takes H or H,axis=height or H,axis=width, not {typed!r}")
    return {"stream_time": int(steps)} | ({"stream_axis": axis} if rest else {})


Name = TypeVar("Name", bound=Enum)


def named(kinds: type[Name], name: str, message: str) -> Name:
    """Return the member of an enumeration with this name in options. Raises UsageError."""
    for kind in kinds:
        if kind.value == name:
            return kind
    raise UsageError(message.format(name, ", ".join(str(kind.value) for kind in kinds)))


_ENDS, _CORE, _BLOCKS, CHECKS = "Inputs and outputs", "Core", "Blocks", "Checks"
"""Headings of groups in help."""

_REWRITE = ("rewrite",)
_FRONT = ("rewrite", "pareto")
_ANY = ("rewrite", "pareto", "metrics")
_GOAL = ("rewrite", "metrics")
"""Functions and commands that take an option."""


@described
@dataclass(frozen=True, kw_only=True)
class FuseOptions:
    """Options of a rewrite. Words are stored as members of their enumerations, which equal them.

    Attributes:
        {options}

    Raises:
        UsageError: an unknown word, or options that contradict each other.
    """

    goal: Goal | None = option(
        None, "What to reach; by default next to the least RAM that recomputes nothing.", of=_GOAL, typed=None
    )
    passes: Sequence[str] = option(
        DEFAULT_PASSES,
        "Which passes run, in this order",
        panel=_BLOCKS,
        of=_REWRITE,
        choices=DEFAULT_PASSES,
        read=listed,
        shown="PASS,...",
    )
    scheme: str = option(
        Scheme.AUTO.value,
        "Which fused blocks are allowed, those of a paper or all",
        panel=_BLOCKS,
        of=_ANY,
        choices=words(Scheme),
    )
    tiles: tuple[int, int] | None = option(
        None,
        "Number of tiles along height and width of the scheme inverted-residual, like 4x4 (8x8 by default).",
        panel=_BLOCKS,
        of=_FRONT,
        read=partial(parse_pair, what="a number of tiles"),
        shown="HxW",
    )
    tile_size: tuple[int, int] | None = option(
        None,
        "Height and width of such a tile in pixels, like 8x8, instead of their number.",
        panel=_BLOCKS,
        of=_FRONT,
        read=partial(parse_pair, what="a tile size"),
        shown="HxW",
    )
    input_mode: str = option(
        InputMode.RESIDENT.value,
        "Where the model's inputs are on the device: in the arena; handed out row by row, as by a camera, or column by "
        "column, as a spectrogram; or in other memory, as PSRAM",
        panel=_ENDS,
        of=_ANY,
        choices=words(InputMode),
        typed="input",
    )
    overlap: bool = option(
        True, "Let fused blocks write their output and scratch over input they need no more.", panel=_BLOCKS, of=_FRONT
    )
    strips: bool = option(
        True,
        "Let fused blocks run in strips that compute some columns twice, for the scheme auto.",
        panel=_BLOCKS,
        of=_FRONT,
    )
    int8_io: bool = option(
        False,
        "Make float32 and uint8 inputs and outputs int8 where only a QUANTIZE or DEQUANTIZE is between.",
        panel=_ENDS,
        of=_ANY,
    )
    stream_time: int | None = option(
        None,
        "Make a stream of a model over a window of steps, called again every H new ones: it takes only those.",
        panel=_ENDS,
        of=_FRONT,
        read=read_hop,
        shown="H[,axis=height|width]",
    )
    stream_axis: str | None = option(
        None,
        "Along which axis the steps of a stream lie, by default along the one that is longer than 1",
        panel=_ENDS,
        of=_FRONT,
        choices=AXES,
    )
    target: str = option(
        Target.GENERIC.value,
        "The core whose instructions are predicted and made few where RAM is left, or a chip or board that has it",
        panel=_CORE,
        of=(*_ANY, "report"),
        choices=words(Target),
    )
    cost: str = option(
        WorkUnit.MACS.value,
        "What compute is counted in, instructions and cycles as predicted for the target",
        panel=_CORE,
        of=_ANY,
        choices=words(WorkUnit),
    )
    weights: str = option(
        AS_TARGET,
        "How weights are stored; for cores with the DSP extension (Cortex-M4, M7, M33) two in 16 bits or 16 bits each "
        "take fewer instructions, the latter twice the flash; auto is paired for a target that has it",
        panel=_CORE,
        of=_REWRITE,
        choices=(AS_TARGET, *words(WeightForm)),
    )
    in_place: str | None = option(
        None,
        "Let TFLM's operators overwrite input they need no more, with the kernels your TFLM is built with; with "
        "others the model may compute wrong values",
        panel=_BLOCKS,
        of=_REWRITE,
        choices=KERNEL_SETS,
    )
    runtime: str = option(
        DEFAULT_RUNTIME,
        "The runtime on the device, for which the arena must suffice",
        panel=_CORE,
        of=(*_ANY, "report"),
        choices=tuple(RUNTIMES),
    )
    memory: Memories | None = option(
        None,
        "A TOML file of the device's fast and slow memory: the arena fits the first; where that is too small without "
        "recompute, or with that of max_compute, tensors between blocks lie in the second",
        panel=_CORE,
        of=_FRONT,
        read=read_memories,
        shown="FILE",
    )
    time_limit: float | None = option(
        None,
        "Seconds until the searches answer with their best so far, which may then differ from run to run; without it "
        "they do a fixed amount of work.",
        panel=_BLOCKS,
        of=_REWRITE,
        shown="SECONDS",
        bounds=(0.0, None),
    )

    tuning: Tuning = TUNING
    """Rules of thumb of all searches; not an option for users."""

    count_tail: ClassVar[bool] = True
    """Whether RAM is the whole arena, not only its head."""

    def __post_init__(self) -> None:
        self._resolve()
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
        runtime_named(self.runtime)
        if "fuse" not in self.passes:
            self._refuse_without_fusion()
        if self.stream is not None and (self.int8_io or self.input_mode is not InputMode.RESIDENT):
            raise UsageError(
                "a stream keeps its input resident and of the model's type: leave out input_mode and int8_io"
            )
        if self.memory is not None and not self._goal_is_of(self.memory):
            raise UsageError(
                "the memories say how much RAM there is: give no goal beside them except max_compute, 1 or more"
            )
        if self.memory is not None and (self.scheme is not Scheme.AUTO or "plan" not in self.passes):
            raise UsageError("a slow memory is for the scheme auto and for a plan of the arena")
        if self.stream is not None and self.scheme is not Scheme.AUTO:
            raise UsageError(f"{Scheme(self.scheme).value} has no blocks that keep the state of a stream")
        self.search()

    def _resolve(self) -> None:
        """Replace words by members of enumerations, and resolve automatic choices.

        Weights in pairs or in 16 bits are for cores with the DSP extension: without a target it becomes one of these.
        By default such a target has weights in pairs, which take no additional flash.
        """
        target = self.target if isinstance(self.target, Target) else read_target(self.target).target
        weights: str = self.weights
        if weights == AS_TARGET:
            paired = target.kernels is Kernels.DSP and "fuse" in self.passes
            weights = WeightForm.PAIRED if paired else WeightForm.EIGHT
        form = named(WeightForm, weights, "weights cannot be {!r}; they can be auto, {}")
        if form is not WeightForm.EIGHT and target is Target.GENERIC:
            target = Target.CORTEX_M4
        if self.cost == WorkUnit.CYCLES.value and not target.has_cycles:
            timed = ", ".join(each.value for each in Target if each.has_cycles)
            raise UsageError(
                f"cycles of {target.value} cannot be predicted: choose a target with a timing model from {timed}"
            )
        if self.stream_time is None and self.stream_axis is not None:
            raise UsageError("stream_axis needs stream_time: give the number of new steps in each call")
        resolved = {
            "goal": self.effective_goal,
            "passes": tuple(self.passes),
            "scheme": named(Scheme, self.scheme, "there is no scheme {!r}; the schemes are {}"),
            "input_mode": named(InputMode, self.input_mode, "inputs cannot be {!r}; they can be {}"),
            "target": target,
            "cost": named(WorkUnit, self.cost, "compute is counted in macs, instructions or cycles, not in {!r}"),
            "weights": form,
        }
        for name, value in resolved.items():
            object.__setattr__(self, name, value)

    def _goal_is_of(self, memory: Memories) -> bool:
        goal = self.effective_goal
        return not goal.least_ram and goal.max_ram in (None, memory.fast.nbytes) and (goal.max_compute or 1) >= 1

    @property
    def without_fusion(self) -> FuseOptions:
        """The same options without blocks, and without the goals and forms that only blocks have."""
        return replace(
            self,
            passes=tuple(name for name in self.passes if name != "fuse"),
            goal=Goal(max_ram=self.effective_goal.max_ram),
            scheme=Scheme.AUTO.value,
            tiles=None,
            tile_size=None,
            cost=WorkUnit.MACS.value,
            weights=WeightForm.EIGHT.value,
            memory=None,
        )

    def _refuse_without_fusion(self) -> None:
        reasons = {
            f"inputs that are {InputMode(self.input_mode).value} are read by fused blocks": (
                self.input_mode is not InputMode.RESIDENT
            ),
            "tiles are those of fused blocks": self.tiles is not None or self.tile_size is not None,
            f"{WorkUnit(self.cost).value} are predicted for fused blocks": self.cost is not WorkUnit.MACS,
            "a trade of RAM for compute is what fused blocks offer": (
                self.effective_goal.least_ram or self.effective_goal.max_compute is not None
            ),
            "the state of a stream is kept by fused blocks": self.stream is not None,
            "weights are stored by fused blocks": self.weights is not WeightForm.EIGHT,
            "tensors in a slow memory are those of fused blocks": self.memory is not None,
            f"{Scheme(self.scheme).value} is a scheme of fused blocks": self.scheme is not Scheme.AUTO,
        }
        for reason, requested in reasons.items():
            if requested:
                raise UsageError(f"{reason}: the fuse pass must run")

    @property
    def shares(self) -> bool:
        """Return whether blocks may write over their input, which requires planned offsets."""
        return self.overlap and "plan" in self.passes

    @property
    def counted(self) -> Core | None:
        """Return the core whose instructions or cycles the goal limits; None for MACs, as without a goal."""
        counts = self.cost is not WorkUnit.MACS and self.goal != NOTHING_RECOMPUTED
        return self.core if counts else None

    @property
    def core(self) -> Core:
        """Return the core whose cycles are minimised with free RAM; its instructions without a timing model."""
        target = Target(self.target)
        return Cycles(target) if target.has_cycles and self.cost is not WorkUnit.INSTRUCTIONS else target

    @property
    def effective_goal(self) -> Goal:
        """Return the goal, by default the least RAM without recompute."""
        return self.goal or NOTHING_RECOMPUTED

    @property
    def stream(self) -> Hop | None:
        """Return the stream to make of the model, if any."""
        return None if self.stream_time is None else Hop(self.stream_time, self.stream_axis)

    def search(self, moved: Collection[int] = ()) -> SearchOptions:
        """Return the options of the search.

        RAM is the whole arena. A published scheme gets none of this package's own methods, except the choice among
        lengths of runs if instructions count.

        Args:
            moved: inputs that leave the arena.
        """
        own = self.scheme is Scheme.AUTO
        return SearchOptions(
            scheme=Scheme(self.scheme),
            tiles=self.tiles,
            tile_size=self.tile_size,
            alignment=ALIGNMENT,
            input_mode=InputMode(self.input_mode),
            moved=frozenset(moved),
            overlap=own and self.shares,
            strips=self.strips,
            bands=own and self.strips,
            single_operators=own,
            count_tail=self.count_tail,
            target=self.counted,
            most_compute=self.effective_goal.compute_limit if own and self.counted is None else None,
        )

    def arena(self) -> ArenaOptions:
        """Return the conditions under which arenas are computed."""
        build = runtime_named(self.runtime).build
        return ArenaOptions(self.in_place, planned="plan" in self.passes, build=build, tuning=self.tuning)


@described
@dataclass(frozen=True, kw_only=True)
class RewriteOptions(FuseOptions):
    """The options of ``rewrite``: of the passes, and of the report.

    Attributes:
        {options}
    """

    verify: bool | None = option(
        None,
        "Compare both models in TensorFlow Lite Micro before anything is written; by default where it is installed and "
        "runs the original. That constants, options and schedule are the original's is proven in any case.",
        panel=CHECKS,
        of=_REWRITE,
    )
    inputs: int = option(
        16,
        "How many inputs to compare on: edge values, random ones, and ones searched for.",
        panel=CHECKS,
        of=_REWRITE,
        bounds=(1, None),
    )
    seed: int | None = option(
        None,
        "Of the random inputs and of the search; by default one that the file gives. The one used is printed.",
        panel=CHECKS,
        of=_REWRITE,
        bounds=(0, 2**32 - 1),
    )
    advise: bool = option(
        False,
        "Also work out what other options would bring, or which keep a limit out of reach.",
        of=_REWRITE,
        typed=None,
    )
    progress: Progress | None = option(
        None, "Called with (what is counted, done, total); a total of 0 is not known.", of=_REWRITE, typed=None
    )


EFFORTS = ("estimate", "exact")


@described
@dataclass(frozen=True, kw_only=True)
class MetricsOptions(FuseOptions):
    """The options of ``metrics``: of the passes, and of the effort.

    Attributes:
        {options}
    """

    effort: str = option(
        EFFORTS[0],
        "exact rewrites the model (proven, not run) and reports its figures; estimate takes a fraction of a second, "
        "uses no runtime and writes nothing: docs/pipelines.md says how far it is off",
        of=("metrics", "sweep"),
        choices=EFFORTS,
    )
    max_flash: int | None = option(None, "Bytes the file may have.", of=("metrics", "sweep"), read=parse_bytes)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.effort not in EFFORTS:
            raise UsageError(f"effort is {' or '.join(EFFORTS)}, not {self.effort!r}")
