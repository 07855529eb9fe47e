"""Graphs for the tests of placement: drawn by hypothesis, or read from the files beside the project."""

from __future__ import annotations

from hypothesis import strategies as st

from tflite_fuse.ir.program import Overlap, Program, Step


@st.composite
def programs(draw: st.DrawFn, most_ops: int = 8, most_bytes: int = 200) -> Program:
    """Graphs with several inputs and outputs, tensors read twice, and results nobody reads."""
    inputs = draw(st.integers(1, 2))
    sizes = [draw(st.integers(1, most_bytes)) for _ in range(inputs)]
    ops = []
    for number in range(draw(st.integers(1, most_ops))):
        read = draw(st.lists(st.integers(max(0, len(sizes) - 4), len(sizes) - 1), min_size=1, max_size=3))
        written = draw(st.integers(1, 2 if draw(st.booleans()) else 1))
        outputs = tuple(range(len(sizes), len(sizes) + written))
        sizes += [draw(st.integers(1, most_bytes)) for _ in outputs]
        ops.append(Step(f"op{number}", tuple(read), outputs))
    returned = draw(st.sets(st.integers(0, len(sizes) - 1), min_size=1, max_size=2))
    return Program(tuple(sizes), tuple(ops), tuple(range(inputs)), tuple(sorted(returned)))


@st.composite
def sharing_graphs(draw: st.DrawFn, most_ops: int = 8, most_bytes: int = 200) -> tuple[Program, tuple[Overlap, ...]]:
    """Graphs whose operators may write over their inputs, in place or diagonally."""
    graph = draw(programs(most_ops, most_bytes))
    ops, overlaps = [], []
    for op in graph.steps:
        in_place = []
        for tensor in dict.fromkeys(op.inputs):
            kind = draw(st.sampled_from(("none", "in place", "diagonal", "both")))
            if kind in ("in place", "both"):
                in_place.append((tensor, op.outputs[0]))
            if kind in ("diagonal", "both"):
                distance = draw(st.integers(-graph.sizes[tensor], graph.sizes[op.outputs[0]]))
                overlaps.append(Overlap(tensor, op.outputs[0], distance))
        ops.append(Step(op.name, op.inputs, op.outputs, in_place=tuple(in_place)))
    return Program(graph.sizes, tuple(ops), graph.inputs, graph.outputs), tuple(overlaps)


def without_sharing(graph: Program) -> Program:
    ops = tuple(Step(op.name, op.inputs, op.outputs) for op in graph.steps)
    return Program(graph.sizes, ops, graph.inputs, graph.outputs)


def chain(sizes: list[int]) -> Program:
    ops = tuple(Step(f"op{i}", (i,), (i + 1,)) for i in range(len(sizes) - 1))
    return Program(tuple(sizes), ops, (0,), (len(sizes) - 1,))
