"""Inputs, the witnesses that run them, and where outputs differ."""
