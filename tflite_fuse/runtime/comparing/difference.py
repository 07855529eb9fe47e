"""First difference between two models' results, and the elements that took more than one value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

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
