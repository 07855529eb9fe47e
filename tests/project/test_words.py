"""Texts use words of the field, none of ``scripts/word_list.txt``; the glossary and the page of rooms stay small."""

from __future__ import annotations

import ast
import io
import re
import tokenize

import pytest

from tests.project.test_layers import ORDER, PACKAGE, ROOT
from tests.project.test_readme import PAGES as ALL_PAGES

TEMPLATES = (path.relative_to(ROOT).as_posix() for path in (PACKAGE / "export" / "templates").rglob("*.md"))
PAGES = sorted({*ALL_PAGES, *TEMPLATES} - {"CHANGELOG.md", "docs/comparison.md"})
"""Pages and texts of exported projects, without notes of releases and tables that scripts print."""

MOST_TERMS = 30
VAGUE = frozenset({"asked", "found", "given", "known", "made", "mine", "others", "told", "wanted", "ways", "worth"})
"""Names that say how a value came about, not what it is: ``found`` may be offsets, candidates or an operator."""

RIDDLES = re.compile(
    "_(what|whom?|whoever|whatever|nobody|everybody|somebody|anybody|tells?|told|says?|said|ask(s|ed)?|unasked|hears?"
    "|heard|wants?|wanted|knows)(_|$)"
)
"""Words of a test's name that stand in the place of a subject, or let code speak: the name is the contract."""

C_SOURCES = (
    *(f"arduino/**/*.{suffix}" for suffix in ("c", "h", "cpp", "ino")),
    *(f"tflite_fuse/export/templates/**/*.{suffix}" for suffix in ("c", "h", "cpp", "ino")),
    "tflite_fuse/runtime/shim/*.[ch]",
    "schemas/*.fbs",
)
"""Files with comments of C: the library and its examples, exported projects, the operator of wheels, the formats."""

WHAT = re.compile(r"(?<!`)\b(?:what|whatever)\b(?!`|: )", re.IGNORECASE)
"""The pronoun in place of a named subject; a parameter of this name is in quotes or begins its line."""

LONGEST_PAGE = 80
"""Lines of the page of rooms, with its picture."""


def word_list() -> dict[str, str]:
    """Return the listed phrases and what to write instead."""
    lines = (ROOT / "scripts" / "word_list.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split(" -> ", 1) for line in lines if line and not line.startswith("#")]
    assert all(len(pair) == 2 and all(pair) for pair in pairs), "one phrase a line: phrase -> replacement"
    return {pair[0]: pair[1] for pair in pairs}


def found(text: str, words: dict[str, str]) -> list[str]:
    """Return every listed phrase in a text with its line and its replacement."""
    any_of = "|".join(r"\s+".join(map(re.escape, phrase.split())) for phrase in words)
    hits = re.finditer(rf"\b(?:{any_of})\b", text, re.IGNORECASE)
    return [f"line {text.count(chr(10), 0, hit.start()) + 1}: {said(hit, words)}" for hit in hits]


def said(hit: re.Match[str], words: dict[str, str]) -> str:
    phrase = " ".join(hit[0].split())
    return f"{phrase!r}: {words[phrase.lower()]}"


def prose(source: str) -> str:
    """Return the docstrings and comments of a Python file, each on its own line of an otherwise empty text."""
    lines = [""] * (source.count("\n") + 2)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            for offset, line in enumerate(node.value.value.splitlines()):
                lines[node.lineno - 1 + offset] += line
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            lines[token.start[0] - 1] += token.string.lstrip("#")
    return "\n".join(lines)


def c_prose(source: str) -> str:
    """Return the comments of a C file, each on its own line of an otherwise empty text."""
    token = re.compile(r'"(?:\\.|[^"\\\n])*"|/\*.*?\*/|//[^\n]*', re.DOTALL)
    parts = list[str]()
    end = 0
    for hit in token.finditer(source):
        parts.append("\n" * source.count("\n", end, hit.start()))
        is_comment = hit[0].startswith("/")
        parts.append(re.sub(r"(?m)^\s*(?:\*|///?) ?|/\*|\*/|//", " ", hit[0]) if is_comment else "")
        end = hit.end()
    return "".join(parts)


@pytest.mark.parametrize("page", PAGES)
def test_pages_use_no_listed_word(page: str) -> None:
    assert not found((ROOT / page).read_text(encoding="utf-8"), word_list())


def test_docstrings_and_comments_use_no_listed_word() -> None:
    words = word_list()
    texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    assert len(texts) > 100
    suspects = {name: text for name, text in texts.items() if found(text.replace("#", " "), words)}  # to parse is slow
    hits = {name: hits for name, text in suspects.items() if (hits := found(prose(text), words))}
    assert not hits, hits


def c_comments() -> dict[str, str]:
    """Return the comments of all C files by their names."""
    paths = [path for pattern in C_SOURCES for path in ROOT.glob(pattern)]
    assert len(paths) > 100
    return {str(path.relative_to(ROOT)): c_prose(path.read_text(encoding="utf-8")) for path in paths}


def test_comments_of_c_use_no_listed_word() -> None:
    words = word_list()
    hits = {name: hits for name, text in c_comments().items() if (hits := found(text, words))}
    assert not hits, hits


def test_prose_names_its_subjects() -> None:
    texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    suspects = {name: prose(text) for name, text in texts.items() if WHAT.search(text)} | c_comments()
    hits = {
        name: hits
        for name, text in suspects.items()
        if (hits := [line for line in text.splitlines() if WHAT.search(line)])
    }
    assert not hits, hits


def vague_names(source: str) -> list[str]:
    """Return the vague names of variables, parameters, fields and functions in a Python file, with their lines."""
    names = list[tuple[int, str]]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append((node.lineno, node.id))
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.append((node.lineno, node.attr))
        elif isinstance(node, ast.arg):
            names.append((node.lineno, node.arg))
        elif isinstance(node, ast.FunctionDef):
            names.append((node.lineno, node.name))
    return [f"line {line}: {name}" for line, name in names if name.strip("_") in VAGUE]


def test_names_describe_their_values() -> None:
    paths = {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*.py")}
    texts = {name: path.read_text(encoding="utf-8") for name, path in paths.items()}
    assert len(texts) > 100
    suspects = {name: text for name, text in texts.items() if re.search(rf"\b_?(?:{'|'.join(VAGUE)})\b", text)}
    hits = {name: hits for name, text in suspects.items() if (hits := vague_names(text))}
    assert not hits, hits


def test_names_of_tests_name_their_subjects() -> None:
    texts = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in ROOT.glob("tests/**/*.py")}
    names = [(file, name) for file, text in texts.items() for name in re.findall(r"^def (test_\w+)", text, re.M)]
    assert len(names) > 1000
    riddles = [(file, name) for file, name in names if RIDDLES.search(name)]
    assert not riddles, riddles


def test_a_vague_name_is_found_wherever_it_is_bound() -> None:
    source = (
        "class C:\n    known: int = 0\n\n    def told(self, made):\n        self._asked = [found for found in made]\n"
    )
    assert sorted(hit.split(": ")[1] for hit in vague_names(source)) == ["_asked", "found", "known", "made", "told"]


def test_a_listed_word_is_found_wherever_it_stands() -> None:
    words = {"is told": "receives", "nobody": "no reader"}
    source = 'def f():\n    """Nobody does.\n\n    What it is\n    told.\n    """\n    return "nobody"  # nobody\n'
    assert [hit.split(":")[0] for hit in found(prose(source), words)] == ["line 2", "line 4", "line 7"]
    assert found("Nobody", words) == ["line 1: 'Nobody': no reader"]
    assert not found("busybody, nobodys", words)


def test_a_listed_word_is_found_in_comments_of_c_alone() -> None:
    words = {"is told": "receives", "nobody": "no reader"}
    source = '/* What it\n * is\n * told. */\nint nobody; // Nobody\nputs("/* nobody */ // nobody"); /* nobody */\n'
    assert [hit.split(":")[0] for hit in found(c_prose(source), words)] == ["line 2", "line 4", "line 5"]
    assert not found(c_prose('int nobody = "is told" /* busybody */;\n'), words)


def test_the_glossary_has_few_terms_each_once() -> None:
    terms = re.findall(r"^- \*\*(.+?)\*\*", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.M)
    assert 10 < len(terms) <= MOST_TERMS
    assert len({term.lower() for term in terms}) == len(terms)


def test_the_page_of_rooms_is_short_and_names_every_room_and_only_files_that_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert text.count("\n") <= LONGEST_PAGE
    names = re.findall(r"`([a-z0-9_]+(?:/[a-z0-9_]+)*(?:/|\.py))`", text)
    paths = [name for name in names if not (ROOT / name).exists()]  # others are given from the top of the project
    missing = [name for name in paths if not (PACKAGE / name).exists()]
    assert not missing, missing
    rooms = {re.sub(r"/.*|\.py$", "", name) for name in names}
    assert {room for room in ORDER if not room.startswith("__")} <= rooms
