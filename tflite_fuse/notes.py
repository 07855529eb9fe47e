"""Notes of passes, searches and the planner as data. Only ``report/wording.py`` makes sentences of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Detail = str | int | float | Mapping[str, int]


class Reason(str):
    """A clause with the reason of a refusal, and the name of the tensor in it; empty if it names none."""

    tensor: str

    def __new__(cls, text: str, tensor: str = "") -> Reason:
        reason = super().__new__(cls, text)
        reason.tensor = tensor
        return reason


def tensor_of(reason: str) -> str:
    """Return the name of the tensor in a reason; empty if it names none."""
    return reason.tensor if isinstance(reason, Reason) else ""


@dataclass(frozen=True)
class Note:
    """An action at one site of a model, or the reason why it was not done.

    Attributes:
        operators: labels of the operators at the site, in order of execution; empty for the whole model.
        fate: outcome: ``fused``, ``not fused``, ``kept``, ``changed``, ``removed``, ``planned``, ``not planned``,
            ``run``, ``expected``, ``offered``, ``limited`` or ``warned``.
        reason: key of the reason or of the kind of change, unique within a fate.
        details: figures and names of this site, by the words of the JSON report. Bytes end in ``_bytes``.
    """

    operators: tuple[str, ...]
    fate: str
    reason: str
    details: Mapping[str, Detail] = field(default_factory=dict, hash=False)

    def to_json(self) -> dict[str, Any]:
        """Return the object of ``records`` in ``schemas/report.schema.json``."""
        details = {name: dict(each) if isinstance(each, Mapping) else each for name, each in self.details.items()}
        return {"operators": list(self.operators), "fate": self.fate, "reason": self.reason, "details": details}


def note(fate: str, reason: str, *operators: str, **details: Detail) -> Note:
    """Return a note of operators with details given by keyword."""
    return Note(operators, fate, reason, details)
