"""The orders of operators that are tried before blocks are made.

The order of least *unfused* peak is not the one that fuses best: a block takes operators that stand next to each other.
Which order is best shows once blocks are in and everything is placed; so all of them are fused, and the best is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from tflite_fuse.ir.program import program_of
from tflite_fuse.memory.budget import Budget
from tflite_fuse.memory.order.by_branch import orders_by_branch
from tflite_fuse.memory.tflm.offline_plan import remove_plan
from tflite_fuse.model.edit import replace_operators
from tflite_fuse.model.schema import Model, Operator
from tflite_fuse.notes import Note
from tflite_fuse.ops.lowering.lower import Lowerings, lower_model
from tflite_fuse.passes.reorder import Reorder
from tflite_fuse.tuning import TUNING, Tuning

_BY_BRANCH = "branch by branch", "branch by branch, others first"


@dataclass(frozen=True)
class OrderedModel:
    """A model with its operators in one of the orders.

    Attributes:
        model: without an offline plan.
        name: how notes call the order.
        notes: what was found about it before anything was fused.
        lowered: its operators as stages, where that is known.
    """

    model: Model
    name: str
    notes: tuple[Note, ...] = ()
    lowered: Lowerings | None = None


def orders_at_hand(model: Model, reorder: Reorder | None) -> tuple[OrderedModel, ...]:
    """A model in its own order, in that of least peak, and branch by branch; each order once.

    Args:
        model: as it is.
        reorder: what finds the order of least peak; None leaves the model's own order alone.

    Raises:
        ModelError: an arena tensor has a dynamic shape or elements without a size.
    """
    bare = remove_plan(model)
    if reorder is None:
        return (OrderedModel(bare, "as it is"),)
    least = reorder.run(bare)
    found = [OrderedModel(least.model, "of least peak", least.notes)]
    if least.changed:
        found.append(OrderedModel(bare, "in the file"))
    found += _by_branch(bare, [each.model for each in found])
    lowered = lower_model(bare)
    parts = _parts(lowered)
    together = [(each, _with_parts_together(each.model, parts)) for each in found]
    return tuple(replace(each, model=model, lowered=lowered if model is bare else None) for each, model in together)


def quick_orders(model: Model, tuning: Tuning = TUNING) -> tuple[Model, ...]:
    """A model in its own order, and in one of less peak where a moment's search finds one; without an offline plan.

    Raises: as ``orders_at_hand``.
    """
    bare = remove_plan(model)
    least = Reorder(Budget(tuning.quick_order), tuning=tuning).run(bare)
    parts = _parts(lower_model(bare))
    return tuple(_with_parts_together(each, parts) for each in (bare, least.model)[: 1 + least.changed])


def _parts(lowered: Lowerings) -> frozenset[int]:
    """The tensors inside what becomes a table."""
    return frozenset(each.output.index for each in lowered if not isinstance(each, str) and each.inner)


def _with_parts_together(model: Model, parts: Collection[int]) -> Model:
    """Operators that are but parts of a table, right in front of who reads them: a block takes neighbours alone.

    Args:
        model: in any order.
        parts: the tensors such operators write, which have no other reader.
    """
    waiting: dict[int, Operator] = {}
    order: list[Operator] = []

    def emit(operator: Operator) -> None:
        chain = [operator]
        while chain:
            part = next((waiting.pop(tensor) for tensor in chain[-1].inputs or () if tensor in waiting), None)
            chain += [] if part is None else [part]
            if part is None:
                order.append(chain.pop())

    for operator in model.main.operators:
        (written, *_) = operator.outputs or (-1,)
        if written in parts:
            waiting[written] = operator
        else:
            emit(operator)
    return model if tuple(order) == model.main.operators else replace_operators(model, order)


def _by_branch(bare: Model, known: list[Model]) -> Iterator[OrderedModel]:
    operators = [each.main.operators for each in known]
    for order, name in zip(orders_by_branch(program_of(bare)), _BY_BRANCH, strict=False):
        moved = tuple(bare.main.operators[index] for index in order)
        if moved not in operators:
            yield OrderedModel(replace_operators(bare, moved), name)
