"""The commit from which this switchmark was built."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import switchmark

_PACKAGE = Path(switchmark.__file__).parent
_WRITTEN = "commit.txt"
"""The file that the build writes into the package."""


@cache
def own_commit() -> str | None:
    """Return the commit of the code that this process runs. Only the first call asks git."""
    return commit(_PACKAGE)


def commit(package: Path) -> str | None:
    """Return the commit of a package, with `+` appended if files were changed since. git knows it
    for a package in its own work tree; otherwise it is in the file that the build wrote. Return
    None if both are missing."""
    tree = package.parent.parent
    if _git(package, "rev-parse", "--show-toplevel") == str(tree.resolve()):
        return _git(tree, "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*")
    try:
        return (package / _WRITTEN).read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        completed = subprocess.run(
            ("git", "-C", str(folder), *arguments),
            capture_output=True,
            encoding="utf-8",
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return completed.stdout.strip() or None if completed.returncode == 0 else None
