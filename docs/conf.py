"""How Sphinx makes one site of the pages: ``scripts/docs`` runs it. The source folder is the project itself."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from docutils import nodes  # noqa: E402

import tflite_fuse  # noqa: E402
from scripts.reference import pages  # noqa: E402

project = "tflite-fuse"
author = copyright = "the authors of tflite-fuse"
release = version = tflite_fuse.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
include_patterns = ["docs/**.md", "arduino/README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
root_doc = "docs/index"
myst_heading_anchors = 3
autodoc_typehints = "description"
autodoc_member_order = "bysource"
autodoc_class_signature = "separated"
html_theme = "furo"
html_title = f"tflite-fuse {version}"
html_show_copyright = False
html_static_path = ["static"]
html_css_files = ["narrow.css"]
smartquotes_action = "qe"  # two dashes begin an option here

SHOWN = {ROOT / "README.md": ROOT / "docs" / "index.md"}
"""Files that stand for another page of the site."""


def _links_to_files(app: Any, name: str, source: list[str]) -> None:
    """Links to files that are no pages become their names: the site is complete without the rest of the project."""
    here = (ROOT / name).parent

    def kept(match: re.Match[str]) -> str:
        text, target = match["text"], match["target"]
        path = (here / target).resolve()
        if "://" in target or not target or path.suffix in (".svg", ".png"):
            return match[0]
        if path in SHOWN:
            return f"[{text}](/{SHOWN[path].relative_to(ROOT)})"
        if path.suffix == ".md" and any(
            path.match(str(ROOT / each)) for each in ("docs/*.md", "docs/*/*.md", *include_patterns[1:])
        ):
            return match[0]
        inside = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else target
        return f"{text} (`{inside}`)" if text.strip("`") != inside else f"`{inside}`"

    del app
    source[0] = re.sub(r"(?<!!)\[(?P<text>[^\]\n]+)\]\((?P<target>[^)#\s]*)(?P<anchor>#[^)\s]*)?\)", kept, source[0])


def _typeset(app: Any, doctree: nodes.document) -> None:
    """Dashes between parameters and their meanings, which ``smartquotes_action`` leaves as two hyphens; in tables
    figures keep their units."""
    del app
    for text in list(doctree.findall(nodes.Text)):
        kept = " – " if text == " -- " else str(text)
        if any(isinstance(above, nodes.entry) for above in (text.parent, text.parent.parent)):
            kept = re.sub(r"(\d) (B|kB|MB|ms|MHz)\b", "\\1\N{NO-BREAK SPACE}\\2", kept)
        if kept != text:
            text.parent.replace(text, nodes.Text(kept))


def setup(app: Any) -> None:
    """Called by Sphinx."""
    folder = ROOT / "docs" / "reference"
    folder.mkdir(exist_ok=True)
    for name, text in pages().items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:  # what did not change is not built again
            path.write_text(text, encoding="utf-8")
    app.connect("source-read", _links_to_files)
    app.connect("doctree-read", _typeset)
