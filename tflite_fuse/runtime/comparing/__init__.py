"""Witnesses that run an original and its rewrite, and the differences between their outputs."""
