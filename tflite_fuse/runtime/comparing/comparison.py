"""Results of comparing a rewritten model with its original, as data, and why a comparison was not made."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tflite_fuse.check.certificate import Certificate
from tflite_fuse.notes import Note
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.comparing.difference import Difference


@dataclass(frozen=True)
class Testimony:
    """The comparisons that were made.

    Attributes:
        oracle: the comparison in TensorFlow Lite Micro; None if it was not made, for the reason ``why_not``.
        second: the comparison in LiteRT, if the first was not possible and this one was.
        notes: further notes.
    """

    oracle: Comparison | None
    why_not: str | None = None
    second: Comparison | None = None
    notes: tuple[Note, ...] = ()


def unheard(wanted: bool | None) -> Testimony | None:
    """Return the result if nothing is to be run or can be; None if a comparison is to be made.

    Args:
        wanted: whether models must be run; None: only if a runtime is installed.
    """
    if wanted is False:
        return Testimony(None, "not asked for (--no-verify)")
    if wanted is None and not tflm.available():
        return Testimony(None, f"TensorFlow Lite Micro is not installed ({tflm.how_to_get()})")
    return None


_TOO_FEW_TO_VARY = 4
"""Inputs below which no warning is given: so few are a deliberate choice."""
_VARYING = 0.5
"""Share of the output elements that should vary."""


@dataclass(frozen=True)
class MutationScore:
    """Results of changing weights by one, drawn from all blocks alike.

    Attributes:
        inputs: number of inputs on which each change was tried.
        altered: changes that alter the operator's own output for some input.
        caught: those that also show in a compared tensor: outputs of the block, or tensors of the opened block.
        constant: changes without effect in a channel of constant value.
        silent: other changes without effect.
    """

    inputs: int
    altered: int
    caught: int
    constant: int
    silent: int

    @property
    def share(self) -> float | None:
        """Return caught / altered; None if nothing was altered."""
        return self.caught / self.altered if self.altered else None

    def __str__(self) -> str:
        """Return one sentence."""
        part = "" if self.share is None else f" ({100 * self.share:.1f} %)"
        return (
            f"of {self.altered + self.constant + self.silent} weights of blocks changed by one, {self.altered} alter a "
            f"value on these {self.inputs} inputs, and {self.caught}{part} of those would have been noticed; "
            f"{self.constant} are in channels that never vary, {self.silent} alter nothing"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the object that ``schemas/comparison.schema.json`` describes."""
        return {**asdict(self), "share": self.share}


@dataclass(frozen=True)
class Comparison:
    """Result of comparing two models; ``first_difference`` is None exactly if they are bit-exact.

    Attributes:
        bit_exact: whether all compared bytes are equal.
        inputs: number of inputs that both models ran on (up to the first difference); 0 if they could not run.
        first_difference: the first difference.
        runtime, version: of the runtime.
        certificate: the proof, if the second model is a rewrite of the first.
        not_run: why the models could not run.
        varied: output elements with more than one value over these inputs; a constant one says nothing about the
            computation.
        elements: output elements in all.
        inside: number of tensors at and in blocks that were compared beside the outputs.
        calls: calls of each of two sequences that models with state ran over, too.
        seed: of generated inputs.
        unconfined: needless rights that the runtime kept.
        score: changes of weights that the run would have noticed.
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
        """Return a warning if the outputs hardly vary, as those of a saturated model: equal bytes then mean little."""
        if self.inputs < _TOO_FEW_TO_VARY or self.varied >= _VARYING * self.elements:
            return None
        return (
            f"only {self.varied:,} of {self.elements:,} output values varied over {self.inputs} inputs: that they are "
            "equal says little; verify with your own inputs (verify --data)"
        )

    @property
    def fault(self) -> str | None:
        """Return the difference and the failed proof in words; None if there is neither."""
        faults = [] if self.first_difference is None else [str(self.first_difference)]
        if self.certificate is not None and not self.certificate.proven:
            faults.append(self.certificate.sentence())
        return "; ".join(faults) or None

    def to_json(self) -> dict[str, Any]:
        """Return the object that ``schemas/comparison.schema.json`` describes."""
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
