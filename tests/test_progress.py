"""Progress of long work: to a callback in Python, to a line on stderr on a terminal, none in pipes."""

from __future__ import annotations

from tests.input_mode_models import MODELS
from tflite_fuse import rewrite
from tflite_fuse.memory.budget import report_progress, reporting_to
from tflite_fuse.model import serialize_model


def test_a_rewrite_counts_operators_candidates_and_inputs() -> None:
    heard: list[tuple[str, int, int]] = []
    source = serialize_model(MODELS["inverted residuals"]())
    rewrite(source, inputs=3, progress=lambda *told: heard.append(told))
    assert {"operators searched", "candidates placed", "inputs compared"} <= {step for step, _, _ in heard}
    for step in {step for step, _, _ in heard}:
        counts = [(done, total) for name, done, total in heard if name == step]
        assert all(0 < done <= total or total == 0 for done, total in counts)


def test_progress_is_reported_only_within_its_context() -> None:
    heard: list[str] = []
    report_progress("before", 1)
    with reporting_to(lambda step, done, total: heard.append(step)):
        report_progress("during", 1)
        with reporting_to(None):
            report_progress("still", 2)
    report_progress("after", 1)
    assert heard == ["during", "still"]
