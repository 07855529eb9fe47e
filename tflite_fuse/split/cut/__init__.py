"""What cutting a model apart means: regions of tensors, what they need, and a plan of who does what."""
