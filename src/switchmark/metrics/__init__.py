"""Metrics: what the trials of a test say, computed from integer counts. Reads records only."""
