"""switchmark, the reference benchmark for virtual switches in NFV.

`switchmark.tests`, `plan`, `run` and `load` are for Python programs: see `switchmark.library`.
"""

__version__ = "0.1.0"

_LIBRARY = ("Record", "Run", "Test", "load", "plan", "run", "tests")
"""The public names, which are imported on first use because they need all of the program."""


def __getattr__(name: str) -> object:
    if name in _LIBRARY:
        import importlib

        return getattr(importlib.import_module("switchmark.library"), name)
    raise AttributeError(f"module 'switchmark' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LIBRARY])
