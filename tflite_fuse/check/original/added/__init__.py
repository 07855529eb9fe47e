"""Operators that a pass adds, and what they stand for."""
