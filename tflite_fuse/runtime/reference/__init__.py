"""The slow, clear reference of a block in numpy."""
