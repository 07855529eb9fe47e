"""Sentences about inputs that lie outside the arena.

What a rewrite did, as data and as the JSON object of ``schemas/report.schema.json``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tflite_fuse.claim import Claim
from tflite_fuse.cost.instructions import Prediction
from tflite_fuse.memory.tflm.runtimes import DEFAULT_RUNTIME
from tflite_fuse.model.outside import InputMode, OutsideInput
from tflite_fuse.model.types import TensorType, type_name
from tflite_fuse.notes import Note, note
from tflite_fuse.report.notebook import html_table
from tflite_fuse.report.wording import sentences_of


def outside_notes(entries: Sequence[OutsideInput], read: Mapping[int, tuple[InputMode, int]]) -> Iterator[Note]:
    """One note per input outside the arena, and one per number where the file and its blocks disagree.

    Args:
        entries: what the file's metadata says.
        read: what the blocks read by number: how, and its bytes.
    """
    for entry in entries:
        how = f"source {entry.number}" if entry.mode is InputMode.STREAMED else f"external tensor {entry.number}"
        order = "row by row" if entry.mode is InputMode.STREAMED else "in any order"
        real = entry.type == TensorType.FLOAT32
        yield note(
            "changed",
            "input outside the arena",
            tensor=entry.name,
            type=type_name(entry.type),
            shape=str(list(entry.shape)),
            quantization="" if real else f", scale {entry.scale:g}, zero point {entry.zero_point}",
            mode=entry.mode.value,
            rows=entry.rows,
            columns=entry.columns,
            channels=entry.channels,
            elements="floats" if real else "bytes",
            order=order,
            source=how,
        )
    told = {entry.number: (entry.mode, entry.nbytes) for entry in entries}
    for number in sorted(told.keys() | read.keys()):
        if told.get(number) != read.get(number):
            says, does = (_described(each.get(number)) for each in (told, read))
            yield note("warned", "metadata", number=number, says=says, does=does)


def _described(what: tuple[InputMode, int] | None) -> str:
    return "nothing" if what is None else f"{what[1]:,} {what[0].value} bytes"


SCHEMA = "tflite-fuse/report/1"

FIGURE_ROWS = (
    ("arena to allocate", "arena_bytes"),
    ("  head: activations and scratch", "head_bytes"),
    ("  tail: the runtime's own data", "tail_bytes"),
    ("  while the model loads", "loading_bytes"),
    ("in two arrays: the runtime's own data", "persistent_bytes"),
    ("  and activations with scratch", "activations_bytes"),
    ("largest working set", "peak_bytes"),
    ("multiply-accumulates", "macs"),
    ("operators", "operators"),
    ("file", "file_bytes"),
)
"""What a report says of a model before and after: the figures."""


@dataclass(frozen=True)
class Figures:
    """The memory and compute figures of one model.

    Attributes:
        peak_bytes: largest working set: bytes live while one operator runs, those of tensors that a plan lays over each
            other counted once.
        lower_bound_bytes: no arena plan of this order needs less: the peak with every tensor rounded up to 16 bytes, or
            less in a planned model whose fused blocks may write over their input.
        head_bytes: what TFLM's planner uses of the arena for activations and scratch.
        head_source: ``tflite-micro`` where the head was measured in the runtime, ``computed`` where it was calculated.
        tail_bytes: what TFLM keeps for itself at the arena's other end.
        arena_bytes: what must be allocated for the runtime on the device: the larger of ``arena_used_bytes`` and
            ``loading_bytes``, a multiple of 16.
        arena_used_bytes: head + tail, which the runtime's own ``arena_used_bytes()`` returns.
        loading_bytes: what the runtime needs for a moment while it loads the model.
        persistent_bytes, activations_bytes: what must be allocated where the arena is two arrays: what TFLM keeps for
            itself, and the rest.
        macs: multiply-accumulates of one inference.
        operators: number of operators of the main subgraph.
        file_bytes: size of the .tflite file.
    """

    peak_bytes: int
    lower_bound_bytes: int
    head_bytes: int
    head_source: str
    tail_bytes: int
    arena_bytes: int
    arena_used_bytes: int
    loading_bytes: int
    persistent_bytes: int
    activations_bytes: int
    macs: int
    operators: int
    file_bytes: int


@dataclass(frozen=True)
class Verified:
    """That two models gave the same bytes in a real runtime."""

    runtime: str
    version: str
    inputs: int
    bit_exact: bool


@dataclass(frozen=True)
class Proven:
    """That the written file asks for what the original does, found by decoding it again; nothing was run for it.

    Attributes:
        blocks: fused blocks decoded and compared.
        operators: operators found as they were.
        compared: how many weights, table entries, options and so on were compared.
        notes: what limits the claim.
    """

    blocks: int
    operators: int
    compared: dict[str, int]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class BlockReport:
    """One fused block.

    Attributes:
        operators: the operators it replaced, by label.
        input, output: names of its first input and output tensor.
        scheme: name of the fusion scheme that chose it.
        strip_width: columns per strip; the output's width means one strip and no recompute.
        band_height: rows after which the strips start over; the output's height means one band.
        scratch_bytes: line buffers, accumulators and executor state.
        macs: multiply-accumulates executed.
        extra_macs: ``macs`` less those of the operators it replaced: what it recomputes less what it skips because no
            operator reads it.
    """

    operators: tuple[str, ...]
    input: str
    output: str
    scheme: str
    strip_width: int
    band_height: int
    scratch_bytes: int
    macs: int
    extra_macs: int


@dataclass(frozen=True)
class StreamReport:
    """What a model over a window became as a stream.

    Attributes:
        hop, window: new steps in a call, and those of the window.
        valid_after: calls until the window is full; before, it is as if the input's zero point had been fed.
        state_bytes, scratch_bytes, tail_bytes: of the arena: what outlives a call; the head, which other models may use
            between calls; the rest.
        macs_of_window, macs_of_call: multiply-accumulates for each window, before and after.
    """

    hop: int
    window: int
    valid_after: int
    state_bytes: int
    scratch_bytes: int
    tail_bytes: int
    macs_of_window: int
    macs_of_call: int

    def __str__(self) -> str:
        ratio = self.macs_of_call / max(self.macs_of_window, 1)
        return (
            f"stream: {self.hop} of {self.window} steps a call, valid from call {self.valid_after} on; "
            f"{self.macs_of_window:,} -> {self.macs_of_call:,} MACs a window ({ratio:.3f}); RAM {self.state_bytes:,} B "
            f"of state + {self.scratch_bytes:,} B of scratch + {self.tail_bytes:,} B of tail"
        )


@dataclass(frozen=True)
class Report:
    """Before and after, what was proven, and why.

    ``estimate_bytes`` is the arena that the search for blocks expected of the blocks it chose, by their working sets;
    None where it did not run. ``after.arena_bytes`` is the truth, mostly a little less: the search counts in closed
    form and rounds up, while planning may also fail to fit everything into the largest working set.
    ``optimal`` maps ``order``, ``plan`` and ``fusion`` to what was proven of the result; a step that did not run is
    absent. ``outside`` are the inputs the rewritten model reads from outside the arena. ``prediction`` is there
    where blocks were made. ``reproducible`` is false where a clock, not counted work, ended a
    search: another machine may then answer otherwise. A rewrite that is not proven is not reported but refused.
    ``unverified`` says why ``verified`` is None; ``second_witness`` is a runtime other than TensorFlow Lite Micro that
    ran both models instead. ``unchanged`` says why the written file is the one that was read.
    ``advice`` are sentences about what other options would bring, where they were asked for.
    ``runtime`` is the one on the device for which the arenas suffice, by name.
    ``stream`` is there where a model over a window became a stream: then ``proven`` is that blocks are those of the
    stream's operators, ``verified`` that the stream gives what the window's model gives on every window of a sequence.
    """

    before: Figures
    after: Figures
    estimate_bytes: int | None
    compute_factor: float
    optimal: dict[str, Claim]
    proven: Proven
    verified: Verified | None
    records: tuple[Note, ...]
    blocks: tuple[BlockReport, ...] = ()
    outside: tuple[OutsideInput, ...] = ()
    prediction: Prediction | None = None
    reproducible: bool = True
    unverified: str | None = None
    second_witness: Verified | None = None
    unchanged: str | None = None
    advice: tuple[str, ...] = ()
    stream: StreamReport | None = None
    runtime: str = DEFAULT_RUNTIME

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences of ``records``."""
        return sentences_of(self.records)

    def claim(self) -> str:
        """What was proven and what was tested."""
        if self.unchanged is not None:
            return "the file is as it was"
        proven = "constants, options and schedule proven equal"
        if self.verified is None and self.second_witness is not None:
            witness = self.second_witness
            return f"{proven}; {witness.runtime} {witness.version} gives the same on {witness.inputs} inputs"
        if self.verified is None:
            return f"{proven}; kernels not run"
        where = f"{self.verified.runtime} {self.verified.version}"
        return f"{proven}; kernels tested on {self.verified.inputs} inputs in {where}"

    def _repr_html_(self) -> str:
        pairs = [(label, getattr(self.before, name), getattr(self.after, name)) for label, name in FIGURE_ROWS]
        rows = [(label.strip(), f"{old:,}", f"{new:,}", change(old, new)) for label, old, new in pairs]
        return html_table(f"{self.claim()}.", ("", "before", "after", "change"), rows)

    def to_json(self) -> dict[str, Any]:
        """The object that ``--json`` prints."""
        expected = None if self.prediction is None else asdict(self.prediction) | {"factor": self.prediction.factor}
        outside = [entry.to_json() for entry in self.outside]
        told = {"records": [each.to_json() for each in self.records], "notes": list(self.notes)}
        return {"schema": SCHEMA, **asdict(self), **told, "outside": outside, "prediction": expected}


def change(before: int, after: int) -> str:
    """In percent; nothing where there is nothing to compare with."""
    if before == after:
        return "="
    return f"{100 * (after - before) / before:+.1f} %" if before else ""
