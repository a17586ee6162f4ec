"""Campaigns: axes expanded to tests, run in blocks, stored, resumed."""
