"""This module tells which options a kernel was built without, for switches that not every kernel
has.

A kernel says with what it was built in /proc/config.gz or in /boot; where neither is there, only
trying tells (`probe_kernel`).
"""

from __future__ import annotations

import gzip
import re
from contextlib import suppress

from switchmark.errors import Unavailable
from switchmark.machine.host import Host
from switchmark.switches.kernel_probes import kernel_release

__all__ = ["require_options"]

_OWN = "/proc/config.gz"


def require_options(host: Host, *options: str) -> None:
    """Raise Unavailable where a kernel was built without one of these options, such as
    `CONFIG_IPVLAN`; nothing where it does not tell."""
    release = kernel_release(host)
    text = _config(host, release)
    missing = [each for each in options if not re.search(rf"^{each}=[ym]$", text, re.MULTILINE)]
    if text and missing:
        raise Unavailable(
            f"the kernel {release} was built without {', '.join(missing)}",
            hint="boot a kernel that has it, as those of distributions do: "
            f"grep {missing[0]} /boot/config-*",
        )


def _config(host: Host, release: str) -> str:
    """Return the options with which a kernel was built; empty where it does not tell."""
    boot = f"/boot/config-{release}"
    files = host.read_all(_OWN, boot)
    content = files.get(boot, b"")
    if _OWN in files:
        with suppress(OSError, EOFError):  # no gzip, or cut off
            content = gzip.decompress(files[_OWN])
    return content.decode(errors="replace")
