"""Metadata of a model rewritten as a stream: its window and the new steps in each call.

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
    """Relation between a stream and its window.

    Attributes:
        hop: new steps in each call.
        window: steps of the window.
        axis: dimension of every input along which steps lie.
        each: elements of that dimension per step.
    """

    hop: int
    window: int
    axis: int
    each: int = 1

    @property
    def calls(self) -> int:
        """Return the number of calls that fill the window."""
        return -(-self.window // self.hop)

    def shape_of(self, window: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the stream's input for a window's shape. Raises ModelError if they do not match."""
        if self.axis >= len(window) or window[self.axis] != self.window * self.each:
            raise ModelError(
                f"it does not have {self.window} steps along dimension {self.axis} of an input {list(window)}"
            )
        return (*window[: self.axis], self.hop * self.each, *window[self.axis + 1 :])


def with_stream_time(model: Model, stream: StreamTime) -> Model:
    """Return the model with the metadata of a stream."""
    return set_metadata(model, STREAM_METADATA, json.dumps({"version": _VERSION, **asdict(stream)}).encode())


def stream_time(model: Model) -> StreamTime | None:
    """Return the stream metadata of a model, None without any. Raises ModelError if it is damaged."""
    data = get_metadata(model, STREAM_METADATA)
    if data is None:
        return None
    try:
        entry = json.loads(data)
        numbers = [entry[name] for name in ("hop", "window", "axis", "each")]
        sound = entry["version"] == _VERSION and all(type(n) is int and 0 <= n < _MOST for n in numbers)
        hop, window, axis, each = numbers
        if not sound or not 0 < hop < window or not each or axis > 7:
            raise ValueError
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ModelError(
            f"the metadata {STREAM_METADATA}, which describes the window of a stream, is damaged or of a newer version"
        ) from error
    return StreamTime(hop, window, axis, each)
