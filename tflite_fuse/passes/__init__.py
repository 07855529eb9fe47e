"""Steps from model to model, one per file."""
