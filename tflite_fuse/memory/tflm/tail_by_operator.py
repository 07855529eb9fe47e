"""Shares of operators in the tail of the arena, as costs for the search.

The tail is a sum of structs for tensors and operators, parsed options and kernels' data. The rounding of pieces to
their alignment depends on their order, so each share is rounded on its own. The sum of the shares is at least the tail
and exceeds it by at most a few bytes per operator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from tflite_fuse.ir.program import Program
from tflite_fuse.ir.tail_shares import TailShares
from tflite_fuse.memory.tflm.kernel_scratch import scratch_requests
from tflite_fuse.memory.tflm.offline_plan import ALIGNMENT
from tflite_fuse.memory.tflm.struct_sizes import ARM, FUSED_BLOCK_BYTES, Build
from tflite_fuse.memory.tflm.tail import closed, kernel_buffers, predict_tail
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.schema import Model, Operator, SubGraph
from tflite_fuse.units import round_up

_CONSTANTS_AND_SCRATCH = 2


def tail_shares(program: Program, build: Build = ARM, moved: Collection[int] = ()) -> TailShares:
    """Return the bytes of a program's tail divided among its operators, with reference kernels.

    Args:
        program: program of a file.
        build: struct sizes of the runtime.
        moved: inputs that blocks read from outside the arena; the model has no tensors for them.

    Raises:
        ModelError: a dynamic shape.
    """
    file, graph = program.origin
    operators = tuple(_share(file, graph, operator, build) for operator in graph.operators)
    return TailShares(operators, _block(build), build.tensor.bytes, _fixed(program, build, moved))


def _block(build: Build) -> int:
    return build.node.bytes + _CONSTANTS_AND_SCRATCH * build.tensor.bytes + round_up(FUSED_BLOCK_BYTES, ALIGNMENT)


def least_shares(program: Program, rewritten: Program, build: Build = ARM) -> TailShares:
    """Return lower bounds on the shares in bytes that hold for all choices of blocks.

    Constants with several readers count for no operator; options count without rounding.

    Args:
        program: program without blocks.
        rewritten: program with blocks. Its inputs and outputs count in ``fixed``, without their full structs at the end
            of the tail, which ``least_tail`` adds.
        build: struct sizes of the runtime.

    Raises:
        ModelError: a dynamic shape.
    """
    file, graph = program.origin
    readers = Counter(index for operator in graph.operators for index in {*(operator.inputs or ())})
    operators = tuple(
        _share(file, graph, operator, build)
        - build.tensor.bytes * sum(readers[index] > 1 for index in _constants(file, graph, operator))
        - _rounding(file, operator, build)
        for operator in graph.operators
    )
    bare, after = predict_tail(_bare(rewritten), build), rewritten.origin[1]
    written = {index for operator in after.operators for index in operator.outputs or ()}
    counted_twice = len({*after.outputs} & written)
    fixed = bare.total - bare.edges - counted_twice * build.tensor.bytes
    opening, by_block = _gap_filled(program, build), round_up(FUSED_BLOCK_BYTES, ALIGNMENT) - FUSED_BLOCK_BYTES
    first = tuple(share + by_block - opening for share in operators[:1])
    return TailShares((*first, *operators[1:]), _block(build), build.tensor.bytes, fixed - by_block)


def least_tail(program: Program, rewritten: Program, used_bytes: int, build: Build = ARM) -> int:
    """Return the bytes of the tail, its end included, when the shares of ``least_shares`` sum to ``used_bytes``.

    The buffers of kernels, which start at multiples of 16, are the last pieces before that end, unless scratch handles
    follow. An operator with such a buffer also has one inside a block.
    """
    file, graph = program.origin
    operators = graph.operators
    handles = any(scratch_requests(file, graph, operator, pointer_bytes=build.pointer) for operator in operators)
    buffers = any(True for operator in operators for _ in kernel_buffers(file, graph, operator, build))
    return closed(rewritten, round_up(used_bytes, ALIGNMENT) if buffers and not handles else used_bytes, build)


def _gap_filled(program: Program, build: Build) -> int:
    """Return the bytes that the first buffer may save by using part of the gap before the first multiple of 16."""
    file, graph = program.origin
    gaps = [
        [round_up(size, ALIGNMENT) - size for _, size in kernel_buffers(file, graph, operator, build)]
        for operator in graph.operators
    ]
    return gaps[0][0] if gaps and gaps[0] else max((gap for each in gaps for gap in each), default=0)


def _share(file: Model, graph: SubGraph, operator: Operator, build: Build) -> int:
    name, own = operator_name(file, operator), len(_constants(file, graph, operator))
    own += sum(index >= 0 for index in operator.outputs or ())
    total = build.node.bytes + own * build.tensor.bytes
    sizes = build.operators.get(name)
    if sizes is not None and sizes.options is not None:
        total += round_up(sizes.options.bytes, build.pointer)
    total += sum(round_up(size, ALIGNMENT) for _, size in kernel_buffers(file, graph, operator, build))
    handles = scratch_requests(file, graph, operator, pointer_bytes=build.pointer) or ()
    return total + build.pointer * len(handles)


def _constants(file: Model, graph: SubGraph, operator: Operator) -> set[int]:
    """Return the constant tensors that an operator reads."""
    tensors, buffers = graph.tensors, file.buffers
    return {index for index in operator.inputs or () if index >= 0 and buffers[tensors[index].buffer].data}


def _rounding(file: Model, operator: Operator, build: Build) -> int:
    """Return the bytes that rounding adds to an operator's options in its share."""
    sizes = build.operators.get(operator_name(file, operator))
    if sizes is None or sizes.options is None:
        return 0
    return round_up(sizes.options.bytes, build.pointer) - sizes.options.bytes


def _bare(program: Program, moved: Collection[int] = ()) -> Program:
    """Return the program without its steps and without some of its inputs."""
    graph = program.origin[1]
    inputs = tuple(tensor for tensor in graph.inputs if tensor not in moved)
    return program.with_steps((), replace(graph, operators=(), inputs=inputs))


def _fixed(program: Program, build: Build, moved: Collection[int]) -> int:
    """Return the tail without steps, plus variables and the largest rounding behind options and handles, in bytes."""
    bare, (_, graph) = predict_tail(_bare(program, moved), build), program.origin
    written = {index for operator in graph.operators for index in operator.outputs or ()}
    counted_twice = len({*graph.outputs} & written)
    variables = sum(tensor.is_variable for tensor in graph.tensors)
    kept = predict_tail(program, build).variables - bare.variables + variables * build.tensor.bytes
    return bare.total - counted_twice * build.tensor.bytes + kept + 2 * (ALIGNMENT - 1)
