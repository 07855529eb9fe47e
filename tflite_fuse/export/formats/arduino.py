"""Projects on the Arduino API.

An Arduino sketch is its folder and includes the library; TFLM comes from the Library Manager. A PlatformIO project has
the library in ``lib/``.
"""

from __future__ import annotations

import re
from pathlib import Path

from tflite_fuse.errors import UsageError
from tflite_fuse.export import library
from tflite_fuse.export.folder import Files
from tflite_fuse.export.text import fill
from tflite_fuse.export.tflm import TflmModel, includes, model_files, setup

RUNTIME_HEADER = "Chirale_TensorFlowLite.h"
"""Main header of the TFLM library that sketches include by default."""


_LIBRARY = "src/tflite_fuse/"


def check(directory: Path) -> None:
    """Raise UsageError for a directory whose name no sketch can have."""
    name = directory.resolve().name
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}", name):
        raise UsageError(
            f"{directory}: an Arduino sketch is named like its folder, and {name!r} is no name for one; use letters, "
            "digits, dots, dashes and underscores, 63 at most"
        )


def files(model: TflmModel, directory: Path) -> Files:
    """Return the sketch's files for a folder.

    Raises:
        UsageError: the resolver has no method for an operator.
        RuntimeUnavailableError: this installation lacks the library.
    """
    header = f"{_LIBRARY}tflite_fuse_tflm.h"
    return {
        f"{directory.resolve().name}.ino": sketch(model),
        **model_files(model, "", header),
        **library.sources(_LIBRARY),
        **library.licence(_LIBRARY),
    }


def sketch(model: TflmModel, first: str = "") -> str:
    """Return the main program for the Arduino API; ``first`` goes before all other includes."""
    return fill(
        "tflm/sketch.ino",
        run=model.run,
        pause=model.pause,
        first=first,
        runtime=RUNTIME_HEADER,
        includes=includes(model),
        setup=setup(model, "Serial.println(line);"),
    )


def platformio_files(model: TflmModel) -> Files:
    """Return a PlatformIO project's files; raises the errors of ``files``."""
    return {
        "platformio.ini": fill("tflm/platformio.ini"),
        "src/main.cpp": sketch(model, "#include <Arduino.h>\n"),
        **model_files(model, "src/", "tflite_fuse_tflm.h"),
        **library.package("lib/tflite_fuse/"),
    }
