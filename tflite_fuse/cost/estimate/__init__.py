"""Closed forms: what a block needs under many configurations at once, an upper bound of scratch."""
