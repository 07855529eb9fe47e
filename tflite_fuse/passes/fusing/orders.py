"""The orders of operators in which blocks are searched.

The order of least *unfused* peak need not be the best one for fusion, because a block consists of neighbouring
operators. The search therefore follows several orders at once and may change between them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tflite_fuse.ir.program import Program, program_of
from tflite_fuse.memory.order.by_branch import other_orders
from tflite_fuse.memory.tflm.offline_plan import remove_plan
from tflite_fuse.model.edit import replace_operators
from tflite_fuse.model.schema import Model
from tflite_fuse.notes import Note
from tflite_fuse.ops.lowering.lower import Lowerings, lower_model
from tflite_fuse.passes.reorder import Reorder
from tflite_fuse.search.joint_orders import Order
from tflite_fuse.tuning import TUNING, Tuning


@dataclass(frozen=True)
class Orders:
    """A model in several orders of operators, without an offline plan.

    Attributes:
        first: the model in the order of least peak, or in its own.
        other_orders: all other orders, as numbers of operators in the first one.
        notes: notes about the first order.
        lowered: operators of the first as stages, if already computed.
    """

    first: Model
    other_orders: tuple[Order, ...] = ()
    notes: tuple[Note, ...] = ()
    lowered: Lowerings | None = None


def candidate_orders(model: Model, reorder: Reorder | None, tuning: Tuning = TUNING) -> Orders:
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
    program, lowered = program_of(bare), lower_model(bare)
    least, own = reorder.ordered(program), tuple(range(len(program.steps)))
    most = max(2, tuning.orders // max(len(own), 1) ** 2)
    candidates = (least.order.order, own, *other_orders(program, most))
    parts = frozenset(each.output.index for each in lowered if not isinstance(each, str) and each.inner)
    first, *rest = dict.fromkeys(_with_parts_together(program, order, parts) for order in candidates)
    if first == own:
        return Orders(bare, tuple(rest), least.notes, lowered)
    moved = replace_operators(bare, [bare.main.operators[index] for index in first])
    numbers = {index: number for number, index in enumerate(first)}
    return Orders(moved, tuple(tuple(numbers[index] for index in order) for order in rest), least.notes)


def _with_parts_together(program: Program, order: Order, parts: Collection[int]) -> Order:
    """Return the order with steps that are parts of tables right before their readers, as blocks need neighbours.

    Args:
        program: a program.
        order: numbers of its steps.
        parts: tensors that such steps write, which have no other reader.
    """
    waiting: dict[int, int] = {}
    together: list[int] = []

    def emit(index: int) -> None:
        chain = [index]
        while chain:
            inputs = program.steps[chain[-1]].inputs
            part = next((waiting.pop(tensor) for tensor in inputs if tensor in waiting), None)
            chain += [] if part is None else [part]
            if part is None:
                together.append(chain.pop())

    for index in order:
        (written, *_) = program.steps[index].outputs or (-1,)
        if written in parts:
            waiting[written] = index
        else:
            emit(index)
    return tuple(together)
