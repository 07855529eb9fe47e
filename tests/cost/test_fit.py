"""Costs fitted to counted runs."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from scripts.fit_instructions import fit_costs
from tflite_fuse.cost.instructions import COUNTS, predicted_instructions
from tflite_fuse.errors import UsageError


def test_costs_that_made_the_runs_are_found_again() -> None:
    true = {name: 1.0 + index / 2 for index, name in enumerate(COUNTS)}
    rng = Random(1)
    rows = [{name: rng.randrange(1, 10_000) for name in COUNTS} for _ in range(60)]
    costs = fit_costs(rows, [predicted_instructions(row, true) for row in rows])
    assert costs == pytest.approx(true, rel=1e-2)


def test_no_cost_is_negative_and_none_could_be_better() -> None:
    """At the optimum no cost can change in an allowed direction that lowers the error (Karush, Kuhn, Tucker)."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        rows = rng.integers(0, 1000, (30, len(COUNTS)))
        took = rng.integers(1000, 100_000, 30)
        fitted = fit_costs([dict(zip(COUNTS, map(int, row), strict=True)) for row in rows], list(map(int, took)))
        costs = np.array([fitted[name] for name in COUNTS])
        weight = took**-0.9  # a large block counts a little more
        scaled = rows * weight[:, None]
        slope = scaled.T @ (scaled @ costs - took * weight)
        assert (costs >= 0).all() and (slope >= -1e-7).all()
        assert np.allclose(slope[costs > 0], 0, atol=1e-7)


def test_nothing_to_fit_from_is_refused() -> None:
    with pytest.raises(UsageError):
        fit_costs([], [])
    with pytest.raises(UsageError):
        fit_costs([dict.fromkeys(COUNTS, 1)], [0])
