"""A block as the proof reads it: options, constants, and a replay of its schedule."""
