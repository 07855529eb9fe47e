"""Programs of workers: blocks of the device library, made from their tasks."""
