"""A block and how it runs: scheduled once, encoded once, carried along by whoever needs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tflite_fuse.fusion.block.stages import Block, BlockConfig
from tflite_fuse.fusion.encoding.encode import EncodedBlock, encode
from tflite_fuse.fusion.encoding.spent_inputs import scratch_distances
from tflite_fuse.fusion.schedule.schedule import Schedule, schedule


@dataclass(frozen=True, eq=False)
class BlockPlan:
    """Schedule and bytes are worked out when they are first asked for, as a block that is only tried needs no bytes.

    Attributes:
        block: what is computed.
        config: its tiles and chunk.
        outside: for each external tensor, and each one a SOURCE stage writes, which of the model's it is.
    """

    block: Block
    config: BlockConfig
    outside: Mapping[int, int] = field(default_factory=dict)

    @cached_property
    def schedule(self) -> Schedule:
        """Raises BlockError: the block cannot run like this."""
        return schedule(self.block, self.config)

    @cached_property
    def scratch_distances(self) -> Mapping[int, int]:
        """How far scratch must lie below each input it may lie over."""
        return scratch_distances(self.block, self.schedule)

    @cached_property
    def encoded(self) -> EncodedBlock:
        """Raises BlockError: the block is inconsistent, or too large for the format."""
        return encode(self.block, self.schedule, self.outside)
