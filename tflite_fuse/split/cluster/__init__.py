"""Which devices there are and how they are joined."""
