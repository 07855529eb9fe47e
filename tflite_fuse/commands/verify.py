"""`tflite-fuse verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import tflite_fuse
from tflite_fuse.commands.arguments import DataFile, InputCount, JsonFlag
from tflite_fuse.console import Status, answers_errors, print_json, say
from tflite_fuse.errors import VerificationError


@answers_errors
def verify(
    a: Annotated[Path, typer.Argument(metavar="A", help="The original .tflite file.", show_default=False)],
    b: Annotated[Path, typer.Argument(metavar="B", help="The one to compare it with.", show_default=False)],
    inputs: InputCount = 16,
    seed: Annotated[int, typer.Option(min=0, help="Of the random ones among them.")] = 0,
    data: DataFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Run two models in TensorFlow Lite Micro, compare their outputs byte by byte, and prove B if it was made of A."""
    with Status("comparing", as_json) as report_progress:
        comparison = tflite_fuse.verify(a, b, inputs=inputs, seed=seed, data=data, progress=report_progress)
    difference, certificate = comparison.first_difference, comparison.certificate
    if as_json:
        print_json(
            {
                "schema": "tflite-fuse/comparison/1",
                "runtime": comparison.runtime,
                "version": comparison.version,
                "inputs": comparison.inputs,
                "bit_exact": comparison.bit_exact,
                "first_difference": None if difference is None else str(difference),
                "proof": None if certificate is None else certificate.to_json(),
                "not_run": comparison.not_run,
            }
        )
    elif comparison.fault is None:
        for note in () if certificate is None else certificate.notes:
            say(f"- {note}")
        if comparison.warning is not None:
            say(f"- {comparison.warning}")
        if data is None and comparison.inputs:
            say(f"- random inputs of seed {seed}; --seed draws others")
        say(_outcome(comparison))
    if comparison.fault is not None:
        raise VerificationError(comparison.fault)


def _outcome(comparison: Any) -> str:
    """What two models that do not differ were found to have in common."""
    if comparison.not_run is not None:
        return f"{comparison.certificate.sentence()}: {comparison.not_run}"
    same = f"same bytes on {comparison.inputs} inputs ({comparison.runtime} {comparison.version})"
    return same if comparison.certificate is None else f"{same}; {comparison.certificate.sentence(comparison.inputs)}"
