"""Lower bound on the arena over all choices of blocks, as the claim of the fuse pass."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from tflite_fuse.claim import Claim
from tflite_fuse.emit.outside import copies_of
from tflite_fuse.ir.program import Program, program_of
from tflite_fuse.memory.tflm.offline_plan import ALIGNMENT
from tflite_fuse.memory.tflm.runtimes import runtime_named
from tflite_fuse.memory.tflm.struct_sizes import Build
from tflite_fuse.memory.tflm.tail_by_operator import least_shares, least_tail
from tflite_fuse.model.edit import replace_operators
from tflite_fuse.model.outside import InputMode
from tflite_fuse.model.schema import Model
from tflite_fuse.ops.lowering.in_pieces import whole_and_in_pieces
from tflite_fuse.ops.lowering.lower import lower_model
from tflite_fuse.passes.fusing.candidate import Candidate
from tflite_fuse.passes.options import FuseOptions
from tflite_fuse.passes.preparing.spell_out import spell_out
from tflite_fuse.search.bound import BoundRules, least_arena
from tflite_fuse.search.from_model import graph_from_model
from tflite_fuse.units import round_up

_ARENA = "arena ({runtime}) over all fused blocks of all schemes, at any amount of recomputation, in "


def fusion_claim(chosen: Candidate, options: FuseOptions) -> Claim:
    """Return the claim about a candidate.

    Args:
        chosen: the candidate.
        options: options of the rewrite.
    """
    site, runtime = chosen.site, runtime_named(options.runtime)
    model = site.maker.model
    # Rows of a copy are those that a block without it would keep of the input.
    streamed = InputMode(options.input_mode).streams and not copies_of(model)
    rules = BoundRules(frozenset(site.maker.moved), streamed, options.shares, options.in_place is not None)
    order = _possible(model, _order(len(model.main.operators), chosen))
    model = replace_operators(model, [model.main.operators[index] for index in order])
    spelled = spell_out(model)
    forms = (model, spelled.model) if spelled.replaced else (model,)
    bound = round_up(min(_least_arena(form, chosen, rules, runtime.build) for form in forms), ALIGNMENT)
    orders = "the only possible order of operators" if _only_order(program_of(model)) else "this order of operators"
    return Claim(chosen.arena <= bound, bound, _ARENA.format(runtime=runtime) + orders)


def _least_arena(model: Model, chosen: Candidate, rules: BoundRules, build: Build) -> int:
    """Return a lower bound in bytes on the arena of a model in its order, over all choices of blocks."""
    graphs = [
        graph_from_model(model, each) for each in whole_and_in_pieces(model, lower_model(model), chosen.site.maker.mode)
    ]
    program = program_of(model)
    tail = least_shares(program, chosen.program, build)
    least = min(least_arena(replace(graph, tail=tail), rules) for graph in graphs)
    return least_tail(program, chosen.program, least, build)


def _order(count: int, chosen: Candidate) -> list[int]:
    """Return the operators of the model without blocks in the order in which the candidate runs them."""
    blocks = {block.place: block.choice.operators for block in chosen.blocks}
    inside = {index for operators in blocks.values() for index in operators}
    order = chosen.point.order or range(count)
    steps = [blocks.get(index, (index,)) for index in order if index in blocks or index not in inside]
    ordered = chosen.ordered
    if ordered is not None and ordered.changed:
        steps = [steps[index] for index in ordered.order.order]
    return [index for step in steps for index in step]


def _possible(model: Model, order: list[int]) -> list[int]:
    """Return the order with operators moved behind the writers of their inputs.

    Only a RESHAPE inside a block needs this: the block runs where its pixels are computed and contains the shape, which
    the RESHAPE by itself would read from a later operator.
    """
    operators, writers = model.main.operators, model.main.writers
    waiting, possible = list(order), dict[int, None]()

    def is_ready(index: int) -> bool:
        before = (writers.get(tensor, index) for tensor in operators[index].inputs or ())
        return all(each == index or each in possible for each in before)

    while waiting:
        ready = next((place for place, index in enumerate(waiting) if is_ready(index)), None)
        assert ready is not None, "operators of a file have an order"
        possible[waiting.pop(ready)] = None
    return list(possible)


def _only_order(program: Program) -> bool:
    """Return whether every operator reads an output of the previous one."""
    return all(set(before.outputs) & set(after.inputs) for before, after in pairwise(program.steps))
