"""The executor's exact order of events, and the memory that follows from it."""
