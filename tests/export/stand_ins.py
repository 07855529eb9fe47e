"""Exported programs compiled as by their boards' toolchains, with stand-ins for headers."""

from __future__ import annotations

import re
from pathlib import Path

from tests.arduino.fake_runtime import HERE, SANITIZERS, build, compiler, headers_of, library_objects
from tests.export.exported import run

FORMATS = {"arduino": "", "platformio": "src/", "esp-idf": "main/"}
"""Where each has its program."""

_LIBRARY = {"arduino": "src/tflite_fuse", "platformio": "lib/tflite_fuse/src", "esp-idf": "components/tflite_fuse/src"}

_KNOWN = {"AddConv2D", "AddDequantize", "AddSoftmax"}
"""Methods the stand-in for a resolver has."""


def main_of(program: Path) -> Path:
    """The main program in a folder."""
    (found,) = [*program.glob("*.ino"), *program.glob("main.cpp")]
    return found


def run_with_stand_ins(program: Path, format: str, generation: int, scratch: Path, *extra: str) -> str:
    """Compile the program as its board's toolchain would, but for headers that stand for the real ones; run it."""
    headers = scratch / "headers"
    methods = set(re.findall(r"ops\.(Add\w+)\(\)", (program / "model_ops.h").read_text())) - _KNOWN
    further = " ".join(f"TfLiteStatus {method}() {{ return kTfLiteOk; }}" for method in sorted(methods))
    board = ["Arduino.h", "Chirale_TensorFlowLite.h", "esp_timer.h", "freertos/FreeRTOS.h", "freertos/task.h"]
    runtime = [f"tensorflow/lite/micro/{name}.h" for name in ("micro_interpreter", "micro_profiler_interface")]
    runtime.append("tensorflow/lite/schema/schema_generated.h")
    for name in (*board, *runtime):
        (headers / name).parent.mkdir(parents=True, exist_ok=True)
        (headers / name).write_text('#include "fake_board.h"\n')
    whole = scratch / "whole.cpp"
    start = "app_main();" if format == "esp-idf" else "setup();\n  for (;;) loop();"
    first = '#include "fake_board.h"\n' if format == "arduino" else ""
    whole.write_text(f'{first}#include "{main_of(program)}"\nint main() {{\n  {start}\n}}\n')
    library = program.parent if format != "arduino" else program
    folders = [library / _LIBRARY[format], headers, headers_of(generation), HERE, Path(__file__).parent, program]
    flags = ["-std=c++11", "-Wall", "-Wextra", "-Werror", *SANITIZERS, f"-DFAKE_GENERATION={generation}", *extra]
    flags += [f"-DFAKE_OPERATORS={further}"] if further else []
    include = [f"-I{folder}" for folder in folders]
    data = sorted(program.glob("*_data.c"))
    for each in data:
        build([compiler("gcc"), "-c", each, f"-I{program}", "-o", scratch / f"{each.stem}.o"])
    glue = sorted((library / _LIBRARY[format]).glob("tflm/*.cpp"))  # none where the model has no block
    objects = [*(scratch / f"{each.stem}.o" for each in data), *library_objects()]
    build([compiler("g++"), *flags, *include, whole, *glue, *objects, "-o", scratch / "program"])
    return run([scratch / "program"])
