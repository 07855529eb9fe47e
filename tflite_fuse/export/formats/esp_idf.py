"""An ESP-IDF project, with the library as a component beside espressif/esp-tflite-micro."""

from __future__ import annotations

import re
from pathlib import Path
from string import Template

from tflite_fuse.export import library
from tflite_fuse.export.folder import Files
from tflite_fuse.export.text import fill
from tflite_fuse.export.tflm import TflmModel, includes, model_files, setup

_PROJECT = Template("""\
cmake_minimum_required(VERSION 3.16)
include($$ENV{IDF_PATH}/tools/cmake/project.cmake)
project($name)
""")

_COMPONENT = """\
idf_component_register(SRCS "main.cpp" "model_data.c" INCLUDE_DIRS ".")
"""

_MANIFEST = """\
dependencies:
  idf:
    version: ">=5.1"
  espressif/esp-tflite-micro:
    version: ">=1.3.0"
"""

_DEFAULTS = """\
CONFIG_COMPILER_OPTIMIZATION_PERF=y
CONFIG_ESP_MAIN_TASK_STACK_SIZE=8192
"""

_SECOND_MEMORY = """\
CONFIG_SPIRAM=y
CONFIG_SPIRAM_ALLOW_BSS_SEG_EXTERNAL_MEMORY=y
"""


def files(model: TflmModel, directory: Path) -> Files:
    """Return the project's files.

    Raises:
        UsageError: the resolver has no method for an operator.
        RuntimeUnavailableError: this installation lacks the library.
    """
    name = re.sub(r"[^A-Za-z0-9_]", "_", directory.resolve().name) or "model"
    return {
        "CMakeLists.txt": _PROJECT.substitute(name=name),
        "sdkconfig.defaults": _DEFAULTS + (_SECOND_MEMORY if model.memory else ""),
        "main/CMakeLists.txt": _COMPONENT,
        "main/idf_component.yml": _MANIFEST,
        "main/main.cpp": fill(
            "tflm/esp_idf.cpp",
            run=model.run,
            pause=model.pause,
            includes=includes(model),
            setup=setup(model, 'printf("%s\\n", line);'),
        ),
        **model_files(model, "main/", "tflite_fuse_tflm.h"),
        **library.package("components/tflite_fuse/"),
    }
