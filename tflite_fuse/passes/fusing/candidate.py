"""Points of the front as programs, with their exact arena and work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

from tflite_fuse.cost.instructions import LONGEST, Core, Cycles, block_instructions, in_instructions
from tflite_fuse.cost.priced_program import PricedProgram
from tflite_fuse.emit.insert_blocks import BlockMaker, InsertedBlock
from tflite_fuse.emit.slow import Traffic, traffic_of
from tflite_fuse.emit.stream_time import stream_time
from tflite_fuse.ir.liveness import covered_bytes, working_sets
from tflite_fuse.ir.program import Program
from tflite_fuse.memory.arena import Arena
from tflite_fuse.memory.budget import report_progress
from tflite_fuse.memory.tflm.offline_plan import ALIGNMENT
from tflite_fuse.model.witness import Witness
from tflite_fuse.notes import Note
from tflite_fuse.passes.reorder import Ordered, Reorder
from tflite_fuse.search.front import Front, Point
from tflite_fuse.search.fusion_front import SearchOptions, fusion_front
from tflite_fuse.search.joint_orders import Order
from tflite_fuse.tuning import TUNING, Tuning
from tflite_fuse.units import round_up


@dataclass(frozen=True)
class Candidate:
    """A point of the front, realised.

    Attributes:
        site: model of the point.
        point: the point.
        program: the model's program with the point's blocks.
        blocks: the blocks.
        ordered: result of ordering its steps; None without.
        arena: bytes that must be allocated, the peak while loading included; the head if the tail does not count.
        head: bytes of these that activations and scratch may take.
        offsets: of the tensors, as placed; None as the runtime places them.
        macs: multiply-accumulates that it executes.
        time: prediction from its blocks' exact schedules on the core (a search has only an estimate): instructions, or
            cycles where the core has a timing model; operators outside blocks count as if the device library ran them.
        compute: ``macs`` or ``time``, whichever the goal limits.
    """

    site: Site = field(compare=False, repr=False)
    point: Point
    program: Program
    blocks: tuple[InsertedBlock, ...]
    ordered: Ordered | None
    arena: int
    head: int
    offsets: tuple[int, ...] | None
    macs: int
    time: int
    compute: int

    @property
    def has_own_runs(self) -> bool:
        """Return whether stages of a block have individual run lengths."""
        return any(block.config.longest_runs or block.config.ahead for block in self.point.blocks)

    @cached_property
    def unused(self) -> tuple[int, ...]:
        """Return for each block the bytes of the head that hold no live tensor while it runs, a multiple of 16."""
        sizes, offsets = tuple(round_up(size, ALIGNMENT) for size in self.program.sizes), self.offsets
        program = replace(self.program, sizes=sizes)
        live = working_sets(program) if offsets is None else covered_bytes(program, offsets)
        steps = (program.producer[block.extraction.outputs[0]] for block in self.blocks)
        return tuple(max(0, self.head - live[step]) // ALIGNMENT * ALIGNMENT for step in steps)

    @cached_property
    def traffic(self) -> Traffic:
        """Return the bytes between the slow memory and the fast one."""
        return sum((traffic_of(block.plan) for block in self.blocks), Traffic())


@dataclass(frozen=True)
class Work:
    """Work of one inference of a model without blocks.

    Attributes:
        macs: multiply-accumulates.
        instructions, cycles: predictions for the core; 0 cycles if it has no timing model.
    """

    macs: int
    instructions: int
    cycles: int = 0

    def on(self, core: Core) -> int:
        """Return the instructions or cycles that count on a core."""
        return self.cycles if isinstance(core, Cycles) else self.instructions


@dataclass(frozen=True)
class Site:
    """A model to fuse, with the results of earlier searches.

    Attributes:
        graph: graph to search.
        other_orders: the same graph in other orders of operators.
        maker: builder of its blocks, with the model in the first of these orders.
        requested: options of the search; a limit on compute is relative to the model in the file.
        count_tail: whether RAM is the whole arena, not only its head.
        arena: function that returns the arena of a program.
        order: pass that orders operators after blocks are inserted; None keeps their order.
        target: core whose instructions or cycles the goal limits; None for multiply-accumulates.
        core: core whose instructions or cycles are predicted in any case.
        own: work of the model in the file; None if no pass changed it before fusion.
        first: the form to whose work limits on compute are relative; None for this one.
        tuning: rules of thumb.
        notes: notes about the orders, and reasons for inputs that stay in the arena.
        witness: of the form that the model has.
        forms: the same model in other forms, which take part.
        fronts, placed: cached fronts and candidates, which goals share.
    """

    graph: PricedProgram
    other_orders: tuple[Order, ...]
    maker: BlockMaker
    requested: SearchOptions
    count_tail: bool
    arena: Callable[[Program], Arena]
    order: Reorder | None
    target: Core | None
    core: Core
    own: Work | None = None
    first: Site | None = field(default=None, compare=False, repr=False)
    tuning: Tuning = TUNING
    notes: tuple[Note, ...] = ()
    witness: Witness = field(default_factory=Witness)
    forms: list[Form] = field(default_factory=list, compare=False, repr=False)
    fronts: dict[SearchOptions, Front] = field(default_factory=dict, compare=False, repr=False)
    placed: dict[tuple[object, ...], Candidate] = field(default_factory=dict, compare=False, repr=False)

    @property
    def runs_unfused(self) -> bool:
        """Return whether the runtime has all the model's operators and inputs, so that it can run without blocks."""
        return not self.maker.moved and not any(layer.only_in_blocks for layer in self.graph.steps)

    @property
    def slack(self) -> int:
        """Return the divisor n: least arena / n bytes may be spent on speed when the goal has no limit.

        Models with streamed inputs have small arenas with short runs. Streams of windows were made to take less time,
        and half of their arena is state, which runs do not affect.
        """
        if stream_time(self.maker.model) is not None:
            return self.tuning.slack_calls
        streamed = self.maker.moved and self.maker.mode.streams
        return self.tuning.slack_streamed if streamed else self.tuning.slack

    @property
    def slack_bytes(self) -> int:
        """Return the bytes that may be spent on speed in any case: more where cycles are predicted.

        Longer runs save more cycles than instructions, because weights are read from flash once for several pixels.
        """
        return self.tuning.slack_cycles if isinstance(self.core, Cycles) else self.tuning.slack_bytes

    @cached_property
    def alone(self) -> tuple[int, ...]:
        """Predicted instructions or cycles of each operator by itself."""
        return tuple(layer.work for layer in self._timed.steps)

    @cached_property
    def _timed(self) -> PricedProgram:
        return in_instructions(self.graph, self.core, LONGEST)

    @property
    def unfused_compute(self) -> int:
        """Return the work of the fused model without blocks, in the goal's unit."""
        return self.graph.work if self.target is None else sum(self.alone)

    @property
    def own_compute(self) -> int:
        """Return the work of the file's model in the goal's unit, to which limits on compute are relative."""
        return self.own_macs if self.target is None else self.own_time

    @property
    def own_macs(self) -> int:
        """Return the multiply-accumulates of the file's model."""
        if self.first is not None:
            return self.first.own_macs
        return self.graph.work if self.own is None else max(self.own.macs, self.graph.work)

    @cached_property
    def own_time(self) -> int:
        """Return the instructions or cycles of the file's model, every operator by itself."""
        if self.first is not None:
            return (self.first if self.first.core == self.core else replace(self.first, core=self.core)).own_time
        return sum(self.alone) if self.own is None else max(self.own.on(self.core), sum(self.alone))

    @cached_property
    def options(self) -> SearchOptions:
        """Options of the search, with a limit on compute relative to the model without blocks."""
        most = self.requested.most_compute
        if most is None or not self.unfused_compute:
            return self.requested
        return replace(self.requested, most_compute=int(Fraction(most) * self.own_compute) / self.unfused_compute)

    @property
    def front(self) -> Front:
        """Return the front of its blocks."""
        return self.front_of(self.options)

    def front_in_macs(self, most: int | None) -> Front:
        """Return the front by multiply-accumulates, up to ``most`` of them; None for no limit."""
        share = None if most is None or not self.graph.work else most / self.graph.work
        return self.front_of(replace(self.requested, target=None, most_compute=share))

    def front_of(self, options: SearchOptions) -> Front:
        """Return the front of the model, or one searched with more RAM, whose first points are the same."""
        search = next((search for search in self.fronts if _includes(search, options)), options)
        if search not in self.fronts:
            counted = search.target == self.core and max(search.chunks) == LONGEST
            graph = self._timed if counted else self.graph
            self.fronts[search] = fusion_front(graph, search, self.other_orders)
        return self.fronts[search]

    @property
    def unfused(self) -> Candidate:
        """Return the candidate without blocks, all inputs in the arena."""
        resident = replace(self, maker=BlockMaker(self.maker.model), fronts={}, placed={})
        return resident.realise(self.front.unfused)

    def realise(self, point: Point) -> Candidate:
        """Return the candidate of a point: make its blocks, order the steps and place the tensors."""
        key = point.blocks, point.order, point.slow
        if key not in self.placed:
            self.placed[key] = self._realise(point)
            report_progress("candidates placed", len(self.placed))
        return replace(self.placed[key], point=point)

    def _realise(self, point: Point) -> Candidate:
        program, blocks = self.maker.program(point.blocks, point.order, point.slow)
        ordered: Ordered | None = None
        if self.order is None:
            arena = self.arena(program)
        else:
            ordered, arena = self.order.ordered_for(program, self.arena)
            program = ordered.program
        needed = arena.needed if self.count_tail else arena.head
        head = needed - arena.tail if self.count_tail else needed
        macs, time = self.graph.work + sum(block.extra_macs for block in blocks), self.time_of(blocks)
        compute = macs if self.target is None else time
        return Candidate(self, point, program, blocks, ordered, needed, head, arena.offsets, macs, time, compute)

    def time_of(self, blocks: Sequence[InsertedBlock]) -> int:
        """Return predicted instructions or cycles of blocks and of the operators outside them."""
        fused = {operator for block in blocks for operator in block.choice.operators}
        alone = sum(cost for index, cost in enumerate(self.alone) if index not in fused)
        return alone + block_instructions([(b.plan.block, b.plan.schedule) for b in blocks], self.core)


@dataclass(frozen=True)
class Form:
    """Another form of a model, such as with copies of its streamed inputs.

    Attributes:
        site: makes its site, once; None if none of its inputs can leave the arena.
        least_bytes: bytes below which no arena of this form can be.
    """

    site: Callable[[], Site | None] = field(repr=False)
    least_bytes: int = 0


def _includes(searched: SearchOptions, options: SearchOptions) -> bool:
    """Return whether an earlier search includes all blocks of another one and equals it otherwise."""
    most, before = options.most_ram, searched.most_ram
    return replace(searched, most_ram=most) == options and (before is None or (most is not None and most <= before))
