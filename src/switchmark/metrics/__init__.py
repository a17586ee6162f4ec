"""This package computes what the trials of a test say from integer counts. It reads records
only."""
