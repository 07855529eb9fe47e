"""Functions that the original model's operators compute, derived independently of the rewriting code."""
