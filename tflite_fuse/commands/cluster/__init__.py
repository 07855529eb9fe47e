"""`tflite-fuse cluster` and its commands."""
