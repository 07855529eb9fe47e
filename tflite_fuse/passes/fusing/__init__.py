"""Fusion of a model's operators to blocks: candidates, selection, proof of the selection."""
