#!/usr/bin/env python3
"""Arenas of float32 networks before and after: bench_floats.py [--write] [MODEL ...].

Every model is an int8 .tflite file (default: five of ``shared/models`` beside the project). Its float32 twin, made by
``scripts/build_model.py --float32``, is rewritten with the input in the arena and streamed; both are compared with the
twin in TensorFlow Lite Micro. If a streamed input would make the model larger, the mean counts the resident one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tflite_fuse
from scripts.bench_device import SHARED_MODELS
from scripts.mains import in_one_sentence
from scripts.readme import write_part
from scripts.zoo.float_twin import float_twin
from tflite_fuse.errors import LimitError, VerificationError
from tflite_fuse.model import load_model, serialize_model

PAGE = Path(__file__).resolve().parents[1] / "docs" / "faq.md"

HEAD = "| float32 twin of | TFLM | rewritten | ratio | streamed | ratio |\n|---|--:|--:|--:|--:|--:|\n"

_NAMES = ("vww96", "person_detect", "dscnn_kws", "resnet8", "autoencoder")


class Row(NamedTuple):
    """Arenas of one network: bytes under TFLM as it is, rewritten, and with a streamed input."""

    name: str
    before: int
    resident: int
    streamed: int | None

    @property
    def ratios(self) -> tuple[float, float]:
        """Return the factors by which the arena shrinks, resident and streamed."""
        return self.before / self.resident, self.before / (self.streamed or self.resident)

    def __str__(self) -> str:
        resident, streamed = self.ratios
        cells = ["-", "-"] if self.streamed is None else [f"{self.streamed:,}", f"{streamed:.2f}"]
        return f"| {self.name} | {self.before:,} | {self.resident:,} | {resident:.2f} | {' | '.join(cells)} |"


def row(path: Path, inputs: int = 16) -> Row:
    """Return the arenas in bytes of a model's float32 twin, compared on a number of inputs.

    Raises:
        VerificationError: a rewritten twin was not compared.
    """
    data, arenas = serialize_model(float_twin(load_model(path))), list[int | None]()
    for mode in ("resident", "streamed"):
        try:
            report = tflite_fuse.rewrite(data, input_mode=mode, inputs=inputs).report
        except LimitError:
            arenas.append(None)
            continue
        if report.verified is None or not report.verified.bit_exact:
            raise VerificationError(f"the float32 twin of {path.name} was not compared")
        arenas += [] if arenas else [report.before.arena_bytes]
        arenas.append(report.after.arena_bytes)
    before, resident, streamed = arenas
    assert before is not None and resident is not None
    return Row(path.stem, before, resident, streamed)


def sentence(rows: Sequence[Row]) -> str:
    """Return the README's sentence about all twins."""
    ranges, means = [], []
    for place in (0, 1):
        ratios = [each.ratios[place] for each in rows]
        means.append(prod(ratios) ** (1 / len(ratios)))
        ranges.append(f"{min(ratios):.1f} to {max(ratios):.1f} times")
    twins = f"Float32 networks, too: twins of {len(rows)} public int8 networks shrink {ranges[0]}"
    streamed = f"with a streamed input {ranges[1]} ({means[1]:.1f}), bit for bit as TFLM computes them."
    return f"{twins} ({means[0]:.1f} on average),\n{streamed}\n"


@in_one_sentence
def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table, or write it into the pages with --write; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[1])
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL", help="an int8 .tflite file")
    parser.add_argument("--write", action="store_true", help=f"replace the table in {PAGE.name} and the README's line")
    options = parser.parse_args(arguments)
    paths = options.models or [p for n in _NAMES for p in sorted(SHARED_MODELS.glob(f"*{n}*.tflite"))]
    rows = [row(path) for path in paths]
    table = HEAD + "".join(f"{each}\n" for each in rows)
    print(table + (sentence(rows) if rows else ""))
    if options.write:
        write_part("floats", table, PAGE)
        write_part("floats", sentence(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
