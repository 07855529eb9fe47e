"""A block as the custom operator's options and constants, and back."""
