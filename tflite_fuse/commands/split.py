"""`tflite-fuse split`."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tflite_fuse.commands.arguments import ConfigFile, JsonFlag, ModelPath
from tflite_fuse.console import Status, answers_errors, console, print_json, say
from tflite_fuse.errors import UsageError, VerificationError
from tflite_fuse.export.folder import require_usable, write_folder
from tflite_fuse.files import read_file
from tflite_fuse.model.file import load_model
from tflite_fuse.split.cluster.file import cluster_of_file
from tflite_fuse.split.cluster.folder import fragment_files
from tflite_fuse.split.cut.plan_file import PREDICTED, plan_document
from tflite_fuse.split.fragments.encode import encode_plan
from tflite_fuse.split.report import split_json, split_table, split_verdict
from tflite_fuse.split.search.auto import OBJECTIVES
from tflite_fuse.split.simulate import chrome_trace
from tflite_fuse.split.splitting import STRATEGIES, Split, SplitOptions, split_model
from tflite_fuse.units import parse_bytes


@answers_errors
def split(
    model: ModelPath,
    workers: Annotated[Path, typer.Option(help="The devices and their links, a workers.toml.", show_default=False)],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder for the plan, model, workers and fragments.")
    ] = None,
    strategy: Annotated[str, typer.Option(help=f"How to split: {', '.join(STRATEGIES)}.")] = STRATEGIES[0],
    objective: Annotated[str, typer.Option(help=f"What auto minimises: {', '.join(OBJECTIVES)}.")] = OBJECTIVES[0],
    max_ram: Annotated[str | None, typer.Option(help="RAM of each worker, like 128kB, instead of the file's.")] = None,
    max_flash: Annotated[
        str | None, typer.Option(help="Flash of each worker, like 1MB, instead of the file's.")
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Run all fragments here and compare with TFLM.")] = False,
    inputs: Annotated[int, typer.Option("--inputs", min=1, help="How many inputs to compare on.")] = 4,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random ones among them.")] = 0,
    as_json: JsonFlag = False,
    config: ConfigFile = None,
) -> None:
    """Split a model over several microcontrollers."""
    if not workers.exists():
        raise UsageError(f"{workers}: does not exist; give a workers.toml with a table [[worker]] each (docs/split.md)")
    if output is not None:
        require_usable(output, force=True)
    options = SplitOptions(
        strategy,
        objective,
        None if max_ram is None else parse_bytes(max_ram),
        None if max_flash is None else parse_bytes(max_flash),
        inputs if verify else 0,
        seed,
    )
    content, devices = read_file(model), read_file(workers)
    cluster = cluster_of_file(devices, workers)
    with Status("splitting", as_json) as progress:
        result = split_model(load_model(content, str(model)), cluster, options, partial(progress, "inputs compared"))
    fault = None if result.verified is None else result.verified.first_difference
    if fault is not None:
        raise VerificationError(f"the split computes other bytes than the model: {fault}")
    if output is not None:
        write_folder(output, _files(result, content, devices), force=True)
    if as_json:
        print_json(split_json(result))
        return
    console().print(split_table(result))
    for note in result.notes:
        say(f"- {note}")
    say(f"{model}: {split_verdict(result)}")


def _files(split: Split, model: bytes, devices: bytes) -> dict[str, bytes]:
    """Return all files of the folder."""
    names = [worker.name for worker in split.cluster.workers]
    predicted = {"latency_s": split.timeline.seconds, "period_s": split.timeline.period}
    document = plan_document(split.network, split.plan, names, model)
    fragments = encode_plan(split.network, split.plan, split.accountant.parts)
    return {
        "report.json": _json(split_json(split)),
        "trace.json": _json(chrome_trace(split.timeline, split.cluster)),
        "model.tflite": model,
        "workers.toml": devices,
        **fragment_files(fragments),
        "plan.json": _json({**document, PREDICTED: predicted}),
    }


def _json(content: object) -> bytes:
    return (json.dumps(content) + "\n").encode()
