"""How large the parts of a block may be: what 8, 16 and 32 bits hold, and what the device's kernels make room for."""

from __future__ import annotations

MAX_STAGES = MAX_TENSORS = 255
MAX_CHUNK = 255
MAX_EXTENT = 65535
MAX_WINDOW = 32767
"""Largest kernel, stride, dilation and padding."""
MAX_TAPS = 1 << 20
"""Most pixels one window may span: kernel rows times columns."""
MAX_DOWN_SHIFT = 22
"""Most bits a packed table shifts down by, less one."""
MAX_LISTED_TAPS = 32
"""Most taps the packed convolution looks at where they lie."""
MAX_PATCH_VALUES = 160
"""Most values of a window it copies, …"""
MAX_ROW_VALUES = 64
"""… and of a row of several taps of it."""
MAX_AVERAGED = 1 << 23
"""Most pixels of a global average."""
MAX_BYTES = 2**31 - 1
"""Largest tensor, constants and scratch."""
STACK_POINTERS = 96
"""A window of one output pixel that needs more pixel pointers than this keeps them in scratch."""
