"""The cuts of a model, the blocks between them, and the Pareto front of RAM against work."""
