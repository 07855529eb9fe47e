"""A plan on simulated devices and links, event by event."""
