"""This package holds frozen, typed data and units. No I/O; it imports nothing of the project but
`errors`."""
