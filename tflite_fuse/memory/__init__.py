"""Liveness, working sets, operator order and arena placement. Knows nothing of fusion."""
