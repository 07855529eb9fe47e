"""A PlatformIO project on the Arduino API, with the library in ``lib/``."""

from __future__ import annotations

from pathlib import Path

from tflite_fuse.export import library
from tflite_fuse.export.folder import Files
from tflite_fuse.export.formats import arduino
from tflite_fuse.export.tflm import TflmModel, model_files

_PROJECT = """\
; Two boards to start from; any other that TensorFlow Lite Micro's library below supports will do.
[platformio]
default_envs = esp32dev

[env]
framework = arduino
monitor_speed = 115200
build_flags = -O2 -ffp-contract=off
build_unflags = -Os
lib_deps =
    https://github.com/spaziochirale/Chirale_TensorFlowLite.git#v2.0.0

[env:esp32dev]
platform = espressif32@6.10.0
board = esp32dev

[env:nano33ble]
platform = nordicnrf52@10.5.0
board = nano33ble
"""


def files(model: TflmModel, directory: Path) -> Files:
    """Return the project's files.

    Raises:
        UsageError: the resolver has no method for an operator.
        RuntimeUnavailableError: this installation lacks the library.
    """
    del directory
    return {
        "platformio.ini": _PROJECT,
        "src/main.cpp": arduino.sketch(model, "#include <Arduino.h>\n"),
        **model_files(model, "src/", "tflite_fuse_tflm.h"),
        **library.package("lib/tflite_fuse/"),
    }
