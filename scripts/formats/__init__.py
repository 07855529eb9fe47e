"""Readers of schemas of binary formats."""
