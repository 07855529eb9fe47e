"""The tail of the arena divided among operators: what each of them adds, so that a search can weigh them.

The tail is a sum: structs for every tensor and operator, parsed options, what kernels keep. Where pieces are rounded up
to their alignment depends on their order, so the shares round each piece for itself; together they are never less than
the whole and at most a few bytes per operator more.
"""

from __future__ import annotations

from collections import Counter

from tflite_fuse.ir.tail_shares import TailShares
from tflite_fuse.memory.tflm.kernel_scratch import scratch_requests
from tflite_fuse.memory.tflm.offline_plan import ALIGNMENT
from tflite_fuse.memory.tflm.struct_sizes import ARM, FUSED_BLOCK_BYTES, Build
from tflite_fuse.memory.tflm.tail import closed, kernel_buffers, predict_tail
from tflite_fuse.model.edit import prune, replace_operators
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.schema import Model, Operator
from tflite_fuse.units import round_up

_CONSTANTS_AND_SCRATCH = 2


def tail_shares(model: Model, build: Build = ARM) -> TailShares:
    """Divides the tail of a model, with reference kernels.

    Args:
        model: a model as loaded.
        build: struct sizes of the runtime.

    Raises:
        PlanError: the model's offline plan is damaged.
        ModelError: a dynamic shape.
    """
    operators = tuple(_share(model, operator, build) for operator in model.main.operators)
    return TailShares(operators, _block(build), build.tensor.bytes, _fixed(model, build))


def _block(build: Build) -> int:
    return build.node.bytes + _CONSTANTS_AND_SCRATCH * build.tensor.bytes + round_up(FUSED_BLOCK_BYTES, ALIGNMENT)


def least_shares(model: Model, rewritten: Model, build: Build = ARM) -> TailShares:
    """The same as lower bounds, whatever blocks are made of a model's operators.

    Constants that several operators read are counted for none of them, options without what rounding adds.

    Args:
        model: the model without blocks.
        rewritten: one made of it. Its own inputs and outputs count in ``fixed``, without their full structs at the end
            of the tail: ``least_tail`` adds those.
        build: struct sizes of the runtime.

    Raises:
        PlanError: an offline plan is damaged.
        ModelError: a dynamic shape.
    """
    readers = Counter(index for operator in model.main.operators for index in {*(operator.inputs or ())})
    operators = tuple(
        _share(model, operator, build)
        - build.tensor.bytes * sum(readers[index] > 1 for index in _constants(model, operator))
        - _rounding(model, operator, build)
        for operator in model.main.operators
    )
    bare = predict_tail(prune(replace_operators(rewritten, ())), build)
    written = {index for operator in rewritten.main.operators for index in operator.outputs or ()}
    counted_twice = len({*rewritten.main.outputs} & written)
    fixed = bare.total - bare.edges - counted_twice * build.tensor.bytes
    opening, by_block = _gap_filled(model, build), round_up(FUSED_BLOCK_BYTES, ALIGNMENT) - FUSED_BLOCK_BYTES
    first = tuple(share + by_block - opening for share in operators[:1])
    return TailShares((*first, *operators[1:]), _block(build), build.tensor.bytes, fixed - by_block)


def least_tail(model: Model, rewritten: Model, taken: int, build: Build = ARM) -> int:
    """Bytes of the tail when the shares of ``least_shares`` come to ``taken``, its end included.

    The buffers of kernels, which start at multiples of 16, are the last pieces before that end, unless scratch handles
    follow. Every operator that keeps one as it is keeps one in a block, too.
    """
    operators, graph = model.main.operators, model.main
    handles = any(scratch_requests(model, graph, operator, pointer_bytes=build.pointer) for operator in operators)
    buffers = any(True for operator in operators for _ in kernel_buffers(model, graph, operator, build))
    return closed(rewritten, round_up(taken, ALIGNMENT) if buffers and not handles else taken, build)


def _gap_filled(model: Model, build: Build) -> int:
    """What the first buffer of all may save: it may lie partly in the gap before the first multiple of 16."""
    gaps = [
        [round_up(size, ALIGNMENT) - size for _, size in kernel_buffers(model, model.main, operator, build)]
        for operator in model.main.operators
    ]
    return gaps[0][0] if gaps and gaps[0] else max((gap for each in gaps for gap in each), default=0)


def _share(model: Model, operator: Operator, build: Build) -> int:
    graph, name = model.main, operator_name(model, operator)
    own = len(_constants(model, operator)) + sum(index >= 0 for index in operator.outputs or ())
    total = build.node.bytes + own * build.tensor.bytes
    sizes = build.operators.get(name)
    if sizes is not None and sizes.options is not None:
        total += round_up(sizes.options.bytes, build.pointer)
    total += sum(round_up(size, ALIGNMENT) for _, size in kernel_buffers(model, graph, operator, build))
    handles = scratch_requests(model, graph, operator, pointer_bytes=build.pointer) or ()
    return total + build.pointer * len(handles)


def _constants(model: Model, operator: Operator) -> set[int]:
    """The constant tensors an operator reads."""
    tensors, buffers = model.main.tensors, model.buffers
    return {index for index in operator.inputs or () if index >= 0 and buffers[tensors[index].buffer].data}


def _rounding(model: Model, operator: Operator, build: Build) -> int:
    """What rounding adds to an operator's options in its share."""
    sizes = build.operators.get(operator_name(model, operator))
    if sizes is None or sizes.options is None:
        return 0
    return round_up(sizes.options.bytes, build.pointer) - sizes.options.bytes


def _fixed(model: Model, build: Build) -> int:
    """The tail of the model without operators, its variables, and what rounding can add behind options and handles."""
    bare = predict_tail(prune(replace_operators(model, ())), build)
    written = {index for operator in model.main.operators for index in operator.outputs or ()}
    counted_twice = len({*model.main.outputs} & written)
    variables = sum(tensor.is_variable for tensor in model.main.tensors)
    kept = predict_tail(model, build).variables - bare.variables + variables * build.tensor.bytes
    return bare.total - counted_twice * build.tensor.bytes + kept + 2 * (ALIGNMENT - 1)
