"""What is added to the original before it is compared: numbers that are known, operators as they could be, too."""
