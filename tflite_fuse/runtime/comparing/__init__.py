"""Two models on the same inputs: every byte, borders inside included, over time where they keep a state."""
