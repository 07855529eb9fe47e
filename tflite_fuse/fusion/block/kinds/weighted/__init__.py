"""Kinds with weights: convolutions and what is computed like them."""
