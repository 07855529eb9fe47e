"""What a pass is and what it answers."""

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
    """What a pass did.

    Attributes:
        model: the model after the pass; the very same object where nothing changed.
        changed: whether the pass changed the model.
        notes: one per site: what was done, and why not where nothing was done.
        claim: what is proven about a pass that looks for the least of something; None where there was nothing to prove.
        proves: what the claim is about: ``order``, ``fusion`` or ``plan``.
        witness: what the proof has to know of the choices, in the numbers of the tensors before the pass.
        origins: by tensor of ``model``, its number before the pass, -1 for one that is new; None where tensors keep
            their numbers, or no pass behind this one has a witness.
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
        """The model with the witness of this pass alone, as a file that the proof compares with the model before."""
        return set_witness(self.model, self.witness)


class Pass(Protocol):
    """A step from model to model. Passes are frozen dataclasses; their fields are their settings."""

    @property
    def name(self) -> str:
        """How ``--passes`` and reports call it."""

    def run(self, model: Model) -> PassResult:
        """Apply the pass.

        Raises:
            TfliteFuseError: the model does not meet what the pass requires.
        """


def run_passes(model: Model, passes: Sequence[Pass]) -> tuple[Model, list[PassResult]]:
    """Run passes one after another; returns the last model and every pass's result."""
    results: list[PassResult] = []
    for step in passes:
        results.append(step.run(model))
        model = results[-1].model
    return model, results


def witness_of(results: Sequence[PassResult]) -> Witness:
    """Return what passes that ran one after another hand to the proof, in numbers of the tensors before the first."""
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
    return Witness({tensor: channels for tensor, channels in kept.items() if tensor >= 0})
