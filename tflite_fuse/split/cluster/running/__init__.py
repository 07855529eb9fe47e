"""Workers and the coordinator of a plan at run time."""
