"""Orders of operators of least peak memory, exactly."""
