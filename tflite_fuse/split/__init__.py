"""One model over several microcontrollers: who holds and computes what, what travels, and that it is the same bytes."""
