"""The tests; ``tests.device`` is also read by scripts, without the packages that tests need."""

PATIENCE = 1800.0
"""Seconds until a compiler or an emulator that does not end fails its test. A busy machine is no failure."""
