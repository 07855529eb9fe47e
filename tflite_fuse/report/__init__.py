"""Tables, JSON and sentences about results. Knows nothing of how results were found."""
