"""Tables, JSON and sentences about results, independent of how they were computed."""
