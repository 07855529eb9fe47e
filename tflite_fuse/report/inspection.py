"""A model's current memory, operator by operator, and a one-sentence verdict."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tflite_fuse.memory.tflm.runtimes import DEFAULT_RUNTIME, runtime_named
from tflite_fuse.model.outside import OutsideInput
from tflite_fuse.notes import Note, note, tensor_of
from tflite_fuse.report.notebook import html_table
from tflite_fuse.report.report import Figures
from tflite_fuse.report.wording import sentences_of

INSPECTION_SCHEMA = "tflite-fuse/inspection/1"


@dataclass(frozen=True)
class OperatorRow:
    """One operator of the memory table.

    Attributes:
        index: position in execution order.
        name: label, such as ``CONV_2D_7``.
        output: name of its first output.
        shape: shape of its first output.
        working_set_bytes: bytes live while it runs.
        macs: multiply-accumulates.
        bottleneck: whether its working set is the model's peak.
        blocked: why it cannot be part of a fused block; None if it can, or is replaced before blocks are made.
    """

    index: int
    name: str
    output: str
    shape: tuple[int, ...]
    working_set_bytes: int
    macs: int
    bottleneck: bool
    blocked: str | None


@dataclass(frozen=True)
class Inspection:
    """A model's figures, its memory table, and its inputs outside the arena."""

    model: str
    figures: Figures
    operators: tuple[OperatorRow, ...]
    records: tuple[Note, ...]
    outside: tuple[OutsideInput, ...] = ()
    runtime: str = DEFAULT_RUNTIME

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the sentences of ``records``."""
        return sentences_of(self.records)

    @property
    def bottleneck(self) -> OperatorRow | None:
        """Return the first operator whose working set is the peak."""
        return next((row for row in self.operators if row.bottleneck), None)

    def unfused(self) -> tuple[Note, ...]:
        """Return a note for each operator that cannot be part of a fused block."""
        return tuple(
            note("not fused", "operator", row.name, why=row.blocked, tensor=tensor_of(row.blocked))
            for row in self.operators
            if row.blocked is not None
        )

    def verdict(self) -> str:
        """Return one sentence: the arena to allocate and the operator of the peak."""
        figures = self.figures
        sentence = f"needs an arena of {figures.arena_bytes:,} bytes with {runtime_named(self.runtime)}"
        if self.bottleneck is None:
            return sentence
        return f"{sentence}; the bottleneck is {self.bottleneck.name} with {figures.peak_bytes:,} bytes live"

    def _repr_html_(self) -> str:
        from tflite_fuse.report.tables import inspection_table  # for notebooks alone

        return html_table(f"{self.model}: {self.verdict()}", inspection_table(self))

    def to_json(self) -> dict[str, Any]:
        """Return the object that ``inspect --json`` prints."""
        bottleneck = self.bottleneck.name if self.bottleneck else None
        return {
            "schema": INSPECTION_SCHEMA,
            "model": self.model,
            "verdict": self.verdict(),
            "runtime": self.runtime,
            "figures": asdict(self.figures),
            "bottleneck": bottleneck,
            "operators": [asdict(row) for row in self.operators],
            "outside": [entry.to_json() for entry in self.outside],
            "records": [each.to_json() for each in self.records],
            "notes": list(self.notes),
        }
