"""Sources of the papers' numbers and networks, and our search beside them."""

from __future__ import annotations

import csv
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.papers.layers import graph_from_layers
from scripts.zoo.architectures import load_architecture
from tflite_fuse.cost.priced_program import PricedProgram
from tflite_fuse.errors import UsageError
from tflite_fuse.model import Model, load_model
from tflite_fuse.model.outside import InputMode
from tflite_fuse.search.front import Front
from tflite_fuse.search.fusion_front import SearchOptions, fusion_front

Row = dict[str, Any]

KB = 1000
"""The papers' kilobyte."""


@dataclass(frozen=True)
class Data:
    """Where the papers' numbers and networks are, which of them to look at, and how many inputs to run them on."""

    folder: Path
    model: str | None = None
    inputs: int = 0
    constraint: str | None = None

    def facts(self, name: str) -> list[dict[str, str]]:
        with self._open(f"facts/{name}.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        columns = {"model": self.model, "constraint": self.constraint}
        return [row for row in rows if all(value in (None, row.get(key, value)) for key, value in columns.items())]

    def network(self, name: str) -> PricedProgram:
        return graph_from_layers(json.loads(self._open(f"arch/{name}.json").read_text()))

    def architecture(self, name: str) -> dict[str, Any]:
        return load_architecture(self._open(f"arch/{name}.json"))

    def file(self, name: str) -> Model:
        return load_model(self._open(f"models/{name}.tflite"))

    def _open(self, name: str) -> Path:
        path = self.folder / name
        if not path.is_file():
            raise UsageError(f"{path} is missing; say with --data where the folders arch and facts are")
        return path


MODES = {
    "resident": SearchOptions(),
    "resident, overlap": SearchOptions(overlap=True, single_operators=True),
    "streamed": SearchOptions(input_mode=InputMode.STREAMED),
    "streamed, overlap": SearchOptions(input_mode=InputMode.STREAMED, overlap=True, single_operators=True),
    "external, overlap": SearchOptions(input_mode=InputMode.EXTERNAL, overlap=True, single_operators=True),
}
"""Where the input image is, and whether blocks write over inputs they no longer need: what each idea contributes."""


def search(graph: PricedProgram, options: SearchOptions = MODES["resident"]) -> tuple[Front, float]:
    """Return the front and the seconds it took."""
    start = time.perf_counter()
    front = fusion_front(graph, options)
    return front, time.perf_counter() - start


def as_pairs(front: Front) -> list[Row]:
    """Return the points of a front for JSON."""
    return [{"ram_bytes": point.ram_bytes, "compute_factor": point.compute_factor} for point in front.points]
