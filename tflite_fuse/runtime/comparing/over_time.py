"""Compares two models over sequences of calls, with silence, edge values and resets.

Two interpreters of each model run side by side, call by call in turn, each pair on a sequence of its own; one pair is
reset in the middle. If the second model is a stream of the first one's window, the first reads the window that ends
with the time steps that the second reads; before the first call and after a reset it is full of the input's zero point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import numpy as np

from tflite_fuse.emit.stream_time import StreamTime
from tflite_fuse.errors import ModelError, VerificationError
from tflite_fuse.memory.budget import report_progress
from tflite_fuse.model.schema import Model
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.comparing.compare import Ends, keeps_state
from tflite_fuse.runtime.comparing.comparison import Comparison, Seen, first_difference
from tflite_fuse.runtime.inputs import InputSpec, generate_inputs, input_specs
from tflite_fuse.runtime.processes.worker import Array, Worker
from tflite_fuse.runtime.streams import make_feed

STEPS = 64
"""Calls of each interpreter, unless a window is longer."""

_MOODS = ("noise", "quiet", "silence", "loud", "lowest", "noise", "highest", "edges")


def compare_over_time(
    files: tuple[bytes, bytes],
    models: tuple[Model, Model],
    *,
    stream: StreamTime | None = None,
    calls: int = STEPS,
    seed: int = 0,
) -> Comparison:
    """Run two models over sequences of calls and compare every output of every call.

    The inputs of the result are the calls of both interpreters of a model, up to the first difference.

    Args:
        files, models: the two.
        stream: relation of a stream to the first model's window; None if both keep a state or none.
        calls: least number of calls; more if a window is longer.
        seed: of the sequences.

    Raises:
        ModelError: a model cannot be loaded or run.
        VerificationError: their inputs do not fit each other.
        RuntimeUnavailableError: no runtime is installed.
    """
    calls = max(calls, 0 if stream is None else 2 * stream.calls)
    names = [models[0].main.tensors[tensor].name or f"tensor {tensor}" for tensor in models[0].main.outputs]
    ends = None if stream is not None else Ends(models)
    if stream is not None:
        _check_shapes(models, stream)
    seen, difference = Seen(), None
    with ExitStack() as stack:
        pairs = [
            _Pair(
                tuple(stack.enter_context(tflm.session(file)) for file in files),
                _sequence(models[0], stream, calls, seed + number),
                reset_at=calls // 2 if number == 0 else -1,
                stream=stream,
            )
            for number in range(2)
        ]
        done = 0
        while difference is None and done < calls:
            for pair in pairs:
                inputs = pair.inputs_of(done)
                second = inputs[1] if ends is None else ends.inputs_of_second(inputs[0])
                results = [
                    _run(model, worker, arrays, reset)
                    for model, worker, arrays, reset in zip(
                        models, pair.workers, (inputs[0], second), pair.resets(done), strict=True
                    )
                ]
                compared = results if ends is None else ends.comparable(results)
                seen.note(compared[0])
                difference = first_difference(compared, names, done, done > 0, len(names))
                if difference is not None:
                    break
            else:
                done += 1
                report_progress("inputs compared", done, calls)
    runtime = tflm.RUNTIME_NAME, tflm.runtime_version() or "unknown"
    return Comparison(difference is None, 2 * done, difference, *runtime, varied=seen.varied, elements=seen.elements)


def also_over_time(
    comparison: Comparison, files: tuple[bytes, bytes], models: tuple[Model, Model], seed: int
) -> Comparison:
    """Add a comparison over time if one of the models keeps a state; raises as ``compare_over_time`` does."""
    if not comparison.bit_exact or not any(keeps_state(model) for model in models):
        return comparison
    over = compare_over_time(files, models, seed=seed)
    return replace(comparison, bit_exact=over.bit_exact, first_difference=over.first_difference, calls=over.inputs // 2)


def _run(model: Model, worker: Worker, arrays: Sequence[Array], reset: bool) -> list[Array]:
    feed = make_feed(model, arrays)
    return worker.infer(feed.inputs, feed.outside, reset=reset)


def _check_shapes(models: tuple[Model, Model], stream: StreamTime) -> None:
    """Raise VerificationError unless the second model's ends are time steps of the first one's."""
    try:
        expected = [(stream.shape_of(spec.shape), spec.dtype) for spec in input_specs(models[0])]
    except ModelError as error:
        raise VerificationError(f"the second model is no stream of the first: {error}") from error
    specs = [(spec.shape, spec.dtype) for spec in input_specs(models[1])]
    outputs = [[model.main.tensors[tensor].dims for tensor in model.main.outputs] for model in models]
    if expected != specs or outputs[0] != outputs[1]:
        raise VerificationError(
            "the second model is no stream of the first: their inputs or outputs do not fit each other"
        )


@dataclass
class _Pair:
    """Two interpreters, one of each model, on the same sequence."""

    workers: tuple[Worker, ...]
    sequence: list[list[Array]]
    reset_at: int
    stream: StreamTime | None
    windows: list[Array] = field(default_factory=list)

    def resets(self, call: int) -> tuple[bool, bool]:
        """Return which of the two are reset before a call; a model over a window always is."""
        starts = call in (0, self.reset_at)
        return starts or self.stream is not None, starts

    def inputs_of(self, call: int) -> tuple[list[Array], list[Array]]:
        """Return the inputs of each of the two."""
        steps = self.sequence[call]
        if self.stream is None:
            return steps, steps
        axis, length = self.stream.axis, self.stream.window * self.stream.each
        if call in (0, self.reset_at):
            self.windows = self.sequence[-1]
        joined = (np.concatenate(pair, axis=axis) for pair in zip(self.windows, steps, strict=True))
        self.windows = [np.take(each, range(each.shape[axis] - length, each.shape[axis]), axis) for each in joined]
        return self.windows, steps


def _sequence(model: Model, stream: StreamTime | None, calls: int, seed: int) -> list[list[Array]]:
    """Return the inputs of every call; for a stream followed by a window of zero points.

    The calls cycle through noise, near silence, silence, loud and edge values; in between are the inputs generated for
    single runs, for a stream step by step.
    """
    specs, rng = input_specs(model), np.random.default_rng(seed)
    sequence: list[list[Array]] = []
    generated = _as_steps(generate_inputs(model, 12, seed), stream)
    for number in range(calls):
        mood = _MOODS[number * len(_MOODS) // calls]
        chosen = next(generated, None) if number % 4 < 2 and mood in ("noise", "loud") else None
        sequence.append(chosen if chosen is not None else [_steps(spec, stream, mood, rng) for spec in specs])
    if stream is not None:
        sequence.append([np.full(spec.shape, _zero(spec), spec.dtype) for spec in specs])
    return sequence


def _zero(spec: InputSpec) -> float:
    return 0.0 if spec.dtype.kind == "f" else spec.rest


def _as_steps(windows: Sequence[Sequence[Array]], stream: StreamTime | None) -> Iterator[list[Array]]:
    for arrays in reversed(windows):
        if stream is None:
            yield list(arrays)
            continue
        for begin in range(0, stream.window - stream.hop + 1, stream.hop):
            places = range(begin * stream.each, (begin + stream.hop) * stream.each)
            yield [np.take(array, places, stream.axis) for array in arrays]


def _steps(spec: InputSpec, stream: StreamTime | None, mood: str, rng: np.random.Generator) -> Array:
    shape = spec.shape if stream is None else stream.shape_of(spec.shape)
    middle, width = (spec.low + spec.high) / 2, spec.high - spec.low
    moods: dict[str, Callable[[], Array]] = {
        "noise": lambda: rng.uniform(spec.low, spec.high, shape),
        "quiet": lambda: rng.normal(_zero(spec), 0.02 * width, shape),
        "silence": lambda: np.full(shape, _zero(spec)),
        "loud": lambda: rng.normal(middle + rng.uniform(-0.3, 0.3) * width, 0.2 * width, shape),
        "lowest": lambda: np.full(shape, spec.low),
        "highest": lambda: np.full(shape, spec.high),
        "edges": lambda: rng.choice(np.array([spec.low, spec.high]), shape),
    }
    clipped = np.clip(moods[mood](), spec.low, spec.high)
    array: Array = (clipped if spec.dtype.kind == "f" else np.rint(clipped)).astype(spec.dtype)
    return array
