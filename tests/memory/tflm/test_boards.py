"""Arenas against real boards: published ``arena_used_bytes`` of byte-identical files."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import tflite_fuse
from tests.conftest import SHARED

FACTS = SHARED / "facts" / "boards_measured.csv"
RUNTIMES = {"esp32": "esp32", "nano33ble": "arduino"}
"""By board. On an ESP32 the reference kernels were measured, too: they keep no more than ESP-NN's."""

MEASURED = list(csv.DictReader(FACTS.read_text().splitlines())) if FACTS.exists() else []


def models(name: str) -> Path:
    return SHARED / "models" / f"{name}_int8.tflite"


@pytest.mark.skipif(not MEASURED, reason="no facts beside the project")
@pytest.mark.parametrize("row", MEASURED, ids=lambda row: f"{row['model']}-{row['board']}-{row['kernels']}")
def test_the_arena_is_never_below_the_use_on_a_board_and_hardly_above(row: dict[str, str]) -> None:
    if not models(row["model"]).exists():
        pytest.skip(f"no {row['model']} beside the project")
    found = tflite_fuse.inspect(models(row["model"]), runtime=RUNTIMES[row["board"]]).figures
    measured = int(row["arena_used_bytes"])
    most = measured + 80
    assert measured <= found.arena_used_bytes <= most
    assert measured <= found.arena_bytes <= max(most, found.loading_bytes) + 15


@pytest.mark.skipif(not MEASURED, reason="no facts beside the project")
def test_every_model_and_board_of_the_measurements_is_compared() -> None:
    assert len({row["model"] for row in MEASURED}) == 4 and {row["board"] for row in MEASURED} == RUNTIMES.keys()
