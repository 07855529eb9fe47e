"""What a model that was turned into a stream says of itself: the window it stands for, and how many steps it takes.

It is one JSON object in the metadata entry ``tflite_fuse.stream``::

    {"version": 1, "hop": 2, "window": 49, "axis": 1, "each": 1}
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from tflite_fuse.errors import ModelError
from tflite_fuse.model.edit import get_metadata, set_metadata
from tflite_fuse.model.schema import Model

STREAM_METADATA = "tflite_fuse.stream"

_VERSION = 1
_MOST = 1 << 24


@dataclass(frozen=True)
class StreamTime:
    """How a stream and its window go together.

    Attributes:
        hop: new steps in each call.
        window: steps of the window.
        axis: the dimension of every input that steps lie along.
        each: elements of that dimension a step takes.
    """

    hop: int
    window: int
    axis: int
    each: int = 1

    @property
    def calls(self) -> int:
        """Calls until the window has been filled."""
        return -(-self.window // self.hop)

    def shape_of(self, window: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the stream's input, from the window's. Raises ModelError: they do not go together."""
        if self.axis >= len(window) or window[self.axis] != self.window * self.each:
            raise ModelError(f"it has no {self.window} steps along dimension {self.axis} of an input {list(window)}")
        return (*window[: self.axis], self.hop * self.each, *window[self.axis + 1 :])


def with_stream_time(model: Model, found: StreamTime) -> Model:
    """Notes it in a model."""
    return set_metadata(model, STREAM_METADATA, json.dumps({"version": _VERSION, **asdict(found)}).encode())


def stream_time(model: Model) -> StreamTime | None:
    """What a model says of itself, None if it is no such stream. Raises ModelError: that makes no sense."""
    data = get_metadata(model, STREAM_METADATA)
    if data is None:
        return None
    try:
        told = json.loads(data)
        numbers = [told[name] for name in ("hop", "window", "axis", "each")]
        sound = told["version"] == _VERSION and all(type(n) is int and 0 <= n < _MOST for n in numbers)
        hop, window, axis, each = numbers
        if not sound or not 0 < hop < window or not each or axis > 7:
            raise ValueError
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ModelError(
            f"the metadata {STREAM_METADATA}, which tells what window a stream stands for, is damaged or of a newer "
            "version"
        ) from error
    return StreamTime(hop, window, axis, each)
