"""Exact order of events of one block under one configuration, as the device executes it."""
