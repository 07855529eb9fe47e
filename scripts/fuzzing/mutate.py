"""Mutations of bytes of a file, or of parts of a model that is then written again and passes checks of the file's form.

All randomness comes from one ``random.Random``, so a case is reproducible by its number.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from random import Random
from typing import Any

from tflite_fuse.emit.options import sealed
from tflite_fuse.errors import BlockError
from tflite_fuse.model import schema as s
from tflite_fuse.model.file import serialize_model

_WILD = (0, 1, -1, 2, 3, 127, 128, 255, 256, 1000, 32767, 65535, 65536, 1 << 20, 1 << 24, 1 << 28, 2**31 - 1, -(2**31))
_NAMES = ("", "\x1b[31m", "a\nb", "n" * 5000, "\udcff", "x\x00y", "é漢\u202e")
_LONGEST_VECTOR = 40


def mutated(rng: Random, data: bytes, model: s.Model) -> bytes:
    """Return a damaged copy of a .tflite file, in its bytes, its parts, or both. ``model`` is what ``data`` holds."""
    kind = rng.random()
    if kind < 0.35:
        data = _with_other_parts(rng, data, model)
    return _with_other_bytes(rng, data) if kind > 0.3 else data


def _with_other_bytes(rng: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at, kind = rng.randrange(max(1, len(changed))), rng.random()
        if kind < 0.3:
            changed[at : at + 1] = bytes((rng.randrange(256),))
        elif kind < 0.85:
            at -= at % 4
            old = int.from_bytes(changed[at : at + 4], "little", signed=True)
            new = old + rng.choice((-8, -4, -1, 1, 4, 8)) if rng.random() < 0.5 else rng.choice(_WILD)
            changed[at : at + 4] = (new & 0xFFFFFFFF).to_bytes(4, "little")
        elif kind < 0.92:
            del changed[at:]
        elif kind < 0.96:
            start = rng.randrange(max(1, len(changed)))
            changed[at:at] = changed[start : start + rng.choice((4, 16, 64))]
        else:
            del changed[at : at + rng.choice((1, 4, 16))]
    return bytes(changed)


def _with_other_parts(rng: Random, data: bytes, model: Any) -> bytes:
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        model = _changed(rng, model)
    if rng.random() < 0.9:  # or the checksum of blocks would stop nearly everything
        model = _resealed(model)
    try:
        return serialize_model(model)
    except (struct.error, TypeError, ValueError, AttributeError, OverflowError, AssertionError):
        return data  # what no file can hold; rare, as values are chosen to fit


def _resealed(model: Any) -> Any:
    """Return the model with checksums of fused blocks that fit, where they can be found."""
    with suppress(TypeError, ValueError, IndexError, AttributeError):
        main = model.subgraphs[0]
        operators = list(main.operators)
        for index, operator in enumerate(operators):
            with suppress(BlockError, TypeError, IndexError):
                constants = model.buffers[main.tensors[operator.inputs[-1]].buffer].data or b""
                options = sealed(operator.custom_options or b"", constants)
                operators[index] = replace(operator, custom_options=options)
        return replace(model, subgraphs=(replace(main, operators=tuple(operators)), *model.subgraphs[1:]))
    return model


def _changed(rng: Random, item: Any) -> Any:
    """Return the same table with one field, at any depth, made different."""
    names = [field.name for field in fields(item)]
    if isinstance(item, s.Model):
        names += ["subgraphs"] * 12  # most of what matters is there
    name = rng.choice(names)
    value = getattr(item, name)
    at = rng.randrange(len(value)) if isinstance(value, tuple) and value else -1
    if at >= 0 and is_dataclass(value[at]) and rng.random() < 0.85:
        return replace(item, **{name: (*value[:at], _changed(rng, value[at]), *value[at + 1 :])})
    if is_dataclass(value) and not isinstance(value, type) and rng.random() < 0.8:
        return replace(item, **{name: _changed(rng, value)})
    return replace(item, **{name: _other(rng, name, value)})


def _other(rng: Random, name: str, value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return _number(rng, value, 0 if name in _UNSIGNED else -(2**31))
    if isinstance(value, float):
        return rng.choice((0.0, -1.0, float("nan"), float("inf"), 1e-38, 3e38, value * 2))
    if isinstance(value, str):
        return rng.choice((*_NAMES, None))
    if isinstance(value, bytes):
        return _with_other_bytes(rng, value) if value else b"\x00" * rng.choice((1, 4, 100))
    if isinstance(value, tuple):
        return _vector(rng, name, value)
    return None


_UNSIGNED = frozenset({"buffer", "opcode_index", "subgraph_index", "tensor_index", "external_buffer"})


def _number(rng: Random, old: int, least: int) -> int:
    new = old + rng.choice((-2, -1, 1, 2)) if rng.random() < 0.4 else rng.choice(_WILD)
    return max(least, min(2**31 - 1, new))


def _vector(rng: Random, name: str, value: tuple[Any, ...]) -> tuple[Any, ...] | None:
    changes: tuple[Callable[[], tuple[Any, ...] | None], ...] = (
        lambda: _one_other(rng, name, value),
        lambda: _one_other(rng, name, value),
        lambda: (*value, *value[:1]),
        lambda: value[: rng.randrange(len(value) + 1)],
        lambda: tuple(rng.sample(value, len(value))),
        lambda: (value * (_LONGEST_VECTOR // max(1, len(value))))[:_LONGEST_VECTOR] if rng.random() < 0.3 else value,
        lambda: None if name in ("metadata", "signature_defs", "shape", "quantization") else value,
    )
    return rng.choice(changes)()


def _one_other(rng: Random, name: str, value: tuple[Any, ...]) -> tuple[Any, ...]:
    if not value:
        return value
    at = rng.randrange(len(value))
    old = value[at]
    if isinstance(old, tuple):  # a field or vector of an options table: (slot, …, bytes)
        return (*value[:at], (*old[:-1], _same_length(rng, old[-1])), *value[at + 1 :])
    return (*value[:at], _other(rng, name, old), *value[at + 1 :])


def _same_length(rng: Random, raw: bytes) -> bytes:
    if rng.random() < 0.5:
        return rng.randbytes(len(raw))
    return (rng.choice(_WILD) & (256 ** len(raw) - 1)).to_bytes(len(raw), "little") if raw else raw
