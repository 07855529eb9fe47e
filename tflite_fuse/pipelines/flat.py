"""Flat numbers for experiment trackers: name → finite number.

``schemas/metrics.schema.json`` describes each of them.
"""

from __future__ import annotations

from tflite_fuse.passes.goal import Goal
from tflite_fuse.report.report import Figures, Report

FIGURES = (
    "arena_bytes",
    "arena_used_bytes",
    "head_bytes",
    "tail_bytes",
    "loading_bytes",
    "peak_bytes",
    "file_bytes",
    "macs",
    "operators",
)
"""Figures of a model that pages and metrics show."""


def figures_metrics(figures: Figures, prefix: str = "") -> dict[str, float]:
    """Return a model's own figures."""
    return {prefix + name: float(getattr(figures, name)) for name in FIGURES}


def report_metrics(report: Report) -> dict[str, float]:
    """Return the metrics of a rewrite; without ``instructions`` if none were predicted."""
    expected = {} if report.prediction is None else {"instructions": float(report.prediction.instructions)}
    return {
        **figures_metrics(report.after),
        **figures_metrics(report.before, "before_"),
        "compute_factor": report.compute_factor,
        "blocks": float(len(report.blocks)),
        "verified_inputs": float(0 if report.verified is None else report.verified.inputs),
        **expected,
    }


def shortfalls(
    metrics: dict[str, float], goal: Goal, max_flash: int | None, factor: float, input_over: int
) -> dict[str, float]:
    """Return by how much a model misses the options, 0 where it does not.

    Args:
        metrics: those of the model.
        goal: limits on RAM and compute.
        max_flash: bytes its file may have; None for any.
        factor: its compute over that of the unfused model, in the goal's unit; 0 if the limit is known to hold.
        input_over: bytes of inputs in the arena that should be outside.
    """
    over = {
        "ram_over_bytes": 0.0 if goal.max_ram is None else max(0.0, metrics["arena_bytes"] - goal.max_ram),
        "flash_over_bytes": 0.0 if max_flash is None else max(0.0, metrics["file_bytes"] - max_flash),
        "compute_over": 0.0 if goal.max_compute is None else max(0.0, factor - goal.max_compute),
        "input_over_bytes": float(input_over),
    }
    return over | {"feasible": float(not any(over.values()))}
