"""Small random networks: rewrite is hardly above the least of all orders, blocks and tiles."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.bench_small_networks import cases, tiny_network


@settings(max_examples=6)
@given(st.integers(0, 1 << 30))
def test_new_networks_are_never_beaten_by_much(seed: int) -> None:
    for case in cases(tiny_network(Random(seed).randint)):
        assert case.answer <= case.least + case.least // 32, case


@pytest.mark.parametrize("seed", [4, 11, 9003, 9006, 9015])
def test_networks_seen_before_are_not_beaten(seed: int) -> None:
    found = list(cases(tiny_network(Random(seed).randint)))
    assert found and all(case.answer == case.least for case in found)
