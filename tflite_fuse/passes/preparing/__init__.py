"""Passes that prepare a model for the fuse pass."""
