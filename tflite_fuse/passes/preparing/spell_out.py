"""Operators that no block holds, as others that blocks hold: for blocks alone, because outside they would take more."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tflite_fuse.memory.tflm.offline_plan import has_plan, remove_plan
from tflite_fuse.model.edit import replace_operators
from tflite_fuse.model.operators import operator_label
from tflite_fuse.model.schema import Model, Operator
from tflite_fuse.passes.preparing.join_rows import join_rows, joins_rows
from tflite_fuse.passes.preparing.split_groups import groups_of, split_groups


@dataclass(frozen=True)
class Spelled:
    """A model with others in the place of some operators.

    Attributes:
        model: the rewritten one, the very same object where nothing changed.
        made: by index of such an operator in the model it was, the names of what those in its place write.
        notes: a sentence for each.
    """

    model: Model
    made: dict[int, frozenset[str]]
    notes: tuple[str, ...]


def spell_out(model: Model, kept: Collection[int] = ()) -> Spelled:
    """Put what blocks hold in the place of what they do not; an offline memory plan is dropped with them.

    Args:
        model: any valid model.
        kept: indices of operators to leave as they are.
    """
    rewritten = remove_plan(model) if has_plan(model) else model
    operators, made, notes = list[Operator](), dict[int, frozenset[str]](), list[str]()
    for index, operator in enumerate(model.main.operators):
        groups = 0 if index in kept else groups_of(model, operator)
        if groups:
            rewritten, instead = split_groups(rewritten, operator, groups)
            notes.append(f"{operator_label(model, index)} is {groups} convolutions in blocks, one for each group")
        elif index not in kept and joins_rows(model, operator):
            rewritten, instead = join_rows(rewritten, operator)
            notes.append(f"{operator_label(model, index)} is the maximum of its inputs in blocks, padded with -128")
        else:
            operators.append(operator)
            continue
        names = (rewritten.main.tensors[tensor].name for each in instead for tensor in each.outputs or ())
        made[index] = frozenset(name for name in names if name)
        operators += instead
    return Spelled(replace_operators(rewritten, operators) if made else model, made, tuple(notes))
