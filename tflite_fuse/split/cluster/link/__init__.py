"""What travels between devices: messages, how they are found in a stream of bytes, and the streams."""
