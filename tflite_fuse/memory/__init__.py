"""Liveness, working sets, orders of operators and offsets of tensors; independent of fusion."""
