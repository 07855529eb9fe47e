"""The first blocks as one, where that turns out to need less when they are placed.

A block that reads the model's input may lie over what is spent of it. The search counts whole rows of that, and so
finds nothing in models of one row; what is really needed is known when the block is placed.
"""

from __future__ import annotations

from dataclasses import replace

from tflite_fuse.errors import BlockError
from tflite_fuse.fusion.search.front import BlockChoice, Point
from tflite_fuse.fusion.search.fusion_front import SearchOptions
from tflite_fuse.fusion.search.schemes import Scheme
from tflite_fuse.passes.fusing.candidate import Candidate, Site


def with_first_blocks_joined(site: Site, options: SearchOptions, least: Candidate) -> Candidate:
    """The first block and the next one as one, and so on as long as that needs less; else the same candidate.

    Blocks in strips stay as they are: what they recompute is theirs.
    """
    if options.scheme is not Scheme.AUTO or not options.overlap:
        return least
    while (joined := _joined(least.point, min(options.chunks))) is not None:
        try:
            found = site.realise(joined)
        except BlockError:  # no block holds both
            return least
        if found.arena >= least.arena or found.macs > least.macs:
            return least
        least = found
    return least


def _joined(point: Point, chunk: int) -> Point | None:
    """The point with one block for its first two, in runs of ``chunk`` pixels; None where they do not follow."""
    if len(point.blocks) < 2:
        return None
    first, second, *others = point.blocks
    follows = second.operators[0] == first.operators[-1] + 1
    if not follows or {first.scheme, second.scheme} != {"line-buffers"}:
        return None
    block = BlockChoice(
        (*first.operators, *second.operators),
        replace(second.config, chunk=chunk),
        first.scratch_bytes + second.scratch_bytes,
        first.work + second.work,
        first.extra_work + second.extra_work,
        second.scheme,
    )
    return replace(point, blocks=(block, *others))
