"""Internal representation of a model: programs of steps and tensors, blocks, and liveness."""
