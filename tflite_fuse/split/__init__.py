"""One model over several microcontrollers: division of storage and work, transfers, and bit-exactness."""
