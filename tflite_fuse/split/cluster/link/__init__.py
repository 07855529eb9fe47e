"""Messages between devices, their framing in a stream of bytes, and the streams."""
