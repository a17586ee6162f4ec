"""This module checks whether the programs that a plan runs are installed, and names the packages
that have them."""

from __future__ import annotations

from collections.abc import Mapping

from switchmark.errors import Unavailable
from switchmark.machine.host import Host

__all__ = ["require_programs"]

_MISSING = 'for it; do command -v "$it" >/dev/null || echo "$it"; done'


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
