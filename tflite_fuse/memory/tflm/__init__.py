"""What TensorFlow Lite Micro itself asks of the arena: requests, its planner, its tail."""
