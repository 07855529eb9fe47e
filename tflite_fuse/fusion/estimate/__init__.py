"""What blocks cost, in closed form, for the search."""
