"""Operators of damaged files that lack operands: passed through, or refused in one sentence, wherever they stand."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from itertools import product

from hypothesis import given, settings

import tflite_fuse
from scripts.fuzzing.seeds import kinds_model, without_runtime
from scripts.zoo.networks import keyword_network
from tests.drawing.raw_streams import streams
from tflite_fuse import TfliteFuseError
from tflite_fuse.model.edit import replace_operators
from tflite_fuse.model.file import Model, serialize_model
from tflite_fuse.model.operators import operator_name


def shortened(model: Model, index: int, count: int) -> Model:
    """The model with the first ``count`` operands of an operator alone."""
    operators = list(model.main.operators)
    operators[index] = replace(operators[index], inputs=(operators[index].inputs or ())[:count])
    return replace_operators(model, operators)


def check_all(model: Model, hop: int | None = None) -> None:
    """Of operators that are alike the first and the last."""
    alike: dict[tuple[str, int], list[int]] = {}
    for index, operator in enumerate(model.main.operators):
        alike.setdefault((operator_name(model, operator), len(operator.inputs or ())), []).append(index)
    for (_, inputs), places in alike.items():
        for index, count in product({places[0], places[-1]}, range(inputs)):
            data = serialize_model(shortened(model, index, count))
            with without_runtime(), contextlib.suppress(TfliteFuseError):
                tflite_fuse.rewrite(data, verify=False, stream_time=hop)


def test_operators_without_some_operands() -> None:
    check_all(kinds_model())


def test_operators_of_a_window_without_some_operands() -> None:
    check_all(keyword_network(25, 6, 4, 1, 2), hop=1)


@settings(max_examples=2)
@given(streams())
def test_operators_of_a_stream_without_some_operands(model: Model) -> None:
    check_all(model)
