"""A rewrite as one HTML page, as pictures, as a section of a model card, and as a trace."""
