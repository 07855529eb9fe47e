"""Passes that put a model into the form the fuse pass works on."""
