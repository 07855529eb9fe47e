"""The Pareto front of a model as JSON, CSV and a table, with the points that meet common goals marked."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tflite_fuse.claim import Claim
from tflite_fuse.cost.instructions import PredictionError
from tflite_fuse.memory.tflm.runtimes import DEFAULT_RUNTIME, runtime_named
from tflite_fuse.report.notebook import html_table, plain_table
from tflite_fuse.report.report import MemoryReport

if TYPE_CHECKING:
    from rich.table import Table


FRONT_SCHEMA = "tflite-fuse/front/1"

_NUMBERS = {name: name for name in ("fast_room", "fast_bytes", "slow_bytes", "read_bytes", "written_bytes")}
_NUMBERS |= {"cycles": "traffic_cycles"}
_HEADINGS = ("fast memory", "arena", "slow", "read", "written", "cycles of traffic", "a kB more saves")


@dataclass(frozen=True)
class FrontRow:
    """One point of the front.

    Attributes:
        ram_bytes: the arena to allocate for it, as ``rewrite`` reports it.
        work: in the report's unit.
        compute_factor: ``work`` over that of the model in the file.
        blocks: for each fused block its first and last operator, number of operators and strip width.
        marks: goals that this point meets best, such as ``least RAM``.
        memories: use of a fast and a slow memory, if they were given; its ``fast_room`` is the limit of this point.
    """

    ram_bytes: int
    work: int
    compute_factor: float
    blocks: tuple[tuple[str, str, int, int], ...]
    marks: tuple[str, ...]
    memories: MemoryReport | None = None


@dataclass(frozen=True)
class FrontReport:
    """All points of a model, RAM ascending: of RAM against compute, or with two memories of fast RAM against traffic.

    Attributes:
        model: its name.
        unfused_ram_bytes, unfused_work: of the model without blocks.
        rows: the points.
        claim: the proven bound on the point of least RAM; None with two memories.
        target: the core whose predicted instructions or cycles are counted; None: multiply-accumulates.
        error: prediction error of the target; None without a target.
        state_bytes: part of the least RAM that outlives a run; for other points it can be a few bytes more.
        runtime: name of the runtime on the device for which the arenas suffice.
        trimmed_work: work of the model that blocks are made from, without dead channels.
        in_cycles: whether ``work`` is in cycles of the target instead of instructions.
    """

    model: str
    unfused_ram_bytes: int
    unfused_work: int
    rows: tuple[FrontRow, ...]
    claim: Claim | None
    target: str | None = None
    error: PredictionError | None = None
    state_bytes: int = 0
    runtime: str = DEFAULT_RUNTIME
    trimmed_work: int | None = None
    in_cycles: bool = False

    @property
    def unit(self) -> str:
        """Return the unit of ``work``: macs, instructions or cycles."""
        return "macs" if self.target is None else "cycles" if self.in_cycles else "instructions"

    def to_json(self) -> dict[str, Any]:
        """Return the object that ``pareto --json`` prints."""
        trimmed = {} if self.trimmed_work is None else {f"trimmed_{self.unit}": self.trimmed_work}
        return {
            "schema": FRONT_SCHEMA,
            "model": self.model,
            "optimal": None if self.claim is None else asdict(self.claim),
            "runtime": self.runtime,
            "target": self.target,
            "prediction_error": None if self.error is None else asdict(self.error),
            "state_bytes": self.state_bytes,
            "unfused": {"ram_bytes": self.unfused_ram_bytes, self.unit: self.unfused_work} | trimmed,
            "points": [
                {
                    "ram_bytes": row.ram_bytes,
                    self.unit: row.work,
                    "compute_factor": row.compute_factor,
                    "blocks": [
                        {"first": first, "last": last, "operators": count, "strip_width": width}
                        for first, last, count, width in row.blocks
                    ],
                    "marks": list(row.marks),
                }
                | ({} if row.memories is None else {"memories": asdict(row.memories)})
                for row in self.rows
            ],
        }

    def _repr_html_(self) -> str:
        return html_table(self.model, self.table())

    def to_csv(self) -> str:
        """Return CSV with one line per point: ram_bytes, work by its unit, compute_factor, number of blocks, marks.

        With two memories, ``fast_room``, ``fast_bytes``, ``slow_bytes``, ``read_bytes``, ``written_bytes`` and
        ``traffic_cycles`` follow.
        """
        names = _NUMBERS if self.rows[0].memories is not None else {}
        stream = io.StringIO()
        lines = csv.writer(stream, lineterminator="\n")
        lines.writerow(("ram_bytes", self.unit, "compute_factor", "blocks", "marks", *names.values()))
        for row in self.rows:
            memories = (getattr(row.memories, name) for name in names)
            factor, marks = f"{row.compute_factor:.6f}", "; ".join(row.marks)
            lines.writerow((row.ram_bytes, row.work, factor, len(row.blocks), marks, *memories))
        return stream.getvalue()

    def table(self) -> Table:
        """Return a table for a terminal."""
        if self.rows[0].memories is not None:
            return self._table_in_memories(self.rows[0].memories)
        caption = f"RAM is the arena to allocate for {runtime_named(self.runtime)}. The least RAM is {self.claim}."
        caption += (
            f"\n{self.state_bytes:,} bytes of the least RAM are kept from run to run." if self.state_bytes else ""
        )
        caption += "" if self.error is None else f"\n{self.unit.capitalize()} are predicted: {self.error}."
        figures = "RAM (bytes)", "MACs" if self.target is None else f"{self.unit}, {self.target}", "F"
        table = plain_table(*figures, "fused blocks (operators each)", "goal", right=figures, caption=caption)
        for row in self.rows:
            blocks = ", ".join(str(count) for _, _, count, _ in row.blocks)
            marks = ", ".join(row.marks)
            table.add_row(
                f"{row.ram_bytes:,}",
                f"{row.work:,}",
                f"{row.compute_factor:.3f}",
                blocks or "none",
                marks,
                style="bold" if row.marks else None,
            )
        return table

    def _table_in_memories(self, named: MemoryReport) -> Table:
        caption = (
            f"Bytes of {named.fast} for {runtime_named(self.runtime)}, and of {named.slow} that an inference reads and "
            f"writes.\nEach row is what rewrite makes for so much {named.fast}. Cycles that a kB more saves are those "
            "since the row above."
        )
        headings = *_HEADINGS, self.unit
        table = plain_table(*headings, right=headings, caption=caption)
        before: MemoryReport | None = None
        for row in self.rows:
            assert row.memories is not None
            use = row.memories
            saves = "-" if before is None else f"{before.saves_per_kb(use):,.0f}"
            numbers = (use.fast_room, use.fast_bytes, use.slow_bytes, use.read_bytes, use.written_bytes, use.cycles)
            table.add_row(*(f"{number:,}" for number in numbers), saves, f"{row.work:,}")
            before = use
        return table
