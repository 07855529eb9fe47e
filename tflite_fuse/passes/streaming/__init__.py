"""Passes that prepare streaming models for blocks."""
