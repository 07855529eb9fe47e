"""What tests draw models and blocks with."""
