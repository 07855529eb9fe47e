"""What a streaming model remembers from run to run, and what only such models ask for."""
