"""Offsets of tensors in one arena of least height."""
