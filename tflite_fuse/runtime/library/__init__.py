"""The device library compiled for this machine."""
