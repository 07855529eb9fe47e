"""From operators of a model to stages of a block."""
