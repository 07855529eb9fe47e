"""Decoding of one block for the proof: options, constants, and a replay of its schedule."""
