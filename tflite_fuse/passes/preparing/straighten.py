"""Chains of operators that only move values, each output as one GATHER of channels from where the chain begins.

    TRANSPOSE, RESHAPE, TRANSPOSE, RESHAPE, GATHER, TRANSPOSE   =   GATHER of every other channel

So a channel shuffle spelt channels-first, with tensors of five dimensions or by splitting, leaves no trace but what it
does. Each output of a SPLIT becomes an operator of its own that a fused block can hold without the others. Bytes are
the same; what stood between is never made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.fusion.block.operators.movement import MOVES, Indices, channels_of, moves_in
from tflite_fuse.fusion.block.operators.operands import Activation, read_activation
from tflite_fuse.memory.tflm.offline_plan import has_plan, remove_plan
from tflite_fuse.model.edit import add_buffer, add_operator_code, add_tensor, prune, replace_operators
from tflite_fuse.model.operators import make_options, operator_label, operator_name
from tflite_fuse.model.schema import Model, Operator, Tensor
from tflite_fuse.model.types import TensorType
from tflite_fuse.passes.base import PassResult


@dataclass(frozen=True)
class _Gather:
    """A tensor as channels of one further up.

    Attributes:
        source: the tensor they are taken from.
        channels: of the source, one for each channel of the tensor.
        steps: operators between the two.
    """

    source: Activation
    channels: tuple[int, ...]
    steps: int


@dataclass(frozen=True)
class Straighten:
    """Replace chains of moving operators, and operators that split channels, by GATHERs of channels."""

    name: ClassVar[str] = "straighten"

    def run(self, model: Model) -> PassResult:
        """Rewrite a model. An offline memory plan is dropped where something changed: tensor indices move."""
        ways = _Ways(model)
        operators = enumerate(model.main.operators)
        chosen = {index: gathers for index, operator in operators if (gathers := _gathers(ways, operator))}
        if not chosen:
            return PassResult(model, False)
        labels = [operator_label(model, index) for index in chosen]
        rewritten = _rewritten(remove_plan(model) if has_plan(model) else model, chosen)
        removed = len(model.main.operators) + sum(map(len, chosen.values())) - len(chosen)
        removed -= len(rewritten.main.operators)
        note = f"{_listed(labels)} read channels from where they come"
        return PassResult(rewritten, True, (note + (f": {removed} operators before them removed" if removed else ""),))


def _listed(labels: list[str]) -> str:
    return labels[0] if len(labels) == 1 else f"{labels[0]} and {len(labels) - 1} more"


@dataclass
class _Ways:
    """For each tensor that operators move: those further up, nearest first, and where in them its values lie."""

    model: Model
    found: dict[int, list[tuple[Activation, Indices]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for source, parts in moves_in(self.model):
            for tensor, indices in parts:
                further = [(start, way.ravel()[indices]) for start, way in self.found.get(source.index, ())]
                self.found[tensor] = [(source, indices), *further]

    def gather(self, tensor: int) -> _Gather | None:
        """The tensor as channels of the one furthest up that it holds channels of, None if there is none.

        The runtime's GATHER makes all dimensions but the last those of its input, whatever the file says of its output.
        """
        ways = self.found.get(tensor, [])
        for steps, (source, indices) in sorted(enumerate(ways, 1), key=lambda way: -way[0]):
            try:
                output = read_activation(self.model, tensor)
                channels = channels_of(indices, source.shape, output.shape)
            except BlockError:
                continue
            if channels is None:
                continue
            if _keeps_all(source, channels) or output.dims == (*source.dims[:-1], len(channels)):
                return _Gather(source, channels, steps)
        return None


def _gathers(ways: _Ways, operator: Operator) -> dict[int, _Gather]:
    """What each output that is read holds, where this is shorter than the way it takes; else nothing."""
    outputs, graph = operator.outputs or (), ways.model.main
    if not ways.found.keys() & outputs:
        return {}
    read = {*graph.outputs, *(tensor for other in graph.operators for tensor in other.inputs or ())}
    found = {tensor: ways.gather(tensor) for tensor in outputs if tensor in read}
    known = {tensor: gather for tensor, gather in found.items() if gather is not None}
    whole = len(known) == len(found) and all(len(graph.tensors[tensor].dims) > 1 for tensor in known)
    return known if whole and (len(outputs) > 1 or any(gather.steps > 1 for gather in known.values())) else {}


def _rewritten(model: Model, chosen: Mapping[int, Mapping[int, _Gather]]) -> Model:
    """The model with the chosen operators replaced, without those whose results nobody reads any more."""
    operators: list[Operator] = []
    for index, operator in enumerate(model.main.operators):
        if index not in chosen:
            operators.append(operator)
            continue
        for tensor, gather in chosen[index].items():
            model, made = _operator(model, tensor, gather)
            operators.append(made)
    return prune(replace_operators(model, _read(model, operators)))


def _keeps_all(source: Activation, channels: tuple[int, ...]) -> bool:
    return channels == tuple(range(source.shape[2]))


def _operator(model: Model, tensor: int, gather: _Gather) -> tuple[Model, Operator]:
    """GATHER along the last dimension, or RESHAPE where all channels keep their places."""
    if _keeps_all(gather.source, gather.channels):
        dims = model.main.tensors[tensor].dims
        model, constant = _constant(model, f"{gather.source.name}/shape", dims)
        model, code = add_operator_code(model, builtin="RESHAPE")
        options = make_options("ReshapeOptions", new_shape=dims)
    else:
        model, constant = _constant(model, f"{gather.source.name}/channels", gather.channels)
        model, code = add_operator_code(model, builtin="GATHER")
        options = make_options("GatherOptions", axis=len(gather.source.dims) - 1)
    return model, Operator(code, (gather.source.index, constant), (tensor,), options)


def _constant(model: Model, name: str, values: tuple[int, ...]) -> tuple[Model, int]:
    model, buffer = add_buffer(model, np.array(values, "<i4").tobytes())
    return add_tensor(model, Tensor((len(values),), TensorType.INT32, buffer, name))


def _read(model: Model, operators: list[Operator]) -> list[Operator]:
    """The operators without those that move what nobody reads."""
    wanted = set(model.main.outputs)

    def kept() -> Iterator[Operator]:
        for operator in reversed(operators):
            if operator_name(model, operator) not in MOVES or wanted.intersection(operator.outputs or ()):
                wanted.update(operator.inputs or ())
                yield operator

    return list(reversed(list(kept())))
