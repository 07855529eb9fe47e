"""What streaming models need before blocks can hold them."""
