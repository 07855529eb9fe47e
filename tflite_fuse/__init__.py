"""Make TensorFlow Lite models fit microcontrollers: less RAM, the same bytes.

::

    import tflite_fuse

    result = tflite_fuse.rewrite("model.tflite")
    result.save("small.tflite")
    print(result.report.after.arena_bytes)
"""

from tflite_fuse.api import (
    DEFAULT_PASSES,
    INPUT_MODES,
    SCHEMES,
    TARGETS,
    Result,
    inspect,
    load,
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

__version__ = "0.2.0"

__all__ = [
    "DEFAULT_PASSES",
    "INPUT_MODES",
    "SCHEMES",
    "TARGETS",
    "BlockError",
    "Goal",
    "LimitError",
    "ModelError",
    "PlanError",
    "Result",
    "RuntimeUnavailableError",
    "TfliteFuseError",
    "UsageError",
    "VerificationError",
    "__version__",
    "inspect",
    "load",
    "pareto",
    "rewrite",
    "run",
    "verify",
]
