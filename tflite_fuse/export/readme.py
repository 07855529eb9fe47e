"""The README of an exported folder: five steps to a running board, its files, and the printed output."""

from __future__ import annotations

from collections.abc import Sequence

from tflite_fuse.export import library
from tflite_fuse.export.flash import Flash
from tflite_fuse.export.ports import Port
from tflite_fuse.export.text import comment

CHIRALE = "2.0.0"
"""Newest version of Chirale_TensorFlowLite."""

_STEPS = {
    "arduino": (
        f"Arduino IDE 2: in the Library Manager install `Chirale_TensorFlowLite` {CHIRALE}, and in the Boards Manager"
        " your board's package. With another TensorFlow Lite Micro library change the first `#include` of the sketch.",
        "Open `{sketch}.ino`; choose board and port.",
        "Fill the input in `FillInputs` of the sketch, where it says *Your data goes here*.",
        "Upload.",
        "Open the Serial Monitor at 115200 baud.",
    ),
    "platformio": (
        "`pip install platformio`. It fetches what `platformio.ini` pins: the platform of the board and"
        f" `Chirale_TensorFlowLite` {CHIRALE}.",
        "Choose one of the two environments, `esp32dev` or `nano33ble`, or add your board to `platformio.ini`.",
        "Fill the input in `FillInputs` of `src/main.cpp`, where it says *Your data goes here*.",
        "`pio run -e esp32dev -t upload`",
        "`pio device monitor`",
    ),
    "esp-idf": (
        "ESP-IDF 5.1 or newer. Its component manager fetches `espressif/esp-tflite-micro`, 1.3.0 or newer.",
        "`idf.py set-target esp32s3`, or your chip.",
        "Fill the input in `FillInputs` of `main/main.cpp`, where it says *Your data goes here*.",
        "`idf.py build flash`",
        "`idf.py monitor`",
    ),
    "c": (
        "A C11 compiler. Nothing else is needed: no runtime, no library beside those files.",
        "Try it on this computer: `cc -std=c11 -O2 *.c -o run -lm && ./run`",
        "Fill the input in `main.c`, where it says *Your data goes here*.",
        "Add all files to your firmware, with `-O2`; `main.c` shows what to call.",
        "Call `tflite_fuse_load` once and `tflite_fuse_run` for each inference.",
    ),
    "zephyr": (
        "A Zephyr workspace with its SDK, 3.7 or newer. Nothing else is needed: no module, no runtime.",
        "Fill the input in `src/main.c`, where it says *Your data goes here*.",
        "`west build -b mps2/an521/cpu0 {folder}`, or your board.",
        "`west flash`, or `west build -t run` for a board in QEMU.",
        "Read the console.",
    ),
}

_PLACES = {
    "arduino": ("", "src/tflite_fuse"),
    "platformio": ("src/", "lib/tflite_fuse"),
    "esp-idf": ("main/", "components/tflite_fuse"),
}
"""(model, library): their places in folders for TensorFlow Lite Micro."""


def readme(
    format: str, title: str, folder: str, arena_bytes: int, flash: Flash, notes: Sequence[str], outputs: Sequence[Port]
) -> str:
    """Return the text of ``README.md``.

    Args:
        format: of ``FORMATS``.
        title: of the model.
        folder: the directory's name.
        arena_bytes: of the declared arena.
        flash: of model and library.
        notes: of the export, one sentence each.
        outputs: of the model.

    Raises:
        RuntimeUnavailableError: this installation lacks the library.
    """
    steps = [step.replace("{sketch}", folder).replace("{folder}", folder) for step in _STEPS[format]]
    lines = [
        f"# {comment(title)}, for {format}",
        "",
        f"Written by tflite-fuse {library.version()}; export again after a change of the model.",
        "",
        *(f"{number}. {step}" for number, step in enumerate(steps, 1)),
        "",
        "| what | where |",
        "|---|---|",
        *_where(format, arena_bytes),
        "",
        f"Flash: {_flash(format, flash)}",
        "",
        *(f"- {note[0].upper()}{note[1:]}." for note in notes),
        *([""] if notes else []),
        "It prints, with other numbers:",
        "",
        "```",
        *_printed(format, arena_bytes, outputs),
        "```",
        "",
    ]
    return "\n".join(lines)


def _flash(format: str, flash: Flash) -> str:
    text = f"{flash.sentence()}."
    if flash.library_bytes:
        text += " The library was measured at export, after the linker removed unused sections."
    return f"{text} The file that registers the operator, and the runtime, come on top." if format in _PLACES else text


def _where(format: str, arena_bytes: int) -> list[str]:
    if format in _PLACES:
        model, source = _PLACES[format]
        return [
            f"| the model, an array of constants for flash: never copy it to RAM | `{model}model_data.c` |",
            f"| the arena, {arena_bytes:,} bytes of RAM: `MODEL_ARENA_BYTES` | `{model}model_data.h` |",
            f"| the operators it needs, and no others | `{model}model_ops.h` |",
            f"| the library with the operator `TFLITE_FUSE`, {library.version()} | `{source}` |",
        ]
    source = "src/" if format == "zephyr" else ""
    return [
        f"| the model, arrays of constants for flash: never copy them to RAM | `{source}model.c` |",
        f"| the arena, {arena_bytes:,} bytes of RAM: `MODEL_ARENA_BYTES` | `{source}model.h` |",
        f"| where inputs and outputs lie in it: `MODEL_INPUT_0_OFFSET` and the like | `{source}model.h` |",
        f"| the library, {library.version()} | `{source}tflite_fuse*` |",
    ]


def _printed(format: str, arena_bytes: int, outputs: Sequence[Port]) -> list[str]:
    with_tflm = format in _PLACES
    free = 16 if with_tflm else 0
    lines = [f"arena: {arena_bytes - free} bytes used, {free} free (MODEL_ARENA_BYTES)"]
    lines += ["microseconds: 41873"] if with_tflm else []
    for port in outputs:
        scale = " * 1000" if port.field == "f" else ""
        lines += [
            f"output {port.number}[{number}]{scale} = {12 - 7 * number}" for number in range(min(2, port.elements))
        ]
        lines += ["..."] if port.elements > 2 else []
    return lines
