"""Boards: their memory, and whether a model fits."""
