"""Frozen, typed data and units. No I/O; the package imports nothing of the project but `errors`."""
