"""Experiments from the literature as data: campaigns and published values."""
