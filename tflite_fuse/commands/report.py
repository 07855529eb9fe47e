"""`tflite-fuse report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import tflite_fuse
from tflite_fuse.commands.arguments import ConfigFile, JsonFlag, ModelPath, refuse_dash, with_options
from tflite_fuse.console import Status, answers_errors, print_json, say
from tflite_fuse.errors import UsageError
from tflite_fuse.files import require_apart, require_writable, write_atomically
from tflite_fuse.model.file import read_source
from tflite_fuse.notes import Note
from tflite_fuse.passes.options import FuseOptions


@answers_errors
@with_options("report", FuseOptions)
def report(
    model: ModelPath,
    rewritten: Annotated[
        Path | None,
        typer.Argument(metavar="REWRITTEN", help="Rewritten model. Default: rewrite it now.", show_default=False),
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="The page to write.")] = Path("report.html"),
    card: Annotated[
        Path | None,
        typer.Option(help="Also write a section for a model card, in Markdown, to this file.", show_default=False),
    ] = None,
    inputs: Annotated[int, typer.Option("--inputs", min=0, help="Run both models on so many inputs.")] = 0,
    as_json: JsonFlag = False,
    config: ConfigFile = None,
    *,
    options: dict[str, Any],
) -> None:
    """Write one page: the result of a rewrite, memory over time, the proof."""
    from tflite_fuse.pages.card import card as card_of
    from tflite_fuse.pages.content import page_content, showable
    from tflite_fuse.pages.html import page_html

    refuse_dash(output)
    require_apart((output, card), (model, rewritten, config))
    if output.suffix.lower() not in ("", ".html", ".htm"):
        raise UsageError(f"{output}: a report is an HTML page, which browsers print: give a path in .html")
    require_writable(output)
    require_writable(card)
    with Status("reporting", as_json) as progress:
        before = read_source(model)
        notes: tuple[Note, ...] = ()
        advice: tuple[str, ...] = ()
        if rewritten is not None:
            after, name = read_source(rewritten), str(rewritten)
        else:
            showable(before, str(model))
            result = tflite_fuse.rewrite(before, verify=False, advise=True, **options)
            after, name, notes, advice = result.model, str(model), result.report.records, result.report.advice
        names, runtime = (str(model), name), options["runtime"]
        content = page_content(before, after, names, notes, advice, options["target"], inputs, runtime, progress)
        page = page_html(content)
        write_atomically(page.encode("utf-8", "backslashreplace"), output)
        if card is not None:
            write_atomically(card_of(content.json).encode("utf-8", "backslashreplace"), card)
    if as_json:
        print_json(content.json)
    else:
        say(f"{output}: {content.json['verdict']}")
    if not content.json["sound"]:
        raise typer.Exit(1)
