"""Stages without weights: elementwise functions, pools, moves, resizing, states."""
