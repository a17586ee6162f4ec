"""This module finds the programs that a plan runs, their versions, and the packages they are in."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from switchmark.errors import Unavailable
from switchmark.machine.host import Host

__all__ = [
    "beside_python",
    "find_program",
    "probe_version",
    "program_path",
    "program_variable",
    "require_programs",
]

_OWN = "switchmark-"
_MISSING = 'for it; do command -v "$it" >/dev/null || echo "$it"; done'


def program_variable(name: str) -> str:
    """Return the environment variable that names another program to be run as `name`, such as
    SWITCHMARK_TRAFFIC for `switchmark-traffic`."""
    word = re.sub(r"[^A-Za-z0-9]+", "_", name.removeprefix(_OWN))
    return f"SWITCHMARK_{word.upper()}"


def find_program(name: str, variable: str | None = None) -> str | None:
    """Return the path of a program, or None where it is nowhere: first its environment variable
    counts, then what `make setup` put beside this Python, then PATH."""
    beside = beside_python() / name
    return (
        os.environ.get(variable or program_variable(name))
        or (str(beside) if beside.exists() else None)
        or shutil.which(name)
    )


def program_path(name: str, variable: str | None = None) -> str:
    """Return the path of a program as a plan has it: the bare name where it is nowhere, which a
    probe refuses."""
    return find_program(name, variable) or name


def beside_python() -> Path:
    """Return the folder where `make setup` puts programs."""
    return Path(sys.executable).parent


def probe_version(
    host: Host, argv: tuple[str, ...], pattern: str, *, hint: str, missing: str | None = None
) -> tuple[str, ...]:
    """Return what the groups of a pattern match in what a program says of its version.

    Unavailable with `hint` where it is not there, which `missing` says in other words, or where it
    fails or says nothing of the kind.
    """
    try:
        done = host.run(argv)
    except Unavailable as error:
        raise Unavailable(missing or f"{argv[0]} is not installed", hint=hint) from error
    match = re.search(pattern, (done.stdout + done.stderr).decode(errors="replace"))
    if done.status or not match:
        raise Unavailable(f"{' '.join(argv)} does not tell its version", hint=hint)
    return match.groups()


def require_programs(host: Host, packages: Mapping[str, str]) -> None:
    """Raise Unavailable where a host lacks one of these programs, with the command that installs
    the Debian packages that they are in."""
    done = host.run(("sh", "-c", _MISSING, "sh", *packages))
    missing = done.stdout.decode(errors="replace").split()
    if missing:
        wanted = " ".join(dict.fromkeys(packages[name] for name in missing))
        are = "is" if len(missing) == 1 else "are"
        raise Unavailable(
            f"{', '.join(missing)} {are} not installed", hint=f"apt-get install {wanted}"
        )
