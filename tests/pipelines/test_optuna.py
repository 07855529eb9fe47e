"""The page's example of a search with constraints runs, and its result fits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import tflite_fuse
from scripts.zoo.networks import inverted_residual_network
from tflite_fuse.model import serialize_model

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "pipelines.md").read_text()


def test_the_best_trial_is_one_that_fits() -> None:
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    (example,) = (block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "optuna" in block)
    names: dict[str, Any] = {}
    exec(example, names)
    best, study = names["best"], names["study"]
    over = [trial.constraints["ram_over_bytes"] for trial in study.trials]
    assert min(over) == 0 < max(over), "the limit is to cut the space of models"
    assert best.constraints["ram_over_bytes"] == 0
    fitting = [trial.value for trial, too_much in zip(study.trials, over, strict=True) if too_much == 0]
    assert best.value == max(fitting)
    model = serialize_model(inverted_residual_network(**best.params))
    assert tflite_fuse.rewrite(model, goal=names["GOAL"], verify=False).report.after.arena_bytes <= 12_000
