"""Measurements of streaming models before and after, for ``bench_streams.py``."""
