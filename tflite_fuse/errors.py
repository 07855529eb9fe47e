"""The errors that tflite-fuse raises on purpose.

Every message is one sentence that names the file, operator or tensor and, if there is one, the next step. The command
line turns ``LimitError``, ``VerificationError`` and ``ClusterError`` into exit code 1 and every other one into exit
code 2.
"""

from __future__ import annotations


class TfliteFuseError(Exception):
    """Base of every error that this package raises on purpose."""


class ModelError(TfliteFuseError):
    """A model file is damaged, inconsistent, or uses a feature that this package cannot preserve."""


class PlanError(TfliteFuseError):
    """An arena plan breaks a rule: overlapping lifetimes, a misaligned offset, a wrong number of tensors."""


class BlockError(TfliteFuseError):
    """A fused block, or its encoded options, is inconsistent, or an operator cannot be in one.

    Attributes:
        tensor: name of the tensor in the message; empty if it names none.
    """

    def __init__(self, message: str, tensor: str = "") -> None:
        super().__init__(message)
        self.tensor = tensor


class LimitError(TfliteFuseError):
    """A requested limit (RAM, compute) cannot be reached.

    Attributes:
        limit: the limit in bytes of RAM or flash, or as a factor of compute; None if the message is about none of
            these.
        reached: the nearest result in the same unit; None if there is none.
        operator: the operator that prevents it; empty if it is not a single one.
    """

    def __init__(
        self, message: str = "", *, limit: float | None = None, reached: float | None = None, operator: str = ""
    ) -> None:
        super().__init__(message)
        self.limit, self.reached, self.operator = limit, reached, operator

    def followed_by(self, words: str) -> LimitError:
        """Return the same error with words behind its message."""
        return LimitError(f"{self}{words}", limit=self.limit, reached=self.reached, operator=self.operator)


class BudgetError(LimitError):
    """A model is too large to be searched."""


class VerificationError(TfliteFuseError):
    """Two models that must compute the same bytes do not."""


class ClusterError(TfliteFuseError):
    """A device of a cluster is lost, late, or does not belong to it."""


class RuntimeUnavailableError(TfliteFuseError):
    """A runtime, compiler or optional package that the requested step needs is not installed."""


class UsageError(TfliteFuseError):
    """Arguments that contradict each other or a path that cannot be used."""


LIBRARIES = {
    "dask": ("distributed>=2023.10",),
    "litert": ("ai-edge-litert>=2.0.2",),
    "onnx": ("onnx2tf>=1.29.24", "ai-edge-quantizer>=0.4.1"),
    "ray": ("ray>=2.40",),
    "report": ("jinja2>=3.1", "matplotlib>=3.8"),
    "serial": ("pyserial>=3.5",),
    "torch": ("litert-torch>=0.10",),
    "verify": ("tflite-micro==0.dev20261023182759", "ai-edge-litert>=2.0.2"),
}
"""Packages of each extra in ``setup.cfg`` that a message names."""


def how_to_install(extra: str) -> str:
    """Return the command that installs the libraries of an extra.

    It names the libraries, because the package itself may not be on an index, as in a checkout.
    """
    return f"pip install {' '.join(map(repr, LIBRARIES[extra]))}"
