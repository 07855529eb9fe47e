"""Choices of the passes that rewrote a model, as data for the proof.

With the choices given, the proof need not search: it checks, with code of its own, that they change no byte. A wrong or
missing witness can make a proof fail, but never succeed. It is the metadata entry ``tflite_fuse.witness`` of the
rewritten file, one JSON object::

    {"version": 1, "kept": [{"tensors": [4, 7], "channels": "f0f"}], "columns": true}

Tensors are those of the original's first subgraph. Bit c of the hexadecimal number ``channels`` is set if channel c of
each of them is kept; a tensor that is not listed keeps all channels. ``columns`` is true if the maps of the inputs are
walked by columns; it may be absent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from tflite_fuse.errors import ModelError
from tflite_fuse.model.edit import get_metadata, remove_metadata, set_metadata
from tflite_fuse.model.schema import Model

WITNESS_METADATA = "tflite_fuse.witness"

_VERSION = 1
_MOST_BYTES = 1 << 20
"""Limit of the entry's bytes: a longer one is rejected."""


@dataclass(frozen=True)
class Witness:
    """The choices of one or several passes.

    Attributes:
        kept: by tensor of the original model, its kept channels, ascending.
        columns: whether maps have rows and columns exchanged from the inputs on.
    """

    kept: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    columns: bool = False


def set_witness(model: Model, witness: Witness) -> Model:
    """Return a model with a witness as its only one; without an entry if the witness is empty."""
    tensors: dict[tuple[int, ...], list[int]] = {}
    for tensor, channels in sorted(witness.kept.items()):
        tensors.setdefault(channels, []).append(tensor)
    if witness == Witness():
        return remove_metadata(model, WITNESS_METADATA)
    kept = [{"tensors": each, "channels": _bits(channels)} for channels, each in tensors.items()]
    entry: dict[str, object] = {"version": _VERSION, "kept": kept}
    if witness.columns:
        entry["columns"] = True
    return set_metadata(model, WITNESS_METADATA, json.dumps(entry, separators=(",", ":")).encode())


def has_witness(model: Model) -> bool:
    """Return whether a file has the entry, valid or not."""
    return get_metadata(model, WITNESS_METADATA) is not None


def read_witness(model: Model, original: Model) -> Witness:
    """Return the witness in a rewritten file; an empty one without an entry.

    Raises:
        ModelError: it is damaged, or names tensors or channels that ``original`` does not have.
    """
    data = get_metadata(model, WITNESS_METADATA)
    if data is None:
        return Witness()
    try:
        if len(data) > _MOST_BYTES:
            raise ValueError(f"it has {len(data):,} bytes")
        content = json.loads(data.decode())
        if content["version"] != _VERSION:
            raise ValueError(f"version {content['version']!r} is not known")
        kept: dict[int, tuple[int, ...]] = {}
        for group in content["kept"]:
            channels = _channels(group["channels"])
            for tensor in group["tensors"]:
                _check(original, tensor, channels, kept)
                kept[tensor] = channels
        columns = content.get("columns", False)
        if type(columns) is not bool:
            raise ValueError(f"columns are {columns!r}")
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise ModelError(f"the metadata {WITNESS_METADATA} is damaged: {error}") from error
    return Witness(kept, columns)


def _check(original: Model, tensor: object, channels: tuple[int, ...], kept: Mapping[int, tuple[int, ...]]) -> None:
    if type(tensor) is not int or not 0 <= tensor < len(original.main.tensors):
        raise ValueError(f"tensor {tensor!r} does not exist")
    if tensor in kept:
        raise ValueError(f"tensor {tensor} is listed twice")
    last = original.main.tensors[tensor].dims[-1:]
    if not last or channels[-1] >= last[0]:
        raise ValueError(f"tensor {tensor} has no channel {channels[-1]}")


def _bits(channels: tuple[int, ...]) -> str:
    bits = bytearray(channels[-1] // 8 + 1)
    for channel in channels:
        bits[channel // 8] |= 1 << channel % 8
    return f"{int.from_bytes(bits, 'little'):x}"


def _channels(text: object) -> tuple[int, ...]:
    if not isinstance(text, str):
        raise ValueError(f"channels are {text!r}")
    bits = int(text, 16)
    if bits <= 0 or text != f"{bits:x}":
        raise ValueError("channels are no hexadecimal number above 0")
    return tuple(channel for channel, bit in enumerate(reversed(f"{bits:b}")) if bit == "1")
