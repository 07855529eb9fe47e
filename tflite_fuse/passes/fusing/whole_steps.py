"""Blocks that go on together: what each keeps of a step becomes history when all that may fail in the step has not.

TensorFlow Lite Micro calls each operator by itself, and tells none how the others fared. So a block with a state
commits its step at the beginning of the next one, if the number of the *last* block has changed since: the last that
keeps a state or reads from outside the arena, because only such reading fails in one run and not in another. That
block's variable is one more input of the others; where it keeps no state it is four bytes in which the block counts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from tflite_fuse.fusion.block.kinds.moving.state import MARK_BYTES, state_offsets
from tflite_fuse.fusion.encoding.in_model import operands_of
from tflite_fuse.fusion.lower.outside import OutsideExtraction
from tflite_fuse.memory.from_model import FUSED_OPERATOR
from tflite_fuse.model.edit import prune, replace_main
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.schema import Model

Chosen = tuple[Sequence[int], OutsideExtraction]
"""A block to be: the operators it replaces, and what they become."""


def kept_bytes(model: Model, blocks: Sequence[Chosen]) -> list[int]:
    """Bytes of the variable of each block, 0 for none, as long as their order is not settled. Several blocks with one
    know which step they have run for."""
    earlier = _variables(model)
    keeping = {i for operators, found in blocks if found.extraction.block.keeps_state for i in operators} | set(earlier)
    counts = [bool(keeping) and _may_be_last(model, each, keeping) for each in blocks]
    several = len(earlier) + sum(counts) + sum(found.extraction.block.keeps_state for _, found in blocks) > 1
    sizes = [state_offsets(found.extraction.block.tensors)[1] for _, found in blocks]
    return [
        MARK_BYTES if counted else size + (MARK_BYTES if several and size else 0)
        for counted, size in zip(counts, sizes, strict=True)
    ]


def following(model: Model, drafted: Collection[int]) -> Model:
    """The model whose new blocks, but the last, see the variable of the last one; those that count in vain have none.

    Args:
        model: its operators in their order.
        drafted: which of them are new blocks.
    """
    variables = _variables(model)
    last = max(variables, default=-1)
    idle = {index for index in drafted if index in variables and index != last and _counts(model, variables[index])}
    operators, tensors = list(model.main.operators), list(model.main.tensors)
    for index in set(variables).intersection(drafted):
        *inputs, state, constants = operators[index].inputs or ()
        if index in idle:
            operators[index] = replace(operators[index], inputs=(*inputs, constants))
        elif index != last:
            operators[index] = replace(operators[index], inputs=(*inputs, *variables[last], state, constants))
        elif idle and len(variables) - len(idle) == 1:
            tensors[state] = replace(tensors[state], shape=(tensors[state].dims[0] - MARK_BYTES,))
    model = replace_main(model, replace(model.main, operators=tuple(operators), tensors=tuple(tensors)))
    return prune(model) if idle else model


def _may_be_last(model: Model, block: Chosen, keeping: Collection[int]) -> bool:
    """Whether a block without a state reads from outside, and no operator with a state depends on it: in some order all
    of these stand before it."""
    replaced, found = block
    if found.extraction.block.keeps_state or not found.outside:
        return False
    operators, reached = model.main.operators, set(found.extraction.outputs)
    for index in range(max(replaced) + 1, len(operators)):
        if reached.intersection(operators[index].inputs or ()):
            if index in keeping:
                return False
            reached.update(operators[index].outputs or ())
    return True


def _variables(model: Model) -> dict[int, tuple[int, ...]]:
    """The variables of blocks by operator."""
    operators = model.main.operators
    fused = [i for i, operator in enumerate(operators) if operator_name(model, operator) == FUSED_OPERATOR]
    return {i: found.state for i in fused if (found := operands_of(model, operators[i])).state}


def _counts(model: Model, variable: Sequence[int]) -> bool:
    """Whether that is all a variable is for: rings and memories have something behind their number."""
    return all(model.main.tensors[tensor].dims == (MARK_BYTES,) for tensor in variable)
