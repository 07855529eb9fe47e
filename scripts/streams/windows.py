"""Models over a window of time steps and the streams made from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.table import Table

import tflite_fuse
from scripts.streams.emulated import instructions_of
from scripts.zoo.networks import keyword_network, temporal_network
from tests.device.targets import Target
from tflite_fuse.emit.stream_time import stream_time
from tflite_fuse.model import load_model
from tflite_fuse.model.file import serialize_model
from tflite_fuse.model.schema import Model
from tflite_fuse.runtime.comparing.over_time import compare_over_time
from tflite_fuse.runtime.inputs import input_specs

SHARED = Path(__file__).resolve().parents[3] / "shared" / "models"


@dataclass(frozen=True)
class Result:
    """One model at one hop.

    Attributes:
        macs_of_window, macs_of_call: multiply-accumulates for each window, before and after.
        arena_before, arena_fused: of the windowed model, as it is and rewritten as a window, to allocate.
        arena: of the stream; ``state``, ``scratch`` and ``tail`` are its parts.
        windows: compared, over two sequences with a reset in one of them.
        different: the first one that differs, in words; empty where none does.
        instructions_before, instructions: of a window, rewritten as one, and of a call, by target; None where an
            operator is no block.
    """

    model: str
    hop: int
    macs_of_window: int
    macs_of_call: int
    arena_before: int
    arena_fused: int
    arena: int
    state: int
    scratch: int
    tail: int
    windows: int
    different: str
    instructions_before: dict[str, int | None]
    instructions: dict[str, int | None]

    @property
    def work(self) -> float:
        """Of the windowed model's."""
        return self.macs_of_call / self.macs_of_window


def cases() -> Iterator[tuple[str, Model, int]]:
    """Yield name, model and hop; without models of ``shared`` where there is none."""
    wake, padded = (SHARED / f"mlperf_tiny_{name}_int8.tflite" for name in ("wakeword1d", "dscnn_kws"))
    if wake.exists():
        yield wake.stem, load_model(wake), 1
    yield "temporal convolutions, 8 x 64 channels", temporal_network(), 1
    for hop in (1, 2):
        yield "DS-CNN, 49 x 10, no padding in time", keyword_network(), hop
    for hop in (1, 2) if padded.exists() else ():
        yield padded.stem, load_model(padded), hop


def measure(name: str, model: Model, hop: int, targets: Sequence[Target], windows: int) -> Result:
    """Make a stream of a model and compare both. Raises TfliteFuseError."""
    data = serialize_model(model)
    fused, done = tflite_fuse.rewrite(data, verify=False), tflite_fuse.rewrite(data, stream_time=hop, verify=False)
    stream_report, stream = done.report.stream, load_model(done.model)
    assert stream_report is not None
    compared = compare_over_time(
        (data, done.model), (model, stream), stream=stream_time(stream), calls=-(-windows // 2)
    )
    before, after = (
        {target.name: instructions_of(each, target, _noise(each)) for target in targets}
        for each in (load_model(fused.model), stream)
    )
    return Result(
        model=name,
        hop=hop,
        macs_of_window=stream_report.macs_of_window,
        macs_of_call=stream_report.macs_of_call,
        arena_before=fused.report.before.arena_bytes,
        arena_fused=fused.report.after.arena_bytes,
        arena=done.report.after.arena_bytes,
        state=stream_report.state_bytes,
        scratch=stream_report.scratch_bytes,
        tail=stream_report.tail_bytes,
        windows=compared.inputs,
        different="" if compared.first_difference is None else str(compared.first_difference),
        instructions_before=before,
        instructions=after,
    )


def _noise(model: Model) -> list[list[npt.NDArray[np.int8]]]:
    rng, specs = np.random.default_rng(2), input_specs(model)
    return [[rng.integers(-128, 128, spec.shape).astype(np.int8) for spec in specs] for _ in range(8)]


def as_table(results: Sequence[Result], targets: Sequence[Target]) -> Table:
    """Return a table with one row for each result."""
    table = Table(
        title="Windows as streams: arenas in bytes, instructions of a window fused as one and of a call",
        title_justify="left",
    )
    names = [f"{target.name}, window -> call" for target in targets]
    columns = ("model", "hop", "MACs a window", "of the windowed", "windowed", "fused", "stream", "state", "scratch")
    for column in (*columns, "tail", "windows", "differ", *names):
        table.add_column(column, justify="left" if column == "model" else "right", overflow="fold")
    for each in results:
        counts = ((each.instructions_before[name], count) for name, count in each.instructions.items())
        sizes = each.arena_before, each.arena_fused, each.arena, each.state, each.scratch, each.tail, each.windows
        table.add_row(
            each.model,
            str(each.hop),
            f"{each.macs_of_call:,}",
            f"{each.work:.3f}",
            *(f"{size:,}" for size in sizes),
            each.different or "no",
            *(" -> ".join("-" if count is None else f"{count:,}" for count in pair) for pair in counts),
        )
    return table


def as_markdown(results: Sequence[Result]) -> str:
    """Return the first table of docs/streaming.md."""
    lines = [
        "| model | hop | MACs a window | of the windowed | state | arena, windowed | fused as a window | stream |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for each in results:
        sizes = (f"{size:,} B" for size in (each.state, each.arena_before, each.arena_fused, each.arena))
        cells = (each.model, str(each.hop), f"{each.macs_of_call:,}", f"{each.work:.3f}", *sizes)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def counts_as_markdown(results: Sequence[Result], steps: Mapping[str, Mapping[str, int | None]]) -> str:
    """Return the second table of docs/streaming.md.

    Args:
        results: windows as streams.
        steps: by model that keeps variables, the instructions of a step, by target.
    """
    rows = {f"{model}, a step": [f"{count or 0:,}" for count in counts.values()] for model, counts in steps.items()}
    for each in results:
        both = zip(each.instructions_before.values(), each.instructions.values(), strict=True)
        rows[f"{each.model}, hop {each.hop}"] = [f"{window or 0:,} → {call or 0:,}" for window, call in both]
    names = [name for each in results[:1] for name in each.instructions]
    lines = [f"| instructions | {' | '.join(names)} |", f"|---|{'---:|' * len(names)}"]
    return "\n".join([*lines, *(f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items())])
