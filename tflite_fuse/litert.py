"""Run rewritten models in LiteRT on a PC: the interpreter of ``ai-edge-litert`` or ``tensorflow`` with our operator.

::

    import tflite_fuse.litert

    interpreter = tflite_fuse.litert.interpreter("small.tflite")
    interpreter.allocate_tensors()

It replaces ``Interpreter("small.tflite")`` in a program. Blocks compute the bytes of TensorFlow Lite Micro; operators
outside of blocks are LiteRT's, whose kernels may round differently.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

from tflite_fuse.errors import ModelError, RuntimeUnavailableError, how_to_install
from tflite_fuse.files import read_file
from tflite_fuse.model.file import load_model
from tflite_fuse.model.outside import outside_inputs
from tflite_fuse.runtime.library.sources import REGISTERER, shim_library
from tflite_fuse.runtime.processes.child import registerer

__all__ = ["interpreter"]

_MODULES = ("ai_edge_litert.interpreter", "tensorflow.lite.python.interpreter", "tflite_runtime.interpreter")


def interpreter(model: str | os.PathLike[str] | bytes, **options: Any) -> Any:
    """Return an interpreter of the installed LiteRT (else TensorFlow Lite) with the operator TFLITE_FUSE.

    It is LiteRT's own class with all its methods; call ``allocate_tensors()`` first, as usual. Models without blocks
    work, too. The model runs in this process with all its rights: load no untrusted ones.

    Args:
        model: path or content of a .tflite file.
        options: of that class, such as ``num_threads``. Its reference kernels are the default, because they are the
            nearest to TensorFlow Lite Micro's: ``experimental_op_resolver_type`` selects others.

    Raises:
        ModelError: the file is damaged, LiteRT refuses it, or it reads its input from outside of the arena, which only
            a device supports.
        RuntimeUnavailableError: no such package is installed, there is no C compiler, or the system is Windows.
        UsageError: the file cannot be read.
    """
    content = model if isinstance(model, bytes) else read_file(Path(model))
    name = "the model" if isinstance(model, bytes) else os.fspath(model)
    if outside_inputs(load_model(content)):
        raise ModelError(f"{name} has an input outside of the arena, which LiteRT lacks; rewrite it without --input")
    module = _module()
    options.setdefault("experimental_op_resolver_type", module.OpResolverType.BUILTIN_REF)
    register = _registerer()
    try:
        return module.InterpreterWithCustomOps(custom_op_registerers=[register], model_content=content, **options)
    except (RuntimeError, ValueError) as error:
        raise ModelError(f"{name}: LiteRT refuses the model: {error}") from error


def _module() -> Any:
    for name in _MODULES:
        with contextlib.suppress(ImportError):
            return importlib.import_module(name)
    raise RuntimeUnavailableError(f"no LiteRT is installed: {how_to_install('litert')}")


def _registerer() -> Any:
    """Return a function that adds our operator to an operator resolver, given by its address."""
    if sys.platform == "win32":
        raise RuntimeUnavailableError("LiteRT runs fused blocks only on Linux and macOS: its layout is not known here")
    return registerer([ctypes.CDLL(str(shim_library("litert")))], REGISTERER)
