"""Projects on the Arduino API.

An Arduino sketch is its folder and includes the library; TFLM comes from the Library Manager. A PlatformIO project has
the library in ``lib/``.
"""

from __future__ import annotations

import re
from pathlib import Path
from string import Template

from tflite_fuse.errors import UsageError
from tflite_fuse.export import library
from tflite_fuse.export.folder import Files
from tflite_fuse.export.tflm import TflmModel, includes, model_files, setup

RUNTIME_HEADER = "Chirale_TensorFlowLite.h"
"""Main header of the TFLM library that sketches include by default."""

SKETCH = Template("""\
// Runs $run and prints its outputs. Written by tflite-fuse; yours to change.
$first
// The header of your TensorFlow Lite Micro library. It has to come before the others.
#include <$runtime>

$includes
$setup
void setup() {
  Serial.begin(115200);
  const char* reason = tflite::micro::SetUp();
  while (reason != nullptr) {
    Serial.println(reason);
    delay(5000);
  }
}

void loop() {
  tflite::micro::FillInputs();
  const unsigned long start = micros();
  if (tflite::micro::interpreter->Invoke() == 0) {  // kTfLiteOk
    Serial.print("microseconds: ");
    Serial.println(micros() - start);
    tflite::micro::PrintOutputs();
  } else {
    Serial.println("Invoke failed");
  }
  delay($pause);
}
""")

_LIBRARY = "src/tflite_fuse/"

_PLATFORMIO = """\
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
    return SKETCH.substitute(
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
        "platformio.ini": _PLATFORMIO,
        "src/main.cpp": sketch(model, "#include <Arduino.h>\n"),
        **model_files(model, "src/", "tflite_fuse_tflm.h"),
        **library.package("lib/tflite_fuse/"),
    }
