"""Points of the front as programs: what their arena and their compute really are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from tflite_fuse.cost.estimate.shapes import Shapes
from tflite_fuse.cost.instructions import LONGEST, Core, Cycles, block_instructions, in_instructions
from tflite_fuse.cost.priced_program import PricedProgram
from tflite_fuse.emit.insert_blocks import BlockMaker, InsertedBlock
from tflite_fuse.emit.stream_time import stream_time
from tflite_fuse.ir.block import BlockChoice
from tflite_fuse.ir.program import Program
from tflite_fuse.memory.arena import Arena
from tflite_fuse.memory.budget import tell
from tflite_fuse.model.outside import InputMode
from tflite_fuse.passes.reorder import Ordered, Reorder
from tflite_fuse.search.front import Front, Point
from tflite_fuse.search.fusion_front import SearchOptions, fusion_front
from tflite_fuse.search.joint_orders import OrderedGraph
from tflite_fuse.tuning import TUNING, Tuning


@dataclass(frozen=True)
class Candidate:
    """A point, placed.

    Attributes:
        site: the model that the point is of.
        program: the model's with the point's blocks.
        ordered: how its steps were put in order.
        arena: bytes that must be allocated, what the model needs for a moment while it loads included.
        macs: multiply-accumulates it executes.
        instructions: what its blocks' exact schedules are expected to take on the core, of which a search that counts
            instructions knows an estimate; operators outside blocks as if the device library ran them.
        compute: whichever of the two counts.
    """

    site: Site = field(compare=False, repr=False)
    point: Point
    program: Program
    blocks: tuple[InsertedBlock, ...]
    ordered: Ordered | None
    arena: int
    macs: int
    instructions: int
    compute: int

    @property
    def overestimate(self) -> int:
        """Return the bytes of the estimate that were not needed; other points of the model have about as many."""
        return max(0, self.point.ram_bytes - self.arena)


@dataclass(frozen=True)
class Work:
    """Work of one inference of a model without blocks.

    Attributes:
        macs: multiply-accumulates.
        instructions, cycles: of the core; 0 cycles where none are known of it.
    """

    macs: int
    instructions: int
    cycles: int = 0

    def on(self, core: Core) -> int:
        """Return what counts on a core: instructions or cycles."""
        return self.cycles if isinstance(core, Cycles) else self.instructions


@dataclass(frozen=True)
class Site:
    """A model about to be fused.

    Attributes:
        graph: what is searched.
        others: the same in other orders of operators.
        maker: makes its blocks.
        count_tail: whether an arena is all of it or its head alone.
        arena: works out what a model needs.
        order: puts operators in order once blocks are in; None leaves them as they come.
        target: the core whose instructions or cycles count; None counts multiply-accumulates.
        core: the core whose instructions or cycles are predicted in any case.
        shapes: what searches know of the graph's blocks already, of each order.
        own: work of the model as its file has it, where that is not what is fused: dead channels are left out of this.
        tuning: the rules of thumb.
        fronts, placed: what was searched and placed already: several goals often want the same.
    """

    graph: PricedProgram
    others: tuple[OrderedGraph, ...]
    maker: BlockMaker
    count_tail: bool
    arena: Callable[[Program], Arena]
    order: Reorder | None
    target: Core | None
    core: Core
    shapes: tuple[Shapes, ...]
    own: Work | None = None
    tuning: Tuning = TUNING
    fronts: dict[SearchOptions, Front] = field(default_factory=dict, compare=False, repr=False)
    placed: dict[tuple[tuple[BlockChoice, ...], tuple[int, ...]], Candidate] = field(
        default_factory=dict, compare=False, repr=False
    )

    @property
    def runs_unfused(self) -> bool:
        """Whether the runtime has an operator for each of the model's, and all their inputs."""
        return not self.maker.moved and not any(layer.only_in_blocks for layer in self.graph.steps)

    @property
    def slack(self) -> int:
        """One part of the least arena in so many that may go to speed where the goal names no limit.

        Inputs handed out pixel by pixel leave little behind, in which runs have to be short; a window became a stream
        to take less time, and half of its arena is rows that no run could be shorter for.
        """
        if stream_time(self.maker.model) is not None:
            return self.tuning.slack_calls
        streamed = self.maker.moved and self.maker.mode is InputMode.STREAMED
        return self.tuning.slack_streamed if streamed else self.tuning.slack

    @cached_property
    def alone(self) -> tuple[int, ...]:
        """Instructions each operator is expected to take by itself."""
        return tuple(layer.work for layer in self._in_instructions.steps)

    @cached_property
    def _in_instructions(self) -> PricedProgram:
        return in_instructions(self.graph, self.core, LONGEST)

    @cached_property
    def _others_in_instructions(self) -> tuple[OrderedGraph, ...]:
        return tuple(replace(each, graph=in_instructions(each.graph, self.core, LONGEST)) for each in self.others)

    @property
    def unfused_compute(self) -> int:
        """What counts of the model that is fused."""
        return self.graph.work if self.target is None else sum(self.alone)

    @property
    def own_compute(self) -> int:
        """What counts of the model as its file has it: limits on compute are multiples of that."""
        return self.own_macs if self.target is None else self.own_instructions

    @property
    def own_macs(self) -> int:
        """Multiply-accumulates of the model as its file has it."""
        return self.graph.work if self.own is None else max(self.own.macs, self.graph.work)

    @property
    def own_instructions(self) -> int:
        """Instructions of the model as its file has it, every operator by itself."""
        return sum(self.alone) if self.own is None else max(self.own.on(self.core), sum(self.alone))

    def front(self, options: SearchOptions, among: Collection[int] | None = None) -> Front:
        """Return the front of the model, perhaps one searched with more RAM: its first points are the same.

        Args:
            options: what to search.
            among: numbers of the orders that are followed beside the first; None for all.
        """
        known = next((known for known in self.fronts if _reaches_as_far(known, options)), options)
        if known not in self.fronts:
            counted = known.target == self.core and max(known.chunks) == LONGEST
            graph, others = self.graph, self.others
            if counted:
                graph, others = self._in_instructions, self._others_in_instructions
            kept = [at for at in range(len(others)) if among is None or at + 1 in among]
            shapes = self.shapes[0], *(self.shapes[at + 1] for at in kept)
            self.fronts[known] = fusion_front(graph, known, [others[at] for at in kept], shapes)
        return self.fronts[known]

    def realise(self, point: Point) -> Candidate:
        """Make a point's blocks, put the steps in order and place the tensors."""
        key = point.blocks, point.order
        if key not in self.placed:
            self.placed[key] = self._realise(point)
            tell("candidates placed", len(self.placed))
        return replace(self.placed[key], point=point)

    def _realise(self, point: Point) -> Candidate:
        program, blocks = self.maker.program(point.blocks, point.order)
        ordered: Ordered | None = None
        if self.order is None:
            arena = self.arena(program)
        else:
            ordered, arena = self.order.ordered_for(program, self.arena)
            program = ordered.program
        needed = arena.needed if self.count_tail else arena.head
        macs, instructions = self._macs(blocks), self._instructions(blocks)
        compute = macs if self.target is None else instructions
        return Candidate(self, point, program, blocks, ordered, needed, macs, instructions, compute)

    def _macs(self, blocks: Sequence[InsertedBlock]) -> int:
        return self.graph.work + sum(block.extra_macs for block in blocks)

    def _instructions(self, blocks: Sequence[InsertedBlock]) -> int:
        fused = {operator for block in blocks for operator in block.choice.operators}
        alone = sum(cost for index, cost in enumerate(self.alone) if index not in fused)
        return alone + block_instructions([(b.plan.block, b.plan.schedule) for b in blocks], self.core)


def _reaches_as_far(known: SearchOptions, options: SearchOptions) -> bool:
    """Whether one search leaves out no block that the other has, and both are the same otherwise."""
    most, enough = options.most_ram, known.most_ram
    return replace(known, most_ram=most) == options and (enough is None or (most is not None and most <= enough))
