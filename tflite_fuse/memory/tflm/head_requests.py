"""Buffers that TensorFlow Lite Micro requests of its planner: tensors and scratch buffers with lifetimes.

Time counts allocation scopes: 0 is the start of the first subgraph; each operator and each entry into a called subgraph
is one step. Source: behaviour of tensorflow/lite/micro/micro_allocation_info.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tflite_fuse.errors import ModelError
from tflite_fuse.ir.program import Program
from tflite_fuse.memory.tflm.kernel_scratch import element_bytes, scratch_requests
from tflite_fuse.memory.tflm.kernel_sets import REFERENCE, Kernels
from tflite_fuse.memory.tflm.offline_plan import ALIGNMENT, ONLINE
from tflite_fuse.model.edit import get_metadata
from tflite_fuse.model.file import COMPRESSION_METADATA
from tflite_fuse.model.operators import get_options
from tflite_fuse.model.schema import Model, Operator, SubGraph, Tensor
from tflite_fuse.model.types import BUILTIN_CODES, operator_name
from tflite_fuse.units import round_up

_UNTOUCHED = -1
_MOST_STEPS = 100_000
"""Limit of steps beyond one per operator: nested calls of subgraphs can need exponentially many."""
_DEEPEST = 100
"""Limit of nested subgraphs: devices run them on their stack."""
_CALLED = {
    BUILTIN_CODES["IF"]: ("then_subgraph_index", "else_subgraph_index"),
    BUILTIN_CODES["CALL_ONCE"]: ("init_subgraph_index",),
    BUILTIN_CODES["WHILE"]: ("cond_subgraph_index", "body_subgraph_index"),
}


@dataclass(frozen=True)
class BufferRequest:
    """One buffer in the head of the arena.

    Attributes:
        size: bytes, rounded up to 16.
        first: scope of the first write; -1 for an unused tensor.
        last: scope of the last read; -1 for an unused tensor.
        offset: bytes, fixed by the model's offline plan; -1 if not fixed.
        subgraph: index of its subgraph.
        tensor: index of the tensor in its subgraph; None for a scratch buffer.
        operator: index of the operator of a scratch buffer; None for a tensor.
    """

    size: int
    first: int
    last: int
    offset: int = ONLINE
    subgraph: int = 0
    tensor: int | None = None
    operator: int | None = None


@dataclass(frozen=True)
class Requests:
    """All buffers of a model in the order of their requests: tensors, then scratch buffers.

    Attributes:
        buffers: buffers to place.
        unknown: names of operators whose scratch buffers are unknown; the list is exact if it is empty.
    """

    buffers: tuple[BufferRequest, ...]
    unknown: tuple[str, ...] = ()


def arena_requests(
    program: Program, offsets: Sequence[int] | None = None, *, pointer_bytes: int = 4, kernels: Kernels = REFERENCE
) -> Requests:
    """Return the buffers that the runtime places in the head of the arena.

    Args:
        program: program of a file.
        offsets: offline plan in bytes, one per tensor of all subgraphs; None for no plan.
        pointer_bytes: 4 on microcontrollers, 8 in a 64-bit host build (one kernel keeps pointers in scratch).
        kernels: kernel set of the runtime.

    Raises:
        ModelError: a dynamic shape, or unbounded recursion of subgraphs.
    """
    lifetimes = _Lifetimes(program)
    lifetimes.enter(0)
    scratch, unknown = _scratch(program, lifetimes, pointer_bytes, kernels)
    return Requests((*_tensors(program, offsets or (), lifetimes), *scratch), unknown)


def _tensors(program: Program, offsets: Sequence[int], lifetimes: _Lifetimes) -> Iterator[BufferRequest]:
    fixed, (model, _) = iter(offsets), program.origin
    for number, graph in enumerate(program.subgraphs):
        handles = _handles(model, graph)
        for index, tensor in enumerate(graph.tensors):
            offset = next(fixed, ONLINE)
            if number == 0 and (index in program.absent or index in program.slow):
                continue
            size = _tensor_size(model, tensor)
            kept_elsewhere = (tensor.is_variable and offset == ONLINE) or index in handles
            if size and not kept_elsewhere:
                first, last = lifetimes.of(number, index)
                yield BufferRequest(round_up(size, ALIGNMENT), first, last, offset, number, tensor=index)


def _tensor_size(model: Model, tensor: Tensor) -> int:
    """Return the bytes of a tensor in the arena: 0 for constants."""
    if model.buffers[tensor.buffer].data:
        return 0
    size = element_bytes(tensor.type)
    for dim in tensor.dims:
        if dim < 0:
            raise ModelError(f"tensor {tensor.name} has a dynamic shape {list(tensor.dims)}")
        size *= dim
    return size


def _handles(model: Model, graph: SubGraph) -> frozenset[int]:
    """Return the outputs of VAR_HANDLE, whose kernel gives them memory of its own before the plan is made."""
    return frozenset(
        tensor
        for operator in graph.operators
        if operator_name(model, operator) == "VAR_HANDLE"
        for tensor in (operator.outputs or ())[:1]
    )


def _scratch(
    program: Program, lifetimes: _Lifetimes, pointer_bytes: int, kernels: Kernels
) -> tuple[tuple[BufferRequest, ...], tuple[str, ...]]:
    model, _ = program.origin
    buffers: list[BufferRequest] = []
    unknown = ["the model is compressed"] if get_metadata(model, COMPRESSION_METADATA) is not None else []
    for number, graph in enumerate(program.subgraphs):
        for index, operator in enumerate(graph.operators):
            sizes = scratch_requests(model, graph, operator, pointer_bytes=pointer_bytes, kernels=kernels)
            if sizes is None:
                unknown.append(f"{operator_name(model, operator).removeprefix('CUSTOM:')}_{index}")
                continue
            first, last = lifetimes.of_operator(number, index)
            buffers += [
                BufferRequest(round_up(size, ALIGNMENT), first, last, subgraph=number, operator=index) for size in sizes
            ]
    return tuple(buffers), tuple(unknown)


class _Lifetimes:
    """First and last scope of every tensor and operator, from a walk through the subgraphs in execution order."""

    def __init__(self, program: Program) -> None:
        self._codes, self._graphs = program.origin[0].operator_codes, program.subgraphs
        self._time = 0
        self._most = _MOST_STEPS + sum(len(graph.operators) for graph in self._graphs)
        self._tensors: dict[tuple[int, int], tuple[int, int]] = {}
        self._operators: dict[tuple[int, int], tuple[int, int]] = {}
        self._inside: set[int] = set()

    def of(self, subgraph: int, tensor: int) -> tuple[int, int]:
        return self._tensors.get((subgraph, tensor), (_UNTOUCHED, _UNTOUCHED))

    def of_operator(self, subgraph: int, operator: int) -> tuple[int, int]:
        return self._operators.get((subgraph, operator), (_UNTOUCHED, _UNTOUCHED))

    def enter(self, number: int) -> None:
        if number in self._inside:
            raise ModelError(f"subgraph {number} calls itself")
        if not 0 <= number < len(self._graphs):
            raise ModelError(f"an operator calls subgraph {number}, the model has {len(self._graphs)}")
        if len(self._inside) > _DEEPEST:
            raise ModelError(f"the model's subgraphs call each other more than {_DEEPEST} deep")
        self._inside.add(number)
        graph = self._graphs[number]
        for tensor in graph.inputs:
            self._created(number, tensor)
            self._used(number, tensor)
        for index, operator in enumerate(graph.operators):
            self._step()
            self._run(number, index, operator)
        for tensor in graph.outputs:
            self._created(number, tensor)
            self._used(number, tensor)
        self._inside.remove(number)

    def _run(self, number: int, index: int, operator: Operator) -> None:
        start = self._time
        for tensor in operator.outputs or ():
            self._created(number, tensor)
        for called in self._called(operator):
            self._step()
            self.enter(called)
        for tensor in (*(operator.inputs or ()), *(operator.outputs or ())):
            self._used(number, tensor)
        first = self._operators.get((number, index), (start, start))[0]
        self._operators[number, index] = (first, self._time)

    def _called(self, operator: Operator) -> list[int]:
        # Here, unlike elsewhere, the runtime reads only the newer of the two code fields.
        fields = _CALLED.get(self._codes[operator.opcode_index].builtin_code, ())
        options = get_options(operator) if fields else {}
        called = [options.get(field) for field in fields]
        if None in called:
            raise ModelError("a control flow operator has no options, or those of another operator")
        return [number for number in called if isinstance(number, int)]

    def _step(self) -> None:
        self._time += 1
        if self._time > self._most:
            raise ModelError("the model's subgraphs call each other too often to be planned")

    def _created(self, number: int, tensor: int) -> None:
        if tensor >= 0:
            first, last = self.of(number, tensor)
            self._tensors[number, tensor] = (self._time if first == _UNTOUCHED else first, last)

    def _used(self, number: int, tensor: int) -> None:
        if tensor >= 0:
            self._tensors[number, tensor] = (self.of(number, tensor)[0], self._time)
