"""Witnesses are checked, not trusted: a forged one proves nothing false."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.compiling import rewritten_by_default
from tests.conftest import shared_models
from tests.drawing.raw_models import VALID
from tests.float_models import with_float_borders
from tests.passes.preparing.chains_of_zeros import chains
from tests.passes.preparing.test_constant_channels import folded, images_of, needs_tflm, one_more
from tflite_fuse.api import rewrite
from tflite_fuse.check import validate
from tflite_fuse.errors import ModelError
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.edit import get_metadata, remove_metadata, set_metadata
from tflite_fuse.model.witness import WITNESS_METADATA, Witness, read_witness, set_witness
from tflite_fuse.passes.base import PassResult, witness_of
from tflite_fuse.passes.preparing import constant_channels
from tflite_fuse.passes.preparing.constant_channels import ConstantChannels, Range
from tflite_fuse.rewriting.guess import validate_any
from tflite_fuse.runtime import tflm


def narrowed() -> tuple[Model, Model]:
    """A model, and the same without the channels that say nothing, with its witness."""
    model = load_model(serialize_model(folded(VALID, -128)))
    return model, ConstantChannels().run(model).witnessed


def with_entry(model: Model, entry: object) -> Model:
    return set_metadata(model, WITNESS_METADATA, json.dumps(entry).encode())


def told(model: Model) -> Any:
    return json.loads(get_metadata(model, WITNESS_METADATA) or b"")


# ---- What it holds ----


@given(st.dictionaries(st.integers(0, 3), st.sets(st.integers(0, 11), min_size=1).map(lambda c: tuple(sorted(c)))))
def test_witnesses_are_read_as_written(kept: dict[int, tuple[int, ...]]) -> None:
    model = replace_shapes(folded(VALID, -128))
    assert read_witness(set_witness(model, Witness(kept)), model) == Witness(kept)


def replace_shapes(model: Model) -> Model:
    """A model whose tensors all have twelve channels: nothing reads it but for its shapes."""
    graph = replace(model.main, tensors=tuple(replace(tensor, shape=(1, 12)) for tensor in model.main.tensors))
    return replace(model, subgraphs=(graph,))


def test_a_model_without_choices_has_no_witness() -> None:
    model, narrow = narrowed()
    assert get_metadata(set_witness(narrow, Witness()), WITNESS_METADATA) is None
    assert read_witness(model, model) == Witness()


_Forger = Callable[[dict[str, Any]], object]

_DAMAGED: dict[str, _Forger] = {
    "another version": lambda entry: entry | {"version": 2},
    "no version": lambda entry: {"kept": entry["kept"]},
    "no list": lambda entry: entry | {"kept": 3},
    "a list": lambda entry: [entry],
    "a tensor behind the last": lambda entry: group(entry, tensors=[1000]),
    "a tensor before the first": lambda entry: group(entry, tensors=[-1]),
    "a tensor that is no number": lambda entry: group(entry, tensors=["0"]),
    "a tensor that is a truth value": lambda entry: group(entry, tensors=[True]),
    "a tensor twice": lambda entry: group(entry, tensors=2 * entry["kept"][0]["tensors"]),
    "a tensor in two groups": lambda entry: entry | {"kept": 2 * entry["kept"]},
    "a channel behind the last": lambda entry: group(entry, channels="1000"),
    "no channel": lambda entry: group(entry, channels="0"),
    "channels below none": lambda entry: group(entry, channels="-f"),
    "channels with leading zeros": lambda entry: group(entry, channels="0f"),
    "channels with a prefix": lambda entry: group(entry, channels="0xf"),
    "channels that are a number": lambda entry: group(entry, channels=15),
    "channels that are no digits": lambda entry: group(entry, channels="wide"),
    "many channels": lambda entry: group(entry, channels="f" * 100_000),
}


def group(entry: dict[str, Any], **changes: object) -> object:
    """The entry with its first group changed."""
    first, *others = entry["kept"]
    return entry | {"kept": [first | changes, *others]}


@pytest.mark.parametrize("what", _DAMAGED)
def test_a_damaged_witness_is_named_and_not_used(what: str) -> None:
    model, narrow = narrowed()
    damaged = with_entry(narrow, _DAMAGED[what](told(narrow)))
    with pytest.raises(ModelError, match="witness is damaged"):
        read_witness(damaged, model)
    certificate = validate(model, damaged)
    assert not certificate.proven
    assert any("is not used" in note for note in certificate.notes)


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"[" * 100_000, b"{}", b"NaN", b" " * (1 << 21)])
def test_bytes_that_are_no_witness_are_not_used(data: bytes) -> None:
    model, narrow = narrowed()
    assert not validate(model, set_metadata(narrow, WITNESS_METADATA, data)).proven
    assert validate(model, set_metadata(model, WITNESS_METADATA, data)).proven


def test_several_passes_speak_of_the_tensors_of_the_first_model() -> None:
    model = folded(VALID, -128)
    moved = PassResult(model, True, origins=(3, -1, 5))
    named = PassResult(model, True, witness=Witness({0: (1,), 1: (2,), 2: (3,), 7: (4,)}))
    assert witness_of([moved, named]) == Witness({3: (1,), 5: (3,)})
    moved_again = PassResult(model, True, origins=(2, 0, 1, 9))
    assert witness_of([moved, moved_again, named]) == Witness({5: (1,), 3: (2,)})
    assert witness_of([named, moved]) == named.witness


# ---- What it may not do ----


def test_a_narrower_model_needs_its_witness() -> None:
    model, narrow = narrowed()
    assert validate(model, narrow).proven
    assert not validate(model, remove_metadata(narrow, WITNESS_METADATA)).proven


@pytest.mark.parametrize("gone", range(4))
@pytest.mark.parametrize("other", [4, 11])
def test_other_channels_are_not_proven(gone: int, other: int) -> None:
    """A witness that names another channel in the place of one that varies does not fit the weights in the file."""
    model, narrow = narrowed()
    ((tensor, kept),) = read_witness(narrow, model).kept.items()
    assert kept == (0, 1, 2, 3)
    claimed = tuple(sorted({*kept, other} - {gone}))
    assert not validate(model, set_witness(narrow, Witness({tensor: claimed}))).proven


@pytest.mark.parametrize("move", [-1, 1, 100])
def test_other_constants_are_not_proven(monkeypatch: pytest.MonkeyPatch, move: int) -> None:
    """A pass that takes channels for other constants than they are moves other shares into biases."""
    ranges = constant_channels.find_ranges

    def wrong(lowerings: Any) -> Mapping[int, Range]:
        found = ranges(lowerings)
        return {t: Range(np.clip(r.low + move, -128, 127), np.clip(r.high + move, -128, 127)) for t, r in found.items()}

    monkeypatch.setattr(constant_channels, "find_ranges", wrong)
    model = folded(VALID, -128)
    result = ConstantChannels().run(model)
    assert result.changed
    assert not validate(model, result.witnessed).proven


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(chains)
def test_channels_that_vary_are_not_proven_by_any_claim(model: Model) -> None:
    """A pass that takes every channel for a constant leaves out those that vary, and hands over a witness that fits."""
    with pytest.MonkeyPatch.context() as patched:
        ranges = constant_channels.find_ranges
        patched.setattr(
            constant_channels,
            "find_ranges",
            lambda lowerings: {t: Range(r.low, r.low) for t, r in ranges(lowerings).items()},
        )
        forged = ConstantChannels().run(model)
    honest = ConstantChannels().run(model)
    assume(forged.changed and forged.witness != honest.witness)
    assert not validate(model, forged.witnessed).proven


@needs_tflm
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(chains, st.randoms(use_true_random=False), st.booleans())
def test_a_pass_that_errs_is_proven_where_bytes_stay_alone(model: Model, randomness: random.Random, any_: bool) -> None:
    """Some channels are taken for constants they are not, with a witness and biases that fit."""

    def wrong(found: Range) -> Range:
        chosen = np.array([randomness.random() < 0.3 for _ in found.low])
        taken = np.array([randomness.randint(-128, 127) for _ in found.low]) if any_ else found.low
        return Range(np.where(chosen, taken, found.low), np.where(chosen, taken, found.high))

    with pytest.MonkeyPatch.context() as patched:
        ranges = constant_channels.find_ranges
        patched.setattr(
            constant_channels, "find_ranges", lambda lowerings: {t: wrong(r) for t, r in ranges(lowerings).items()}
        )
        forged = ConstantChannels().run(model)
    assume(forged.changed and validate(model, forged.witnessed).proven)
    outputs = [tflm.run(serialize_model(each), images_of(model)).outputs for each in (model, forged.model)]
    for before, after in zip(*outputs, strict=True):
        np.testing.assert_array_equal(before, after)


@settings(max_examples=60)
@given(st.randoms(use_true_random=False))
def test_no_bytes_make_a_wrong_model_right(randomness: random.Random) -> None:
    """Beside an original in which one of the zeros is none, the narrow model computes something else."""
    model, narrow = narrowed()
    other = one_more(model, (model.main.operators[0].inputs or ())[1], 3 * 11)
    data = bytearray(get_metadata(narrow, WITNESS_METADATA) or b"")
    for _ in range(randomness.randrange(4)):
        data[randomness.randrange(len(data))] = randomness.choice(b'0123456789abcdef,:[]{}"')
    assert not validate(other, set_metadata(narrow, WITNESS_METADATA, bytes(data))).proven


@settings(max_examples=60)
@given(st.dictionaries(st.integers(0, 8), st.sets(st.integers(0, 11), min_size=1), max_size=6))
def test_no_choice_makes_a_wrong_model_right(kept: dict[int, set[int]]) -> None:
    model, narrow = narrowed()
    other = one_more(model, (model.main.operators[0].inputs or ())[1], 3 * 11)
    last = [(0, *tensor.dims)[-1] for tensor in model.main.tensors]
    claimed = {t: tuple(sorted(c for c in each if c < last[t])) for t, each in kept.items() if t < len(last)}
    witness = Witness({tensor: channels for tensor, channels in claimed.items() if channels})
    assert not validate(other, set_witness(narrow, witness)).proven


# ---- Files ----


def test_borders_that_become_int8_do_not_move_it() -> None:
    """Tensors are those of the file that was given, however many passes have given them other numbers."""
    model = load_model(serialize_model(with_float_borders(folded(VALID, -128))))
    for int8_io in (False, True):
        after = load_model(rewrite(serialize_model(model), verify=False, int8_io=int8_io).model)
        assert read_witness(after, model).kept
        assert validate(model, after).proven


def test_a_file_of_an_earlier_version_carries_none_and_is_proven() -> None:
    model, narrow = narrowed()
    bare = remove_metadata(narrow, WITNESS_METADATA)
    assert validate_any(model, bare).proven
    other = one_more(model, (model.main.operators[0].inputs or ())[1], 3 * 11)
    assert not validate_any(other, bare).proven


def test_a_second_rewrite_has_a_witness_of_its_own() -> None:
    _, narrow = narrowed()
    again = load_model(rewrite(serialize_model(narrow), verify=False).model)
    assert get_metadata(again, WITNESS_METADATA) is None
    assert validate(load_model(serialize_model(narrow)), again).proven


@shared_models("mlperf_tiny_vww96_int8", "mcunet_vww1_float_io_int8")
def test_public_models_carry_it(path: Path) -> None:
    original = load_model(path)
    after = load_model(rewritten_by_default(path))
    assert validate(original, after).proven
    assert not validate(original, remove_metadata(after, WITNESS_METADATA)).proven
    assert validate_any(original, remove_metadata(after, WITNESS_METADATA)).proven
    assert len(get_metadata(after, WITNESS_METADATA) or b"") < 2000
