"""`tflite-fuse inspect`."""

from __future__ import annotations

import tflite_fuse
from tflite_fuse.commands.arguments import JsonFlag, ModelPath
from tflite_fuse.console import Status, answers_errors, console, print_json, say
from tflite_fuse.report.tables import inspection_table


@answers_errors
def inspect(model: ModelPath, as_json: JsonFlag = False) -> None:
    """Show how much RAM a model needs and which operator is the bottleneck."""
    with Status("inspecting", as_json):
        inspection = tflite_fuse.inspect(model)
    if as_json:
        print_json(inspection.to_json())
        return
    say(f"{model}: {inspection.verdict()}")
    console().print(inspection_table(inspection))
    for note in inspection.notes:
        say(f"- {note}")
