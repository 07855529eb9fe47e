"""The tail of the arena divided among operators: what each of them adds, so that a search can weigh them.

The tail is a sum: structs for every tensor and operator, parsed options, what kernels keep. Where pieces are rounded up
to their alignment depends on their order, so the shares round each piece for itself; together they are never less than
the whole and at most a few bytes per operator more.
"""

from __future__ import annotations

from dataclasses import dataclass

from tflite_fuse.memory.tflm.kernel_scratch import scratch_requests
from tflite_fuse.memory.tflm.offline_plan import ALIGNMENT
from tflite_fuse.memory.tflm.struct_sizes import ARM, FUSED_BLOCK_BYTES, Build
from tflite_fuse.memory.tflm.tail import kernel_buffers, predict_tail
from tflite_fuse.model.edit import prune, replace_operators
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.schema import Model, Operator
from tflite_fuse.units import round_up

_CONSTANTS_AND_SCRATCH = 2


@dataclass(frozen=True)
class TailShares:
    """Bytes of the tail, as upper bounds.

    Attributes:
        operators: for each operator of the first subgraph as it is: its structs, options and kernel data, the structs
            of the tensors it writes and of the constants it reads.
        block: of a fused block in place of operators, without its outputs; its constants and scratch included.
        tensor: of each output of a block.
        fixed: all the rest, such as the structs of the model's inputs and outputs.
    """

    operators: tuple[int, ...]
    block: int
    tensor: int
    fixed: int

    @property
    def total(self) -> int:
        """Of the model as it is."""
        return self.fixed + sum(self.operators)


def tail_shares(model: Model, build: Build = ARM) -> TailShares:
    """Divides the tail of a model, with reference kernels.

    Args:
        model: a model as loaded.
        build: struct sizes of the runtime.

    Raises:
        PlanError: the model's offline plan is damaged.
        ModelError: a dynamic shape.
    """
    block = build.node.bytes + _CONSTANTS_AND_SCRATCH * build.tensor.bytes + round_up(FUSED_BLOCK_BYTES, ALIGNMENT)
    operators = tuple(_share(model, operator, build) for operator in model.main.operators)
    return TailShares(operators, block, build.tensor.bytes, _fixed(model, build))


def _share(model: Model, operator: Operator, build: Build) -> int:
    graph, name = model.main, operator_name(model, operator)
    constants = {index for index in operator.inputs or () if index >= 0 and _is_constant(model, index)}
    own = len(constants) + sum(index >= 0 for index in operator.outputs or ())
    total = build.node.bytes + own * build.tensor.bytes
    sizes = build.operators.get(name)
    if sizes is not None and sizes.options is not None:
        total += round_up(sizes.options.bytes, build.pointer)
    total += sum(round_up(size, ALIGNMENT) for _, size in kernel_buffers(model, graph, operator, build))
    handles = scratch_requests(model, graph, operator, pointer_bytes=build.pointer) or ()
    return total + build.pointer * len(handles)


def _is_constant(model: Model, index: int) -> bool:
    return bool(model.buffers[model.main.tensors[index].buffer].data)


def _fixed(model: Model, build: Build) -> int:
    """The tail of the model without operators, its variables, and what rounding can add behind options and handles."""
    bare = predict_tail(prune(replace_operators(model, ())), build)
    written = {index for operator in model.main.operators for index in operator.outputs or ()}
    counted_twice = len({*model.main.outputs} & written)
    variables = sum(tensor.is_variable for tensor in model.main.tensors)
    kept = predict_tail(model, build).variables - bare.variables + variables * build.tensor.bytes
    return bare.total - counted_twice * build.tensor.bytes + kept + 2 * (ALIGNMENT - 1)
