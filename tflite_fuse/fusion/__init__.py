"""What a fused block is, what it costs, which blocks to choose, how a block is encoded. Knows nothing of files."""
