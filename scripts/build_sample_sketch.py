#!/usr/bin/env python3
"""Write the data of the Arduino example SampleModel: the bundled model, rewritten, and an image for it.

The image is a constant that stays in flash: the model is rewritten for an external input and reads it there.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tflite_fuse
from scripts import shapes
from tflite_fuse.data import SAMPLE_MODEL
from tflite_fuse.export import export_model
from tflite_fuse.runtime import tflm

EXAMPLE = Path(__file__).resolve().parents[1] / "arduino" / "examples" / "SampleModel"

WANTED = "star"
"""What the picture shows."""

_HEADER = """\
/* A picture of a {what}: {rows} x {columns} pixels, red, green, blue. Written by scripts/build_sample_sketch.py. */
#ifndef PICTURE_H_
#define PICTURE_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

#define PICTURE_BYTES {size}

extern const int8_t picture[PICTURE_BYTES];

/* Outputs of TensorFlow Lite Micro with the original model: one number for each class. */
extern const int8_t expected[{classes}];

/* The classes, in that order. */
extern const char* const names[{classes}];

#ifdef __cplusplus
}}
#endif

#endif
"""


_SOURCE = """\
#include "picture.h"

const int8_t expected[{classes}] = {{{scores}}};

const char* const names[{classes}] = {{{names}}};

const int8_t picture[PICTURE_BYTES] = {{
    {values}}};
"""


def find_picture() -> npt.NDArray[np.int8]:
    """Return the first held-out picture of a class, int8 [1, 128, 128, 3]."""
    images, labels = shapes.pictures(60)
    number = int(np.flatnonzero(labels == shapes.CLASSES.index(WANTED))[0])
    return shapes.quantized(images[number : number + 1])


def write_example(folder: Path) -> tflite_fuse.Result:
    """Write ``model_data.h``, ``model_data.c``, ``model_ops.h``, ``picture.h`` and ``picture.c``."""
    result = tflite_fuse.rewrite(SAMPLE_MODEL, input_mode="external")
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / SAMPLE_MODEL.name
        result.save(source)
        export_model(source, Path(scratch) / "project", "platformio")
        for name in ("model_data.h", "model_data.c", "model_ops.h"):
            shutil.copyfile(Path(scratch) / "project" / "src" / name, folder / name)
    picture = find_picture()
    scores = tflm.run(SAMPLE_MODEL.read_bytes(), [[picture]]).outputs[0][0].ravel()
    _, rows, columns, _ = picture.shape
    shape = {"what": WANTED, "rows": rows, "columns": columns, "size": picture.size, "classes": len(scores)}
    lists = {
        "scores": ", ".join(map(str, scores)),
        "names": ", ".join(f'"{name}"' for name in shapes.CLASSES),
        "values": ",\n    ".join(",".join(map(str, row)) for row in picture.reshape(-1, 32)),
    }
    (folder / "picture.h").write_text(_HEADER.format(**shape))
    (folder / "picture.c").write_text(_SOURCE.format(**shape, **lists))
    return result


def main() -> None:
    """Write the example's data."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=EXAMPLE, help="where to")
    report = write_example(parser.parse_args().folder).report
    print(f"an arena of {report.after.arena_bytes:,} bytes instead of {report.before.arena_bytes:,}")


if __name__ == "__main__":
    main()
