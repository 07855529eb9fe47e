"""What was run of a rewritten model beside its original, and what not, for which reason.

What comparing two models found, as data: it is there without what compares.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tflite_fuse.check.certificate import Certificate
from tflite_fuse.notes import Note
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.comparing.difference import Difference


@dataclass(frozen=True)
class Testimony:
    """What was run.

    Attributes:
        oracle: the comparison in TensorFlow Lite Micro; None where it was not made, for the reason ``why_not``.
        second: the comparison in LiteRT, where the first was not made and this one could be.
        notes: what else is to be said.
    """

    oracle: Comparison | None
    why_not: str | None = None
    second: Comparison | None = None
    notes: tuple[Note, ...] = ()


def unheard(wanted: bool | None) -> Testimony | None:
    """What there is to say where nothing is to be run, or cannot be; None where something is.

    Args:
        wanted: whether models must be run; None where a runtime is installed.
    """
    if wanted is False:
        return Testimony(None, "not asked for (--no-verify)")
    if wanted is None and not tflm.available():
        return Testimony(None, f"TensorFlow Lite Micro is not installed ({tflm.how_to_get()})")
    return None


_TOO_FEW_TO_VARY = 4
"""Inputs: fewer are asked for by who knows that they say little."""
_VARYING = 0.5
"""Part of the output elements that should vary."""


@dataclass(frozen=True)
class MutationScore:
    """Weights changed by one, drawn from all blocks alike.

    Attributes:
        inputs: on how many inputs each was tried.
        altered: changes under which the operator's own output differs for some input.
        caught: those of them that show in what is compared: the outputs of the block and what it gives when open.
        constant: changes that altered nothing, in a channel that had one value throughout.
        silent: other changes that altered nothing.
    """

    inputs: int
    altered: int
    caught: int
    constant: int
    silent: int

    @property
    def share(self) -> float | None:
        """Caught of altered; None where nothing was altered."""
        return self.caught / self.altered if self.altered else None

    def __str__(self) -> str:
        """One sentence."""
        part = "" if self.share is None else f" ({100 * self.share:.1f} %)"
        return (
            f"of {self.altered + self.constant + self.silent} weights of blocks changed by one, {self.altered} alter a "
            f"value on these {self.inputs} inputs, and {self.caught}{part} of those would have been noticed; "
            f"{self.constant} are in channels that never vary, {self.silent} alter nothing"
        )

    def to_json(self) -> dict[str, Any]:
        """As ``schemas/comparison.schema.json`` has it."""
        return {**asdict(self), "share": self.share}


@dataclass(frozen=True)
class Comparison:
    """Result of comparing two models; ``first_difference`` is None exactly if they are bit-exact.

    ``inputs`` is the number of inputs both models were run on (up to the first difference); 0 where they could not be
    run, for the reason ``not_run``. Of the ``elements`` of all outputs ``varied`` took more than one value over these
    inputs; one that never does says nothing about what was computed on the way to it. ``certificate`` is there where
    the second model is a rewrite of the first: what was proven without running them. ``inside`` is the number of
    tensors at and in blocks that were compared beside the outputs, ``calls`` how many calls each of two sequences had
    that models with state were run over as well, ``seed`` that of the inputs if they were drawn,
    ``unconfined`` says which rights the runtime kept, ``score`` what changes of weights the run would have noticed.
    """

    bit_exact: bool
    inputs: int
    first_difference: Difference | None
    runtime: str
    version: str
    certificate: Certificate | None = None
    not_run: str | None = None
    varied: int = 0
    elements: int = 0
    inside: int = 0
    calls: int = 0
    seed: int | None = None
    unconfined: str = ""
    score: MutationScore | None = None

    @property
    def warning(self) -> str | None:
        """Says so where the outputs hardly vary, as those of a saturated model: equal bytes then mean little."""
        if self.inputs < _TOO_FEW_TO_VARY or self.varied >= _VARYING * self.elements:
            return None
        return (
            f"only {self.varied:,} of {self.elements:,} output values varied over {self.inputs} inputs: that they are "
            "equal says little; inputs of your own (verify --data) may say more"
        )

    @property
    def fault(self) -> str | None:
        """What is wrong, in words: in what was computed, in what the second model asks for; None if nothing is."""
        faults = [] if self.first_difference is None else [str(self.first_difference)]
        if self.certificate is not None and not self.certificate.proven:
            faults.append(self.certificate.sentence())
        return "; ".join(faults) or None

    def to_json(self) -> dict[str, Any]:
        """As ``schemas/comparison.schema.json`` has it."""
        return {
            "schema": "tflite-fuse/comparison/1",
            "runtime": self.runtime,
            "version": self.version,
            "inputs": self.inputs,
            "bit_exact": self.bit_exact,
            "first_difference": None if self.first_difference is None else str(self.first_difference),
            "proof": None if self.certificate is None else self.certificate.to_json(),
            "not_run": self.not_run,
            "seed": self.seed,
            "inside": self.inside,
            "calls": self.calls,
            "warning": self.warning,
            "unconfined": self.unconfined,
            "mutation_score": None if self.score is None else self.score.to_json(),
        }
