"""Compares two files: runs both, and proves the second if it was made from the first."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tflite_fuse.check import Certificate
from tflite_fuse.emit.in_model import block_overlaps
from tflite_fuse.emit.stream_time import StreamTime, stream_time
from tflite_fuse.errors import ModelError, PlanError, RuntimeUnavailableError, VerificationError
from tflite_fuse.memory.checker import plan_fault
from tflite_fuse.model.schema import Model
from tflite_fuse.passes.options import Hop
from tflite_fuse.passes.preparing.dilate import Dilate
from tflite_fuse.passes.sliding.stream import to_stream
from tflite_fuse.report.wording import sentences_of
from tflite_fuse.rewriting.guess import validate_any
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.comparing.compare import compare
from tflite_fuse.runtime.comparing.comparison import Comparison
from tflite_fuse.runtime.comparing.mutation import mutation_score
from tflite_fuse.runtime.comparing.over_time import STEPS, also_over_time, compare_over_time
from tflite_fuse.runtime.comparing.watched import watched
from tflite_fuse.runtime.comparing.witnesses import runs, second_witness
from tflite_fuse.runtime.directed import directed
from tflite_fuse.runtime.inputs import generate_inputs, load_inputs
from tflite_fuse.runtime.processes.worker import Array


@dataclass(frozen=True)
class Pair:
    """Two models to compare.

    Attributes:
        names: in messages.
        files: theirs.
        models: as loaded.
    """

    names: tuple[str, str]
    files: tuple[bytes, bytes]
    models: tuple[Model, Model]

    @property
    def identical(self) -> bool:
        """Return whether the files are the same, byte for byte."""
        return self.files[0] == self.files[1]


def verify_pair(pair: Pair, inputs: int, seed: int | None, data: Path | None, mutants: int) -> Comparison:
    """Return the comparison of two models; arguments and errors as of ``api.verify``."""
    first, second = pair.models
    for name, each in zip(pair.names, pair.models, strict=True):
        if (fault := plan_fault(each, block_overlaps(each))) is not None:
            raise PlanError(f"{name}: the offline memory plan is unsound: {fault}")
    stream = stream_time(second)
    seed = secrets.randbelow(1 << 32) if seed is None else seed
    if stream is not None and stream_time(first) is None:
        return _of_stream(pair, stream, inputs, seed)
    if (repaired := Dilate().run(first)).changed and (
        certificate_of_repaired := validate_any(repaired.model, second)
    ).proven:
        # The runtime leaves bytes of the first undefined: the second is compared with the intended model.
        certificate_of_repaired = replace(
            certificate_of_repaired, notes=(*certificate_of_repaired.notes, *sentences_of(repaired.notes))
        )
        samples = load_inputs(data, first) if data is not None else generate_inputs(first, inputs, seed)
        return _not_run(pair, certificate_of_repaired, "the runtime leaves bytes of the original undefined", samples)
    certificate = validate_any(first, second)
    samples = load_inputs(data, first) if data is not None else generate_inputs(first, inputs, seed)
    try:
        comparison, run_samples = _run(pair, certificate, samples, None if data is not None else seed)
    except (ModelError, RuntimeUnavailableError) as error:
        if not certificate.proven and not pair.identical:
            raise
        if pair.identical or isinstance(error, RuntimeUnavailableError):
            return _not_run(pair, certificate, str(error))
        if runs(first, pair.files[0], samples):
            raise VerificationError(f"{pair.names[1]} does not run where {pair.names[0]} does: {error}") from error
        return _not_run(pair, certificate, str(error), samples)
    shown = certificate if certificate.proven or certificate.blocks else None
    comparison = replace(comparison, certificate=shown, unconfined=tflm.unconfined(), identical=pair.identical)
    if not mutants or comparison.fault is not None:
        return comparison
    return replace(comparison, score=mutation_score(pair.models, certificate, run_samples, mutants, seed))


def _not_run(pair: Pair, certificate: Certificate, why: str, samples: Sequence[Sequence[Array]] = ()) -> Comparison:
    """Return the result for two models that TensorFlow Lite Micro cannot run: the proof, and a run in LiteRT.

    Args:
        pair: the two.
        certificate: of the proof; of no interest for identical files if it failed.
        why: the reason.
        samples: inputs for LiteRT; none: it is not run.
    """
    second, notes = second_witness(pair.models, pair.files, samples, pair.names)
    difference = None if second is None else second.first_difference
    comparison = Comparison(difference is None, 0, difference, "", "", certificate if certificate.proven else None, why)
    return replace(
        comparison,
        identical=pair.identical,
        second_witness=second,
        no_second_witness=next(iter(sentences_of(notes)), None),
    )


def _run(
    pair: Pair, certificate: Certificate, samples: Sequence[Sequence[Array]], seed: int | None
) -> tuple[Comparison, Sequence[Sequence[Array]]]:
    """Run both on the same inputs; return the comparison and the inputs.

    Args:
        pair: the two.
        certificate: of the proof of the second.
        samples: inputs.
        seed: of generated inputs; None for the user's.
    """
    inside = watched(pair.models, certificate)
    if seed is not None:
        samples = directed(pair.models[0], samples, inside.first, seed)
    comparison = compare(*pair.files, samples, names=pair.names, models=pair.models, watch=inside)
    if seed is not None:
        comparison = also_over_time(comparison, pair.files, pair.models, seed)
    return replace(comparison, seed=seed), samples


def _of_stream(pair: Pair, stream: StreamTime, calls: int, seed: int) -> Comparison:
    """Compare a stream with the model over its window, and prove its blocks against the stream's operators."""
    axis = {1: "height", 2: "width"}.get(stream.axis)
    certificate = validate_any(to_stream(pair.models[0], Hop(stream.hop, axis)).model, pair.models[1])
    try:
        over_time = compare_over_time(pair.files, pair.models, stream=stream, calls=max(calls, STEPS), seed=seed)
    except RuntimeUnavailableError as error:
        return Comparison(True, 0, None, "", "", certificate, str(error))
    return replace(over_time, certificate=certificate, seed=seed, unconfined=tflm.unconfined())
