"""Plain C without TFLM: the model as data, the C library, a main program; built by ``cc *.c`` or by Zephyr."""

from __future__ import annotations

import re
from pathlib import Path
from string import Template

from tflite_fuse.export import library
from tflite_fuse.export.folder import Files
from tflite_fuse.export.ports import memory_macro, outside_source, port_macros
from tflite_fuse.export.steps import Place, Step, WholeModel
from tflite_fuse.export.text import byte_array, comment

SHOWN_ELEMENTS = 16
"""Elements of an output that the main program prints."""

_HEADER = Template("""\
/* $title for the C library of tflite-fuse. Written by tflite-fuse; export again rather than change it.$notes */
#ifndef ${NAME}_H_
#define ${NAME}_H_

#include "tflite_fuse_model.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ${NAME}_STEPS $steps
#define ${NAME}_ARENA_BYTES $arena$state

$ports
extern const tflite_fuse_model $name;

#ifdef __cplusplus
}
#endif

#endif
""")

_MAIN = Template("""\
/* Runs $title once and prints its outputs. Written by tflite-fuse; yours to change. */
#include <stdio.h>
#include <string.h>

#include "model.h"

/* Where a board has more than one memory, the compiler's flags say in which the arena lies:
 * -DMODEL_ARENA_SECTION='__attribute__((section(".dtcm")))' */
#ifndef MODEL_ARENA_SECTION
#define MODEL_ARENA_SECTION
#endif

static _Alignas(16) uint8_t arena[MODEL_ARENA_BYTES] MODEL_ARENA_SECTION;
static tflite_fuse_block blocks[MODEL_STEPS];
$outside
static int stop(tflite_fuse_status status) {
  printf("%s\\n", tflite_fuse_message(status));
  return 1;
}

int main(void) {
  tflite_fuse_status status = tflite_fuse_load(&model, blocks);
  if (status != TFLITE_FUSE_OK) {
    return stop(status);
  }
  const int used = MODEL_ARENA_BYTES;
  printf("arena: %d bytes used, %d free (MODEL_ARENA_BYTES)\\n", used, (int)sizeof(arena) - used);
$fill  status = tflite_fuse_run(&model, blocks, arena, sizeof(arena), $argument);
  if (status != TFLITE_FUSE_OK) {
    return stop(status);
  }
$print  return 0;
}
""")

_ZEPHYR_PROJECT = Template("""\
cmake_minimum_required(VERSION 3.20)
find_package(Zephyr REQUIRED HINTS $$ENV{ZEPHYR_BASE})
project($name LANGUAGES C)

file(GLOB sources CONFIGURE_DEPENDS src/*.c)
target_sources(app PRIVATE $${sources})
target_compile_options(app PRIVATE -ffp-contract=off) # float32: products are rounded before they are added
""")

_ZEPHYR_SETTINGS = """\
CONFIG_SPEED_OPTIMIZATIONS=y
CONFIG_MAIN_STACK_SIZE=4096
# On a core with a floating-point unit, for models in float32:
# CONFIG_FPU=y
"""


def files(model: WholeModel, title: str) -> Files:
    """Return the folder's files.

    Raises:
        RuntimeUnavailableError: this installation lacks the library.
    """
    return {
        **model_files(model, title, "model"),
        "main.c": _main(model, title),
        **library.flat_sources(),
        **library.licence(""),
    }


def zephyr_files(model: WholeModel, title: str, directory: Path) -> Files:
    """Return the files of an application for Zephyr; raises the errors of ``files``."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", directory.resolve().name) or "model"
    return {
        "CMakeLists.txt": _ZEPHYR_PROJECT.substitute(name=name),
        "prj.conf": _ZEPHYR_SETTINGS,
        **{f"src/{path}": content for path, content in files(model, title).items()},
    }


def model_files(model: WholeModel, title: str, name: str) -> Files:
    """Return header and data of a model with the C name ``name``."""
    return {f"{name}.h": _header(model, title, name), f"{name}.c": _data(model, name)}


def _header(model: WholeModel, title: str, name: str) -> str:
    ports = memory_macro(model.memory_bytes) + "".join(
        port_macros(port, [(_suffix(at), at.offset)]) + "\n" for port, at in (*model.inputs, *model.outputs)
    )
    return _HEADER.substitute(
        title=comment(title),
        notes="".join(f"\n * {note}." for note in model.notes),
        name=name,
        NAME=name.upper(),
        steps=len(model.steps),
        arena=model.arena_bytes,
        state=_state(model, name),
        ports=ports.replace("#define MODEL_", f"#define {name.upper()}_"),
    )


def _suffix(place: Place) -> str:
    """Of the macro that says where a port lies in its memory."""
    return "MEMORY_OFFSET" if place.apart else "OFFSET"


def _at(place: Place, macro: str) -> str:
    """The address of a port, in C."""
    return f"{'second_memory' if place.apart else 'arena'} + {macro}_{_suffix(place)}"


def _state(model: WholeModel, name: str) -> str:
    if model.state_offset == model.arena_bytes:
        return ""
    what = "/* From here on: zeros before the first run, the library's own between runs. */"
    return f"\n{what}\n#define {name.upper()}_STATE_OFFSET {model.state_offset}"


def _data(model: WholeModel, name: str) -> str:
    parts = [f'#include "{name}.h"\n']
    rows = []
    for number, step in enumerate(model.steps):
        parts.append(_arrays(number, step))
        rows.append(_row(number, step))
    steps, arena = f"{name.upper()}_STEPS", f"{name.upper()}_ARENA_BYTES"
    parts.append(f"static const tflite_fuse_step steps[{steps}] = {{\n{''.join(rows)}}};\n")
    parts.append(f"const tflite_fuse_model {name} = {{steps, {steps}, {arena}}};\n")
    return "\n".join(parts)


def _arrays(number: int, step: Step) -> str:
    parts = [f"/* {comment(step.label)} */\n"]
    if step.options:
        parts.append(
            byte_array(f"static const _Alignas(16) uint8_t options_{number}[{len(step.options)}]", step.options)
        )
        parts.append(
            byte_array(f"static const _Alignas(16) uint8_t constants_{number}[{len(step.constants)}]", step.constants)
        )
    for kind, places in (("inputs", step.inputs), ("outputs", step.outputs)):
        if places:
            listed = ", ".join(map(_place, places))
            parts.append(f"static const tflite_fuse_place {kind}_{number}[{len(places)}] = {{{listed}}};\n")
    return "".join(parts)


def _row(number: int, step: Step) -> str:
    blocks = (f"options_{number}", f"constants_{number}") if step.options else ("NULL", "NULL")
    places = [
        f"{kind}_{number}" if given else "NULL" for kind, given in (("inputs", step.inputs), ("outputs", step.outputs))
    ]
    sizes = (len(step.options), len(step.constants))
    counts = (len(step.inputs), len(step.outputs))
    own = _place(step.scratch), _place(step.state)
    return f"    {{{', '.join(map(str, (*blocks, *sizes, *places, *counts, *own)))}}},\n"


def _place(place: Place) -> str:
    return f"{{{place.offset}, {place.nbytes}}}"


def _main(model: WholeModel, title: str) -> str:
    source = outside_source(model.outside, model.memory_bytes)
    fill = [f"  memset({_at(at, p.macro)}, 0, {p.macro}_BYTES); /* Your data goes here. */\n" for p, at in model.inputs]
    show = [
        f"  for (int i = 0; i < {min(SHOWN_ELEMENTS, port.elements)}; ++i) {{\n"
        f'    printf("output {port.number}[%d] = %d\\n", i, ((const int8_t*)({_at(at, port.macro)}))[i]);\n'
        "  }\n"
        for port, at in model.outputs
    ]
    return _MAIN.substitute(
        title=comment(title),
        outside=f"\n{source}" if source else "",
        fill="".join(fill),
        argument="&outside" if source else "NULL",
        print="".join(show),
    )
