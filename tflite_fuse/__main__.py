"""The entry point of the ``tflite-fuse`` command and of ``python -m tflite_fuse``."""

from tflite_fuse.interrupts import end_on_interrupts


def main() -> None:
    """Run the command. Interrupts end it from here on, also while its modules are imported."""
    end_on_interrupts()
    from tflite_fuse.cli import main as run

    run()


if __name__ == "__main__":
    main()
