"""Removal of TRANSPOSEs around operators that compute alike in any order of the axes.

    TRANSPOSE'(RELU(TRANSPOSE(x)))  =  RELU(x)    if TRANSPOSE' restores the order of the axes

Converters of channels-first models put a TRANSPOSE before and behind each convolution and leave the operators between
two convolutions channels-first: activations, sums, pads, joins, and RESHAPEs that keep batch and channels, as around
the layers of one dimension. The tensors of such a group are connected by these operators alone, and only TRANSPOSEs
lead into the group and out of it. Its operators then run with channels last, and the TRANSPOSEs are removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

import numpy as np

from tflite_fuse.memory.tflm.offline_plan import remove_plan
from tflite_fuse.model.edit import Editor, prune
from tflite_fuse.model.operators import operator_label, operator_name
from tflite_fuse.model.schema import Model, Operator
from tflite_fuse.notes import Note, note
from tflite_fuse.ops.lowering.operands import is_constant
from tflite_fuse.passes.base import PassResult
from tflite_fuse.passes.preparing.sink_transpose import Axes, layout_of
from tflite_fuse.passes.preparing.turned import computed_alike, is_whole, turned_operator

_MOST_ROUNDS = 16
"""Most groups inside one another: files are hostile, and each round reads the whole model."""


@dataclass(frozen=True)
class ChannelsLast:
    """Remove every group of TRANSPOSEs between which the order of the axes does not matter."""

    name: ClassVar[str] = "channels-last"

    def run(self, model: Model) -> PassResult:
        """Rewrite a model. If it changes, an offline memory plan is dropped, because tensor indices change."""
        rewritten, notes = model, list[Note]()
        for _ in range(_MOST_ROUNDS):
            groups = _apart(_groups(rewritten))
            if not groups:
                break
            for group in groups:
                labels = [operator_label(rewritten, index) for index in sorted(group.transposes)]
                notes.append(note("removed", "transposes around", *labels, inside=len(group.orders)))
            rewritten = _turned(rewritten, groups)
        if rewritten is model:
            return PassResult(model, False)
        return PassResult(prune(remove_plan(rewritten)), True, tuple(notes))


@dataclass(frozen=True)
class _Group:
    """Operators on transposed tensors.

    Attributes:
        entries, exits: the TRANSPOSEs into it and out of it.
        orders: for each other operator the permutation that makes its output of the tensor with channels last.
    """

    entries: frozenset[int]
    exits: frozenset[int]
    orders: Mapping[int, Axes]

    @property
    def transposes(self) -> frozenset[int]:
        return self.entries | self.exits


def _apart(groups: Iterable[_Group]) -> list[_Group]:
    """Return groups without a TRANSPOSE in common: one that leads out of a group may lead into another."""
    chosen, used = list[_Group](), set[int]()
    for group in groups:
        if not used & group.transposes:
            chosen.append(group)
            used |= group.transposes
    return chosen


def _groups(model: Model) -> Iterator[_Group]:
    """Yield the groups of operators around which TRANSPOSEs can be removed, each found from one that leads into it."""
    transposes = [i for i, operator in enumerate(model.main.operators) if operator_name(model, operator) == "TRANSPOSE"]
    layouts = {index: layout for index in transposes if (layout := layout_of(model, index)) is not None}
    readers, writers = model.main.readers, model.main.writers
    seen = set[int]()
    for start, first in layouts.items():
        if start in seen or first == tuple(sorted(first)):
            continue
        orders = {model.main.operators[start].output: first}
        entries, exits, inside = set[int](), set[int](), set[int]()
        waiting, sound = list(orders), True
        while waiting and sound:
            tensor = waiting.pop()
            sound = tensor not in model.main.outputs and tensor in writers
            for index in dict.fromkeys((writers.get(tensor, -1), *readers.get(tensor, ()))) if sound else ():
                leads_in, order = index == writers[tensor], orders[tensor]
                if layouts.get(index) == (order if leads_in else tuple(np.argsort(order).tolist())):
                    (entries if leads_in else exits).add(index)
                    sound &= leads_in or model.main.operators[index].output not in model.main.outputs
                    continue
                results = _orders(model, model.main.operators[index], order)
                sound &= bool(results) and all(orders.get(each, other) == other for each, other in results.items())
                inside.add(index)
                waiting += results.keys() - orders.keys()
                orders |= results
        seen |= entries
        if sound and inside and exits and not entries & exits:
            by_operator = {index: orders[model.main.operators[index].output] for index in inside}
            yield _Group(frozenset(entries), frozenset(exits), by_operator)


def _orders(model: Model, operator: Operator, order: Axes) -> dict[int, Axes]:
    """Return the orders of an operator's inputs and output if one has ``order``; nothing if the operator depends on it.

    Constants are left out. A RESHAPE of all axes behind batch and channels is the same with channels last.
    """
    if operator_name(model, operator) != "RESHAPE":
        computed = computed_alike(model, operator, len(order))
        return dict.fromkeys((*computed, operator.output), order) if computed else {}
    ends = (operator.inputs or (-1,))[0], operator.output
    before, after = (model.main.tensors[end].dims for end in ends)
    keeps = min(len(before), len(after)) > 2 and before[:2] == after[:2] and prod(before) == prod(after)
    whole = all(is_whole(model, end) and not is_constant(model, end) for end in ends)
    if not (keeps and whole and order == _channels_first(len(order))):
        return {}
    return dict(zip(ends, map(_channels_first, (len(before), len(after))), strict=True))


def _channels_first(rank: int) -> Axes:
    """Return the permutation that moves channels from the last axis to axis 1."""
    return 0, rank - 1, *range(1, rank - 1)


def _turned(model: Model, groups: Sequence[_Group]) -> Model:
    """Return the model with the groups' operators on tensors in the order before the TRANSPOSEs, without these."""
    editor, operators = Editor(model), list(model.main.operators)
    orders = {index: order for group in groups for index, order in group.orders.items()}
    removed = frozenset[int]().union(*(group.transposes for group in groups))
    replacements = {operators[index].output: (operators[index].inputs or ())[0] for index in removed}
    for index, operator in enumerate(operators):
        if index in orders:
            operator = turned_operator(editor, operator, orders[index])
        inputs = list(operator.inputs or ())
        for place in range(len(inputs)):
            while inputs[place] in replacements:  # a group may follow another
                inputs[place] = replacements[inputs[place]]
        operators[index] = replace(operator, inputs=tuple(inputs))
    for index, order in orders.items():
        output = operators[index].output
        dims = tuple(editor.dims(output)[axis] for axis in np.argsort(order))
        editor.tensors[output] = replace(editor.tensors[output], shape=dims, shape_signature=None)
    editor.operators += (each for index, each in enumerate(operators) if index not in removed)
    return editor.finish()
