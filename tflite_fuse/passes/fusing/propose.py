"""Points to place for a goal: estimates propose, realised candidates decide.

A front's RAM is an estimate of the working sets. Each function yields realised candidates of one model, the most
promising first, and stops when the tuning considers further ones unlikely to win. ``Objective.select`` selects among
all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice, takewhile

from tflite_fuse.cost.schedule.tiles import split_block
from tflite_fuse.errors import BlockError, LimitError
from tflite_fuse.ir.block import Block, BlockChoice, BlockConfig
from tflite_fuse.passes.fusing.candidate import Candidate, Site
from tflite_fuse.passes.fusing.objective import Objective
from tflite_fuse.passes.fusing.own_runs import OwnRuns
from tflite_fuse.search.front import Point
from tflite_fuse.search.fusion_front import points_by_ram
from tflite_fuse.search.schemes import Scheme


def smallest(site: Site, objective: Objective) -> Iterator[Candidate]:
    """Yield the candidates of least estimated RAM within the limit on compute, and the same ones in one tile.

    If none of them keeps the limit, the unfused one comes as well.
    """
    kept = False
    for point in _allowed(site, objective)[: site.tuning.placed_first]:
        candidate = site.realise(point)
        yield candidate
        yield from in_one_tile(site, candidate)
        kept = kept or objective.max_compute is None or objective.compute(candidate) <= objective.max_compute
    if not kept and site.runs_unfused:
        yield site.realise(site.front.unfused)


def within_ram(site: Site, objective: Objective, max_ram: int) -> Iterator[Candidate]:
    """Yield candidates within a limit on RAM, those of least work first."""
    most = max_ram * (1 + site.tuning.near)
    if site.runs_unfused:
        yield site.realise(site.front.unfused)
    near = [point for point in _allowed(site, objective) if point.ram_bytes <= most]
    yield from _fitting(site, sorted(near, key=lambda point: point.work), max_ram)


def in_shortest_runs(site: Site, least: Candidate) -> Candidate:
    """Return the candidate with the shortest runs in all blocks.

    Blocks below the peak have runs as long as the estimate permits, which can obstruct placement with shared memory.
    """
    shortest = min(site.options.chunks)
    blocks = (
        replace(each, config=BlockConfig(each.config.tile_height, each.config.tile_width, shortest))
        for each in least.point.blocks
    )
    return site.realise(replace(least.point, blocks=tuple(blocks)))


def in_one_tile(site: Site, least: Candidate) -> Iterator[Candidate]:
    """Yield the candidate with every block in one tile and in the shortest runs, if some run in several.

    Tiles may need less RAM by the estimate and more when placed, because in one tile more bytes lie over the input.
    """
    if site.options.scheme is Scheme.AUTO and any(block.scheme != "line-buffers" for block in least.point.blocks):
        pairs = zip(least.point.blocks, (each.plan.block for each in least.blocks), strict=True)
        blocks = (_in_one_tile(choice, block, min(site.options.chunks)) for choice, block in pairs)
        yield site.realise(replace(least.point, blocks=tuple(blocks)))


def _in_one_tile(choice: BlockChoice, block: Block, chunk: int) -> BlockChoice:
    driven = block.tensors[split_block(block).driven]
    return replace(choice, config=BlockConfig(driven.height, driven.width, chunk), scheme="line-buffers")


def every_path(site: Site, objective: Objective, least: Candidate) -> Iterator[Candidate]:
    """Yield the candidates of a small model that may have less than the least arena by their estimates, if MACs count.

    Estimates of small models are up to a tenth above the arena, because they count shared memory in whole rows. Paths
    without more compute than the file's come as well, so that a larger limit never leads to more RAM.
    """
    tuning, operators, limit = site.tuning, len(site.graph.steps), objective.max_compute
    if operators > tuning.every_path or site.target is not None:
        return
    most_ram = least.arena * (1 + 2 * tuning.near)
    for most_work in {limit, site.own_macs if limit is None else min(limit, site.own_macs)}:
        points = points_by_ram(site.graph, site.options, site.other_orders, most_work)
        near = takewhile(lambda point: point.ram_bytes <= most_ram, islice(points, tuning.every_path * operators))
        for point in near:
            try:
                yield site.realise(point)
            except BlockError:  # no block can contain all of its operators
                continue


def joined(site: Site, least: Candidate) -> Iterator[Candidate]:
    """Yield the candidate with its first two blocks joined, and so on as long as the arena shrinks.

    The scratch of a block that reads the model's input may lie over input that it no longer needs. The search counts
    only whole rows of it, and none in models of one row; the exact distance follows when the block is placed. Blocks
    in strips are not joined, because each recomputes on its own.
    """
    if site.options.scheme is not Scheme.AUTO or not site.options.overlap:
        return
    while (point := _joined(least.point, min(site.options.chunks))) is not None:
        try:
            candidate = site.realise(point)
        except BlockError:  # no block can contain both
            return
        if candidate.arena >= least.arena or candidate.macs > least.macs:
            return
        yield candidate
        least = candidate


def faster(site: Site, objective: Objective, least: Candidate) -> Iterator[Candidate]:
    """Yield the candidates of fewest predicted instructions within the objective's ceiling above the least arena.

    Longer runs of pixels, other cuts, and no blocks at all take RAM and save instructions. Some points of less RAM are
    placed as well, because individual run lengths can use the RAM that they leave.
    """
    limit, unfused = objective.ceiling(least.arena), site.front.unfused
    if site.options.scheme is not Scheme.AUTO or not least.blocks:
        return
    if site.runs_unfused and unfused.ram_bytes <= limit * (1 + site.tuning.near):
        yield site.realise(unfused)
    most_time, fewest = (1 + site.tuning.clear_gain) * sum(site.alone), least.time
    has_strips = any(block.choice.scheme != "line-buffers" for block in least.blocks)
    # Strips if the least arena has strips, else whole tensors first, then strips.
    for number, strips in enumerate([True] if has_strips else [False, True][: 1 + site.options.strips]):
        if number and fewest <= most_time:
            return
        points = _by_speed(site, limit, strips)
        near = [point for point in points if point.ram_bytes <= limit * (1 + site.tuning.near)]
        smaller = near[:: max(1, len(near) // site.tuning.placed_first)]
        for candidate in chain(_fitting(site, near, limit), map(site.realise, smaller)):
            fewest = min(fewest, candidate.time) if candidate.arena <= limit else fewest
            yield candidate


def in_own_runs(site: Site, objective: Objective, candidates: Sequence[Candidate]) -> Iterator[Candidate]:
    """Yield candidates with individual run lengths, in the same RAM and up to the objective's ceiling.

    A candidate without slack also gets runs that seem to need a few bytes more, because some of them need none when
    the block is placed. These come last: all searches share one budget.

    Args:
        site: the site that the candidates were found from.
        objective: rule of the selection.
        candidates: the candidates; the last one has the least arena.
    """
    own, limits = OwnRuns(site), objective.ceilings(candidates[-1].arena)
    without_slack: list[Candidate] = []
    for each in candidates:
        rooms = [limit - each.arena for limit in limits]
        longer = [room for room in rooms if room > limits[-1] * objective.tuning.speed_tolerance]
        longer = longer if site.options.scheme is Scheme.AUTO else []
        if each is candidates[0] or not longer:
            yield own.with_own_runs(each)
        if not longer:
            without_slack.append(each)
        for room in longer:
            yield own.with_own_runs(each, room)
    for each in without_slack:
        yield own.with_own_runs(each, site.tuning.run_room)


def _by_speed(site: Site, limit: int, strips: bool) -> list[Point]:
    """Return points of the front of instructions, the fewest first, without blocks beyond the RAM that is offered."""
    most = limit + limit // site.tuning.offered
    options = replace(site.options, target=site.core, most_ram=most, most_compute=None, strips=strips, bands=strips)
    try:
        return list(reversed(site.front_of(options).points))
    except LimitError:  # no such block can read an input that should leave the arena
        return []


def _fitting(site: Site, points: Sequence[Point], limit: int) -> Iterator[Candidate]:
    """Yield the first few points that fit, of those whose estimates exceed the limit and of the others.

    A placement can need more than the sum of its working sets: if none of the others' first fits, points behind them,
    which need less RAM, are found by bisection.
    """
    tuning, fits = site.tuning, 0
    beyond = [point for point in points if point.ram_bytes > limit]
    within = [point for point in points if point.ram_bytes <= limit]
    for group in (beyond, within):
        fits = 0
        for point in group[: tuning.fast_tried]:
            candidate = site.realise(point)
            fits += candidate.arena <= limit
            yield candidate
            if fits >= tuning.placed_first:
                break
    begin, end = tuning.fast_tried, 0 if fits else len(within)
    while begin < end:
        middle = (begin + end) // 2
        candidate = site.realise(within[middle])
        begin, end = (begin, middle) if candidate.arena <= limit else (middle + 1, end)
        yield candidate


def _allowed(site: Site, objective: Objective) -> list[Point]:
    """Return the points of the front that are predicted to keep the limit on compute."""
    front = site.front_in_macs(objective.max_compute) if objective.in_macs else site.front
    if objective.max_compute is None:
        return list(front.points)
    most: float = objective.max_compute
    if not objective.in_macs:
        most *= front.unfused.work / max(site.unfused_compute, 1)
    return [point for point in front.points if point.work <= most]


def _joined(point: Point, chunk: int) -> Point | None:
    """Return the point with its first two blocks as one, in runs of ``chunk`` pixels; None unless they adjoin."""
    if len(point.blocks) < 2:
        return None
    first, second, *rest = point.blocks
    order = point.order or range(second.operators[0] + 1)
    follows = order.index(second.operators[0]) == order.index(first.operators[-1]) + 1
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
    return replace(point, blocks=(block, *rest))
