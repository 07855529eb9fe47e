"""Boards people have: how much memory they offer, and whether a model fits."""
