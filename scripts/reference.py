#!/usr/bin/env python3
"""The reference pages, generated from the code: operators, commands, Python interface, schemas, error sentences.

reference.py FOLDER writes them there, as does building the pages. No part of them is written by hand.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import typer

import tflite_fuse
from tflite_fuse import errors
from tflite_fuse.cli import app
from tflite_fuse.ops.table import KINDS, LOWERINGS

ROOT = Path(__file__).resolve().parents[1]

EXIT_CODES = {"LimitError": 1, "VerificationError": 1}
"""Of the command line; every other error ends with 2."""


def pages() -> dict[str, str]:
    """Return all pages by file name."""
    return {
        "operators.md": operators(),
        "commands.md": commands(),
        "python.md": python(),
        "schemas.md": schemas(),
        "errors.md": error_sentences(),
    }


# ---- operators ----


def operators() -> str:
    """Return the page of operators: TFLite's int8 operators by kind of stage, and the kinds by number."""
    by_kind: dict[str, list[str]] = {}
    for name in sorted(LOWERINGS):
        if not name.startswith("CUSTOM:"):
            kinds = [kind.number.name for kind in KINDS.values() if name in kind.lowerings]
            by_kind.setdefault(", ".join(kinds) or "none: only renames bytes", []).append(name)
    lines = [
        "# Kinds of stages",
        "",
        "An operator of TensorFlow Lite becomes a stage of one of these kinds;"
        " [which operators](../operators.md) blocks hold on which type is a page of its own.",
        "",
        "| kind of stage on int8 | operators |",
        "|---|---|",
        *(f"| {kind} | {', '.join(names)} |" for kind, names in sorted(by_kind.items())),
        "",
        "## Kinds",
        "",
        "| number | kind | inputs | an output pixel needs of each input |",
        "|---:|---|---|---|",
    ]
    for number, kind in sorted(KINDS.items()):
        least, most = kind.inputs
        inputs = f"{least}" if least == most else f"{least} to {most}"
        lines.append(f"| {int(number)} | {number.name} | {inputs} | {kind.window.value} |")
    return _text(lines)


# ---- commands ----


def commands() -> str:
    """Return the page of commands with arguments and options, from their help."""
    group: Any = typer.main.get_command(app)
    lines = [
        "# Commands",
        "",
        "Exit codes: 0 done, 1 the model does not meet a request (differs, does not fit), 2 bad usage or input.",
        "",
        "Before the command, as in `tflite-fuse --log FILE rewrite ...`:",
        "",
        *_options(group),
        "",
    ]
    subcommands = {name: group.get_command(None, name) for name in group.list_commands(None)}
    for name, command in _leaves(subcommands):
        lines += [f"## {name}", "", _sentence(command.help), "", f"`tflite-fuse {name} {_usage(command)}`", ""]
        lines += [*_options(command), ""]
    return _text(lines)


def _options(command: Any) -> list[str]:
    """Return a line for each option of a command."""
    return [_option(each) for each in command.params if each.param_type_name == "option" and each.name != "help"]


def _leaves(commands: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Return commands and those of groups, by their full names."""
    for name, command in commands.items():
        if hasattr(command, "commands"):
            yield from _leaves(command.commands, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def _usage(command: Any) -> str:
    named = [each for each in command.params if each.param_type_name == "argument"]
    words = [(each.metavar or each.name.upper()) + ("..." if each.nargs < 0 else "") for each in named]
    return " ".join(
        [*(word if each.required else f"[{word}]" for each, word in zip(named, words, strict=True)), "[OPTIONS]"]
    )


def _option(option: Any) -> str:
    names = " / ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    default = option.default
    shown = "" if default in (None, False, ()) or callable(default) else f" (`{default}`)"
    return f"- {names}{shown}: {_escaped(' '.join((option.help or '').split()))}"


# ---- Python ----


def python() -> str:
    """Return the page of the public Python API for Sphinx's autodoc."""
    functions = [name for name in tflite_fuse.__all__ if inspect.isfunction(getattr(tflite_fuse, name))]
    classes = [name for name in tflite_fuse.__all__ if inspect.isclass(getattr(tflite_fuse, name))]
    lines = ["# Python", "", "Everything here is in the package `tflite_fuse`.", ""]
    for heading, names, directive in (("Functions", functions, "autofunction"), ("Types", classes, "autoclass")):
        lines += [f"## {heading}", ""]
        for name in names:
            members = "\n:members:" if directive == "autoclass" else ""
            lines += ["```{eval-rst}", f".. {directive}:: tflite_fuse.{name}{_indented(members)}", "```", ""]
    return _text(lines)


def _indented(text: str) -> str:
    return text.replace("\n", "\n   ")


# ---- schemas ----


def schemas() -> str:
    """Return the page of JSON schemas and their fields."""
    lines = [
        "# JSON objects",
        "",
        "What commands print with `--json` and write to files, as JSON Schema (draft 2020-12) describes it. The files"
        " are in `schemas/`; they refer to each other by `$id`.",
        "",
    ]
    for path in sorted((ROOT / "schemas").glob("*.schema.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        lines += [f"## {path.name}", "", _sentence(document.get("title", "")), ""]
        if "description" in document:
            lines += [_sentence(document["description"]), ""]
        lines += list(_fields(document))
        for name, part in document.get("$defs", {}).items():
            if "properties" in part:
                lines += [f"### {path.name.partition('.')[0]}: {name}", "", _sentence(part.get("description", "")), ""]
                lines += list(_fields(part))
    return _text(lines)


def _fields(part: Mapping[str, Any]) -> Iterator[str]:
    if part.get("properties"):
        for name, field in part["properties"].items():
            kind, said = _type(field), _escaped(" ".join(field.get("description", "").split()))
            yield f"- `{name}`{f' ({kind})' if kind else ''}{f': {said}' if said else ''}"
        yield ""


def _type(field: Mapping[str, Any]) -> str:
    if "const" in field:
        return f"`{json.dumps(field['const'])}`"
    if "enum" in field:
        return ", ".join(f"`{json.dumps(each)}`" for each in field["enum"])
    if "$ref" in field:
        return _referred(field["$ref"])
    for choice in ("oneOf", "anyOf"):
        if (named := [_type(each) for each in field.get(choice, ())]) and all(named):
            return " or ".join(named)
    kind = field.get("type", "")
    named = " or ".join(kind) if isinstance(kind, list) else kind
    return f"{named} of {_type(field['items'])}" if "items" in field and isinstance(field["items"], dict) else named


def _referred(reference: str) -> str:
    """Return ``urn:tflite-fuse:report:1#/$defs/figures`` in words."""
    file, _, part = reference.partition("#")
    name = file.removeprefix("urn:tflite-fuse:").partition(":")[0]
    return ": ".join(each for each in (name, part.rpartition("/")[2]) if each)


# ---- errors ----


def error_sentences() -> str:
    """Return every sentence of this package's errors, variable parts in angle brackets."""
    pages_of: dict[str, set[str]] = {}
    for path in sorted((ROOT / "tflite_fuse").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name):
                name = node.exc.func.id
                text = _template(node.exc.args[0]) if node.exc.args else None
                if hasattr(errors, name) and text is not None and re.search(r"[a-z]{3}", re.sub(r"<[^>]*>", "", text)):
                    pages_of.setdefault(name, set()).add(text)
    lines = [
        "# Error sentences",
        "",
        "What the package says when it refuses something; what depends on the case stands in angle brackets. The"
        " command line prints the sentence alone and ends with the exit code of its kind.",
        "",
    ]
    for name in sorted(pages_of):
        kind = getattr(errors, name)
        lines += [f"## {name}", "", f"{_sentence(kind.__doc__ or '')} Exit code {EXIT_CODES.get(name, 2)}.", ""]
        lines += [f"- {_escaped(text)}" for text in sorted(pages_of[name], key=str.lower)]
        lines.append("")
    lines += ["## The device library", "", "`tflite_fuse_message` says these:", ""]
    source = (ROOT / "arduino" / "src" / "executor" / "tflite_fuse_options.c").read_text(encoding="utf-8")
    lines += [f"- {text}" for text in re.findall(r'return "([^"]+)";', source[source.index("tflite_fuse_message(") :])]
    return _text(lines)


def _template(node: ast.expr) -> str | None:
    """Return the text of an expression with its variable parts in angle brackets; None where it is no text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            part.value if isinstance(part, ast.Constant) else f"<{_named(part.value)}>"  # type: ignore[attr-defined]
            for part in node.values
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = _template(node.left), _template(node.right)
        return None if None in parts else "".join(filter(None, parts))
    return None


def _named(node: ast.expr) -> str:
    """Return the words for a variable part: the last name of its expression, or dots."""
    while isinstance(node, (ast.Call, ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Attribute):
            return node.attr.replace("_", " ").strip()
        inner = node.args[0] if isinstance(node, ast.Call) and node.args else None
        node = inner or (node.func if isinstance(node, ast.Call) else node.value)  # type: ignore[union-attr]
    return node.id.replace("_", " ").strip() if isinstance(node, ast.Name) else "..."


# ---- Markdown ----


def _text(lines: list[str]) -> str:
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def _sentence(text: str) -> str:
    words = _escaped(" ".join(text.split()))
    return words if not words or words.endswith((".", ":", "!")) else f"{words}."


def _escaped(text: str) -> str:
    """Marks of Markdown that are none here."""
    return re.sub(r"([<>\[\]*_$])", r"\\\1", text.replace("``", "`"))


def main() -> None:
    """Write the pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
