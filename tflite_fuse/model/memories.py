"""Tensors of a model that lie in a second, slow memory, not in the arena.

The metadata entry ``tflite_fuse.memories`` is one JSON object::

    {"version": 1, "fast": {"name": "sram", "bytes": 65536}, "slow": {"name": "psram", "bytes": 8388608,
      "read_cycles": 8.0, "write_cycles": 8.0}, "tensors": [[3, 0], [17, 150528]]}

Pairs are a tensor of the first subgraph and its offset in the slow memory, in bytes. Blocks carry the same offsets in
their options, where the device finds them. A runtime that has no such memory places these tensors in its arena.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tflite_fuse.errors import ModelError
from tflite_fuse.model.schema import Model
from tflite_fuse.model.types import tensor_nbytes
from tflite_fuse.units import round_up

MEMORIES_METADATA = "tflite_fuse.memories"

_VERSION = 1
_LARGEST = 2**31 - 1
_ALIGNMENT = 16


@dataclass(frozen=True)
class Region:
    """A memory of the device.

    Attributes:
        name: how its board calls it.
        nbytes: bytes available to a program.
        read_cycles, write_cycles: cycles of a byte beyond those of one in the fast memory.
        address: where it begins; None where that does not matter.
    """

    name: str
    nbytes: int
    read_cycles: float = 0.0
    write_cycles: float = 0.0
    address: int | None = None


@dataclass(frozen=True)
class Memories:
    """A fast memory for the arena, and a slow one for tensors between blocks."""

    fast: Region
    slow: Region


@dataclass(frozen=True)
class SlowTensors:
    """Tensors of a model in the slow memory.

    Attributes:
        memories: for which it was rewritten.
        offsets: bytes from the start of the slow memory, by tensor of the first subgraph.
    """

    memories: Memories
    offsets: Mapping[int, int] = field(default_factory=dict)


def slow_tensors(model: Model) -> SlowTensors | None:
    """Return the tensors that a model has in a slow memory, None if its file has no metadata on them.

    Raises:
        ModelError: the metadata entry is damaged.
    """
    entry = next((each for each in model.metadata or () if each.name == MEMORIES_METADATA), None)
    if entry is None:
        return None
    try:
        content = json.loads((model.buffers[entry.buffer].data or b"").decode())
        if content["version"] != _VERSION:
            raise ValueError(f"version {content['version']} is not known")
        offsets = {_whole(tensor): _whole(offset) for tensor, offset in content["tensors"]}
        memories = Memories(_region(content["fast"]), _region(content["slow"]))
        _check(offsets, len(model.main.tensors))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise ModelError(
            f"the metadata {MEMORIES_METADATA}, which tells what lies in the slow memory, is damaged ({error}); "
            "rewrite the original model again"
        ) from error
    return SlowTensors(memories, offsets)


def slow_bytes(model: Model) -> int:
    """Return the bytes a model takes of the slow memory.

    Raises:
        ModelError: the metadata entry is damaged, or a tensor has a dynamic shape.
    """
    slow_memory, tensors = slow_tensors(model), model.main.tensors
    offsets = {} if slow_memory is None else slow_memory.offsets
    ends = (at + tensor_nbytes(tensors[each]) for each, at in offsets.items())
    return round_up(max(ends, default=0), _ALIGNMENT)


def slow_tensors_entry(slow_memory: SlowTensors) -> bytes:
    """Return the bytes of the metadata entry."""
    fast, slow = slow_memory.memories.fast, slow_memory.memories.slow
    entry = {
        "version": _VERSION,
        "fast": _named(fast),
        "slow": _named(slow) | {"read_cycles": slow.read_cycles, "write_cycles": slow.write_cycles},
        "tensors": sorted(slow_memory.offsets.items()),
    }
    return json.dumps(entry, separators=(",", ":")).encode()


def _named(region: Region) -> dict[str, Any]:
    return {"name": region.name, "bytes": region.nbytes}


def _region(entry: dict[str, Any]) -> Region:
    name, costs = entry["name"], [entry.get(key, 0.0) for key in ("read_cycles", "write_cycles")]
    if type(name) is not str or any(type(cost) not in (int, float) or not 0 <= cost < 1e9 for cost in costs):
        raise ValueError("a memory has no name, or costs that are none")
    return Region(name, _whole(entry["bytes"]), float(costs[0]), float(costs[1]))


def _whole(value: object) -> int:
    if type(value) is not int or not 0 <= value <= _LARGEST:
        raise ValueError(f"{value!r} is no number of bytes or tensors")
    return value


def _check(offsets: Mapping[int, int], tensors: int) -> None:
    for tensor, offset in offsets.items():
        if tensor >= tensors or offset % _ALIGNMENT:
            raise ValueError(f"tensor {tensor} lies at byte {offset}")
