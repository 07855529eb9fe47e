"""The orders of operators at hand before blocks are made.

The order of least *unfused* peak is not the one that fuses best: a block takes operators that stand next to each other.
Which order is best shows once blocks are in and everything is placed; so all of them are fused, and the best is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tflite_fuse.memory.from_model import memory_graph
from tflite_fuse.memory.order.by_branch import orders_by_branch
from tflite_fuse.memory.tflm.offline_plan import remove_plan
from tflite_fuse.model.edit import replace_operators
from tflite_fuse.model.schema import Model
from tflite_fuse.passes.reorder import Reorder

_BY_BRANCH = "branch by branch", "branch by branch, others first"


@dataclass(frozen=True)
class OrderedModel:
    """A model with its operators in one of the orders.

    Attributes:
        model: without an offline plan.
        name: how notes call the order.
        notes: what was found about it before anything was fused.
    """

    model: Model
    name: str
    notes: tuple[str, ...] = ()


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
    return (*found, *_by_branch(bare, [each.model for each in found]))


def _by_branch(bare: Model, known: list[Model]) -> Iterator[OrderedModel]:
    operators = [each.main.operators for each in known]
    for order, name in zip(orders_by_branch(memory_graph(bare)), _BY_BRANCH, strict=False):
        moved = tuple(bare.main.operators[index] for index in order)
        if moved not in operators:
            yield OrderedModel(replace_operators(bare, moved), name)
