"""Plain C without TFLM: the model as data, the C library, a main program; built by ``cc *.c`` or by Zephyr."""

from __future__ import annotations

import re
from pathlib import Path

from tflite_fuse.export import library
from tflite_fuse.export.folder import Files
from tflite_fuse.export.ports import C_TYPES, SHOWN_ELEMENTS, Port, memory_macro, outside_source, port_macros
from tflite_fuse.export.steps import Place, Step, WholeModel
from tflite_fuse.export.text import byte_array, comment, fill


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
        "CMakeLists.txt": fill("plain_c/CMakeLists.txt", name=name),
        "prj.conf": fill("plain_c/prj.conf"),
        **{f"src/{path}": content for path, content in files(model, title).items()},
    }


def model_files(model: WholeModel, title: str, name: str) -> Files:
    """Return header and data of a model with the C name ``name``."""
    return {f"{name}.h": _header(model, title, name), f"{name}.c": _data(model, name)}


def _header(model: WholeModel, title: str, name: str) -> str:
    ports = memory_macro(model.memory_bytes) + "".join(
        port_macros(port, [(_suffix(at), at.offset)]) + "\n" for port, at in (*model.inputs, *model.outputs)
    )
    return fill(
        "plain_c/model.h",
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
    """Return the end of the macro that says where a port lies in its memory."""
    return "MEMORY_OFFSET" if place.apart else "OFFSET"


def _at(place: Place, macro: str) -> str:
    """Return the address of a port, in C."""
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
        parts += [_array(f"options_{number}", step.options), _array(f"constants_{number}", step.constants)]
    for kind, places in (("inputs", step.inputs), ("outputs", step.outputs)):
        if places:
            listed = ", ".join(map(_place, places))
            parts.append(f"static const tflite_fuse_place {kind}_{number}[{len(places)}] = {{{listed}}};\n")
    stored = [place.constant for place in step.inputs]
    parts += [_array(f"input_{number}_{place}", content) for place, content in enumerate(stored) if content]
    if any(stored):
        listed = ", ".join(f"input_{number}_{place}" if content else "NULL" for place, content in enumerate(stored))
        parts.append(f"static const void* const flash_{number}[{len(stored)}] = {{{listed}}};\n")
    return "".join(parts)


def _array(name: str, data: bytes) -> str:
    return byte_array(f"static const _Alignas(16) uint8_t {name}[{len(data)}]", data)


def _row(number: int, step: Step) -> str:
    blocks = (f"options_{number}", f"constants_{number}") if step.options else ("NULL", "NULL")
    places = [
        f"{kind}_{number}" if ends else "NULL" for kind, ends in (("inputs", step.inputs), ("outputs", step.outputs))
    ]
    sizes = (len(step.options), len(step.constants))
    counts = (len(step.inputs), len(step.outputs))
    flash = f"flash_{number}" if any(place.constant for place in step.inputs) else "NULL"
    own = _place(step.scratch), _place(step.state), flash
    return f"    {{{', '.join(map(str, (*blocks, *sizes, *places, *counts, *own)))}}},\n"


def _place(place: Place) -> str:
    return f"{{{place.offset}, {place.nbytes}}}"


def _print(port: Port, at: Place) -> str:
    return fill(
        "plain_c/print.c",
        count=min(SHOWN_ELEMENTS, port.elements),
        number=port.number,
        type=C_TYPES[port.tensor.type],
        address=_at(at, port.macro),
        factor=port.factor,
    )


def _main(model: WholeModel, title: str) -> str:
    source = outside_source(model.outside, model.memory_bytes)
    filled = [
        f"  memset({_at(at, p.macro)}, 0, {p.macro}_BYTES); /* Your data goes here. */\n" for p, at in model.inputs
    ]
    show = [_print(port, at) for port, at in model.outputs]
    return fill(
        "plain_c/main.c",
        title=comment(title),
        outside=f"\n{source}" if source else "",
        fill="".join(filled),
        argument="&outside" if source else "NULL",
        print="".join(show),
    )
