"""Blocks as the options and constants of a custom operator, and back."""
