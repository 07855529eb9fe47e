"""A split model as one project: a program for each worker, and one for the coordinator."""
