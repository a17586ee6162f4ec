"""This module lets `python -m switchmark` do the same as the command."""

from switchmark.cli import main

if __name__ == "__main__":
    main()
