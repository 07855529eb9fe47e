"""The original model as values, and what its operators ask for."""
