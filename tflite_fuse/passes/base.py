"""Interface of passes and their results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tflite_fuse.claim import Claim
from tflite_fuse.model.schema import Model
from tflite_fuse.model.witness import Witness, set_witness
from tflite_fuse.notes import Note


@dataclass(frozen=True)
class PassResult:
    """Result of a pass.

    Attributes:
        model: the model after the pass; the same object if nothing changed.
        changed: whether the pass changed the model.
        notes: one per site: the change, or the reason why there is none.
        claim: proof of a minimum that the pass searched for; None without one.
        proves: subject of the claim: ``order``, ``fusion`` or ``plan``.
        witness: choices that the proof needs, with tensor indices before the pass.
        origins: by tensor of ``model``, its index before the pass, -1 for a new one; None if tensors keep their
            indices, or no later pass has a witness.
    """

    model: Model
    changed: bool
    notes: tuple[Note, ...] = ()
    claim: Claim | None = None
    proves: str = ""
    witness: Witness = field(default_factory=Witness, kw_only=True)
    origins: tuple[int, ...] | None = field(default=None, kw_only=True)

    @property
    def witnessed(self) -> Model:
        """Return the model with the witness of this pass alone, for a comparison with the model before."""
        return set_witness(self.model, self.witness)


class Pass(Protocol):
    """A step from model to model. Passes are frozen dataclasses; their fields are their settings."""

    @property
    def name(self) -> str:
        """Return the name in ``--passes`` and reports."""

    def run(self, model: Model) -> PassResult:
        """Apply the pass.

        Raises:
            TfliteFuseError: the model does not meet the conditions of the pass.
        """


def run_passes(model: Model, passes: Sequence[Pass]) -> tuple[Model, list[PassResult]]:
    """Run passes one after another; return the last model and all results."""
    results: list[PassResult] = []
    for step in passes:
        results.append(step.run(model))
        model = results[-1].model
    return model, results


def witness_of(results: Sequence[PassResult]) -> Witness:
    """Return the witness of passes that ran one after another, with tensor indices before the first."""
    kept: dict[int, tuple[int, ...]] = {}
    origins: tuple[int, ...] | None = None

    def first(tensor: int) -> int:
        if origins is None or tensor < 0:
            return tensor
        return origins[tensor] if tensor < len(origins) else -1

    for result in results:
        kept.update((first(tensor), channels) for tensor, channels in result.witness.kept.items())
        if result.origins is not None:
            origins = tuple(map(first, result.origins))
    columns = any(result.witness.columns for result in results)
    return Witness({tensor: channels for tensor, channels in kept.items() if tensor >= 0}, columns)
