"""The entry point of the ``tflite-fuse`` command and of ``python -m tflite_fuse``."""

from tflite_fuse.interrupts import end_on_interrupts


def main() -> None:
    """Run the command. From here on interrupts end it, also while its modules are imported."""
    end_on_interrupts()
    from tflite_fuse.cli import main as run

    run()


if __name__ == "__main__":
    main()
