"""For programs that call this package over and over: flat numbers, sweeps, two files compared."""
