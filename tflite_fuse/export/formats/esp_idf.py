"""An ESP-IDF project, with the library as a component beside espressif/esp-tflite-micro."""

from __future__ import annotations

import re
from pathlib import Path

from tflite_fuse.export import library
from tflite_fuse.export.folder import Files
from tflite_fuse.export.text import fill
from tflite_fuse.export.tflm import TflmModel, includes, model_files, setup


def files(model: TflmModel, directory: Path) -> Files:
    """Return the project's files.

    Raises:
        UsageError: the resolver has no method for an operator.
        RuntimeUnavailableError: this installation lacks the library.
    """
    name = re.sub(r"[^A-Za-z0-9_]", "_", directory.resolve().name) or "model"
    settings = ("sdkconfig", "psram") if model.memory else ("sdkconfig",)
    return {
        "CMakeLists.txt": fill("esp_idf/CMakeLists.txt", name=name),
        "sdkconfig.defaults": "".join(fill(f"esp_idf/{name}.defaults") for name in settings),
        "main/CMakeLists.txt": fill("esp_idf/component.txt"),
        "main/idf_component.yml": fill("esp_idf/idf_component.yml"),
        "main/main.cpp": fill(
            "esp_idf/main.cpp",
            run=model.run,
            pause=model.pause,
            includes=includes(model),
            setup=setup(model, 'printf("%s\\n", line);'),
        ),
        **model_files(model, "main/", "tflite_fuse_tflm.h"),
        **library.package("components/tflite_fuse/"),
    }
