"""The command line: arguments, messages, exit codes. No logic.

Exit codes: 0 done; 1 the model does not meet what was asked (differs, does not fit); 2 bad usage or input; 3 a defect
of this package; 130 interrupted. Names out of a model or a path are shown with their control characters escaped.
"""

from __future__ import annotations

import io
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import tflite_fuse
from tflite_fuse.console import Status, answers_errors, console, log_file, print_json, say
from tflite_fuse.errors import UsageError, VerificationError
from tflite_fuse.export import FORMATS, export_model
from tflite_fuse.memory.tflm.in_place_kernels import KERNEL_SETS
from tflite_fuse.report.tables import inspection_table, report_table
from tflite_fuse.units import parse_bytes, parse_pair

app = typer.Typer(
    name="tflite-fuse",
    help="Make TensorFlow Lite models fit microcontrollers: less RAM, the same bytes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="A .tflite file.", show_default=False)]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
InputCount = Annotated[int, typer.Option("--inputs", min=1, help="How many inputs to compare on.")]
DataFile = Annotated[
    Path | None, typer.Option("--data", help="Your own inputs: an .npz with an array per model input.")
]
SchemeName = Annotated[str, typer.Option(help=f"Which fused blocks are allowed: {', '.join(tflite_fuse.SCHEMES)}.")]
InputMode = Annotated[
    str,
    typer.Option(
        "--input",
        help="Where the model's inputs are on the device: resident (in the arena), streamed (handed out row by row, as "
        "by a camera) or external (in memory of yours, as PSRAM).",
    ),
]
Int8Flag = Annotated[
    bool,
    typer.Option(
        "--int8-io", help="Make float32 inputs and outputs int8: drop the QUANTIZE and DEQUANTIZE at the ends."
    ),
]
NoOverlap = Annotated[
    bool, typer.Option("--no-overlap", help="Keep the outputs of fused blocks off input they need no more.")
]
NoStrips = Annotated[
    bool, typer.Option("--no-strips", help="Run every fused block over its full width: compute no column twice.")
]
TargetName = Annotated[
    str,
    typer.Option(
        "--target", help=f"The core whose instructions --cost instructions counts: {', '.join(tflite_fuse.TARGETS)}."
    ),
]
CostName = Annotated[
    str, typer.Option(help="What compute is counted in: macs, or instructions as predicted for --target.")
]
Tiles = Annotated[
    str | None,
    typer.Option(
        help="Number of tiles along height and width of the scheme inverted-residual, like 4x4 (default 8x8).",
        show_default=False,
    ),
]
TileSize = Annotated[
    str | None,
    typer.Option(help="Height and width of such a tile in pixels, like 8x8, instead of their number."),
]


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"tflite-fuse {tflite_fuse.__version__}")
        raise typer.Exit


@app.callback()
def _main(
    log: Annotated[
        Path | None, typer.Option("--log", help="Where to write what is needed to repair a defect, should one show.")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    log_file.set(log)


def _counted_on(core: str, cost: str) -> str | None:
    """The target whose instructions count, None for MACs."""
    if core not in tflite_fuse.TARGETS:
        raise UsageError(f"{core!r} is no target; choose from {', '.join(tflite_fuse.TARGETS)}")
    if cost not in ("macs", "instructions"):
        raise UsageError(f"compute is counted in macs or instructions, not in {cost!r}")
    return core if cost == "instructions" else None


def _tiles(text: str | None) -> tuple[int, int] | None:
    return None if text is None else parse_pair(text, "a number of tiles")


def _tile_size(text: str | None) -> tuple[int, int] | None:
    return None if text is None else parse_pair(text, "a tile size")


@app.command()
@answers_errors
def rewrite(
    source: Annotated[Path, typer.Argument(metavar="IN", help="The .tflite file to rewrite.", show_default=False)],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="Where to write the result.", show_default=False)],
    passes: Annotated[
        str, typer.Option(help="Which of the passes reorder, fuse and plan to run, in order, separated by commas.")
    ] = ",".join(tflite_fuse.DEFAULT_PASSES),
    verify: Annotated[
        bool | None,
        typer.Option(
            "--verify/--no-verify",
            help="Prove the result in TensorFlow Lite Micro before writing it. Default: where it is installed.",
            show_default=False,
        ),
    ] = None,
    max_ram: Annotated[
        str | None, typer.Option(help="Arena (head + tail) to stay within, like 64kB or 64KiB; the least compute wins.")
    ] = None,
    max_compute: Annotated[
        float | None, typer.Option(help="Compute allowed, as a multiple of the model's own; the least RAM wins.")
    ] = None,
    least_ram: Annotated[bool, typer.Option("--least-ram", help="The least RAM whatever it computes twice.")] = False,
    input_mode: InputMode = "resident",
    scheme: SchemeName = "auto",
    tiles: Tiles = None,
    tile_size: TileSize = None,
    no_fuse: Annotated[
        bool, typer.Option("--no-fuse", help="Only reorder and plan: needs no custom operator.")
    ] = False,
    inputs: InputCount = 16,
    time_limit: Annotated[
        float, typer.Option(min=0.0, help="Seconds each search may take before it answers with its best so far.")
    ] = 30.0,
    in_place: Annotated[
        str | None,
        typer.Option(
            help="Let TFLM's operators overwrite input they need no more. Give the kernels your TFLM is built with: "
            f"{', '.join(KERNEL_SETS)}; with others the model may compute wrong values."
        ),
    ] = None,
    no_overlap: NoOverlap = False,
    no_strips: NoStrips = False,
    int8_io: Int8Flag = False,
    core: TargetName = "generic",
    cost: CostName = "macs",
    as_json: JsonFlag = False,
    force: Annotated[bool, typer.Option("--force", help="Allow OUT to be IN.")] = False,
) -> None:
    """Rewrite a model so that it needs less RAM and computes the same bytes."""
    _refuse_dash(target)
    if not force and _same_file(source, target):
        raise UsageError(f"{target}: is the input itself; give another path, or --force to replace it")
    names = [name.strip() for name in passes.split(",") if name.strip()]
    goal = tflite_fuse.Goal(None if max_ram is None else parse_bytes(max_ram), max_compute, least_ram)
    with Status("rewriting", as_json) as report_progress:
        result = tflite_fuse.rewrite(
            source,
            passes=[name for name in names if not (no_fuse and name == "fuse")],
            goal=goal,
            scheme=scheme,
            tiles=_tiles(tiles),
            tile_size=_tile_size(tile_size),
            input_mode=input_mode,
            verify=verify,
            inputs=inputs,
            time_limit=time_limit,
            in_place=in_place,
            overlap=not no_overlap,
            strips=not no_strips,
            int8_io=int8_io,
            target=_counted_on(core, cost),
            progress=report_progress,
        )
        result.save(target)
    if as_json:
        print_json(result.report.to_json())
        return
    console().print(report_table(result.report))
    for note in result.report.notes:
        say(f"- {note}")
    for name, claim in result.report.optimal.items():
        say(f"- {name} {claim}")
    if result.report.estimate_bytes is not None:
        say(f"- the search for blocks estimated {result.report.estimate_bytes:,} B")
    say(_verdict(result.report, target))


def _verdict(report: Any, target: Path) -> str:
    return f"{target}: arena {report.before.arena_bytes:,} -> {report.after.arena_bytes:,} bytes; {report.claim()}"


@app.command()
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


@app.command()
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


@app.command()
@answers_errors
def pareto(
    model: ModelPath,
    input_mode: InputMode = "resident",
    scheme: SchemeName = "auto",
    tiles: Tiles = None,
    tile_size: TileSize = None,
    no_overlap: NoOverlap = False,
    no_strips: NoStrips = False,
    int8_io: Int8Flag = False,
    core: TargetName = "generic",
    cost: CostName = "macs",
    as_json: JsonFlag = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")] = False,
) -> None:
    """Show every trade of RAM for compute that fused blocks offer for a model."""
    if as_json and as_csv:
        raise UsageError("--json and --csv exclude each other")
    with Status("searching", as_json or as_csv):
        front = tflite_fuse.pareto(
            model,
            scheme=scheme,
            tiles=_tiles(tiles),
            tile_size=_tile_size(tile_size),
            input_mode=input_mode,
            overlap=not no_overlap,
            strips=not no_strips,
            int8_io=int8_io,
            target=_counted_on(core, cost),
        )
    if as_json:
        print_json(front.to_json())
    elif as_csv:
        sys.stdout.write(front.to_csv())
    else:
        console().print(front.table())


@app.command()
@answers_errors
def export(
    model: ModelPath,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write.", show_default=False)],
    kind: Annotated[
        str, typer.Option("--format", help=f"What to build with: {', '.join(FORMATS)}.", show_default=False)
    ],
    force: Annotated[bool, typer.Option("--force", help="Write into DIR even if it is not empty.")] = False,
) -> None:
    """Write a project for a microcontroller: model, library, arena size, operator list, a main that compiles."""
    _refuse_dash(directory)
    written = export_model(model, directory, kind, force=force)
    for note in written.notes:
        say(f"- {note}")
    say(f"{directory}: {len(written.files)} files for {kind}, a tensor arena of {written.arena_bytes:,} bytes")


def _refuse_dash(path: Path) -> None:
    if str(path) == "-":
        raise UsageError("-: nothing is written to standard output; give a path with a name")


def _same_file(a: Path, b: Path) -> bool:
    try:
        return a.samefile(b)
    except OSError:
        return False


def main() -> None:
    """Entry point of the ``tflite-fuse`` command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    app()


if __name__ == "__main__":
    main()
