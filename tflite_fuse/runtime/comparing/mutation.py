"""Strength of a comparison: the share of single-step weight errors that the run would have noticed.

A change of the original's weight stands for one of the rewrite's, because both compute the same. Only the piece of the
original that a block replaces is run, on the values it reads for each input.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tflite_fuse.check.certificate import Certificate
from tflite_fuse.ir.program import FUSED_OPERATOR
from tflite_fuse.memory.tflm.offline_plan import remove_plan
from tflite_fuse.model import Model
from tflite_fuse.model.edit import prune, replace_main
from tflite_fuse.model.file import serialize_model
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.schema import Operator
from tflite_fuse.model.types import TensorType
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.comparing.comparison import MutationScore
from tflite_fuse.runtime.comparing.watched import exposed, watched
from tflite_fuse.runtime.processes.worker import Array
from tflite_fuse.runtime.streams import make_feed

_CHANNEL_AXIS = {"CONV_2D": 0, "FULLY_CONNECTED": 0, "DEPTHWISE_CONV_2D": -1}


@dataclass(frozen=True)
class _Piece:
    """The operators that a block replaces, the tensors they read, and their tensors that are compared."""

    operators: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def mutation_score(
    models: tuple[Model, Model], certificate: Certificate, inputs: Sequence[Sequence[Array]], count: int, seed: int = 0
) -> MutationScore:
    """Change weights one at a time and count the changes that show in tensors at and in blocks.

    Args:
        models: an original without state, and a rewrite that computes the same.
        certificate: of the two.
        inputs: of the original.
        count: number of weights.
        seed: of their choice.

    Raises:
        ModelError: the runtime refuses the original.
        RuntimeUnavailableError: no runtime is installed.
    """
    original = remove_plan(models[0])
    rng = np.random.default_rng(seed)
    counts = np.zeros(4, np.int64)
    seen = watched(models, certificate).first
    pieces = list(_pieces(original, models[1], {b: a for a, b in certificate.same}, set(seen)))
    every = [(piece, index, _weights(original, index)) for piece in pieces for index in piece.operators]
    weighted = [(piece, index, weights.size) for piece, index, weights in every if weights is not None]
    sizes = np.array([size for *_, size in weighted], np.float64)
    drawn = rng.multinomial(count, sizes / sizes.sum()).tolist() if weighted else []
    fed = _feeds(original, inputs, pieces)
    for (piece, index, _), number in zip(weighted, drawn, strict=True):
        if number:
            counts += _of_operator(original, piece, index, fed[piece], number, rng)
    return MutationScore(len(inputs), *map(int, counts))


def _pieces(original: Model, rewritten: Model, origin: dict[int, int], seen: set[int]) -> Iterator[_Piece]:
    graph = original.main
    writer = {t: index for index, operator in enumerate(graph.operators) for t in operator.outputs or ()}
    original_options = {(each.custom_options or b"") for each in graph.operators}
    for block in rewritten.main.operators:
        if operator_name(rewritten, block) != FUSED_OPERATOR or (block.custom_options or b"") in original_options:
            continue
        ends = {origin[t] for t in (block.inputs or ())[:-1] if t in origin}
        outputs = tuple(origin[t] for t in (block.outputs or ())[:-1] if t in origin)
        operators, reads, todo = set[int](), set[int](), list(outputs)
        while todo:
            tensor = todo.pop()
            if tensor in ends or tensor not in writer:
                reads.add(tensor)
            elif writer[tensor] not in operators:
                operators.add(writer[tensor])
                todo += [t for t in graph.operators[writer[tensor]].inputs or () if t >= 0]
        read = {t for t in reads if t in writer or t in graph.inputs}
        inner = {t for index in operators for t in graph.operators[index].outputs or ()} & seen
        if operators:
            yield _Piece(tuple(sorted(operators)), tuple(sorted(read)), tuple(sorted({*outputs, *inner})))


def _weights(model: Model, index: int) -> npt.NDArray[np.int8] | None:
    """Return the int8 weights of an operator in their shape."""
    operator = model.main.operators[index]
    if operator_name(model, operator) not in _CHANNEL_AXIS or len(operator.inputs or ()) < 2:
        return None
    tensor = model.main.tensors[(operator.inputs or ())[1]]
    data = model.buffers[tensor.buffer].data or b""
    if tensor.type != TensorType.INT8 or len(data) != int(np.prod(tensor.dims)):
        return None
    return np.frombuffer(data, np.int8).reshape(tensor.dims)


def _feeds(
    model: Model, inputs: Sequence[Sequence[Array]], pieces: Sequence[_Piece]
) -> dict[_Piece, list[list[Array]]]:
    """Return the arrays that each piece reads for each input."""
    read = sorted({t for piece in pieces for t in piece.inputs} - set(model.main.inputs))
    fed: dict[_Piece, list[list[Array]]] = {piece: [] for piece in pieces}
    with tflm.session(exposed(model, read)) as worker:
        for arrays in inputs:
            feed = make_feed(model, arrays)
            results = worker.infer(feed.inputs, feed.outside)[len(model.main.outputs) :]
            values = dict(zip(read, results, strict=True)) | dict(zip(model.main.inputs, arrays, strict=True))
            for piece in pieces:
                fed[piece].append([values[t] for t in piece.inputs])
    return fed


def _of_operator(
    model: Model, piece: _Piece, index: int, fed: Sequence[Sequence[Array]], number: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Return the counts of altered, caught, constant and silent changes of some weights of one operator."""
    weights = _weights(model, index)
    assert weights is not None
    axis = _CHANNEL_AXIS[operator_name(model, model.main.operators[index])]
    truth = _results(_cut(model, piece, index, weights), fed)
    counts = np.zeros(4, np.int64)
    for at in rng.integers(0, weights.size, number):
        changed = weights.copy()
        flat = changed.reshape(-1)
        flat[at] += 1 if flat[at] < 127 and (flat[at] < -126 or rng.random() < 0.5) else -1
        altered = caught = False
        with tflm.session(_cut(model, piece, index, changed)) as worker:
            for arrays, expected in zip(fed, truth, strict=True):
                results = worker.infer(arrays)
                altered = altered or not np.array_equal(results[-1], expected[-1])
                caught = any(not np.array_equal(x, y) for x, y in zip(results[:-1], expected[:-1], strict=True))
                if caught:
                    break
        channel = np.unravel_index(int(at), weights.shape)[axis]
        own = [expected[-1][..., channel] for expected in truth]
        constant = all((each == own[0].flat[0]).all() for each in own)
        counts += np.array([altered, caught, not altered and constant, not altered and not constant])
    return counts


def _cut(model: Model, piece: _Piece, index: int, weights: npt.NDArray[np.int8]) -> bytes:
    """Return a model of a piece's operators with other weights in one of them, whose output is the last output."""
    graph = model.main
    operators: list[Operator] = [graph.operators[each] for each in piece.operators]
    own = graph.operators[index].output
    weight = (graph.operators[index].inputs or ())[1]
    buffers = (*model.buffers, replace(model.buffers[0], data=weights.tobytes()))
    tensors = list(graph.tensors)
    tensors[weight] = replace(tensors[weight], buffer=len(buffers) - 1)
    cut = replace(
        graph, tensors=tuple(tensors), operators=tuple(operators), inputs=piece.inputs, outputs=(*piece.outputs, own)
    )
    return serialize_model(prune(replace_main(replace(model, buffers=buffers, signature_defs=None), cut)))


def _results(file: bytes, fed: Sequence[Sequence[Array]]) -> list[list[Array]]:
    with tflm.session(file) as worker:
        return [worker.infer(arrays) for arrays in fed]
