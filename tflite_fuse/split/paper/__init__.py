"""Split CNN inference on networked microcontrollers, as published: the baseline."""
