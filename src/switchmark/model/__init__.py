"""Frozen, typed data and units. No I/O; imports nothing of the project but `errors`."""
