"""This module tells which options a kernel was built without, for switches that not every kernel
has.

A kernel says with what it was built in /proc/config.gz or in /boot; where neither is there, only
trying tells (`probe_kernel`).
"""

from __future__ import annotations

import re

from switchmark.errors import Unavailable
from switchmark.hosts.base import Host
from switchmark.observe.facts import kernel_config, kernel_release


def require_options(host: Host, *options: str) -> None:
    """Raise Unavailable where a kernel was built without one of these options, such as
    `CONFIG_IPVLAN`; nothing where it does not tell."""
    release = kernel_release(host)
    text = kernel_config(host)
    missing = [each for each in options if not re.search(rf"^{each}=[ym]$", text, re.MULTILINE)]
    if text and missing:
        raise Unavailable(
            f"the kernel {release} was built without {', '.join(missing)}",
            hint="boot a kernel that has it, as those of distributions do: "
            f"grep {missing[0]} /boot/config-*",
        )
