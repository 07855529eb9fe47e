#!/usr/bin/env python3
"""Draw the pictures of the documentation with the package itself: draw_pictures.py [FOLDER] (docs/pictures)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tflite_fuse
from scripts.papers.tiled_networks import mobilenet_v2_like
from scripts.zoo import networks
from scripts.zoo.architectures import build_architecture
from tflite_fuse.data import SAMPLE_MODEL
from tflite_fuse.model import load_model, serialize_model
from tflite_fuse.pages.charts import Dot, arena_chart, front_chart
from tflite_fuse.report.arena_map import arena_map

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "pictures"


def draw_tiles(folder: Path) -> None:
    """Return the arena of a MobileNetV2-like network: layer by layer, in 4 x 4 tiles as published, and by default."""
    data = serialize_model(build_architecture(mobilenet_v2_like(128)))
    tiled = tflite_fuse.rewrite(
        data,
        scheme="inverted-residual",
        tiles=(4, 4),
        goal=tflite_fuse.Goal(least_ram=True),
        overlap=False,
        verify=False,
    )
    before = arena_map(load_model(data))
    maps = {
        "unfused": before,
        "scheme": arena_map(load_model(tiled.model)),
        "auto": arena_map(load_model(tflite_fuse.rewrite(data, verify=False).model)),
    }
    for name, title in (("unfused", "layer by layer"), ("scheme", "4 x 4 tiles"), ("auto", "this tool's default")):
        arena_chart(maps[name], title, before.head_bytes).save(folder / f"tiles_{name}.svg")


def main() -> None:
    """Draw all pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    before = arena_map(load_model(SAMPLE_MODEL))
    after = arena_map(load_model(tflite_fuse.rewrite(SAMPLE_MODEL, verify=False).model))
    arena_chart(before, "as it is", before.head_bytes).save(folder / "arena_before.svg")
    arena_chart(after, "rewritten", before.head_bytes).save(folder / "arena_after.svg")
    front = tflite_fuse.pareto(serialize_model(networks.inverted_residual_network(size=96)), input_mode="external")
    points = [Dot(row.ram_bytes, row.compute_factor) for row in front.rows]
    front_chart(points, []).save(folder / "front.svg")
    draw_tiles(folder)
    for path in sorted(folder.glob("*.svg")):
        print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
