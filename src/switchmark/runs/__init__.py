"""The changes that a run makes to hosts, and how they are undone."""
