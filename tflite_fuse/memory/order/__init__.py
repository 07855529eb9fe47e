"""Exact orders of operators with the least peak memory."""
