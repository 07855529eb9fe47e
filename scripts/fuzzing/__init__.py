"""Fuzzers: their generators, their execution within bounds, and their counts."""
