"""Benchmarks of switchmark itself, as ratios to its peers. Not installed, not part of the tests:
`make bench`, or `python -m bench NAME...` at the top of the repository."""
