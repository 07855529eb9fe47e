"""Child processes that run a runtime without rights."""
