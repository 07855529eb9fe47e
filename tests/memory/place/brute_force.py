"""The least height of a plan, by trying every offset of every tensor, independent of the planner."""

from __future__ import annotations

from collections.abc import Sequence

from tflite_fuse.ir.program import Overlap, Program


def least_height(graph: Program, overlaps: Sequence[Overlap] = ()) -> int:
    """Bytes, at an alignment of 1. For a handful of tensors of a few bytes."""
    moments = [_needed(graph, moment) for moment in range(-1, len(graph.steps))]
    tensors = sorted({tensor for needed in moments for tensor in needed}, key=lambda t: -graph.sizes[t])
    height = max((sum(graph.sizes[t] for t in needed) for needed in moments), default=0)
    height = height if not overlaps and not any(op.in_place for op in graph.steps) else max(graph.sizes)
    while not _exists(graph, overlaps, moments, tensors, {}, height):
        height += 1
    return height


def _needed(graph: Program, moment: int) -> set[int]:
    """Tensors whose content matters while operator ``moment`` runs (-1: before the first)."""
    if moment == -1:
        return {t for t in graph.inputs if graph.sizes[t]}
    before = set(graph.inputs).union(*(op.outputs for op in graph.steps[:moment])) if moment else set(graph.inputs)
    later = set(graph.outputs).union(*(op.inputs for op in graph.steps[moment:]))
    return {t for t in (before & later) | set(graph.steps[moment].outputs) if graph.sizes[t]}


def _exists(
    graph: Program,
    overlaps: Sequence[Overlap],
    moments: list[set[int]],
    tensors: Sequence[int],
    placed: dict[int, int],
    height: int,
) -> bool:
    if not tensors:
        return True
    tensor, rest = tensors[0], tensors[1:]
    for offset in range(height - graph.sizes[tensor] + 1):
        placed[tensor] = offset
        if all(_agree(graph, overlaps, moments, placed, tensor, other) for other in placed if other != tensor) and (
            _exists(graph, overlaps, moments, rest, placed, height)
        ):
            return True
    placed.pop(tensor, None)
    return False


def _agree(
    graph: Program,
    overlaps: Sequence[Overlap],
    moments: list[set[int]],
    placed: dict[int, int],
    a: int,
    b: int,
) -> bool:
    if placed[a] + graph.sizes[a] <= placed[b] or placed[b] + graph.sizes[b] <= placed[a]:
        return True
    together = [moment - 1 for moment, needed in enumerate(moments) if a in needed and b in needed]
    return all(
        moment >= 0
        and (
            _shared(graph, overlaps, moments, placed, moment, a, b)
            or _shared(graph, overlaps, moments, placed, moment, b, a)
        )
        for moment in together
    )


def _shared(
    graph: Program,
    overlaps: Sequence[Overlap],
    moments: list[set[int]],
    placed: dict[int, int],
    moment: int,
    source: int,
    target: int,
) -> bool:
    """Whether operator ``moment`` may write ``target`` over ``source``, which nothing needs afterwards."""
    op = graph.steps[moment]
    if source not in op.inputs or target not in op.outputs:
        return False
    if source in graph.outputs or any(source in later.inputs for later in graph.steps[moment + 1 :]):
        return False
    if (source, target) in op.in_place and placed[source] == placed[target]:
        return True
    return any(
        (o.input, o.output) == (source, target)
        and (placed[source] == placed[target] if o.distance is None else placed[target] + o.distance <= placed[source])
        for o in overlaps
    )
