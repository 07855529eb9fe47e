#!/usr/bin/env python3
"""Write the structs and constants that Python and C share from schemas/*.fbs.

Run this after every change of a schema; a test compares the files.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from struct import calcsize

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.formats.schema import Constant, Group, Schema, read_schema  # noqa: E402

WIDTH = 120

_ENUMS = {"StageKind": "kind", "Storage": "storage", "ElementType": "element", "WeightLayout": "layout"}
_STRUCTS = {
    "BlockHeader": "header",
    "TensorDesc": "tensor",
    "StageDesc": "stage",
    "ChannelEntry": "channel",
    "AddTable": "addition",
    "OffsetTable": "offset_table",
}
"""What C calls them, behind ``tflite_fuse_``."""

_FRAGMENT_STRUCTS = {
    "FragmentHeader": "fragment_header",
    "FragmentStep": "fragment_step",
    "FragmentView": "fragment_view",
    "FragmentBlock": "fragment_block",
    "FragmentEnd": "fragment_end",
}


# ---- Python ----


def _docstring(doc: str, indent: str = "") -> str:
    """Return a docstring of one paragraph or more, as the schema breaks its lines."""
    lines = doc.splitlines()
    close = "" if len(lines) == 1 else f"\n{indent}"
    return indent + '"""' + f"\n{indent}".join(lines) + close + '"""'


def _python_file(schema: Schema, doc: str, imports: str, parts: list[str]) -> str:
    head = (
        _docstring(f"{doc}.\n\n{schema.origin}. Do not edit: change that one.")
        + "\n\nfrom __future__ import annotations\n"
    )
    text = "\n".join([head, *([imports] if imports else []), *parts])
    return re.sub(r"[ \t]+\n", "\n", text)


def _assignments(group: Group) -> list[str]:
    return [f"{c.name} = {c.value}" + (f"\n{_docstring(c.doc)}" if c.doc else "") for c in group.constants]


def _paragraph(doc: str) -> str:
    return doc.partition("\n\n")[0]


def limits_file(schema: Schema) -> str:
    """Return ``block/limits.py``: the constants of the table Limits."""
    group = schema.tables["Limits"]
    return _python_file(schema, _paragraph(group.doc).rstrip("."), "", _assignments(group)) + "\n"


def enums_file(schema: Schema) -> str:
    """Return ``block/enums.py``: the enums, as IntEnum."""
    parts = [_python_enum(schema.enums[name]) for name in _ENUMS]
    return _python_file(schema, "Numeric codes in the options of a fused block", "from enum import IntEnum\n", parts)


def _python_enum(group: Group) -> str:
    values = [
        f"    {c.name} = {c.value}" + (f"\n{_docstring(c.doc, '    ')}" if c.doc else "") for c in group.constants
    ]
    return f"\nclass {group.name}(IntEnum):\n{_docstring(group.doc, '    ')}\n\n" + "\n".join(values) + "\n"


def structs_file(schema: Schema) -> str:
    """Return ``ir/structs.py``: the structs, their layouts, and the numbers of the format itself."""
    fields = schema.tables["FusedBlock"].constants
    parts = [
        f'IDENTIFIER = b"{schema.identifier}"',
        *_assignments(schema.tables["Format"]),
        f"FIELDS = {_python_tuple([c.name.lower() for c in fields])}",
        '"""Fields of ``FusedBlock``, by their numbers."""',
        "",
    ]
    parts += _python_structs(schema, _STRUCTS)
    parts.append("LATER: dict[type, tuple[str, ...]] = {")
    parts += [
        f"    {name}: {_python_tuple([f.name for f in schema.structs[name].fields if f.later])}," for name in _STRUCTS
    ]
    parts.append('}\n"""Fields without a use yet: 0; readers refuse other values."""\n')
    imports = "from struct import Struct\nfrom typing import NamedTuple\n"
    return _python_file(schema, "The structs in the options of a fused block, and in its constants", imports, parts)


def fragment_file(schema: Schema) -> str:
    """Return ``fragments/structs.py``: the same of fragments."""
    parts = [*_assignments(schema.tables["FragmentFormat"]), "", _python_enum(schema.enums["StepKind"])]
    parts += _python_structs(schema, _FRAGMENT_STRUCTS)
    imports = "from enum import IntEnum\nfrom struct import Struct\nfrom typing import NamedTuple\n"
    return _python_file(schema, "The structs of a fragment", imports, parts)


def _python_structs(schema: Schema, names: Iterable[str]) -> list[str]:
    parts = [_python_struct(schema.structs[name]) for name in names]
    parts.append("\nLAYOUTS: dict[type, Struct] = {")
    parts += [f'    {name}: Struct("<{_letters(schema.structs[name])}"),' for name in names]
    return [*parts, '}\n"""Bytes of each struct; reserved bytes are 0 and have no field."""\n']


def _python_tuple(names: list[str]) -> str:
    listed = ", ".join(f'"{name}"' for name in names)
    return f"({listed}{',' if len(names) == 1 else ''})"


def _letters(group: Group) -> str:
    """Return the layout for Python's struct module."""
    letters = ("x" * calcsize(f.letter) if f.reserved else f.letter for f in group.fields)
    return "".join(letters)


def _python_struct(group: Group) -> str:
    fields = [f"    {field.name}: int = 0" for field in group.fields if not field.reserved]
    return f"\nclass {group.name}(NamedTuple):\n{_docstring(group.doc, '    ')}\n\n" + "\n".join(fields) + "\n"


# ---- C ----


def _comment(doc: str, indent: str = "") -> str:
    lines = "".join(f"\n{indent} * {line}".rstrip(" ") for line in doc.splitlines())
    return f"{indent}/*{lines.removeprefix(chr(10) + indent + ' *')} */\n" if doc else ""


_ASSERT = """\
#if defined(TFLITE_FUSE_ASSERT)
#elif defined(__cplusplus)
#define TFLITE_FUSE_ASSERT(condition, reason) static_assert(condition, reason)
#elif __STDC_VERSION__ >= 201112L
#define TFLITE_FUSE_ASSERT(condition, reason) _Static_assert(condition, reason)
#else
#define TFLITE_FUSE_ASSERT(condition, reason) extern int tflite_fuse_asserted
#endif
"""


def header_file(schema: Schema) -> str:
    """Return ``tflite_fuse_format.h``: enums, constants and structs."""
    parts = [
        f"/* {schema.origin}, which documents every field. Do not edit. */",
        "#ifndef TFLITE_FUSE_FORMAT_H_\n#define TFLITE_FUSE_FORMAT_H_\n",
        "#include <stdbool.h>\n#include <stdint.h>\n",
        _ASSERT,
        f'#define TFLITE_FUSE_IDENTIFIER "{schema.identifier}"\n',
        _c_enum(schema.tables["Format"], "", ""),
        _c_enum(schema.tables["Limits"], "", ""),
        _c_enum(Group("", "Fields of FusedBlock.", _numbered(schema.tables["FusedBlock"])), "", "FIELD_"),
    ]
    parts += [_c_enum(schema.enums[name], f"tflite_fuse_{word} ", f"{word.upper()}_") for name, word in _ENUMS.items()]
    parts += [_c_struct(schema.structs[name], f"tflite_fuse_{word}") for name, word in _STRUCTS.items()]
    return "\n".join([*parts, "#endif\n"])


def fragment_header_file(schema: Schema) -> str:
    """Return ``tflite_fuse_fragment_format.h``: the same of fragments."""
    parts = [
        f"/* {schema.origin}, which documents every field. Do not edit. */",
        "#ifndef TFLITE_FUSE_FRAGMENT_FORMAT_H_\n#define TFLITE_FUSE_FRAGMENT_FORMAT_H_\n",
        "#include <stdbool.h>\n#include <stdint.h>\n",
        _ASSERT,
        _c_enum(schema.tables["FragmentFormat"], "", ""),
        _c_enum(schema.enums["StepKind"], "tflite_fuse_step_kind ", "STEP_"),
        *(_c_struct(schema.structs[name], f"tflite_fuse_{word}") for name, word in _FRAGMENT_STRUCTS.items()),
    ]
    return "\n".join([*parts, "#endif\n"])


def _numbered(table: Group) -> tuple[Constant, ...]:
    names = [*(constant.name for constant in table.constants), "COUNT"]
    return tuple(Constant(name, number, "") for number, name in enumerate(names))


def _c_enum(group: Group, tag: str, prefix: str) -> str:
    """The first paragraph of its documentation is enough here."""
    values = ",\n".join(f"{_comment(c.doc, '  ')}  TFLITE_FUSE_{prefix}{c.name} = {c.value}" for c in group.constants)
    return f"{_comment(_paragraph(group.doc))}enum {tag}{{\n{values}\n}};\n"


def _c_struct(group: Group, name: str) -> str:
    """Return the struct, and assertions that it has no gaps and that unused bytes are 0."""
    fields = "".join(f"  {field.c_type} {field.name};\n" for field in group.fields)
    size = calcsize("<" + "".join(field.letter for field in group.fields))
    text = f"{_comment(group.doc)}typedef struct {name} {{\n{fields}}} {name};\n\n"
    text += f'TFLITE_FUSE_ASSERT(sizeof({name}) == {size}, "read in place");\n'
    unused = [f"value->{field.name}" for field in group.fields if field.later or field.reserved]
    if unused:
        test = textwrap.fill(f"return ({' | '.join(unused)}) == 0;", WIDTH - 2, subsequent_indent="          ")
        text += "\n/* Returns whether all fields without a use yet are 0. */\n"
        text += f"static inline bool {name}_is_known(const {name}* value) {{\n  {test}\n}}\n"
    return text


# ---- Files ----

FILES: dict[str, dict[str, Callable[[Schema], str]]] = {
    "fused_block": {
        "tflite_fuse/ir/limits.py": limits_file,
        "tflite_fuse/ir/enums.py": enums_file,
        "tflite_fuse/ir/structs.py": structs_file,
        "arduino/src/executor/tflite_fuse_format.h": header_file,
    },
    "fragment": {
        "tflite_fuse/split/fragments/structs.py": fragment_file,
        "arduino/src/worker/tflite_fuse_fragment_format.h": fragment_header_file,
    },
}
"""Schema → path in the project → what makes its text."""


def main() -> None:
    """Write the files."""
    for name, files in FILES.items():
        schema = read_schema(name)
        for path, make in files.items():
            (ROOT / path).write_text(make(schema))


if __name__ == "__main__":
    main()
