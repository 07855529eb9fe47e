"""A fused block, read again: its options, its constants, its schedule."""
