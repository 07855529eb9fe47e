"""Models executed on this machine, in confined processes, and their outputs compared."""
