"""What TensorFlow Lite Micro itself takes of the arena: requests, its planner, its tail."""
