"""Campaigns: the expansion of axes to tests, the run in blocks, the run folder, and the
resumption."""
