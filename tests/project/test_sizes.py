"""Files, folders and functions stay small, and no path of a machine is in them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

LONGEST_FILE = 600
MOST_FILES = 14

_SOURCES = (".py", ".c", ".h", ".cpp")
_TEXTS = (*_SOURCES, ".md", ".cfg", ".toml", ".json", ".yml", ".fbs", ".sh", ".ino", ".ld", ".S", "")
_DATA = re.compile(r"examples/.*/(model|model_data|picture)\.c$")  # models and pictures as arrays
_MACHINE_PATH = re.compile(r"(?<![\w.])/(?:home|root|work|Users)/\w")


def files(*folders: str) -> Iterator[Path]:
    """Everything somebody wrote in some folders, all by default."""
    for folder in folders or ("tflite_fuse", "arduino", "scripts", "tests", "schemas", "docs", ".ci", ".github"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and not _DATA.search(path.as_posix()):
                yield path
    yield from (path for path in sorted(ROOT.iterdir()) if path.is_file() and path.name != ".git" and not folders)


def sources() -> Iterator[Path]:
    """What the package and the device library are made of."""
    return (path for path in files("tflite_fuse", "arduino", "scripts") if path.suffix in _SOURCES)


def test_no_file_is_longer_than_a_reader_holds() -> None:
    lengths = {path.relative_to(ROOT): path.read_text(encoding="utf-8").count("\n") for path in sources()}
    assert not {str(path): length for path, length in lengths.items() if length > LONGEST_FILE}


def test_a_folder_of_many_files_needs_rooms() -> None:
    package = (path for path in files("tflite_fuse") if path.suffix in _SOURCES and path.name != "__init__.py")
    counts = Counter(path.parent.relative_to(ROOT).as_posix() for path in package)
    assert not {folder: count for folder, count in counts.items() if count > MOST_FILES}


def test_no_file_names_a_folder_of_somebodys_machine() -> None:
    texts = ((path, path.read_text(encoding="utf-8")) for path in files() if path.suffix in _TEXTS)
    assert not [str(path.relative_to(ROOT)) for path, text in texts if _MACHINE_PATH.search(text)]
