"""How schemas of binary formats are read."""
