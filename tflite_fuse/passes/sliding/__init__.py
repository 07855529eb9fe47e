"""Models over a window of time steps, as streams that take only the new steps of each call."""
