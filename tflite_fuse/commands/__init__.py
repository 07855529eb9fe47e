"""The commands of the command line, one file each: they read arguments and print results."""
