"""Boards as a table for a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table

from tflite_fuse.boards.table import Board


def boards_table(boards: Iterable[Board]) -> Table:
    """Name, core, clock, RAM, flash and title, one board a line."""
    table = Table(show_edge=False, pad_edge=False)
    for heading in ("name", "core", "MHz", "RAM", "flash", ""):
        table.add_column(heading, justify="right" if heading in ("MHz", "RAM", "flash") else "left")
    for board in boards:
        sizes = (f"{size / 1024:,.0f} KiB" for size in (board.ram_bytes, board.flash_bytes))
        table.add_row(board.name, board.core or board.mcu, str(board.mhz), *sizes, board.title)
    return table
