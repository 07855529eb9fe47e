"""The result of a rewrite as data and as the JSON object of ``schemas/report.schema.json``."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tflite_fuse.claim import Claim
from tflite_fuse.cost.instructions import Prediction
from tflite_fuse.memory.tflm.runtimes import DEFAULT_RUNTIME
from tflite_fuse.model.outside import OutsideInput
from tflite_fuse.notes import Note
from tflite_fuse.report.notebook import html_table
from tflite_fuse.report.wording import sentences_of

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
"""(label, field of ``Figures``) of the rows of a report."""


@dataclass(frozen=True)
class Figures:
    """The memory and compute figures of one model.

    Attributes:
        peak_bytes: largest working set: bytes live while one operator runs; bytes that a plan shares between tensors
            count once.
        lower_bound_bytes: least head of any arena plan of this order: the peak with every tensor rounded up to 16
            bytes, or less in a planned model whose fused blocks may overwrite their input.
        head_bytes: part of the arena for activations and scratch.
        head_source: ``tflite-micro`` if the head was measured in the runtime, ``computed`` if it was calculated.
        tail_bytes: part of the arena that TFLM keeps for itself.
        arena_bytes: bytes to allocate for the runtime on the device: the larger of ``arena_used_bytes`` and
            ``loading_bytes``, a multiple of 16.
        arena_used_bytes: head + tail, the result of the runtime's ``arena_used_bytes()``.
        loading_bytes: bytes that the runtime needs temporarily while it loads the model.
        persistent_bytes, activations_bytes: bytes to allocate if the arena is two arrays: TFLM's own data, and the
            rest.
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
    """Result of running two models in a real runtime on the same inputs."""

    runtime: str
    version: str
    inputs: int
    bit_exact: bool


@dataclass(frozen=True)
class Proven:
    """The proof that the written file implements the original, by decoding it again without running it.

    Attributes:
        blocks: fused blocks decoded and compared.
        operators: unchanged operators.
        compared: number of compared weights, table entries, options and so on.
        notes: limits of the claim.
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
        band_height: rows per band; the output's height means one band.
        scratch_bytes: rings, accumulators and executor state.
        macs: multiply-accumulates executed.
        extra_macs: ``macs`` less those of the operators it replaced: recomputed ones less those skipped because no
            operator reads their result.
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
    """A model over a window that was converted to a stream.

    Attributes:
        hop, window: new time steps per call, and time steps of the window.
        valid_after: calls until the window is full; until then the missing steps count as the input's zero point.
        state_bytes: part of the arena that outlives a call.
        scratch_bytes: the head, which other models may use between calls.
        tail_bytes: the rest of the arena.
        macs_of_window, macs_of_call: multiply-accumulates per window, before and after.
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
class MemoryReport:
    """Use of a fast and a slow memory.

    Attributes:
        fast, slow: their names.
        fast_bytes, slow_bytes: bytes of the arena, and of the tensors between blocks.
        fast_room, slow_room: sizes of the memories.
        tensors: names of the tensors in the slow memory.
        read_bytes, written_bytes: traffic of one inference. The application's own accesses to inputs and outputs
            there are no part of it.
        cycles: that this traffic takes more than in the fast memory.
    """

    fast: str
    slow: str
    fast_bytes: int
    slow_bytes: int
    fast_room: int
    slow_room: int
    tensors: tuple[str, ...]
    read_bytes: int
    written_bytes: int
    cycles: int

    def saves_per_kb(self, other: MemoryReport) -> float:
        """Return the cycles of traffic that another use with a larger fast memory saves for each 1,000 bytes more."""
        return (self.cycles - other.cycles) / (other.fast_room - self.fast_room) * 1000

    def __str__(self) -> str:
        usage = f"{self.fast}: {self.fast_bytes:,} of {self.fast_room:,} bytes, {self.slow}: {self.slow_bytes:,}"
        if not self.tensors:
            return f"{self.fast}: {self.fast_bytes:,} of {self.fast_room:,} bytes, {self.slow}: nothing"
        tensors = f"{len(self.tensors)} tensor{'s' * (len(self.tensors) != 1)}"
        return (
            f"{usage} of {self.slow_room:,} bytes for {tensors}, of which an inference reads "
            f"{self.read_bytes:,} bytes and writes {self.written_bytes:,}"
        )


@dataclass(frozen=True)
class Report:
    """Figures before and after a rewrite, its proof, and notes. A rewrite without a proof raises an error instead.

    Attributes:
        before, after: figures of both models; ``after.arena_bytes`` is exact.
        estimate_bytes: arena that the search estimated for its blocks, in closed form, usually a little more than the
            exact one; None if no search ran.
        compute_factor: multiply-accumulates after over before.
        optimal: ``order``, ``plan`` and ``fusion`` → the proven claim; a step that did not run is absent.
        proven: the proof.
        verified: result of running both models in TensorFlow Lite Micro; None for the reason ``unverified``.
        records: notes as data.
        blocks: the fused blocks.
        outside: inputs that the rewritten model reads from outside the arena.
        prediction: predicted instructions or cycles, if blocks were made.
        reproducible: False if a clock, not counted work, ended a search: results may differ on another machine.
        unverified: why ``verified`` is None.
        second_witness: result of another runtime that ran both models instead.
        unchanged: why the written file equals the original.
        advice: sentences about other options, if requested.
        stream: the stream, if requested: then ``proven`` compares blocks with the stream's operators, and ``verified``
            the stream's outputs with the original's on every window of a sequence.
        runtime: name of the runtime on the device for which the arenas suffice.
        memories: use of the device's memories, if they were given.
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
    memories: MemoryReport | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the sentences of ``records``."""
        return sentences_of(self.records)

    def claim(self) -> str:
        """Return one clause on the proof and the tests."""
        if self.unchanged is not None:
            return "the file is as it was"
        proven = "constants, options and schedule proven equal"
        if self.verified is None and self.second_witness is not None:
            witness = self.second_witness
            return f"{proven}; {gives_the_same(witness.runtime, witness.version, witness.inputs)}"
        if self.verified is None:
            return f"{proven}; kernels not run"
        where = f"{self.verified.runtime} {self.verified.version}"
        return f"{proven}; kernels tested on {self.verified.inputs} inputs in {where}"

    def _repr_html_(self) -> str:
        from tflite_fuse.report.tables import report_table  # for notebooks alone

        return html_table(f"{self.claim()}.", report_table(self))

    def to_json(self) -> dict[str, Any]:
        """Return the object that ``--json`` prints."""
        expected = None if self.prediction is None else asdict(self.prediction) | {"factor": self.prediction.factor}
        outside = [entry.to_json() for entry in self.outside]
        lists = {"records": [each.to_json() for each in self.records], "notes": list(self.notes)}
        return {"schema": SCHEMA, **asdict(self), **lists, "outside": outside, "prediction": expected}


def gives_the_same(runtime: str, version: str, inputs: int) -> str:
    """Return the clause on a second witness that computed the same bytes with both models."""
    return f"{runtime} {version} gives the same on {inputs} inputs"


def change(before: int, after: int) -> str:
    """Return the change in percent; empty if there is nothing to compare with."""
    if before == after:
        return "="
    return f"{100 * (after - before) / before:+.1f} %" if before else ""
