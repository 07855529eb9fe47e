"""Notes by their fields."""

from __future__ import annotations

from collections.abc import Iterable

from tflite_fuse.notes import Note


def told(notes: Iterable[Note], fate: str, reason: str) -> list[Note]:
    """Return the notes of one fate and one reason."""
    return [note for note in notes if (note.fate, note.reason) == (fate, reason)]
