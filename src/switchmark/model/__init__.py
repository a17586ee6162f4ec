"""Frozen, typed data and units, without I/O. The package imports only `errors` from the project."""
