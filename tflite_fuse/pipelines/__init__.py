"""Interfaces for programs that process many models: flat metrics, sweeps, comparison of two files."""
