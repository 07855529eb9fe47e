"""Devices of a cluster and their links."""
