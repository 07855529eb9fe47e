"""Fused inverted residual blocks: the paper's networks, resolutions and numbers of tiles (its Figure 3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from scripts.papers.data import KB, Data, Row, search
from scripts.papers.layers import graph_from_layers
from scripts.papers.measured import measure
from scripts.papers.tiled_blocks import Tiled, algorithm_1
from scripts.papers.tiled_networks import CLASSES, at_resolution, mobilenet_v2_like, parameters
from scripts.points import least_compute, least_ram
from scripts.zoo.architectures import build_architecture
from tflite_fuse.cost.instructions import Target
from tflite_fuse.cost.priced_program import PricedProgram
from tflite_fuse.passes.goal import Goal
from tflite_fuse.passes.options import FuseOptions
from tflite_fuse.search.fusion_front import SearchOptions
from tflite_fuse.search.schemes import Scheme

TILES = (1, 2, 4, 8, 16)
"""Tiling rates: so many tiles along height and along width; 1 is not fused."""

MEASURED_TILES = 8
"""The rate whose rows are run: that of the paper's claims."""

LIMIT = 512 * KB
"""What the paper's controller has, in bytes."""

CORE = Target.CORTEX_M7

SCHEME_COLUMNS = ("ram_bytes", "compute_factor", "instruction_factor", "blocks", "fits")


def fused_layer(data: Data) -> dict[str, Any]:
    """Return figure 3: memory and latency over the number of tiles, and 320x320 within 512 kB."""
    rows = [row for network in _networks(data) for row in _rows(network, data.inputs)]
    return {
        "paper": "fused-layer",
        "claims": data.facts("fused_layer_claims"),
        "accounting": "their networks are not public. MobileNetV2-like: one convolution, seven inverted residual blocks"
        " and a linear head with MobileNetV2's widths, 310 k parameters (theirs: about 340 k). MCUNet: mcunet-vww0, a"
        " public one in which their Algorithm 1 fuses three blocks at 8x8, as they say of theirs. alg1: that algorithm,"
        " memory and work by their Equations 2 and 3, tiles held whole. scheme: the same kind of blocks and tiles,"
        " chosen by this package's search and run by its executor, which keeps line buffers inside a tile. auto: its"
        " search without restriction, at no more MACs than alg1. Input image and residuals are counted, the runtime's"
        " own structs are not. Latency: MACs over those of the unfused network, and instructions predicted for"
        f" {CORE.value} over those of the same operators one by one in the same library, least at that RAM. In 512 kB:"
        f" which of Algorithm 1 and our search fits the paper's controller. Run, at {MEASURED_TILES}x{MEASURED_TILES}"
        " tiles: the head of the arena of a network with random weights whose outputs are the original's, byte by byte",
        "rows": rows,
    }


def _networks(data: Data) -> Iterator[dict[str, Any]]:
    """Return both networks at all resolutions; with ``--model`` the one of that name."""
    mcunet = {**data.architecture("mcunet-vww0"), "name": "MCUNet"}
    for side in CLASSES:
        for network in (mobilenet_v2_like(side), at_resolution(mcunet, side)):
            if data.model in (None, network["name"]):
                yield network


def _rows(network: dict[str, Any], inputs: int) -> Iterator[Row]:
    """Return a row per tiling rate."""
    graph = graph_from_layers(network)
    free, _ = search(graph)
    instructions, _ = search(graph, SearchOptions(target=CORE))
    side = network["input"][0]
    for count in TILES:
        theirs = algorithm_1(graph, (count, count))
        factor = theirs.macs / graph.work
        auto = least_ram(free, max(factor, 1.0))
        yield {
            "model": network["name"],
            "parameters": parameters(network),
            "input": f"{side}x{side}",
            "tiles": f"{count}x{count}",
            "unfused_ram_bytes": free.unfused.ram_bytes,
            **_alg1(theirs, factor, free.unfused.ram_bytes),
            **_scheme(graph, count),
            "auto_ram_bytes": auto.ram_bytes,
            "auto_compute_factor": auto.compute_factor,
            "auto_instruction_factor": least_compute(instructions, auto.ram_bytes).compute_factor,
            "auto_fits": auto.ram_bytes <= LIMIT,
            **(_runs(network, max(factor, 1.0), inputs) if inputs and count == MEASURED_TILES else {}),
        }


def _alg1(theirs: Tiled, factor: float, unfused: int) -> Row:
    return {
        "alg1_ram_bytes": theirs.ram_bytes,
        "alg1_reduction": 1 - theirs.ram_bytes / unfused,
        "alg1_compute_factor": factor,
        "alg1_blocks": len(theirs.blocks),
        "alg1_fits": theirs.ram_bytes <= LIMIT,
    }


def _scheme(graph: PricedProgram, count: int) -> Row:
    """Return the published scheme in this package's executor; nothing is fused at 1x1, as in the paper."""
    if count == 1:
        return dict.fromkeys(f"scheme_{column}" for column in SCHEME_COLUMNS)
    tiles = (count, count)
    best = least_ram(search(graph, SearchOptions(scheme=Scheme.INVERTED_RESIDUAL, tiles=tiles))[0])
    counted, _ = search(graph, SearchOptions(scheme=Scheme.INVERTED_RESIDUAL, tiles=tiles, target=CORE))
    instructions = least_ram(counted).compute_factor
    figures = best.ram_bytes, best.compute_factor, instructions, len(best.blocks), best.ram_bytes <= LIMIT
    return {f"scheme_{column}": value for column, value in zip(SCHEME_COLUMNS, figures, strict=True)}


@dataclass(frozen=True, kw_only=True)
class HeadOptions(FuseOptions):
    """Options with RAM as the arena's head alone, for comparisons with figures that count only the head."""

    count_tail: ClassVar[bool] = False


def _runs(network: dict[str, Any], factor: float, inputs: int) -> Row:
    """Return real runs: the scheme and the free search."""
    model, tiles = build_architecture(network), (MEASURED_TILES, MEASURED_TILES)
    scheme = HeadOptions(goal=Goal(least_ram=True), scheme=Scheme.INVERTED_RESIDUAL, tiles=tiles, overlap=False)
    free = HeadOptions(goal=Goal(max_compute=factor), overlap=False)
    return {
        f"measured_{name}_bytes": measure(f"{network['name']}, {name}", model, fuse, inputs).head_bytes
        for name, fuse in (("scheme", scheme), ("auto", free))
    }
