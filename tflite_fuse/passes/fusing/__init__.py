"""Making blocks in a model: candidates, what is chosen of them, what is proven of the choice."""
