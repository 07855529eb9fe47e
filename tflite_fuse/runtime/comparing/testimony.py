"""What was run of a rewritten model beside its original, and what not, for which reason."""

from __future__ import annotations

from dataclasses import dataclass

from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.comparing.comparison import Comparison


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
    notes: tuple[str, ...] = ()


def unheard(wanted: bool | None) -> Testimony | None:
    """What there is to say where nothing is to be run, or cannot be; None where something is.

    Args:
        wanted: whether models must be run; None where a runtime is installed.
    """
    if wanted is False:
        return Testimony(None, "not asked for (--no-verify)")
    if wanted is None and not tflm.available():
        return Testimony(None, "TensorFlow Lite Micro is not installed (pip install 'tflite-fuse[verify]')")
    return None
