"""Points of the front as models: what their arena and their compute really are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tflite_fuse.fusion.encoding.in_model import block_overlaps
from tflite_fuse.fusion.instructions.targets import Target, block_instructions
from tflite_fuse.fusion.search.front import Point
from tflite_fuse.memory.from_model import memory_graph
from tflite_fuse.memory.place.portfolio import place
from tflite_fuse.memory.tflm.tail import loading_bytes, predict_tail
from tflite_fuse.model.outside import InputMode
from tflite_fuse.model.schema import Model
from tflite_fuse.passes.base import Pass
from tflite_fuse.passes.insert_blocks import InsertedBlock, insert_blocks


@dataclass(frozen=True)
class Candidate:
    """A point as a model.

    Attributes:
        arena: what its arena really needs, bytes.
        compute: its multiply-accumulates; where instructions count, what its blocks' exact schedules are expected to
            take, of which the search knows an estimate.
    """

    point: Point
    model: Model
    blocks: tuple[InsertedBlock, ...]
    arena: int
    compute: int

    @property
    def spare(self) -> int:
        """Bytes of the estimate that were not needed; other points of the same model have about as many."""
        return max(0, self.point.ram_bytes - self.arena)


@dataclass(frozen=True)
class Site:
    """A model about to be fused, which of its inputs leave the arena, what its operators cost alone."""

    model: Model
    mode: InputMode
    moved: tuple[int, ...]
    overlap: bool
    count_tail: bool
    order: Pass | None
    target: Target | None
    alone: tuple[int, ...]

    def realise(self, point: Point) -> Candidate:
        """Insert a point's blocks, put the operators in order and place the tensors."""
        rewritten, blocks = insert_blocks(self.model, point.blocks, self.mode, self.moved)
        if self.order is not None:
            rewritten = self.order.run(rewritten).model
        overlaps = block_overlaps(rewritten) if self.overlap else ()
        arena = place(memory_graph(rewritten), overlaps).height
        if self.count_tail:
            arena = max(arena + predict_tail(rewritten).total, loading_bytes(rewritten))
        return Candidate(point, rewritten, blocks, arena, self._compute(point, blocks))

    def _compute(self, point: Point, blocks: Sequence[InsertedBlock]) -> int:
        if self.target is None:
            return point.macs
        fused = {operator for block in point.blocks for operator in block.operators}
        alone = sum(cost for index, cost in enumerate(self.alone) if index not in fused)
        return alone + block_instructions([(b.extraction.block, b.choice.config) for b in blocks], self.target)
