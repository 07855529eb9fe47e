"""A model's operators as the kinds of stages read them: tensors, options, and scales as integers."""
