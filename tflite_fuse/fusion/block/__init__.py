"""What a block is: its stages and tensors, the graph the search sees, and what makes it valid."""
