"""The exact search over all ways to cut a model into blocks."""
