"""Results of comparing a rewritten model with its original, as data, and why a comparison was not made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tflite_fuse.check.certificate import Certificate
from tflite_fuse.notes import Note
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.processes.worker import Array


@dataclass(frozen=True)
class Difference:
    """The first element in which two models differ.

    Attributes:
        input_index: number of the input.
        output_name: the output tensor's name in the first model.
        element: index in that tensor.
        value_a, value_b: the two models' values.
        differing: number of elements of that tensor that differ for that input.
        streamed: whether state was kept from the input before.
        inside: whether the tensor is between operators instead of an output.
    """

    input_index: int
    output_name: str
    element: tuple[int, ...]
    value_a: float
    value_b: float
    differing: int
    streamed: bool = False
    inside: bool = False

    def __str__(self) -> str:
        """Return one sentence."""
        place = ", ".join(str(index) for index in self.element)
        what = "tensor" if self.inside else "output"
        return (
            f"{what} {self.output_name} differs at [{place}]: "
            f"{self.value_a:g} and {self.value_b:g} ({self.differing} elements differ) for input {self.input_index}"
            + (", with the state left by the inputs before" if self.streamed else "")
        )


def first_difference(
    results: Sequence[Sequence[Array]], names: Sequence[str], input_index: int, streamed: bool, outputs: int
) -> Difference | None:
    """Return the first element that differs, None if all are equal.

    Args:
        results: list of arrays of each of the two models.
        names: of these arrays.
        input_index, streamed: for the result.
        outputs: how many of the arrays are outputs; the others are tensors between operators.
    """
    for number, (name, a, b) in enumerate(zip(names, *results, strict=True)):
        differing = np.flatnonzero((bits(a) != bits(b)).any(axis=-1))
        if differing.size:
            element = np.unravel_index(int(differing[0]), a.shape)
            return Difference(
                input_index,
                name,
                tuple(int(index) for index in element),
                float(a[element]),
                float(b[element]),
                int(differing.size),
                streamed,
                number >= outputs,
            )
    return None


def bits(array: Array) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return uint8 [elements, bytes per element]: −0 is not 0, and every NaN is the same one.

    The bits of a NaN depend on the order in which a compiler adds.
    """
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), np.asarray(np.nan, array.dtype), array)
    return np.frombuffer(array.tobytes(), np.uint8).reshape(array.size, array.dtype.itemsize)


class Seen:
    """Records which elements of the outputs took more than one value."""

    def __init__(self) -> None:
        self._first: list[Array] = []
        self._varied: list[Array] = []

    def note(self, outputs: Sequence[Array]) -> None:
        """Add the outputs for one more input."""
        values = [bits(output) for output in outputs]
        if not self._first:
            self._first, self._varied = values, [np.zeros(len(each), bool) for each in values]
        for varied, first, now in zip(self._varied, self._first, values, strict=True):
            varied |= (first != now).any(axis=-1)

    @property
    def varied(self) -> int:
        return sum(int(each.sum()) for each in self._varied)

    @property
    def elements(self) -> int:
        return sum(len(each) for each in self._varied)


@dataclass(frozen=True)
class Comparisons:
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


def not_compared(verify: bool | None) -> Comparisons | None:
    """Return the result if nothing is to be run or can be; None if a comparison is to be made.

    Args:
        verify: whether models must be run; None: only if a runtime is installed.
    """
    if verify is False:
        return Comparisons(None, "not requested (--no-verify)")
    if verify is None and not tflm.available():
        return Comparisons(None, f"TensorFlow Lite Micro is not installed ({tflm.how_to_get()})")
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
        identical: whether the files are the same, byte for byte.
        second_witness: where they could not run, the comparison in LiteRT.
        no_second_witness: where they could not run, why LiteRT cannot say anything either; None if not installed.
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
    identical: bool = False
    second_witness: Comparison | None = None
    no_second_witness: str | None = None
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

    def witness_json(self) -> dict[str, Any]:
        """Return the object that stands for a second witness in JSON."""
        fields = "runtime", "version", "inputs", "bit_exact"
        return {name: getattr(self, name) for name in fields}

    def to_json(self) -> dict[str, Any]:
        """Return the object that ``schemas/comparison.schema.json`` describes."""
        plain = "not_run", "identical", "no_second_witness", "seed", "inside", "calls", "warning", "unconfined"
        return {
            "schema": "tflite-fuse/comparison/1",
            **self.witness_json(),
            **{name: getattr(self, name) for name in plain},
            "first_difference": None if self.first_difference is None else str(self.first_difference),
            "proof": None if self.certificate is None else self.certificate.to_json(),
            "second_witness": None if self.second_witness is None else self.second_witness.witness_json(),
            "mutation_score": None if self.score is None else self.score.to_json(),
        }
