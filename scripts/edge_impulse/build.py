#!/usr/bin/env python3
"""A custom deployment block of Edge Impulse: rewrites the impulse's network and returns a project that runs it.

Edge Impulse calls it with ``--metadata FILE`` after the arguments of parameters.json. The archive holds the project of
``tflite-fuse export``, ``small.tflite`` and the report as JSON. The network's input is the features; the code that
computes them from samples is in the C++ library that Edge Impulse deploys, not here.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import tflite_fuse
from tflite_fuse.errors import TfliteFuseError
from tflite_fuse.export import FORMATS, export_model
from tflite_fuse.model import load_model
from tflite_fuse.model.types import TensorType
from tflite_fuse.units import parse_bytes


def network(metadata: dict[str, Any]) -> Path:
    """Return the int8 network of an impulse, else its first; paths are as the metadata says, or below the input folder.

    Raises:
        TfliteFuseError: there is none, or it is damaged.
    """
    folder = Path(metadata["folders"]["input"])
    paths = [folder / each["modelPath"] for each in metadata.get("tfliteModels") or ()]
    if not paths:
        raise TfliteFuseError("the impulse has no network in TensorFlow Lite's format; its learning block must be one")
    for path in paths:
        model = load_model(path)
        if all(model.main.tensors[tensor].type == TensorType.INT8 for tensor in model.main.inputs):
            return path
    return paths[0]


def build(metadata: dict[str, Any], format: str, max_ram: int | None) -> Path:
    """Write ``deploy.zip`` into the output folder, and return its path. Raises TfliteFuseError."""
    result = tflite_fuse.rewrite(network(metadata), goal=tflite_fuse.Goal(max_ram=max_ram))
    print(result)
    archive = Path(metadata["folders"]["output"]) / "deploy.zip"
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch) / "fused_impulse"
        export_model(result.model, project, format)
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
            for path in sorted(path for path in project.rglob("*") if path.is_file()):
                packed.write(path, path.relative_to(scratch).as_posix())
            packed.writestr("small.tflite", result.model)
            packed.writestr("report.json", json.dumps(result.report.to_json(), indent=1))
    return archive


def main() -> int:
    """Return exit code 1 and one sentence where the network cannot be rewritten or exported."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--metadata", type=Path, required=True, help="deployment-metadata.json")
    parser.add_argument("--format", choices=FORMATS, default="arduino", help="what the project is built with")
    parser.add_argument("--max-ram", type=parse_bytes, help="arena it may need, like 64kB")
    arguments, others = parser.parse_known_args()
    if others:
        print(f"not known here, and left out: {' '.join(others)}")
    try:
        print(build(json.loads(arguments.metadata.read_text()), arguments.format, arguments.max_ram))
    except (TfliteFuseError, OSError, KeyError, ValueError) as error:
        print(f"tflite-fuse: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
