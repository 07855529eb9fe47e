"""Simulates plans on devices and links, event by event."""
