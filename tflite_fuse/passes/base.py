"""What a pass is and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tflite_fuse.claim import Claim
from tflite_fuse.model.schema import Model
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
    """

    model: Model
    changed: bool
    notes: tuple[Note, ...] = ()
    claim: Claim | None = None
    proves: str = ""


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
