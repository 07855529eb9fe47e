"""Division of a model: regions of tensors, their receptive fields, and plans of transfers and tasks."""
