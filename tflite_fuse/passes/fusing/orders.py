"""The orders of operators in which blocks are searched.

The order of least *unfused* peak need not be the best one for fusion, because a block consists of neighbouring
operators. The search therefore follows several orders at once and may change between them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tflite_fuse.ir.program import program_of
from tflite_fuse.memory.order.by_branch import other_orders
from tflite_fuse.memory.tflm.offline_plan import remove_plan
from tflite_fuse.model.edit import replace_operators
from tflite_fuse.model.schema import Model, Operator
from tflite_fuse.notes import Note
from tflite_fuse.ops.lowering.lower import Lowerings, lower_model
from tflite_fuse.passes.reorder import Reorder
from tflite_fuse.tuning import TUNING, Tuning


@dataclass(frozen=True)
class Orders:
    """A model in several orders of operators, without an offline plan.

    Attributes:
        first: the model in the order of least peak, or in its own.
        others: the model in all other orders.
        notes: notes about the first order.
        lowered: operators of the first as stages, if already computed.
    """

    first: Model
    others: tuple[Model, ...] = ()
    notes: tuple[Note, ...] = ()
    lowered: Lowerings | None = None

    def numbers(self, other: Model) -> tuple[int, ...]:
        """Return for each operator of another order its number in the first one."""
        left: dict[Operator, list[int]] = {}
        for index, operator in enumerate(self.first.main.operators):
            left.setdefault(operator, []).append(index)
        return tuple(left[operator].pop(0) for operator in other.main.operators)


def orders_at_hand(model: Model, reorder: Reorder | None, tuning: Tuning = TUNING) -> Orders:
    """Return a model in the order of least peak, in its own and branch by branch, or in every order if it is small.

    Args:
        model: any model.
        reorder: pass that finds the order of least peak; None for the model's own order only.
        tuning: limit of the number of orders.

    Raises:
        ModelError: an arena tensor has a dynamic shape or elements without a size.
    """
    bare = remove_plan(model)
    if reorder is None:
        return Orders(bare)
    least = reorder.run(bare)
    operators, lowered = bare.main.operators, lower_model(bare)
    most = max(2, tuning.orders // max(len(operators), 1) ** 2)
    moved = [replace_operators(bare, [operators[index] for index in o]) for o in other_orders(program_of(bare), most)]
    models = [_with_parts_together(each, _parts(lowered)) for each in (least.model, bare, *moved)]
    first, *others = {each.main.operators: each for each in models}.values()
    return Orders(first, tuple(others), least.notes, lowered if first.main.operators == operators else None)


def _parts(lowered: Lowerings) -> frozenset[int]:
    """Return the tensors inside tables."""
    return frozenset(each.output.index for each in lowered if not isinstance(each, str) and each.inner)


def _with_parts_together(model: Model, parts: Collection[int]) -> Model:
    """Return the model with operators that are parts of tables right before their readers, as blocks need neighbours.

    Args:
        model: a model in any order.
        parts: tensors that such operators write, which have no other reader.
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
