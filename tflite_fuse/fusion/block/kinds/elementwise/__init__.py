"""Kinds whose values depend on those at the same place alone."""
