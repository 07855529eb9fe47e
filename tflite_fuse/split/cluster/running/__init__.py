"""Workers and the coordinator of a plan as they run: what each does in which order, and the inference they make."""
