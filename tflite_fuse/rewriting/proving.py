"""The proof of a rewrite, and the operators that must stay outside of blocks if it fails.

A missing rule must not refuse a model. A failed proof names stages; their operators stay outside of blocks, and the
model is rewritten again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tflite_fuse.check import Certificate, Finding, validate
from tflite_fuse.emit.insert_blocks import InsertedBlock
from tflite_fuse.errors import ModelError, VerificationError
from tflite_fuse.ir.structs import VERSION
from tflite_fuse.model.operators import operator_label
from tflite_fuse.model.schema import Model
from tflite_fuse.notes import Note, note


@dataclass(frozen=True)
class Unproven:
    """An operator whose block could not be proven.

    Attributes:
        writes: name of the tensor it writes.
        label: of the operator.
        why: the finding, a clause.
    """

    writes: str
    label: str
    why: str

    @property
    def note(self) -> Note:
        return note("limited", "no proof", self.label, tensor=self.writes, why=self.why)


class UnprovenError(VerificationError):
    """A rewritten model could not be proven; ``operators`` are those of the blocks whose proof failed."""

    def __init__(self, message: str, operators: Sequence[Unproven]) -> None:
        super().__init__(message)
        self.operators = tuple(operators)


def prove(original: Model, output: bytes, rewritten: Model, inserted: Sequence[InsertedBlock]) -> Certificate:
    """Decode the file to be written, compare it with the original and return the certificate.

    Args:
        original: the model that was rewritten.
        output: the file.
        rewritten: the model in it.
        inserted: its blocks.

    Raises:
        ModelError: the original cannot be compared even with itself.
        UnprovenError: the file differs from the original, or its blocks differ from those selected.
    """
    certificate = validate(original, output)
    if not certificate.proven and not (own := validate(original, original)).proven:
        raise ModelError(f"the results of the model are not well defined: {own.findings[0]}; nothing was written")
    if not certificate.proven:
        raise UnprovenError(
            f"the rewritten model is {certificate.sentence()}",
            tuple(_unproven(rewritten, certificate.findings, inserted)),
        )
    chosen = sorted(map(_as_chosen, inserted))
    written = sorted(
        (each.version, each.tile_height, each.tile_width, each.chunk, each.longest_runs, each.ahead)
        for each in certificate.blocks
    )
    if chosen != written:
        raise UnprovenError(
            f"blocks are written as (version, tile height, tile width, run, runs of stages, those ahead) {written} "
            f"instead of {chosen}",
            (),
        )
    return certificate


def _as_chosen(inserted: InsertedBlock) -> tuple[int, int, int, int, tuple[int, ...], tuple[int, ...]]:
    """Return (version, tile height, tile width, run, run of each stage, stages that run ahead) of a selected block."""
    config, stages = inserted.plan.schedule.config, len(inserted.plan.block.stages)
    runs = (*config.longest_runs, *[0] * (stages - len(config.longest_runs)))
    return VERSION, config.tile_height, config.tile_width, config.chunk, runs, tuple(sorted(config.ahead))


def _unproven(rewritten: Model, findings: Sequence[Finding], inserted: Sequence[InsertedBlock]) -> Iterator[Unproven]:
    """Yield the operators of the stages that findings name; without stages, all operators of the named blocks."""
    by_name = {block.output: block for block in inserted}
    blocks = dict[str, InsertedBlock]()
    for index, operator in enumerate(rewritten.main.operators):
        written = rewritten.main.tensors[operator.outputs[0]].name if operator.outputs else None
        if written in by_name:
            blocks[operator_label(rewritten, index)] = by_name[written]
    named = [finding for finding in findings if finding.where in blocks]
    of_stages = [finding for finding in named if finding.stage is not None]
    for finding in of_stages or named:
        block = blocks[finding.where]
        operators = block.choice.operators
        places = list(range(len(operators)))
        if finding.stage is not None and block.plan.block.stages[finding.stage].operator in operators:
            places = [operators.index(block.plan.block.stages[finding.stage].operator)]
        for place in places:
            yield Unproven(block.writes[place], block.labels[place], finding.what)
