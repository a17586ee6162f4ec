"""Metrics: the figures of a test, computed from the integer counts of its trials. They read records
only."""
