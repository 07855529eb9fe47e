"""Generators of models and blocks for tests."""
