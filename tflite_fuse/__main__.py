"""``python -m tflite_fuse`` is the ``tflite-fuse`` command."""

from tflite_fuse.cli import main

main()
