"""Runs a plan on this machine and checks its declarations."""
