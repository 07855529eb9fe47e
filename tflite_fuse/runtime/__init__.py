"""Run models on this machine and compare what they compute."""
