"""`tflite-fuse verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import tflite_fuse
from tflite_fuse.commands.arguments import ConfigFile, DataFile, InputCount, JsonFlag, Seed
from tflite_fuse.console import Status, answers_errors, print_json, say
from tflite_fuse.errors import VerificationError
from tflite_fuse.report.report import gives_the_same
from tflite_fuse.runtime.comparing.comparison import Comparison


@answers_errors
def verify(
    a: Annotated[Path, typer.Argument(metavar="A", help="The original .tflite file.", show_default=False)],
    b: Annotated[Path, typer.Argument(metavar="B", help="The .tflite file to compare it with.", show_default=False)],
    inputs: InputCount = 16,
    seed: Seed = None,
    data: DataFile = None,
    mutants: Annotated[
        int,
        typer.Option(
            "--mutation-score",
            min=0,
            max=10_000,
            metavar="N",
            help="Also change N weights of blocks by one, one at a time, and print how many the comparison notices.",
        ),
    ] = 0,
    as_json: JsonFlag = False,
    config: ConfigFile = None,
) -> None:
    """Run two models in TensorFlow Lite Micro, compare their outputs byte by byte, and prove B if it rewrites A."""
    with Status("comparing", as_json) as report_progress:
        comparison = tflite_fuse.verify(
            a, b, inputs=inputs, seed=seed, data=data, mutants=mutants, progress=report_progress
        )
    if as_json:
        print_json(comparison.to_json())
    elif comparison.fault is None:
        for note in () if comparison.certificate is None else comparison.certificate.notes:
            say(f"- {note}")
        if comparison.no_second_witness is not None:
            say(f"- {comparison.no_second_witness}")
        if comparison.warning is not None:
            say(f"- {comparison.warning}")
        if comparison.score is not None:
            say(f"- {comparison.score}")
        if comparison.inside:
            one = comparison.inside == 1
            what = "1 tensor between blocks was" if one else f"{comparison.inside} tensors between blocks were"
            say(f"- {what} compared, too")
        if comparison.calls:
            say(f"- two sequences of {comparison.calls} calls, one with a reset, were compared, too")
        if comparison.unconfined:
            say(f"- the runtime ran with rights it does not need: {comparison.unconfined}")
        if comparison.seed is not None:
            say(f"- inputs of seed {comparison.seed}; the same with --seed {comparison.seed}")
        say(_outcome(comparison))
    if comparison.fault is not None:
        seed_used = "" if comparison.seed is None else f" (inputs of seed {comparison.seed})"
        raise VerificationError(comparison.fault + seed_used)


_IDENTICAL = "the files are the same, byte for byte"


def _without_runs(comparison: Comparison) -> str:
    """Return the result for two models that TensorFlow Lite Micro cannot run, and the reason why it cannot."""
    second, certificate = comparison.second_witness, comparison.certificate
    ran = "kernels not run"
    if second is not None:
        ran = f"{gives_the_same(second.runtime, second.version, second.inputs)}; not run in TFLM"
    if comparison.identical or certificate is None:
        return f"{_IDENTICAL}; {ran}: {comparison.not_run}"
    return f"{certificate.sentence(otherwise=ran)}: {comparison.not_run}"


def _outcome(comparison: Comparison) -> str:
    """Return the result for two models that do not differ."""
    certificate = comparison.certificate
    if comparison.not_run is not None:
        return _without_runs(comparison)
    plural = "input" if comparison.inputs == 1 else "inputs"
    same = f"same bytes on {comparison.inputs} {plural} ({comparison.runtime} {comparison.version})"
    if comparison.identical:
        return f"{_IDENTICAL}; {same}"
    if certificate is None:
        return f"{same}; nothing is proven, as no rewrite made one of the other: more inputs may tell them apart"
    return f"{same}; {certificate.sentence(comparison.inputs)}"
