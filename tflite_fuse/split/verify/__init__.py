"""Running a plan on this machine, and checking what it declares."""
