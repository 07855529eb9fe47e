"""StreamNet's Tables 2 and 3: patches, and stream buffers in one or two dimensions, each with its own parameters.

The paper cuts the output of the first ``split_idx`` layers into ``n_patch`` x ``n_patch`` patches. Its stream level is
the overlap that neighbours share: none (0, MCUNetV2's patches), along one axis (1) or along both (2). Table 2 compares
the levels at the parameters that its Algorithm 1 found for level 2, so their RAM differs there; ``patch_work``
recomputes that table. Algorithm 1 itself, which searches all three parameters, is replaced by a search with this
package's executor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scripts.papers.data import Data, Row, search
from scripts.points import least_compute, least_ram
from tflite_fuse.cost.estimate.block_costs import driven_tensor
from tflite_fuse.cost.instructions import Target
from tflite_fuse.cost.priced_program import PricedProgram
from tflite_fuse.model.outside import InputMode
from tflite_fuse.search.front import Point
from tflite_fuse.search.fusion_front import SearchOptions
from tflite_fuse.search.schemes import Scheme

CORE = Target.CORTEX_M7
"""That of the paper's board."""

SCHEMES = {"mcunetv2": Scheme.HEAD_PATCHES, "sn1d": Scheme.STREAM_1D, "sn2d": Scheme.STREAM_2D}
"""Columns of the paper's tables, and the scheme of this package that is the same idea; their places are the levels."""

COLUMNS = ("mcunetv2", "mcunetv2_plus", "sn1d", "sn2d")

Layers = Sequence[Mapping[str, Any]]


def streamnet_work(data: Data) -> dict[str, Any]:
    """Return tables 2 and 3: work and time of each scheme at its least RAM, and of the free search in that RAM."""
    works = {entry["model"]: entry for entry in data.facts("streamnet_table2_mmac")}
    times = {entry["model"]: entry for entry in data.facts("streamnet_table3_latency_ms")}
    rows = []
    for entry in data.facts("streamnet_table1"):
        name, graph = entry["model"], data.network(entry["model"])
        layers = data.architecture(name)["layers"]
        patches, split = int(entry["sn2d_n_patch"]), int(entry["sn2d_split_idx"])
        row: Row = {"model": name, "theirs: n_patch": patches, "theirs: split_idx": split, "unfused_macs": graph.work}
        for column in COLUMNS:
            row[f"theirs {column}: macs"] = round(float(works[name][column]) * 1e6)
            row[f"theirs {column}: time over sn2d"] = float(times[name][column]) / float(times[name]["sn2d"])
        for level, column in enumerate(SCHEMES):
            row[f"counted {column}: macs"] = patch_work(layers, patches, split, level)
        rows.append(row | _ours(graph))
    return {
        "paper": "streamnet-work",
        "accounting": "theirs: Table 2 and, over StreamNet-2D's, the milliseconds of Table 3 (STM32F767ZI); counted:"
        " the same work counted here from the layers, at their parameters. Ours: the same ideas as restrictions of this"
        " package's search, in its own executor, the input outside the arena, each at its least RAM and there"
        " with the fewest multiply-accumulates, and the fewest instructions predicted for"
        f" {CORE.value}, over those of the layers one by one in the same library. n / split: patches along each"
        " axis, for 1-D strips along the width, and layers in the patched part; 2-D is one patch in line buffers."
        " Chosen: the stream level of least RAM, of those the one of least work, and of those the highest; auto: the"
        " search without restriction in that RAM",
        "rows": rows,
    }


def patch_work(layers: Layers, patches: int, split: int, level: int) -> int:
    """Return the multiply-accumulates of a network whose first layers run in patches.

    Args:
        layers: as ``load_architecture`` describes them.
        patches: so many along each axis of the output of the patched part (n_patch).
        split: layers in the patched part (split_idx).
        level: axes along which neighbours share what both need (the stream level): 0 computes padding like pixels, 1
            skips what is padding, 2 computes each pixel once.
    """
    whole = sum(_macs(layer) * layer["out"][0] * layer["out"][1] for layer in layers[split if level < 2 else 0 :])
    if level == 2:
        return whole
    rows = _axis_sums(layers[:split], patches, padding=level == 0)
    for layer, count in zip(layers[:split], rows, strict=True):
        whole += _macs(layer) * count * (layer["out"][1] if level else count)
    return whole


def _axis_sums(head: Layers, patches: int, padding: bool) -> list[int]:
    """Return the rows of each layer that all patches of one column need together; maps are square."""
    sums = [0] * len(head)
    size = -(-head[-1]["out"][0] // patches)
    for first in range(0, head[-1]["out"][0], size):
        low, high = first, min(first + size, head[-1]["out"][0])
        for index in reversed(range(len(head))):
            layer = head[index]
            if not padding:
                low, high = max(low, 0), min(high, layer["out"][0])
            sums[index] += high - low
            if layer["op"] != "add":
                low, high = (edge * layer["stride"] - layer["pad"][0] for edge in (low, high - 1))
                high += layer["kernel"]
    return sums


def _macs(layer: Mapping[str, Any]) -> int:
    """Return multiply-accumulates per output pixel."""
    if layer["op"] not in ("conv", "pw", "dw", "fc"):
        return 0
    inputs = 1 if layer["op"] == "dw" else layer["in"][2]
    return int(layer.get("kernel", 1) ** 2 * inputs * layer["out"][2])


def _ours(graph: PricedProgram) -> Row:
    """Return the schemes, the one that is chosen, and the free search."""
    figures: Row = {}
    best: dict[str, Point] = {}
    for column, scheme in SCHEMES.items():
        best[column] = least_ram(search(graph, _options(scheme))[0])
        figures |= dict(_figures(graph, column, scheme, best[column]))
    chosen = min(reversed(best), key=lambda column: (best[column].ram_bytes, best[column].work))
    ram = best[chosen].ram_bytes
    auto = least_compute(search(graph, _options(Scheme.AUTO))[0], ram)
    return figures | {"chosen": chosen} | dict(_figures(graph, "auto", Scheme.AUTO, auto, ram))


def _figures(
    graph: PricedProgram, column: str, scheme: Scheme, point: Point, ram: int | None = None
) -> Iterator[tuple[str, Any]]:
    """Return RAM, factors and block parameters of a point; instructions in its RAM, or in ``ram`` bytes."""
    counted = least_compute(search(graph, _options(scheme, CORE))[0], ram or point.ram_bytes)
    yield f"ours {column}: ram_bytes", point.ram_bytes
    yield f"ours {column}: work factor", point.compute_factor
    yield f"ours {column}: instruction factor", counted.compute_factor
    if scheme is not Scheme.AUTO:
        patches, split = parameters(graph, point)
        yield f"ours {column}: n_patch", patches
        yield f"ours {column}: split_idx", split


def parameters(graph: PricedProgram, point: Point) -> tuple[int, int]:
    """Return the number of patches along the width, and the layers in the patched part; 1 and 0 without a block."""
    if not point.blocks:
        return 1, 0
    (block,) = point.blocks
    driven = graph.tensors[driven_tensor(graph, block.operators[0], block.operators[-1])]
    return -(-driven.width // block.config.tile_width), block.operators[-1] + 1


def _options(scheme: Scheme, target: Target | None = None) -> SearchOptions:
    return SearchOptions(scheme=scheme, input_mode=InputMode.EXTERNAL, target=target)
