"""The entry point of `python -m switchmark`, equal to the command `switchmark`."""

from switchmark.cli import main

if __name__ == "__main__":
    main()
