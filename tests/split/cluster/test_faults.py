"""A bounded campaign of faults on worker processes; ``scripts/bench_faults.py`` runs the long one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.split.cluster.campaign import WORDS, bad, campaign
from tflite_fuse.runtime import tflm


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
def test_an_inference_is_right_or_names_a_worker_under_every_fault(program: Path, tmp_path: Path) -> None:
    ends = asyncio.run(campaign(program, tmp_path, 3, 2 * len(WORDS), 5))
    assert not bad(ends), bad(ends)
    assert sum(ends.values()) == 2 * len(WORDS) + 1
    assert any(end == "named" for _, end in ends) and ends["nothing", "right"] == 2
