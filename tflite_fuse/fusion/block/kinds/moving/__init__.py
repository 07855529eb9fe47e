"""Kinds that move values and compute nothing."""
