"""Models that keep state between inferences."""
