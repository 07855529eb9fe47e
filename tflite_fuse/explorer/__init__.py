"""What Model Explorer shows on a model's nodes: bytes, work, and why an operator is in no block."""
