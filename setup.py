"""Metadata is in setup.cfg; here is what has to be computed: the README as a package index shows it.

An index shows the page alone, without the files beside it: links and pictures that lead to files of the project lead to
the same files of this version where the project is kept.
"""

import re
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).resolve().parent
PAGES = "https://github.com/tflite-fuse/tflite-fuse/blob"
FILES = "https://raw.githubusercontent.com/tflite-fuse/tflite-fuse"

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)\s]+)\)")


def version() -> str:
    """Return ``__version__`` of the package, which is not imported: a build has none of its libraries."""
    found = re.search(r'^__version__ = "([^"]+)"$', (ROOT / "tflite_fuse" / "__init__.py").read_text("utf-8"), re.M)
    assert found is not None
    return found[1]


def readme(text: str, tag: str) -> str:
    """Return a page in which every link is absolute; pictures in SVG are asked for with their own content type."""

    def absolute(link: re.Match[str]) -> str:
        picture, words, target = link.groups()
        if picture:
            return f"![{words}]({FILES}/{tag}/{target}{'?sanitize=true' if target.endswith('.svg') else ''})"
        return f"[{words}]({PAGES}/{tag}/{target})"

    return _LINK.sub(absolute, text)


if __name__ == "__main__":
    setup(long_description=readme((ROOT / "README.md").read_text("utf-8"), f"v{version()}"))
