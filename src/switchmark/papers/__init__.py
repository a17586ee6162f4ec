"""This package holds the experiments of the literature as data: what to run, and what was
published."""
