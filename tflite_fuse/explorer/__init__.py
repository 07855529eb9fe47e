"""Node data for Model Explorer: bytes, work, and why an operator is in no block."""
