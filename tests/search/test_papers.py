"""Published figures against ours on the same networks. Skipped where the networks are not beside the project."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from scripts.papers.layers import graph_from_layers
from scripts.points import least_ram
from tests.conftest import SHARED
from tflite_fuse.search.front import Front
from tflite_fuse.search.fusion_front import SearchOptions, fusion_front
from tflite_fuse.search.schemes import Scheme

TARGETS = {
    "mbv2-w0.35": (84_000, 76_000),
    "mcunet-in0": (18_500, 13_500),
    "mcunet-in1": (43_000, 39_000),
    "mcunet-in2": (115_000, 106_000),
    "mcunet-in3": (143_000, 129_000),
    "mcunet-in4": (148_000, 124_000),
    "mcunet-vww0": (22_500, 20_500),
    "mcunet-vww1": (32_500, 27_500),
    "mcunet-vww2": (91_000, 85_000),
    "proxyless-w0.3": (134_000, 122_000),
}
"""Bytes at zero recompute and at a compute factor of at most 1.1: input image and residuals counted."""


def shared(name: str) -> Path:
    path = SHARED / name
    if not path.is_file():
        pytest.skip(f"no {name} beside the project")
    return path


@cache
def front_of(name: str) -> Front:
    return fusion_front(graph_from_layers(json.loads(shared(f"arch/{name}.json").read_text())))


@pytest.mark.parametrize("name", TARGETS)
def test_working_sets_with_the_image_resident(name: str) -> None:
    description = json.loads(shared(f"arch/{name}.json").read_text())
    front = front_of(name)
    assert front.unfused.work == description["macs_total"]
    assert front.unfused.ram_bytes == description["peak_layerwise_with_residual"]
    zero, little = TARGETS[name]
    assert least_ram(front, 1.0).ram_bytes <= zero
    assert least_ram(front, 1.1).ram_bytes <= little
    assert least_ram(front, 1.0).compute_factor == 1.0


def test_schemes_are_never_better_than_the_free_search_on_a_real_network() -> None:
    free = front_of("mcunet-vww0")
    for scheme in Scheme:
        for point in fusion_front(free.graph, SearchOptions(scheme=scheme)).points:
            assert any(o.ram_bytes <= point.ram_bytes and o.work <= point.work for o in free.points), scheme


@pytest.mark.parametrize(("name", "reduction", "blocks"), [("mbv2-w0.35", 0.5, 2), ("mcunet-vww0", 0.5, 3)])
def test_fused_inverted_residuals_halve_the_memory_with_few_blocks(name: str, reduction: float, blocks: int) -> None:
    free = front_of(name)
    fused = least_ram(fusion_front(free.graph, SearchOptions(scheme=Scheme.INVERTED_RESIDUAL, tiles=(8, 8))))
    assert fused.ram_bytes <= (1 - reduction) * free.unfused.ram_bytes
    assert len(fused.blocks) == blocks
    assert least_ram(free, fused.compute_factor).ram_bytes < fused.ram_bytes
