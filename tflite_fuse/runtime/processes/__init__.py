"""Runtimes in processes of their own."""
