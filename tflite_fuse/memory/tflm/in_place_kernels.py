"""Kernels of each kernel set that may write their output over an input.

An operator is listed only if, with output and input at the same address, every path of its kernel reads each input byte
before it writes the byte at the same place:

- ``ADD`` of equal shapes: one or a few elements are read, added and written before the next are read. Broadcasting
  kernels read elements again and are excluded.
- ``RESHAPE``: the kernel copies, or does nothing if both addresses are equal.
- ``SOFTMAX``: a row is read twice (maximum, sum); then each element is read a last time and written.
- ``AVERAGE_POOL_2D`` to a single pixel of a single image: a channel's average overwrites the channel's first pixel
  after all its pixels have been read. Optimised kernels first sum a whole row of channels.

Only int8 is listed, because other types take other paths. Not safe despite their similarity: ``MEAN`` (clears its
output before it reads), ``FULLY_CONNECTED`` and convolutions (each output needs all inputs; 1x1 convolutions of
optimised sets read several pixels ahead and write several at once).

Evidence: the ``reference`` kernels were read and run; ``cmsis-nn`` and ``esp-nn`` (plain C and ESP32-S3) were read.
ESP-NN's pooling in assembly is excluded. Kernel sets may change between releases, so in-place plans are optional.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

from tflite_fuse.errors import UsageError
from tflite_fuse.ir.program import Program
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.schema import Operator, SubGraph
from tflite_fuse.model.types import TensorType

_SAFE: dict[str, frozenset[str]] = {
    "reference": frozenset({"ADD", "RESHAPE", "SOFTMAX", "AVERAGE_POOL_2D"}),
    "cmsis-nn": frozenset({"ADD", "RESHAPE", "SOFTMAX", "AVERAGE_POOL_2D"}),
    "esp-nn": frozenset({"ADD", "RESHAPE", "SOFTMAX"}),
}

KERNEL_SETS = tuple(_SAFE)
"""Names of the kernel sets with a list of in-place operators."""


def with_in_place(program: Program, kernels: str) -> Program:
    """Return the program with the in-place pairs of every operator filled in.

    Args:
        program: program of a file.
        kernels: "reference", "cmsis-nn" or "esp-nn".

    Raises:
        UsageError: an unknown kernel set.
    """
    possible = in_place_pairs(program, kernels)
    ops = []
    for op, pairs in zip(program.steps, possible, strict=True):
        ops.append(replace(op, in_place=tuple(p for p in pairs if p[0] in op.inputs and p[1] in op.outputs)))
    return replace(program, steps=tuple(ops))


def in_place_pairs(program: Program, kernels: str) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Return for each operator of a program the pairs (input, output) that may start at the same byte.

    The pairs ignore liveness: the planner checks whether an input is still needed.

    Raises:
        UsageError: an unknown kernel set.
    """
    if kernels not in _SAFE:
        raise UsageError(f"there is no kernel set {kernels!r}; the sets are {', '.join(_SAFE)}")
    file, graph = program.origin
    return tuple(_pairs(operator_name(file, each), graph, each, _SAFE[kernels]) for each in graph.operators)


def _pairs(name: str, graph: SubGraph, operator: Operator, safe: frozenset[str]) -> tuple[tuple[int, int], ...]:
    inputs, outputs = operator.inputs or (), operator.outputs or ()
    if name not in safe or len(outputs) != 1 or not inputs or not _all_int8(graph, (*inputs[: _READ[name]], *outputs)):
        return ()
    if not _CONDITIONS[name](graph, inputs, outputs[0]):
        return ()
    return tuple(dict.fromkeys((tensor, outputs[0]) for tensor in inputs[: _READ[name]] if tensor != outputs[0]))


def _all_int8(graph: SubGraph, tensors: tuple[int, ...]) -> bool:
    return all(tensor >= 0 and graph.tensors[tensor].type == TensorType.INT8 for tensor in tensors)


def _equal_shapes(graph: SubGraph, inputs: tuple[int, ...], output: int) -> bool:
    return len({graph.tensors[tensor].dims for tensor in (*inputs, output)}) == 1


def _equal_sizes(graph: SubGraph, inputs: tuple[int, ...], output: int) -> bool:
    return prod(graph.tensors[inputs[0]].dims) == prod(graph.tensors[output].dims)


def _single_pixel(graph: SubGraph, inputs: tuple[int, ...], output: int) -> bool:
    source, target = graph.tensors[inputs[0]].dims, graph.tensors[output].dims
    return len(source) == 4 and source[0] == 1 and target == (1, 1, 1, source[3])


_Condition = Callable[[SubGraph, tuple[int, ...], int], bool]

_CONDITIONS: dict[str, _Condition] = {
    "ADD": _equal_shapes,
    "RESHAPE": _equal_sizes,
    "SOFTMAX": _equal_shapes,
    "AVERAGE_POOL_2D": _single_pixel,
}

_READ = {"ADD": 2, "RESHAPE": 1, "SOFTMAX": 1, "AVERAGE_POOL_2D": 1}
"""Number of leading inputs that are data."""
