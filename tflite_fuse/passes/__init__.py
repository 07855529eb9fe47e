"""Steps from model to model, one per file, and the pipeline that runs them."""
