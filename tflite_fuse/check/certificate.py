"""What a validation says: what was compared, and everything that is not as the original asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Finding:
    """One thing in the rewritten model that is not what the original asks for, or not what the format allows.

    Attributes:
        where: the operator or part of the rewritten model, ``TFLITE_FUSE_3``.
        what: what is wrong, ``weight`` or ``the ring of tensor 4``.
        operator: the operator of the original it belongs to, ``CONV_2D_7``; empty where there is none.
        stage: the stage of the block it belongs to, None where there is none.
        channel: output channel, None where it concerns none or all.
        element: index within the channel, (tap row, tap column, input channel) of a weight.
        expected, found: the two values.
        count: how many values of this kind differ; the others are not listed.
    """

    where: str
    what: str
    operator: str = ""
    channel: int | None = None
    element: tuple[int, ...] = ()
    expected: object = None
    found: object = None
    count: int = 1
    stage: int | None = None

    def __str__(self) -> str:
        """One sentence."""
        place = f" of {self.operator}" if self.operator else ""
        if self.channel is not None:
            place += f", channel {self.channel}"
        if self.element:
            place += f", element [{', '.join(map(str, self.element))}]"
        values = "" if self.expected is None and self.found is None else f": {self.found} instead of {self.expected}"
        more = f" ({self.count} such values differ)" if self.count > 1 else ""
        return f"{self.where}: {self.what}{place}{values}{more}"


@dataclass(frozen=True)
class BlockProof:
    """One block that was decoded and compared.

    Attributes:
        operator: its label in the rewritten model.
        replaces: labels of the operators of the original it computes.
        version: of its options' format.
        tile_height, tile_width, chunk, longest_runs: how it runs; the last has an entry per stage, 0 for ``chunk``.
        ahead: stages that compute whole runs, whether all of them are waited for or not.
        counts: what was compared: stages, weights, table entries, runs of pixels replayed and so on.
        values: tensors of the block, and those of the original that hold the same bytes if its stages are sound.
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
        findings: everything found wrong, in the order of the rewritten model. None: proven.
        blocks: the fused blocks.
        plain: operators that are the same in both models.
        notes: what a reader must know about the scope of the proof.
        same: tensors of the original and of the rewritten model that were found to hold the same bytes, where what
            writes them is sound.
        narrower: tensors in blocks that lack channels of the original's, because these say nothing.
    """

    findings: tuple[Finding, ...]
    blocks: tuple[BlockProof, ...] = ()
    plain: int = 0
    notes: tuple[str, ...] = ()
    same: tuple[tuple[int, int], ...] = ()
    narrower: int = 0

    @property
    def proven(self) -> bool:
        """Whether the rewritten model computes, for all inputs, what the original does if kernels do their work."""
        return not self.findings

    @property
    def counts(self) -> dict[str, int]:
        """What was compared in all blocks together."""
        total: Counter[str] = Counter()
        for block in self.blocks:
            total.update(block.counts)
        return dict(total)

    def to_json(self) -> dict[str, Any]:
        """As ``schemas/comparison.schema.json`` has it."""
        return {
            "proven": self.proven,
            "findings": [str(finding) for finding in self.findings],
            "blocks": len(self.blocks),
            "operators": self.plain,
            "compared": self.counts,
            "notes": list(self.notes),
        }

    def sentence(self, tested: int | None = None) -> str:
        """What may be claimed; ``tested`` is the number of inputs both models were run on."""
        if self.findings:
            more = f" (and {len(self.findings) - 1} more)" if len(self.findings) > 1 else ""
            return f"not proven equal: {self.findings[0]}{more}"
        ran = "kernels not run" if not tested else f"kernels tested on {tested} inputs"
        return f"constants, options and schedule proven equal; {ran}"


def merged(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings without repetition, in order."""
    return tuple({str(finding): finding for finding in findings}.values())
