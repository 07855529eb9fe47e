"""The content of a page as data; the page and ``report --json`` show the same object."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from tflite_fuse import api
from tflite_fuse.boards.fit import fitting_boards
from tflite_fuse.boards.table import known_boards
from tflite_fuse.check import Certificate
from tflite_fuse.cost.instructions import Target, prediction_error
from tflite_fuse.cost.schedule.tile_order import ring_bytes
from tflite_fuse.emit.block_plan import BlockPlan
from tflite_fuse.emit.in_model import blocks_in, executed_macs, with_plans
from tflite_fuse.emit.outside import lowerings_for
from tflite_fuse.errors import LimitError, UsageError
from tflite_fuse.ir.block import StageKind, Storage
from tflite_fuse.ir.program import FUSED_OPERATOR, program_of
from tflite_fuse.memory.budget import Budget
from tflite_fuse.memory.tflm.offline_plan import read_plan, remove_plan
from tflite_fuse.memory.tflm.runtimes import DEFAULT_RUNTIME, runtime_named
from tflite_fuse.memory.tflm.tail import predict_tail
from tflite_fuse.model.file import load_model
from tflite_fuse.model.operators import operator_label
from tflite_fuse.model.outside import InputMode
from tflite_fuse.model.schema import Model
from tflite_fuse.notes import Note, tensor_of
from tflite_fuse.passes.fusing.orders import candidate_orders
from tflite_fuse.passes.goal import Goal
from tflite_fuse.passes.options import FuseOptions
from tflite_fuse.passes.pipeline import prepared
from tflite_fuse.passes.reorder import Reorder
from tflite_fuse.pipelines.flat import FIGURES
from tflite_fuse.report.arena_map import ArenaMap, arena_map
from tflite_fuse.report.inspection import Inspection, OperatorRow
from tflite_fuse.report.notebook import printable
from tflite_fuse.report.wording import general, grouped
from tflite_fuse.rewriting.figures import expected_instructions
from tflite_fuse.rewriting.guess import validate_any
from tflite_fuse.rewriting.trades import trades_as_written
from tflite_fuse.search.from_model import graph_from_model
from tflite_fuse.search.fusion_front import fusion_front
from tflite_fuse.search.schemes import Scheme
from tflite_fuse.tuning import TUNING

PAGE_SCHEMA = "tflite-fuse/page/1"

MOST_SHOWN = 2000
"""Most operators of a model on a page."""

MOST_BOXES = 600
"""Most boxes of an arena in a page's data; the largest are kept."""

BOX_KINDS = ("tensor", "scratch", "ring")

MOST_SEARCHED = 500
"""Most operators of a model whose front is searched for a page, to limit the time."""

_FUSABLE = "it could be fused, which did not pay or was not allowed"


@dataclass(frozen=True)
class Content:
    """The content of a page.

    Attributes:
        json: the object of ``schemas/page.schema.json``.
        before, after: maps of the head.
    """

    json: dict[str, Any]
    before: ArenaMap
    after: ArenaMap


def page_content(
    before: bytes,
    after: bytes,
    names: tuple[str, str],
    notes: tuple[Note, ...] = (),
    advice: tuple[str, ...] = (),
    target: str = Target.GENERIC.value,
    inputs: int = 0,
    runtime: str = DEFAULT_RUNTIME,
    progress: Callable[[str, int, int], None] | None = None,
) -> Content:
    """Return the content of a page about a model and its rewrite.

    Args:
        before, after: the files.
        names: of the two.
        notes: of the rewrite, if this run made it.
        advice: sentences about other options, if requested.
        target: the core whose instructions are predicted.
        inputs: number of inputs on which both are run and compared; 0: none.
        runtime: name of the runtime on the device, for which the arenas must suffice.
        progress: called with (step, done, total).

    Raises:
        ModelError, UsageError, PlanError: one of the files cannot be used.
        VerificationError: the models have different inputs or outputs.
        RuntimeUnavailableError: they are to be run, and no runtime is installed.
    """
    core = Target(FuseOptions(target=target).target)
    first, second = (with_plans(showable(*each)) for each in zip((before, after), names, strict=True))
    with ThreadPoolExecutor(1) as pool:  # both wait for the same runtime
        futures = [
            pool.submit(api.look, model, data, name, runtime)
            for model, data, name in zip((first, second), (before, after), names, strict=True)
        ]
        maps = arena_map(first), arena_map(second)
        certificate = validate_any(first, second)
        packed = _Packed()
        arena = {"before": packed.map(maps[0]), "after": packed.map(maps[1])}
        front, schemes = _front(first, core, runtime, packed), _schemes(first)
        inspections = futures[0].result(), futures[1].result()
    compared = api.verify(before, after, inputs=inputs, progress=progress) if inputs else None
    figures = [_figures(model, each, core) for model, each in zip((first, second), inspections, strict=True)]
    tested = 0 if compared is None or compared.first_difference is not None else compared.inputs
    fault = None if compared is None else compared.fault
    document = {
        "schema": PAGE_SCHEMA,
        "model": printable(names[0]),
        "rewritten": printable(names[1]),
        "verdict": _verdict(figures, fault, certificate.proven),
        "sound": fault is None and certificate.proven,
        "figures": {"before": figures[0], "after": figures[1]},
        "runtime": str(runtime_named(runtime)),
        "target": core.value,
        "prediction_error": asdict(prediction_error(core)),
        "boards": _boards(figures[0], figures[1]),
        "front": front,
        "arena": {"names": list(packed.names), "kinds": list(BOX_KINDS)} | arena,
        "blocks": [_block(second, index, plan, certificate) for index, plan in blocks_in(second).items()],
        "held": _outside_blocks(inspections[1]),
        "schemes": schemes,
        "advice": list(map(printable, advice)),
        "notes": list(map(printable, grouped((*notes, *inspections[1].records)))),
        "certificate": certificate.to_json() | {"sentence": certificate.sentence(tested or None), "inputs": tested},
        "steps": {"before": _steps(inspections[0]), "after": _steps(inspections[1])},
    }
    return Content(document, *maps)


def showable(data: bytes, name: str) -> Model:
    """Return a model that is small enough for a page. Raises ModelError, UsageError."""
    model = load_model(data, name)
    if (count := len(model.main.operators)) > MOST_SHOWN:
        raise UsageError(f"{name}: has {count:,} operators, and a page shows {MOST_SHOWN:,} at most")
    return model


def _figures(model: Model, inspection: Inspection, core: Target) -> dict[str, Any]:
    figures = {name: getattr(inspection.figures, name) for name in FIGURES}
    bottleneck = inspection.bottleneck
    return figures | {
        "instructions": expected_instructions(model, core),
        "state_bytes": predict_tail(program_of(model), offsets=read_plan(model)).variables,
        "bottleneck": "" if bottleneck is None else printable(bottleneck.name),
    }


def _verdict(figures: list[dict[str, Any]], fault: str | None, proven: bool) -> str:
    before, after = (each["arena_bytes"] for each in figures)
    if fault is not None:
        return f"The models are not the same: {printable(fault)}"
    if not proven:
        return "The second model is not proven to compute what the first one does."
    if after >= before:
        return f"The arena stays at {after:,} bytes."
    less = f"{before / after:.1f} times" if before > 1.05 * after else f"{before - after:,} bytes"
    return f"The tensor arena needs {after:,} bytes instead of {before:,}: {less} less."


def _boards(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    first, second = (fitting_boards(each["arena_bytes"], each["file_bytes"]) for each in (before, after))
    gained = [board for board in second if board not in first][:8]
    return {
        "known": len(known_boards()),
        "before": len(first),
        "after": len(second),
        "gained": [{"name": b.name, "ram_bytes": b.ram_bytes, "arena_bytes": b.room()} for b in gained],
    }


class _Packed:
    """Arena maps as JSON with texts as numbers of one list, because many maps have the same tensors."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}

    def map(self, shown: ArenaMap) -> dict[str, Any]:
        """Return a map: its largest boxes as [name, kind, first step, last step, offset, bytes]."""
        largest = sorted(shown.boxes, key=lambda box: -box.nbytes)[:MOST_BOXES]
        return {
            "head_bytes": shown.head_bytes,
            "steps": list(map(self._number, shown.steps)),
            "boxes": [
                [self._number(box.name), BOX_KINDS.index(box.kind), box.first, box.last, box.offset, box.nbytes]
                for box in largest
            ],
        }

    def _number(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names))


def _front(model: Model, core: Target, runtime: str, packed: _Packed) -> list[dict[str, Any]]:
    """Return the points of a model's front as ``pareto`` places them, RAM ascending; none for too large models."""
    if len(model.main.operators) > MOST_SEARCHED:
        return []
    options = FuseOptions(goal=Goal(least_ram=True), cost="instructions", target=core.value, runtime=runtime)
    try:
        report, models = trades_as_written(model, options, "")
    except LimitError:
        return []
    return [
        {
            "ram_bytes": row.ram_bytes,
            "macs": sum(executed_macs(each)),
            "instructions": row.work,
            "compute_factor": row.compute_factor,
            "blocks": len(row.blocks),
            "fused": [f"{first} to {last} ({count})" for first, last, count, _ in row.blocks],
            "marks": list(row.marks),
            "arena": packed.map(arena_map(each)),
        }
        for row, each in zip(report.rows, models, strict=True)
    ]


def _schemes(model: Model) -> list[dict[str, Any]]:
    """Return the least RAM estimated for each published scheme that makes a block of the model."""
    if len(model.main.operators) > MOST_SEARCHED:
        return []
    bare = prepared(remove_plan(model))
    ordered = candidate_orders(bare, Reorder(Budget(TUNING.quick_order))).first
    graph, schemes = graph_from_model(ordered, lowerings_for(ordered, InputMode.RESIDENT)), []
    for scheme in (each for each in Scheme if each is not Scheme.AUTO):
        with suppress(LimitError):
            options = FuseOptions(goal=Goal(least_ram=True), scheme=scheme.value)
            least = fusion_front(graph, options.search()).points[0]
            least_point = {"ram_bytes": least.ram_bytes, "macs": least.work, "blocks": len(least.blocks)}
            schemes += [{"scheme": scheme.value} | least_point] if least.blocks else []
    return schemes


def _block(model: Model, index: int, plan: BlockPlan, certificate: Certificate) -> dict[str, Any]:
    """Return a block's tiles, bytes and work, and those of its stages."""
    block, schedule, label = plan.block, plan.schedule, operator_label(model, index)
    replaced = next((proof.replaces for proof in certificate.blocks if proof.operator == label), ())
    stages = []
    for stage, pixels in zip(block.stages, schedule.stage_pixels, strict=True):
        out = block.tensors[stage.output]
        inner = out.storage is Storage.SCRATCH
        capacity = schedule.capacities[stage.output] if inner else 0
        stages.append(
            {
                "kind": StageKind(stage.kind).name,
                "output": printable(out.name),
                "shape": [out.height, out.width, out.channels],
                "kernel": list(stage.kernel_size),
                "stride": list(stage.stride),
                "ring_pixels": int(capacity),
                "ring_bytes": int(ring_bytes(capacity, out.pixel_bytes)) if inner and stage.overwrites < 0 else 0,
                "whole_bytes": out.nbytes,
                "computed_pixels": int(pixels),
            }
        )
    return {
        "name": label,
        "operators": printable(" to ".join(dict.fromkeys((*replaced[:1], *replaced[-1:])))),
        "tile_height": schedule.config.tile_height,
        "tile_width": schedule.config.tile_width,
        "chunk": schedule.config.chunk,
        "scratch_bytes": schedule.scratch_bytes,
        "whole_bytes": sum(tensor.nbytes for tensor in block.tensors if tensor.storage is Storage.SCRATCH),
        "macs": int(schedule.macs),
        "stages": stages,
    }


def _outside_blocks(after: Inspection) -> list[dict[str, Any]]:
    """Return the operators outside blocks by reason, largest working sets first."""
    reasons: dict[str, list[OperatorRow]] = {}
    fused = FUSED_OPERATOR.removeprefix("CUSTOM:")
    for row in after.operators:
        if not row.name.startswith(fused):
            reasons.setdefault(_reason(row), []).append(row)
    groups: list[dict[str, Any]] = [
        {
            "reason": printable(reason if len(rows) > 1 else rows[0].blocked or _FUSABLE),
            "operators": len(rows),
            "names": sorted({printable(row.name.rpartition("_")[0]) for row in rows}),
            "working_set_bytes": max(row.working_set_bytes for row in rows),
        }
        for reason, rows in reasons.items()
    ]
    return sorted(groups, key=lambda each: -each["working_set_bytes"])


def _reason(row: OperatorRow) -> str:
    why = row.blocked or _FUSABLE
    return general(why, tensor_of(why))


def _steps(inspection: Inspection) -> list[dict[str, Any]]:
    return [
        {"name": printable(row.name), "working_set_bytes": row.working_set_bytes, "bottleneck": row.bottleneck}
        for row in inspection.operators
    ]
