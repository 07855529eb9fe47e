"""Projects that run a model and its rewrite on a board, compare their bytes, and print times as JSON lines."""
