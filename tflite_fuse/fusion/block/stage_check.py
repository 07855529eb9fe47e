"""The rules of one stage: those that hold for every kind, and what the entries of kinds say theirs with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.fusion.block.stages import BlockTensor, Stage


@dataclass(frozen=True)
class StageCheck:
    """A stage under examination.

    Attributes:
        stage: the stage.
        sources: the tensors it reads.
        output: the tensor it writes.
    """

    stage: Stage
    sources: Sequence[BlockTensor]
    output: BlockTensor

    def require(self, holds: bool, problem: str) -> None:
        """Raises BlockError with ``problem`` as what the stage does wrong, unless ``holds``."""
        if not holds:
            raise BlockError(f"The {self.stage.kind.name} stage that computes {self.output.name} {problem}.")

    def same_shape(self, source: BlockTensor, *, channels: bool = True) -> None:
        """The source has the output's rows and columns, and its channels."""
        same = (source.height, source.width) == (self.output.height, self.output.width)
        same = same and (not channels or source.channels == self.output.channels)
        self.require(same, f"reads {source.name}, which has another shape")

    def same_channels(self) -> None:
        self.require(self.sources[0].channels == self.output.channels, "changes the number of channels")

    def one_pixel(self) -> None:
        self.require(self.output.pixels == 1, "writes more than one pixel")

    def requantization(self) -> None:
        """Multipliers and shifts, where the stage has them, are some the kernels can apply."""
        table = self.stage.requantization
        if table is not None:
            self.require(bool(np.all(table.multiplier > -(2**31))), "has a multiplier of -2^31")
            self.require(bool(np.all((table.shift >= -31) & (table.shift <= 30))), "shifts by more than -31...30")
