"""Runs models on this machine in confined processes and compares their outputs."""
