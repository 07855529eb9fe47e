"""Estimates of the work and flash of nodes, for the search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, cached_property
from math import prod

from tflite_fuse.cost.instructions import Target, expected_instructions, instruction_costs, stage_counts
from tflite_fuse.ir.block import BlockTensor, Stage
from tflite_fuse.ops.table import accumulates
from tflite_fuse.ops.weighted.sums import PartOf
from tflite_fuse.split.cut.network import Network
from tflite_fuse.split.cut.regions import Box
from tflite_fuse.split.fragments.blocks import CHUNK
from tflite_fuse.split.fragments.structs import LAYOUTS, FragmentBlock, FragmentStep

TASK_BYTES = sum(LAYOUTS[each].size for each in (FragmentStep, FragmentBlock)) + 80
"""Approximate flash of a block beside its stages: its step, its entry, and the header of its options."""

_TABLE_BYTES = 12
"""Bytes per output channel of a stage with weights: bias, multiplier, shift."""

_BLOCK_BYTES = 64
"""Approximate bytes of a stage and its tensor in a block's options."""


class Estimates:
    """Estimates for the nodes of one network."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.whole_instructions = cache(self._whole_instructions)

    def instructions(self, node: int, box: Box, target: Target) -> float:
        """Return the instructions of a box of a node's output."""
        value = self.network.nodes[node].outputs[0]
        return self.whole_instructions(node, target) * box.volume / max(1, prod(self.network.shape(value)))

    def _whole_instructions(self, node: int, target: Target) -> float:
        """Return the instructions of a whole node; 0 for an operator without stage, whose work is unknown."""
        stage = self.network.nodes[node].stage
        if stage is None:
            return 0.0
        tensors = _as_read(stage, self.network.values)
        output = tensors[stage.output]
        runs: dict[int, int] = {1: 1}
        if not accumulates(stage, tensors):
            whole, rest = divmod(output.width, CHUNK)
            runs = {length: output.height * count for length, count in ((CHUNK, whole), (rest, 1)) if length * count}
        return expected_instructions(stage_counts(stage, tensors, runs, target.kernels), instruction_costs(target))

    @cached_property
    def weight_bytes(self) -> tuple[int, ...]:
        """Return the bytes of weights, tables and options of each node."""
        sizes = []
        for node in self.network.nodes:
            weights = 0 if node.stage is None or node.stage.weights is None else int(node.stage.weights.size)
            table = _TABLE_BYTES * self.network.shape(node.outputs[0])[2] if weights else 0
            sizes.append(weights + table + _BLOCK_BYTES)
        return tuple(sizes)

    def flash(self, node: int, box: Box) -> int:
        """Return the flash bytes for a box of a node's output: the weights of its channels."""
        channels = self.network.shape(self.network.nodes[node].outputs[0])[2]
        return -(-self.weight_bytes[node] * box.shape[2] // max(1, channels))


def _as_read(stage: Stage, tensors: Sequence[BlockTensor]) -> Sequence[BlockTensor]:
    """Return the tensors of a stage's block: one that sums over some channels reads only these."""
    if not isinstance(stage.parameters, PartOf):
        return tensors
    low, high = stage.parameters.channels
    source = stage.inputs[0]
    return [*tensors[:source], replace(tensors[source], channels=high - low), *tensors[source + 1 :]]
