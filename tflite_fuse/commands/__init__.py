"""One file per command of the command line: arguments in, messages out. No logic."""
