"""Reads ``workers.toml``, the description of a cluster. Unknown keys are errors, with the nearest known key.

[[worker]]
name = "left"
target = "cortex-m7"                 # or a board's or a chip's name; with a known board it may be left out
mhz = 600
ram = "512kB"
flash = "1500kB"
address = "192.168.1.5:7000"         # optional: host:port, or a serial line: "/dev/ttyACM0@115200"
board = "teensy41"                   # optional: board of an exported project
[worker.link]
kilobytes_per_second = 12500
delay_ms_per_message = 0.2

[coordinator]                        # optional, the same keys without ram and flash

[[link]]
between = ["left", "right"]          # two or more: all pairs
direct = true                        # not through the coordinator
shared = false                       # true: one medium, which carries one message at a time
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

from tflite_fuse.cost.instructions import Target
from tflite_fuse.cost.targets import Named, read_target
from tflite_fuse.errors import UsageError
from tflite_fuse.files import about, name_of, nearest, only, parse_toml, size_of
from tflite_fuse.split.devices import COORDINATOR, Cluster, Device, Link

MOST_WORKERS = 1000

_MOST = 1e9
"""Largest value in megahertz, kilobytes per second or milliseconds, so that sums of times stay finite."""

_LINK_KEYS = ("kilobytes_per_second", "delay_ms_per_message", "delay_ms_per_kilobyte", "occupancy_ms_per_message")
_COORDINATOR = {"name": "coordinator", "target": Target.GENERIC.value, "mhz": 1000.0}
_DEVICE_KEYS = ("name", "target", "mhz", "ram", "flash", "link", "address", "board")
_PAIR_KEYS = ("between", "direct", "shared")


def cluster_of_file(data: bytes, path: str | Path) -> Cluster:
    """Return the cluster that a file with these bytes describes.

    Raises:
        UsageError: it is no TOML, or has an unknown or wrong entry, which the message names.
    """
    document = parse_toml(data, path)
    with about(path):
        return cluster_of(document)


def cluster_of(document: Mapping[str, Any]) -> Cluster:
    """Return the cluster of a parsed file. Raises UsageError."""
    only(document, ("worker", "coordinator", "link"), "the file")
    tables = _tables(document, "worker")
    if not tables:
        raise UsageError("it names no worker; each is a [[worker]] with name, target and mhz")
    if len(tables) > MOST_WORKERS:
        raise UsageError(f"it names {len(tables)} workers; at most {MOST_WORKERS} are planned for")
    workers = tuple(_device(table, f"worker {index + 1}") for index, table in enumerate(tables))
    names = [worker.name for worker in workers]
    coordinator = document.get("coordinator", {})
    if not isinstance(coordinator, dict):
        raise UsageError("coordinator is a table, [coordinator]")
    if limits := {"ram", "flash"} & coordinator.keys():
        raise UsageError(f"the coordinator has no limit of {min(limits)}: only workers are planned within theirs")
    computer = _device({**_COORDINATOR, **coordinator}, "the coordinator")
    for name in [*names, computer.name]:
        if [*names, computer.name].count(name) > 1:
            raise UsageError(f"two devices are called {name!r}")
    joined = [_joined(table, names, computer.name) for table in _tables(document, "link")]
    media = tuple(members for members, _, shared in joined if shared)
    for one, other in combinations(media, 2):
        if len(both := sorted(one & other)) > 1:
            a, b = ((*names, computer.name)[each] for each in both[:2])
            raise UsageError(f"two shared links join {a!r} and {b!r}: their messages take one medium")
    pairs = frozenset(
        pair for members, direct, _ in joined if direct for pair in combinations(sorted(members - {COORDINATOR}), 2)
    )
    return Cluster(workers, computer, pairs, media)


def _device(table: Mapping[str, Any], what: str) -> Device:
    only(table, _DEVICE_KEYS, what)
    for key in ("name", "mhz"):
        if key not in table:
            raise UsageError(f"{what} has no {key}")
    if not {"target", "board"} & table.keys():
        raise UsageError(f"{what} has no target, and no board that says which")
    name = name_of(table["name"], what)
    link = table.get("link", {})
    if not isinstance(link, dict):
        raise UsageError(f"the link of {name!r} is a table, [worker.link]")
    board = _text(table, "board", name, 'PlatformIO\'s name of a board, like "teensy41"')
    if "target" in table:
        named = _target(table["target"], f"the target of {name!r}")
    else:
        named = _target(board, f"{name!r} has no target, and its board")
    return Device(
        name,
        named.target,
        _number(table, "mhz", name, None, least=0.001),
        _size(table, "ram", name),
        _size(table, "flash", name),
        _link(link, name),
        _text(table, "address", name, '"host:port" or a serial line like "/dev/ttyACM0"'),
        board or named.board,
    )


def _text(table: Mapping[str, Any], key: str, name: str, what: str) -> str:
    value = table.get(key, "")
    if not isinstance(value, str):
        raise UsageError(f"the {key} of {name!r} is {what}, not {value!r}")
    return value


def _link(table: Mapping[str, Any], name: str) -> Link:
    only(table, _LINK_KEYS, f"the link of {name!r}")
    usual = Link()
    rate = _number(table, _LINK_KEYS[0], name, usual.kilobytes_per_second, least=1e-6)
    return Link(rate, *(_number(table, key, name, 0.0, least=0.0) for key in _LINK_KEYS[1:]))


def _joined(table: Mapping[str, Any], names: list[str], computer: str) -> tuple[frozenset[int], bool, bool]:
    """Return the devices that a link joins, whether directly, and whether they share one medium."""
    only(table, _PAIR_KEYS, "a link")
    between, device_names = table.get("between"), [*names, computer]
    if not isinstance(between, list) or len(between) < 2:
        raise UsageError('a link needs between = ["one worker", "another"]')
    direct, shared = (_flag(table, key, usual) for key, usual in (("direct", True), ("shared", False)))
    for name in between:
        if name not in device_names:
            raise UsageError(f"a link names {name!r}, which is no device{nearest(str(name), device_names)}")
        if name == computer and not shared:
            raise UsageError(f"a link names {name!r}, which each worker reaches anyway: that is for shared links")
    members = frozenset(COORDINATOR if name == computer else names.index(name) for name in between)
    if len(members) < 2:
        raise UsageError(f"a link joins {between[0]!r} with itself")
    if shared and not direct and COORDINATOR not in members:
        raise UsageError(f"a shared link that is not direct carries nothing, unless between names {computer!r}, too")
    return members, direct, shared


def _flag(table: Mapping[str, Any], key: str, usual: bool) -> bool:
    value = table.get(key, usual)
    if not isinstance(value, bool):
        raise UsageError(f"{key} is true or false, not {value!r}")
    return value


def _target(value: Any, what: str) -> Named:
    with about(what):
        return read_target(str(value))


def _number(table: Mapping[str, Any], key: str, name: str, default: float | None, least: float) -> float:
    value = table.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= _MOST:
        raise UsageError(f"{key} of {name!r} must be a number from {least:g} to {_MOST:g}, not {value!r}")
    return float(value)


def _size(table: Mapping[str, Any], key: str, name: str) -> int | None:
    value = table.get(key)
    return None if value is None else size_of(value, f"{key} of {name!r}")


def _tables(document: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    tables = document.get(key, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise UsageError(f"{key} is a list of tables, each [[{key}]]")
    return tables
