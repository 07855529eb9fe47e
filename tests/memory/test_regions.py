"""Memories as a TOML file describes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tflite_fuse.errors import UsageError
from tflite_fuse.memory.regions import memories_of, read_memories
from tflite_fuse.model.memories import Memories, Region
from tflite_fuse.passes.goal import read_limit

FAST, SLOW = {"name": "sram", "size": "64kB"}, {"name": "psram", "size": "8MiB"}


def test_a_file_names_a_fast_and_a_slow_memory(tmp_path: Path) -> None:
    path = tmp_path / "memory.toml"
    path.write_text(
        '[[region]]\nname = "sram"\nsize = "64kB"\naddress = 0x20000000\n'
        '[[region]]\nname = "psram"\nsize = 1048576\nread_cycles_per_byte = 4\nwrite_cycles_per_byte = 6.5\n'
    )
    sram, psram = Region("sram", 64_000, 1.0, 1.0, 0x20000000), Region("psram", 1 << 20, 4.0, 6.5)
    assert read_memories(path) == Memories(sram, psram)


@pytest.mark.parametrize(
    ("regions", "said"),
    [
        ([FAST], r"two tables \[\[region\]\] are needed, not 1: first the fast memory, then the slow"),
        ([FAST, SLOW, SLOW], r"two tables \[\[region\]\] are needed, not 3"),
        ([FAST, FAST], "both regions are named 'sram'"),
        ([FAST, {"name": "psram"}], "region 2 has no 'size'"),
        ([{"size": 1}, SLOW], "region 1 has no 'name'"),
        ([{"name": "", "size": 1}, SLOW], "region 1 needs a name in quotes, 100 printable characters at most, not ''"),
        ([{"name": "a", "size": 0}, SLOW], "'size' of region 1"),
        ([FAST, {**SLOW, "cost": 3}], "cost"),
        ([FAST, {**SLOW, "read_cycles_per_byte": -1}], "'read_cycles_per_byte' of region 2"),
        ([FAST, {**SLOW, "write_cycles_per_byte": float("nan")}], "'write_cycles_per_byte' of region 2"),
        ([{**FAST, "address": -4}, SLOW], "'address' of region 1"),
        ([{**FAST, "address": 0x100}, {**SLOW, "address": 0x200}], "the regions sram and psram overlap"),
        ([{**FAST, "address": 0x200}, {**SLOW, "address": 0x100}], "the regions psram and sram overlap"),
    ],
)
def test_unknown_entries_and_sizes_are_refused(regions: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        memories_of({"region": regions})


def test_a_limit_has_one_size_or_those_of_two_memories() -> None:
    assert read_limit("64kB") == 64_000
    assert read_limit("dtcm=64kB, axi = 2MiB") == Memories(Region("dtcm", 64_000, 1, 1), Region("axi", 2 << 20, 1, 1))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fast=64kB", "is not two memories"),
        ("a=1,b=2,c=3", "is not two memories"),
        ("fast=64kB,slow", "region 2 has no 'size'"),
        ("fast=64kB,slow=much", "'size' of region 2: 'much' is not a size"),
        ("=64kB,slow=1kB", "region 1 needs a name"),
        ("a=1,a=1", "both regions are named 'a'"),
    ],
)
def test_sizes_that_are_none_are_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_limit(text)


def test_regions_that_only_touch_do_not_overlap() -> None:
    memories_of({"region": [{**FAST, "address": 0}, {**SLOW, "address": 64_000}]})


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "memory.toml"
    path.write_text("[[region]]\n")
    with pytest.raises(UsageError, match=r"memory\.toml: two tables"):
        read_memories(path)
    with pytest.raises(UsageError, match=r"missing\.toml"):
        read_memories(tmp_path / "missing.toml")
