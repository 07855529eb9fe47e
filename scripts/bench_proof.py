#!/usr/bin/env python3
"""Change single bytes and numbers of fused blocks and count the changes that validation detects.

    python scripts/bench_proof.py --models ../shared/models --mutants 2000

Each model is rewritten in several ways; mutants are drawn from all of their blocks. A mutant counts as caught if it is
not proven or the reader refuses it. A mutant with other tiles or runs but the same rings and result bytes, or with an
older version number, is proven and counted apart: the certificate reports its configuration, so a caller with another
choice (as ``rewrite``) detects it, too.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.check.mutants import mutants, outcome
from tflite_fuse import api
from tflite_fuse.check import Certificate, validate
from tflite_fuse.errors import LimitError
from tflite_fuse.model.file import load_model
from tflite_fuse.model.schema import Model
from tflite_fuse.passes.goal import Goal

WAYS: tuple[dict[str, Any], ...] = (
    {},
    {"goal": Goal(least_ram=True)},
    {"input_mode": "streamed", "int8_io": True},
    {"scheme": "head-patches"},
)


def rewritten(folder: Path) -> Iterator[tuple[str, Model, Model, Certificate]]:
    """Yield each model under each set of options that leaves it with blocks."""
    for path in sorted(folder.glob("*.tflite")):
        for way in WAYS:
            try:
                after = load_model(api.rewrite(path, verify=False, **way).model)
            except LimitError:
                continue
            before = load_model(path)
            started = time.process_time()
            certificate = validate(before, after)
            seconds = time.process_time() - started
            if certificate.blocks:
                counts = certificate.counts
                done = f"{counts['weights']:8,} weights, {counts['runs of pixels']:7,} runs, {seconds:5.2f} s of CPU"
                print(
                    f"{path.stem:28} {len(certificate.blocks):3} blocks, {done}: {certificate.sentence()}", flush=True
                )
                yield path.stem, before, after, certificate


def main() -> None:
    """Print a table of the changes found, by kind of change."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, required=True, help="folder of .tflite files")
    parser.add_argument("--mutants", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    pairs = list(rewritten(arguments.models))
    randomness = random.Random(arguments.seed)
    table: Counter[tuple[str, str]] = Counter()
    missed = []
    for _ in range(arguments.mutants):
        name, before, after, whole = randomness.choice(pairs)
        (mutant,) = mutants(after, randomness, 1)
        result = outcome(before, whole, mutant)
        table[mutant.what, result] += 1
        if result == "missed":
            missed.append(f"{name}, {mutant.what}, {mutant.place}")
    print(f"\n{'change':24}{'caught':>8}{'told':>8}{'missed':>8}")
    for what in sorted({what for what, _ in table}):
        print(f"{what:24}{table[what, 'caught']:8}{table[what, 'told']:8}{table[what, 'missed']:8}")
    total = Counter(result for (_, result), n in table.items() for _ in range(n))
    print(f"{'all':24}{total['caught']:8}{total['told']:8}{total['missed']:8}")
    for line in missed:
        print("missed:", line)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
