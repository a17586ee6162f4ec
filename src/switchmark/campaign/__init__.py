"""This package holds campaigns: axes expanded to tests, run in blocks, stored, resumed."""
