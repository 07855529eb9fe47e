"""Points of a front by one limit: the problems P1 and P2 of the papers."""

from __future__ import annotations

from tflite_fuse.errors import LimitError
from tflite_fuse.search.front import Front, Point


def least_ram(front: Front, max_compute: float | None = None) -> Point:
    """Return the point of least RAM whose compute factor is at most ``max_compute``, None for any: problem P1.

    Raises:
        LimitError: no point has such a factor.
    """
    for point in front.points:
        if max_compute is None or point.work <= max_compute * front.unfused.work:
            return point
    least = front.points[-1].compute_factor
    raise LimitError(f"a compute factor of {max_compute:g} cannot be reached: the least is {least:.3f}", reached=least)


def least_compute(front: Front, max_ram: int) -> Point:
    """Return the point of least work whose RAM is at most ``max_ram`` bytes: problem P2.

    Raises:
        LimitError: no point needs so little.
    """
    for point in reversed(front.points):
        if point.ram_bytes <= max_ram:
            return point
    least = front.points[0].ram_bytes
    raise LimitError(f"{max_ram:,} bytes cannot be reached: the least is {least:,} bytes", reached=least)
