"""What a model is between reading and writing: blocks, tensors with sizes and lifetimes, and who reads them."""
