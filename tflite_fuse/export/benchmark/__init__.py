"""Projects that run a model and its rewrite on a board, compare their bytes, and print what each took as JSON lines."""
