"""The C library's LSTM against the numpy reference, and damaged blocks of it, with sanitizers."""

from __future__ import annotations

from tests.emit.test_fuzz_options import run_sanitized


def test_random_blocks_with_a_state_equal_the_reference() -> None:
    assert run_sanitized("exercise-recurrent", 0, 300) == "{'equal': 300}\n"


def test_damaged_blocks_with_a_memory_are_refused_or_run_within_it() -> None:
    outcome = run_sanitized("fuzz-recurrent", 0, 400)
    assert "ran" in outcome and "refused" in outcome
