"""Searches for inputs under which the original shows values that it has not shown before.

Random inputs drive many classifiers to one saturated output, and equal saturated outputs say little about the
computation. So the last third of the inputs is chosen: for each, a few candidates run through the original (a random
one, one of less contrast, a mixture of two, a point between two inputs where the output changes), and the one with the
most new values in the outputs and at the borders of blocks is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tflite_fuse.errors import ModelError
from tflite_fuse.model import Model
from tflite_fuse.model.macs import operator_macs
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.comparing.watched import exposed
from tflite_fuse.runtime.inputs import InputSpec, input_specs
from tflite_fuse.runtime.processes.worker import Array
from tflite_fuse.runtime.streams import make_feed

WORK = 120_000_000
"""Multiply-accumulates of the search for each input: at most half a second."""

_HALVINGS = 4
_SAMPLED = 4096

Inputs = list[Array]
Results = list[Array]


def directed(model: Model, inputs: Sequence[Sequence[Array]], watch: Sequence[int] = (), seed: int = 0) -> list[Inputs]:
    """Return the inputs with the last third replaced by better ones.

    The inputs are unchanged if the model computes too much, returns nothing or does not run.

    Args:
        model: the original.
        inputs: as ``generate_inputs`` makes them.
        watch: tensors between operators whose values count beside the outputs'.
        seed: of the search.

    Raises:
        RuntimeUnavailableError: no runtime is installed.
    """
    kept, random = (list(map(list, part)) for part in (inputs[: -(len(inputs) // 3)], inputs[-(len(inputs) // 3) :]))
    runs = WORK * len(inputs) // max(1, sum(operator_macs(model)))
    if len(inputs) < 3 or runs < 2 * len(inputs) or not (model.main.outputs or watch):
        return list(map(list, inputs))
    try:
        with tflm.session(exposed(model, watch)) as worker:

            def run(arrays: Inputs) -> Results:
                feed = make_feed(model, arrays)
                return worker.infer(feed.inputs, feed.outside)

            search = _Search(run, input_specs(model), np.random.default_rng(seed), kept)
            return kept + [search.best_of(each) if search.runs < runs else each for each in random]
    except ModelError:  # the comparison reports it
        return list(map(list, inputs))


class _Search:
    """Values seen so far, and a pool of inputs to derive others from."""

    def __init__(
        self,
        run: Callable[[Inputs], Results],
        specs: Sequence[InputSpec],
        rng: np.random.Generator,
        first: list[Inputs],
    ) -> None:
        self._run, self._specs, self._rng = run, specs, rng
        self.runs = 0
        self._seen: list[npt.NDArray[np.bool_]] = []
        self._pool: list[tuple[Inputs, Results]] = []
        for arrays in first:
            self._keep(arrays, self._tried(arrays))

    def best_of(self, random: Inputs) -> Inputs:
        """Return the best of a few candidates."""
        tried = [(each, self._tried(each)) for each in self._candidates(random)]
        best = max(tried, key=lambda each: self._news(each[1]))
        self._keep(*best)
        return best[0]

    def _tried(self, arrays: Inputs) -> Results:
        self.runs += 1
        return self._run(arrays)

    def _candidates(self, random: Inputs) -> Iterator[Inputs]:
        yield random
        contrast = 2.0 ** -self._rng.uniform(0, 5)
        resting = [np.full(spec.shape, spec.rest) for spec in self._specs]
        yield self._between(resting, random, contrast)
        one, other = (self._pool[int(i)][0] for i in self._rng.integers(0, len(self._pool), 2))
        yield self._between(one, other, float(self._rng.random()))
        yield self._turning_point()

    def _between(self, a: Sequence[Array], b: Sequence[Array], part: float) -> Inputs:
        """Return the mixture of a and b, value by value; ``part`` is b's share."""
        mixed = []
        for spec, x, y in zip(self._specs, a, b, strict=True):
            values = np.asarray(x, np.float64) * (1 - part) + np.asarray(y, np.float64) * part
            mixed.append((values if spec.dtype.kind == "f" else np.rint(values)).astype(spec.dtype))
        return mixed

    def _turning_point(self) -> Inputs:
        """Return a point between two inputs of different outputs, near where the output changes."""
        number = int(self._rng.integers(0, len(self._pool)))
        low, at_low = self._pool[number]
        distances = [_distance(at_low[0], results[0]) for _, results in self._pool]
        high, at_high = self._pool[int(np.argmax(distances))]
        for _ in range(_HALVINGS):
            middle = self._between(low, high, 0.5)
            results = self._tried(middle)
            if _distance(results[0], at_low[0]) < _distance(results[0], at_high[0]):
                low = middle
            else:
                high = middle
        return self._between(low, high, float(self._rng.random()))

    def _keep(self, arrays: Inputs, results: Results) -> None:
        self._pool.append((arrays, results[:1]))
        values = [_bytes(each) for each in results]
        if not self._seen:
            self._seen = [np.zeros((len(each), 256), np.bool_) for each in values]
        for seen, each in zip(self._seen, values, strict=True):
            seen[np.arange(len(each)), each] = True

    def _news(self, results: Results) -> float:
        """Return the sum over outputs and watched tensors of the share of elements with a new value."""
        values = [_bytes(each) for each in results]
        pairs = zip(self._seen, values, strict=True)
        return float(sum(1 - seen[np.arange(len(each)), each].mean() for seen, each in pairs if len(each)))


def _distance(a: Array, b: Array) -> float:
    return float(np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64)).sum())


def _bytes(array: Array) -> npt.NDArray[np.uint8]:
    """Return one byte of each sampled element: an int8 value, or the byte of a longer one that varies most."""
    values: npt.NDArray[Any] = np.ascontiguousarray(array).ravel()
    values = np.ascontiguousarray(values[:: max(1, -(-len(values) // _SAMPLED))])
    parts = values.view(np.uint8).reshape(len(values), -1)
    return np.asarray(parts[:, max(0, parts.shape[1] - 2)])
