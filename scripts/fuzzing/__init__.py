"""Fuzzers that run as long as asked: what they make, how they run it within bounds, and the counts they keep."""
