"""Layers cut by input channels: each becomes parts whose int32 sums are added.

    FULLY_CONNECTED, 4096 to 10   becomes   CONV_SUMS of channels 0 … 2047, CONV_SUMS of 2048 … 4095, ADD_SUMS

The parts' values have four bytes for each sum, so code that moves, places or checks bytes treats them like other
values. Bias, zero point and rounding are applied once, in the last addition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from tflite_fuse.errors import PlanError
from tflite_fuse.ir.block import BlockTensor, Stage, StageKind
from tflite_fuse.ops.weighted.sums import OF_SUMS, SUM_BYTES, PartOf, folded_bias
from tflite_fuse.split.cut.network import Network, Node, node_of
from tflite_fuse.split.cut.plan import Phase, Plan, Summed, Task, Transfer
from tflite_fuse.split.cut.regions import Range

_SUMMED = (StageKind.CONV, StageKind.FULLY_CONNECTED)


def can_be_summed(node: Node) -> bool:
    """Return whether a node's input channels can be summed in parts."""
    return node.stage is not None and node.stage.kind in _SUMMED


@dataclass(frozen=True)
class Extended:
    """A network with layers cut by input channels, and the numbers of its nodes and values.

    Attributes:
        network: the extended one. Values of the base network keep their numbers; those of sums follow.
        nodes: for each node of the base network, the nodes it became: its parts, then the additions.
        values: for each cut node, its parts' values, then those of all additions but the last.
    """

    network: Network
    nodes: tuple[tuple[int, ...], ...]
    values: Mapping[int, tuple[int, ...]]


def extended(network: Network, sums: Sequence[Summed]) -> Extended:
    """Return the network with these layers cut.

    Raises:
        PlanError: a cut does not divide a layer's input channels into several parts.
    """
    by_node = {each.node: each.parts for each in sums}
    if len(by_node) != len(sums) or list(by_node) != sorted(by_node):
        raise PlanError("a layer is cut twice by its input channels, or layers are not in order")
    values, nodes = list(network.values), list[Node]()
    places, own = list[tuple[int, ...]](), dict[int, tuple[int, ...]]()
    for index, node in enumerate(network.nodes):
        replacement: Iterable[Node] = (node,)
        if index in by_node:
            _check(network, node, by_node[index])
            first = len(values)
            replacement = tuple(_nodes(network, node, by_node[index], values))
            own[index] = tuple(range(first, len(values)))
        places.append(tuple(range(len(nodes), len(nodes) + len(tuple(replacement)))))
        nodes += replacement
    if not set(by_node) <= set(range(len(network.nodes))):
        raise PlanError("it cuts a step that the model does not have")
    tensors = (*network.tensors, *(-1 for _ in range(len(values) - len(network.values))))
    return Extended(replace(network, values=tuple(values), tensors=tensors, nodes=tuple(nodes)), tuple(places), own)


def _check(network: Network, node: Node, parts: Sequence[Range]) -> None:
    bounds = [0, *(high for _, high in parts)]
    if not can_be_summed(node) or len(parts) < 2 or bounds[-1] != network.shape(node.inputs[0])[2]:
        raise PlanError(f"{node.name} cannot be cut into parts of its input channels like this")
    if any(low != before or low >= high for before, (low, high) in zip(bounds, parts, strict=False)):
        raise PlanError(f"the parts of the input channels of {node.name} overlap or leave some out")


def _nodes(network: Network, node: Node, parts: Sequence[Range], values: list[BlockTensor]) -> Iterator[Node]:
    """Yield the parts, then the additions in order; append their values."""
    stage, output = _as_convolution(network, node), network.values[node.outputs[0]]
    source = network.values[node.inputs[0]]
    assert stage.weights is not None and node.stage is not None

    def sums(what: str) -> int:
        name = f"{output.name}, {what}"
        values.append(BlockTensor(name, output.height, output.width, SUM_BYTES * output.channels, 0))
        return len(values) - 1

    part_sums = [sums(f"sums over channels {low} to {high - 1}") for low, high in parts]
    for (low, high), value in zip(parts, part_sums, strict=True):
        weights = np.ascontiguousarray(stage.weights[..., low:high])
        of = PartOf((low, high), node.stage.kind is StageKind.FULLY_CONNECTED)
        part = replace(stage, output=value, weights=weights, parameters=of)
        yield node_of(f"{node.name}, channels {low} to {high - 1}", part)
    bias = folded_bias(node.stage, source).astype(np.uint64).astype(np.uint32).view(np.int32)
    clamp = node.stage.activation_min, node.stage.activation_max
    added = [part_sums[0], *(sums(f"{count} parts") for count in range(2, len(parts))), node.outputs[0]]
    for (before, after), part_value in zip(pairwise(added), part_sums[1:], strict=True):
        addition = Stage(StageKind.ADD_SUMS, (before, part_value), after, node.operator)
        if after == node.outputs[0]:
            table, (low, high) = node.stage.requantization, clamp
            addition = replace(addition, requantization=table, bias=bias, activation_min=low, activation_max=high)
        yield node_of(f"{node.name}, sum", addition)


def _as_convolution(network: Network, node: Node) -> Stage:
    """Return the node's stage with weights [Cout, kh, kw, Cin], as CONV_SUMS has them, without its table."""
    stage = node.stage
    assert stage is not None and stage.weights is not None
    convolution = replace(
        stage, kind=StageKind.CONV_SUMS, bias=None, requantization=None, activation_min=-128, activation_max=127
    )
    if stage.kind is StageKind.CONV:
        return convolution
    height, width, channels = network.shape(node.inputs[0])
    weights = stage.weights.reshape(-1, height, width, channels)
    return replace(convolution, weights=weights, kernel_size=(height, width))


def has_sums(network: Network, tasks: Iterable[Task]) -> bool:
    """Return whether some of the tasks compute layers that are cut by their input channels."""
    stages = (network.nodes[step.node].stage for task in tasks for step in task.steps)
    return any(stage is not None and stage.kind in OF_SUMS for stage in stages)


# ---- Plans in the numbers of another network ----


def renumbered(phases: Iterable[Phase], before: Extended, after: Extended) -> tuple[Phase, ...]:
    """Return phases of one extension of a network in the numbers of an extension that cuts these layers and more."""
    nodes = {old: new for pair in zip(before.nodes, after.nodes, strict=True) for old, new in zip(*pair, strict=False)}
    values = {
        old: new for node, olds in before.values.items() for old, new in zip(olds, after.values[node], strict=True)
    }

    def transfer(each: Transfer) -> Transfer:
        return replace(each, value=values.get(each.value, each.value))

    return tuple(
        replace(
            phase,
            transfers=tuple(map(transfer, phase.transfers)),
            returned=tuple(map(transfer, phase.returned)),
            tasks=tuple(
                replace(
                    task,
                    steps=tuple(replace(step, node=nodes[step.node]) for step in task.steps),
                    owned=tuple((values.get(value, value), region) for value, region in task.owned),
                )
                for task in phase.tasks
            ),
        )
        for phase in phases
    )


def network_of_plan(network: Network, plan: Plan) -> Network:
    """Return the network of a plan's numbers. Raises PlanError if it cuts layers that cannot be cut."""
    return extended(network, plan.sums).network if plan.sums else network
