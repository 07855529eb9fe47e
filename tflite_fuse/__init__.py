"""Make TensorFlow Lite models fit microcontrollers: less RAM, the same bytes.

::

    import tflite_fuse

    result = tflite_fuse.rewrite("model.tflite")
    result.save("small.tflite")
    print(result.report.after.arena_bytes)
"""

from importlib import import_module

TYPE_CHECKING = False  # as in typing, whose import would delay the handler of interrupts
if TYPE_CHECKING:
    from tflite_fuse.api import (
        INPUT_MODES,
        SCHEMES,
        TARGETS,
        Converted,
        Result,
        convert,
        inspect,
        load,
        metrics,
        pareto,
        rewrite,
        run,
        verify,
    )
    from tflite_fuse.errors import (
        BlockError,
        LimitError,
        ModelError,
        PlanError,
        RuntimeUnavailableError,
        TfliteFuseError,
        UsageError,
        VerificationError,
    )
    from tflite_fuse.passes.goal import Goal
    from tflite_fuse.passes.options import DEFAULT_PASSES
    from tflite_fuse.report.front import FrontReport
    from tflite_fuse.report.inspection import Inspection
    from tflite_fuse.report.report import Report

__version__ = "0.4.0"

__all__ = [
    "DEFAULT_PASSES",
    "INPUT_MODES",
    "SCHEMES",
    "TARGETS",
    "BlockError",
    "Converted",
    "FrontReport",
    "Goal",
    "Inspection",
    "LimitError",
    "ModelError",
    "PlanError",
    "Report",
    "Result",
    "RuntimeUnavailableError",
    "TfliteFuseError",
    "UsageError",
    "VerificationError",
    "__version__",
    "convert",
    "inspect",
    "load",
    "metrics",
    "pareto",
    "rewrite",
    "run",
    "verify",
]


def __getattr__(name: str) -> object:
    """Import the interface on first use, so an import of an error or the version does not load numpy."""
    if name == "litert":  # so that `tflite_fuse.litert` needs no import of its own
        return import_module("tflite_fuse.litert")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    room = "errors" if name.endswith("Error") else "passes.goal" if name == "Goal" else "api"
    return getattr(import_module(f"tflite_fuse.{room}"), name)
