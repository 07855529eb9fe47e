"""What a plan costs: instructions, bytes of RAM and flash, bytes that travel."""
