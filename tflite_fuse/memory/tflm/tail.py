"""The tail of the arena: persistent memory of TensorFlow Lite Micro, predicted for a 32-bit target.

The runtime allocates from the end of the arena downwards, in a fixed order, each piece rounded down to its alignment.
This module repeats that order with the sizes of ``struct_sizes``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from math import prod

from tflite_fuse.ir.program import Program
from tflite_fuse.memory.tflm.head_requests import Requests, arena_requests
from tflite_fuse.memory.tflm.kernel_scratch import element_bytes, kept_requests
from tflite_fuse.memory.tflm.offline_plan import ALIGNMENT, ONLINE
from tflite_fuse.memory.tflm.struct_sizes import ARM, Build
from tflite_fuse.model.operators import get_options, operator_name
from tflite_fuse.model.schema import Model, Operator, SubGraph, Tensor
from tflite_fuse.model.types import TensorType
from tflite_fuse.units import round_up

_INT = 4
_LUT_ENTRIES = 513
_UNKNOWN_CUSTOM = 64
_BYTES_PER_PLANNED_BUFFER = 40
_SCRATCH_REQUESTS_KEPT_FREE = 12

_CHANNEL_AXIS = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "TRANSPOSE_CONV": 0}
_SHAPE_IN_TAIL = frozenset(
    {"BATCH_MATMUL", "DEPTH_TO_SPACE", "EMBEDDING_LOOKUP", "GATHER", "GATHER_ND", "L2_POOL_2D", "SPACE_TO_DEPTH"}
)
_INT8_ONLY = frozenset({"ADD_N", "CUMSUM", "LOG_SOFTMAX"})


@dataclass(frozen=True)
class Tail:
    """Bytes of the tail by purpose, alignment gaps included.

    Attributes:
        runtime: the allocator's own objects and the list of subgraphs.
        tensors: one struct for each tensor of all subgraphs, constants included.
        nodes: one struct for each operator.
        options: parsed options of built-in operators.
        operators: persistent data of kernels, without ``tables`` and ``custom``.
        tables: multipliers and shifts of convolutions and fully connected layers, per channel.
        custom: persistent data of custom operators.
        scratch_handles: one pointer for each scratch buffer.
        variables: persistent tensors and resource variables.
        edges: structs of the model's inputs and outputs.
        unknown: names of custom operators with unknown needs; each counts 64 bytes.
    """

    runtime: int
    tensors: int
    nodes: int
    options: int
    operators: int
    tables: int
    custom: int
    scratch_handles: int
    variables: int
    edges: int
    unknown: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Return the bytes of the whole tail."""
        return sum(getattr(self, entry.name) for entry in fields(self) if entry.name != "unknown")


def predict_tail(
    program: Program, build: Build = ARM, requests: Requests | None = None, offsets: Sequence[int] | None = None
) -> Tail:
    """Return the bytes of the tail on a 32-bit target.

    For resource variables, the program is assumed to provide exactly as many slots as the model names.

    Args:
        program: program of a file.
        build: struct sizes of the runtime.
        requests: buffers that the allocator requests, if already computed.
        offsets: offline plan in bytes; variables that it places are not in the tail.

    Raises:
        ModelError: a dynamic shape.
    """
    requests = requests or arena_requests(program, offsets, pointer_bytes=build.pointer, kernels=build.kernels)
    cursor, (file, _) = _Cursor(), program.origin
    used = {entry.name: 0 for entry in fields(Tail) if entry.name != "unknown"}
    for purpose, size, align in _allocations(program, build, requests, offsets):
        used[purpose] += cursor.take(size, align)
    unknown = tuple(
        sorted(
            {
                operator_name(file, operator).removeprefix("CUSTOM:")
                for graph in program.subgraphs
                for operator in graph.operators
                if operator_name(file, operator).startswith("CUSTOM:")
            }
            - build.custom.keys()
        )
    )
    return Tail(**used, unknown=unknown)


def closed(program: Program, used_bytes: int, build: Build = ARM) -> int:
    """Return the bytes of the tail if ``used_bytes`` precede the structs of the program's inputs and outputs."""
    cursor = _Cursor(-used_bytes)
    return used_bytes + sum(cursor.take(size, align) for _, size, align in _edges(program.origin[1], build))


def loading_bytes(
    program: Program, build: Build = ARM, requests: Requests | None = None, tail: Tail | None = None
) -> int:
    """Return the peak of arena bytes while the model loads; small models need more then than head + tail.

    Two peaks count. The first is while the plan is made, in the unused head, beside a tail that lacks only the structs
    of the model's inputs and outputs: on Arm 24 bytes for each tensor and scratch buffer, and 40 bytes for each planned
    buffer. The second is while a kernel prepares: full structs of its operator's tensors. The second figure is an upper
    bound and matters only in models of a few operators.

    Args:
        program: program of a file.
        build: struct sizes of the runtime.
        requests: buffers that the allocator requests, if already computed.
        tail: the program's tail, if already computed.

    Raises:
        ModelError: a dynamic shape.
    """
    requests = requests or arena_requests(program, pointer_bytes=build.pointer, kernels=build.kernels)
    scratch = sum(buffer.operator is not None for buffer in requests.buffers)
    planning = planning_bytes(build, len(program.subgraphs), sum(_tensors(program)), scratch, len(requests.buffers))
    preparing = _request_structs(build, scratch) + max(
        (_temporary_tensors(graph, operator, build) for graph in program.subgraphs for operator in graph.operators),
        default=0,
    )
    tail = tail or predict_tail(program, build, requests)
    return round_up(max(planning, preparing), ALIGNMENT) + round_up(tail.total - tail.edges, ALIGNMENT)


def planning_bytes(build: Build, subgraphs: int, tensors: int, scratch: int, buffers: int) -> int:
    """Return the bytes of the head that the runtime uses while it makes its plan, a multiple of 16.

    Args:
        build: struct sizes of the runtime.
        subgraphs, tensors: numbers in the model.
        scratch: number of scratch buffers that kernels request.
        buffers: number of planned buffers, scratch buffers included.
    """
    notes = build.pointer * subgraphs + build.allocation_info * (tensors + scratch)
    planned = round_up(_BYTES_PER_PLANNED_BUFFER * buffers, ALIGNMENT)
    return round_up(_request_structs(build, scratch) + notes, ALIGNMENT) + planned


def _request_structs(build: Build, scratch: int) -> int:
    return build.scratch_request * (scratch + _SCRATCH_REQUESTS_KEPT_FREE)


def _temporary_tensors(graph: SubGraph, operator: Operator, build: Build) -> int:
    """Return the bytes of the full structs of an operator's tensors, twice for kernels that request them twice."""
    touched = (*(operator.outputs or ()), *(operator.inputs or ()))
    return 2 * sum(sum(_full_struct(graph.tensors[index], build)) for index in touched if index >= 0)


def _full_struct(tensor: Tensor, build: Build) -> tuple[int, ...]:
    """Return the bytes of a TfLiteTensor, its quantization and its zero points."""
    quantization = tensor.quantization
    if quantization is None or not quantization.scale or not quantization.zero_point:
        return (build.edge_tensor.bytes,)
    return build.edge_tensor.bytes, build.quantization.bytes, _INT * (1 + len(quantization.scale))


class _Cursor:
    """A position in the arena that moves down from its end, which is aligned to 16 bytes."""

    def __init__(self, position: int = 0) -> None:
        self._position = position

    def take(self, size: int, align: int) -> int:
        before = self._position
        self._position = (before - size) // align * align
        return before - self._position


def _tensors(program: Program) -> tuple[int, ...]:
    """Return the number of tensors of each subgraph."""
    return tuple(len(each.tensors) - len(program.absent) * (each is program.graph) for each in program.subgraphs)


def _allocations(
    program: Program, build: Build, requests: Requests, offsets: Sequence[int] | None
) -> Iterator[tuple[str, int, int]]:
    """Yield (purpose, bytes, alignment) of every piece, in the runtime's order."""
    for struct in build.allocator:
        yield "runtime", struct.bytes, struct.align
    file, main = program.origin
    handles = resource_variables(file, program.subgraphs)
    if handles:
        yield "variables", build.resources[0], ALIGNMENT
        yield "variables", build.resources[1] * len(handles), ALIGNMENT
    yield "runtime", build.option_allocator.bytes, build.option_allocator.align
    yield "runtime", build.subgraph.bytes * len(program.subgraphs), build.subgraph.align
    for count in _tensors(program):
        yield "tensors", build.tensor.bytes * count, build.tensor.align
    for graph in program.subgraphs:
        yield "nodes", build.node.bytes * len(graph.operators), build.node.align
    yield from _options(program, build)
    for graph in program.subgraphs:
        for operator in graph.operators:
            for purpose, size in kernel_buffers(file, graph, operator, build):
                yield purpose, size, ALIGNMENT
    for size in handles.values():
        yield "variables", size, ALIGNMENT
    scratch = sum(buffer.operator is not None for buffer in requests.buffers)
    if scratch:
        yield "scratch_handles", build.pointer * scratch, build.pointer
    yield from _variables(program, offsets)
    yield from _edges(main, build)


def _options(program: Program, build: Build) -> Iterator[tuple[str, int, int]]:
    file, _ = program.origin
    for graph in program.subgraphs:
        for operator in graph.operators:
            sizes = build.operators.get(operator_name(file, operator))
            if sizes is not None and sizes.options is not None:
                yield "options", sizes.options.bytes, sizes.options.align


def kernel_buffers(model: Model, graph: SubGraph, operator: Operator, build: Build) -> Iterator[tuple[str, int]]:
    """Yield (purpose, bytes) of every buffer that a kernel requests; each is rounded up to 16 bytes in the tail."""
    name = operator_name(model, operator)
    if name.startswith("CUSTOM:"):
        yield "custom", build.custom.get(name.removeprefix("CUSTOM:"), _UNKNOWN_CUSTOM)
        return
    data = graph.read_by(operator, 0)
    sizes, (more, buffers) = build.operators.get(name), kept_requests(build.kernels, name, graph, operator)
    if sizes is not None and sizes.data and (name not in _INT8_ONLY or _has_type(data, TensorType.INT8)):
        yield "operators", sizes.data + more
    yield from (("operators", size) for size in buffers)
    for size in _tables(name, graph, operator):
        yield "tables", size
    if name in _SHAPE_IN_TAIL:
        yield "operators", _shape_bytes(graph.written_by(operator))
    if name == "SOFTMAX" and _has_type(data, TensorType.INT16):
        yield from (("operators", 2 * _LUT_ENTRIES),) * 2
    if name == "BATCH_MATMUL":
        yield from _matrix_product(graph, operator, build)


def _tables(name: str, graph: SubGraph, operator: Operator) -> tuple[int, ...]:
    """Return the bytes of the multipliers and of the shifts: int32 for each output channel."""
    weights = graph.read_by(operator, 1)
    channels = 0
    if weights is not None and name in _CHANNEL_AXIS and len(weights.dims) == 4:
        channels = weights.dims[_CHANNEL_AXIS[name]]
    elif weights is not None and name == "FULLY_CONNECTED" and weights.type != TensorType.FLOAT32:
        scales = len((weights.quantization and weights.quantization.scale) or ())
        channels = scales if scales > 1 else 0
    return (_INT * channels, _INT * channels) if channels else ()


def _matrix_product(graph: SubGraph, operator: Operator, build: Build) -> Iterator[tuple[str, int]]:
    left, right = graph.read_by(operator, 0), graph.read_by(operator, 1)
    if _has_type(left, TensorType.INT8, TensorType.INT16):
        yield "operators", 28
    options = get_options(operator)
    transposed = ((left, bool(options.get("adj_x"))), (right, not options.get("adj_y")))
    for tensor, is_transposed in transposed:
        if tensor is not None and is_transposed:
            yield "operators", build.tensor.bytes
            yield "operators", _shape_bytes(tensor)
            yield "operators", prod(tensor.dims) * element_bytes(tensor.type)


def _variables(program: Program, offsets: Sequence[int] | None) -> Iterator[tuple[str, int, int]]:
    for graph in program.subgraphs:
        for index, tensor in enumerate(graph.tensors):
            if graph is program.graph and index in program.absent:
                continue
            # The runtime finds the offset by the index within the subgraph.
            if tensor.is_variable and (offsets is None or offsets[index] == ONLINE):
                yield "variables", prod(tensor.dims) * element_bytes(tensor.type), ALIGNMENT


def resource_variables(file: Model, subgraphs: Sequence[SubGraph]) -> dict[tuple[object, ...], int]:
    """Return the bytes of each resource variable, by its name; 0 if it is never assigned."""
    sizes: dict[tuple[object, ...], int] = {}
    for graph in subgraphs:
        names: dict[int, tuple[object, ...]] = {}
        for operator in graph.operators:
            name = operator_name(file, operator)
            if name == "VAR_HANDLE" and operator.outputs:
                names[operator.outputs[0]] = tuple(get_options(operator).values())
                sizes.setdefault(names[operator.outputs[0]], 0)
            value = graph.read_by(operator, 1)
            if name == "ASSIGN_VARIABLE" and value is not None and operator.inputs and operator.inputs[0] in names:
                size = prod(value.dims) * element_bytes(value.type)
                sizes[names[operator.inputs[0]]] = max(sizes[names[operator.inputs[0]]], size)
    return sizes


def _edges(graph: SubGraph, build: Build) -> Iterator[tuple[str, int, int]]:
    for edge in (graph.inputs, graph.outputs):
        yield "edges", build.pointer * len(edge), ALIGNMENT
        for index in edge:
            aligns = (build.edge_tensor.align, build.quantization.align, _INT)
            for size, align in zip(_full_struct(graph.tensors[index], build), aligns, strict=False):
                yield "edges", size, align


def _has_type(tensor: Tensor | None, *types: TensorType) -> bool:
    return tensor is not None and tensor.type in types


def _shape_bytes(tensor: Tensor | None) -> int:
    return _INT * (1 + len(tensor.dims)) if tensor is not None else 0
