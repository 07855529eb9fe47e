"""Metrics of a rewrite as flat numbers, for programs that evaluate many models.

``exact`` is a rewrite, proven and not run. ``estimate`` is only a search: blocks begin and end at narrow places of the
order in the file or of that of least peak; nothing is encoded, placed or written, and no runtime is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from tflite_fuse.cost.instructions import Target
from tflite_fuse.cost.priced_program import WorkUnit
from tflite_fuse.emit.in_model import block_overlaps, executed_macs
from tflite_fuse.emit.outside import inputs_to_move, lowerings_for
from tflite_fuse.errors import LimitError
from tflite_fuse.ir.liveness import peak
from tflite_fuse.ir.program import program_of
from tflite_fuse.memory.arena import as_it_stands
from tflite_fuse.memory.checker import why_untouchable
from tflite_fuse.memory.tflm.head_requests import arena_requests
from tflite_fuse.memory.tflm.offline_plan import ALIGNMENT, read_plan, remove_plan
from tflite_fuse.memory.tflm.struct_sizes import ARM
from tflite_fuse.memory.tflm.tail import planning_bytes, predict_tail
from tflite_fuse.model.file import serialize_model
from tflite_fuse.model.outside import InputMode
from tflite_fuse.model.schema import Model
from tflite_fuse.model.types import tensor_nbytes
from tflite_fuse.passes.fusing.orders import quick_orders
from tflite_fuse.passes.goal import Goal
from tflite_fuse.passes.int8_borders import Int8Borders
from tflite_fuse.passes.options import FuseOptions, MetricsOptions
from tflite_fuse.passes.pipeline import prepared
from tflite_fuse.pipelines.flat import report_metrics, shortfalls
from tflite_fuse.rewriting.figures import expected_instructions
from tflite_fuse.rewriting.rewrite import rewrite_model
from tflite_fuse.search.from_model import graph_from_model
from tflite_fuse.search.narrow_front import NarrowPoint, narrow_front, unbeaten
from tflite_fuse.search.schemes import Scheme
from tflite_fuse.units import round_up

_PREPARED_BYTES = 544
"""Bytes that the runtime needs temporarily, on Arm, while it prepares a block with its input, constants and scratch."""


def model_metrics(model: Model, data: bytes, options: MetricsOptions) -> dict[str, float]:
    """Return the metrics of a rewrite under these options, or of the nearest one with its shortfalls.

    Args:
        model: as loaded.
        data: its file.
        options: of the rewrite, and the effort.

    Raises:
        ModelError: the model is damaged.
    """
    return (_exact if options.effort == "exact" else _estimated)(model, data, options)


def _exact(model: Model, data: bytes, options: MetricsOptions) -> dict[str, float]:
    for attempt in _attempts(options):
        try:
            report = rewrite_model(model, data, attempt, False, 0, None, None)[1]
        except LimitError:
            continue
        found = report_metrics(report)
        found.setdefault("instructions", float(expected_instructions(model, Target(options.target))))
        counted = None if options.cost is WorkUnit.MACS else report.prediction
        factor = report.compute_factor if counted is None else counted.factor
        kept = _kept_inside(model) if attempt.input_mode is not options.input_mode else 0
        met = attempt.goal == options.goal
        return (
            found | shortfalls(found, options.wanted, options.max_flash, 0.0 if met else factor, kept) | {"exact": 1.0}
        )
    raise AssertionError("the last attempt has no limit")


def _attempts(options: FuseOptions) -> Iterator[FuseOptions]:
    """Yield the options, then with fewer and fewer of the requirements that may be out of reach."""
    yield options
    goal = options.wanted
    if goal.max_ram is not None:
        yield replace(options, goal=Goal(max_compute=goal.max_compute, least_ram=goal.max_compute is None))
    yield replace(options, goal=Goal(least_ram=True))
    yield replace(options, goal=Goal(least_ram=True), input_mode=InputMode.RESIDENT)
    yield FuseOptions(
        passes=("reorder", "plan"),
        in_place=options.in_place,
        time_limit=options.time_limit,
        runtime=options.runtime,
    )


def _estimated(model: Model, data: bytes, options: MetricsOptions) -> dict[str, float]:
    before = as_it_stands(program_of(model), block_overlaps(model), options.arena(), read_plan(model))
    macs, operators = sum(executed_macs(model)), len(model.main.operators)
    changed = remove_plan(model)
    changed = Int8Borders().run(changed).model if options.int8_io else changed
    changed = prepared(changed, states=options.scheme is Scheme.AUTO)
    options = replace(options, cost=WorkUnit.MACS)
    points, kept = ((), 0) if why_untouchable(model) else _points(changed, options)
    chosen = _chosen(points, options.wanted, macs)
    used, loading, tail, blocks, fused, executed = before.total, before.while_loading, before.tail, 0, 0, macs
    if chosen is not None and (chosen.ram_bytes < used or chosen.work < executed):
        used, tail, executed = min(used, chosen.ram_bytes), chosen.tail_bytes, chosen.work
        blocks, fused = chosen.blocks, chosen.operators
        loading = min(loading, _loading(changed, chosen))
    factor = round(executed / macs, 6) if macs else 1.0
    left = sum(executed_macs(changed))  # constant channels are gone already
    found = {
        "arena_bytes": round_up(max(used, loading), ALIGNMENT),
        "arena_used_bytes": used,
        "head_bytes": max(0, used - tail),
        "tail_bytes": tail,
        "loading_bytes": loading,
        "peak_bytes": max(0, used - tail),
        "file_bytes": len(serialize_model(changed)),
        "macs": executed,
        "operators": len(changed.main.operators) - fused + blocks,
        "before_arena_bytes": before.needed,
        "before_arena_used_bytes": before.total,
        "before_head_bytes": before.head,
        "before_tail_bytes": before.tail,
        "before_loading_bytes": before.while_loading,
        "before_peak_bytes": peak(program_of(model)),
        "before_file_bytes": len(data),
        "before_macs": macs,
        "before_operators": operators,
        "compute_factor": factor,
        "blocks": blocks,
        "verified_inputs": 0,
        "instructions": expected_instructions(changed, Target(options.target)) * (executed / left if left else 1.0),
    }
    numbers = {name: float(value) for name, value in found.items()}
    return numbers | shortfalls(numbers, options.wanted, options.max_flash, factor, kept) | {"exact": 0.0}


def _points(model: Model, options: FuseOptions) -> tuple[tuple[NarrowPoint, ...], int]:
    """Return the front, and the bytes of inputs that should leave the arena and cannot."""
    if "fuse" not in options.passes:
        return (), 0
    orders = quick_orders(model, options.tuning) if "reorder" in options.passes else (remove_plan(model),)
    for mode in dict.fromkeys((InputMode(options.input_mode), InputMode.RESIDENT)):
        found: list[NarrowPoint] = []
        for ordered in orders:
            with suppress(LimitError):
                lowered = lowerings_for(ordered, mode)
                moved = inputs_to_move(ordered, mode, lowered)[0]
                searched = replace(options, input_mode=mode).search(moved)
                found += narrow_front(graph_from_model(ordered, lowered), searched)
        if found:
            return unbeaten(found), 0 if mode is options.input_mode else _kept_inside(model)
    return (), 0 if options.input_mode is InputMode.RESIDENT else _kept_inside(model)


def _chosen(points: Sequence[NarrowPoint], goal: Goal, macs: int) -> NarrowPoint | None:
    """Return the point that a rewrite would select, or the nearest one."""
    limit = goal.compute_limit
    allowed = [point for point in points if limit is None or point.work <= limit * macs] or list(points[-1:])
    if goal.max_ram is not None:
        allowed = [point for point in allowed if point.ram_bytes <= goal.max_ram][-1:] or allowed
    return allowed[0] if allowed else None


def _loading(model: Model, chosen: NarrowPoint) -> int:
    """Return the approximate bytes for loading on Arm: blocks have scratch and one constant, and no inner tensors."""
    left = len(model.main.operators) - chosen.operators
    outside = sum(bool(model.buffers[tensor.buffer].data) for tensor in model.main.tensors) * left
    program = program_of(model)
    buffers = len(arena_requests(program).buffers) - chosen.operators + 2 * chosen.blocks
    tensors = buffers + chosen.blocks + outside // max(len(model.main.operators), 1)
    taken = max(planning_bytes(ARM, 1, tensors, 0, buffers), _PREPARED_BYTES)
    return taken + round_up(chosen.tail_bytes - predict_tail(program).edges, ALIGNMENT)


def _kept_inside(model: Model) -> int:
    return sum(tensor_nbytes(model.main.tensors[index]) for index in model.main.inputs)
