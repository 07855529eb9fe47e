"""An application for Zephyr: plain C without TensorFlow Lite Micro, built by ``west build``."""

from __future__ import annotations

import re
from pathlib import Path
from string import Template

from tflite_fuse.export.folder import Files
from tflite_fuse.export.formats import plain_c
from tflite_fuse.export.steps import WholeModel

_PROJECT = Template("""\
cmake_minimum_required(VERSION 3.20)
find_package(Zephyr REQUIRED HINTS $$ENV{ZEPHYR_BASE})
project($name LANGUAGES C)

file(GLOB sources CONFIGURE_DEPENDS src/*.c)
target_sources(app PRIVATE $${sources})
target_compile_options(app PRIVATE -ffp-contract=off) # float32: products are rounded before they are added
""")

_SETTINGS = """\
CONFIG_SPEED_OPTIMIZATIONS=y
CONFIG_MAIN_STACK_SIZE=4096
# On a core with a floating-point unit, for models in float32:
# CONFIG_FPU=y
"""


def files(model: WholeModel, title: str, directory: Path) -> Files:
    """Return the application's files.

    Raises:
        RuntimeUnavailableError: this installation lacks the library.
    """
    name = re.sub(r"[^A-Za-z0-9_]", "_", directory.resolve().name) or "model"
    return {
        "CMakeLists.txt": _PROJECT.substitute(name=name),
        "prj.conf": _SETTINGS,
        **{f"src/{path}": content for path, content in plain_c.files(model, title, directory).items()},
    }
