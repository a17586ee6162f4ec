"""This package measures switchmark itself, as ratios to its peers. It is not installed, and not
part of the tests: `make bench`, or `python -m bench NAME...` at the top of the repository."""
