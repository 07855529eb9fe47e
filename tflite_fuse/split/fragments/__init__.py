"""What a worker runs: blocks of the device library, made of its tasks."""
