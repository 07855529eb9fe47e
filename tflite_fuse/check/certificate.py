"""Outcome of a validation: counts of compared values, and every difference from the original."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Finding:
    """One difference between the rewritten model and the original, or a breach of the format.

    Attributes:
        where: the operator or part of the rewritten model, ``TFLITE_FUSE_3``.
        what: the property that is wrong, ``weight`` or ``the ring of tensor 4``.
        operator: the original's operator it belongs to, ``CONV_2D_7``; empty if none.
        channel: output channel, None for no channel or all.
        element: index within the channel, (tap row, tap column, input channel) of a weight.
        expected, actual: the two values.
        count: number of values of this kind that differ; only the first is listed.
        stage: number of the block's stage it belongs to, None if none.
    """

    where: str
    what: str
    operator: str = ""
    channel: int | None = None
    element: tuple[int, ...] = ()
    expected: object = None
    actual: object = None
    count: int = 1
    stage: int | None = None

    def __str__(self) -> str:
        """Return one sentence."""
        place = f" of {self.operator}" if self.operator else ""
        if self.channel is not None:
            place += f", channel {self.channel}"
        if self.element:
            place += f", element [{', '.join(map(str, self.element))}]"
        values = "" if self.expected is None and self.actual is None else f": {self.actual} instead of {self.expected}"
        more = f" ({self.count} such values differ)" if self.count > 1 else ""
        return f"{self.where}: {self.what}{place}{values}{more}"


@dataclass(frozen=True)
class BlockProof:
    """A block that was decoded and compared.

    Attributes:
        operator: its label in the rewritten model.
        replaces: labels of the original's operators that it computes.
        version: version of its options' format.
        tile_height, tile_width: rows and columns of the driven tensor in one tile.
        chunk: pixels of a run.
        longest_runs: pixels of a run for each stage, 0 for ``chunk``.
        ahead: stages that always compute whole runs, even where fewer pixels are needed.
        counts: number of compared stages, weights, table entries, replayed runs and so on, by name.
        values: pairs of a tensor of the block and a tensor of the original that hold the same bytes if the stages are
            sound.
    """

    operator: str
    replaces: tuple[str, ...]
    version: int
    tile_height: int
    tile_width: int
    chunk: int
    longest_runs: tuple[int, ...]
    ahead: tuple[int, ...]
    counts: dict[str, int] = field(default_factory=dict)
    values: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Certificate:
    """The outcome of a validation.

    Attributes:
        findings: all differences, in the order of the rewritten model; proven if there are none.
        blocks: the fused blocks.
        plain: number of operators that are the same in both models.
        notes: limits of the proof's scope, one sentence each.
        same: pairs of tensors (original, rewritten) that hold the same bytes if their writers are sound.
        narrower: number of tensors in blocks that lack channels of the original's because those carry no information.
    """

    findings: tuple[Finding, ...]
    blocks: tuple[BlockProof, ...] = ()
    plain: int = 0
    notes: tuple[str, ...] = ()
    same: tuple[tuple[int, int], ...] = ()
    narrower: int = 0

    @property
    def proven(self) -> bool:
        """Return whether the rewritten model computes the original's bytes for all inputs, given correct kernels."""
        return not self.findings

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of compared values of all blocks, by name."""
        total: Counter[str] = Counter()
        for block in self.blocks:
            total.update(block.counts)
        return dict(total)

    def to_json(self) -> dict[str, Any]:
        """Return the object that ``schemas/comparison.schema.json`` describes."""
        return {
            "proven": self.proven,
            "findings": [str(finding) for finding in self.findings],
            "blocks": len(self.blocks),
            "operators": self.plain,
            "compared": self.counts,
            "notes": list(self.notes),
        }

    def sentence(self, tested: int | None = None, otherwise: str = "kernels not run") -> str:
        """Return the claim as one sentence.

        Args:
            tested: number of inputs that both models ran on.
            otherwise: clause on other runs if there are none.
        """
        if self.findings:
            more = f" (and {len(self.findings) - 1} more)" if len(self.findings) > 1 else ""
            return f"not proven equal: {self.findings[0]}{more}"
        ran = otherwise if not tested else f"kernels tested on {tested} {'input' if tested == 1 else 'inputs'}"
        return f"constants, options and schedule proven equal; {ran}"
