"""Build options of a kernel, for switches that only some kernels support.

A kernel lists its build options in /proc/config.gz or in /boot. If neither file exists, only a
probe shows whether the kernel supports the switch (`probe_kernel`).
"""

from __future__ import annotations

import re

from switchmark.errors import Unavailable
from switchmark.hosts.base import Host
from switchmark.observe.facts import kernel_config, kernel_release


def require_options(host: Host, *options: str) -> None:
    """Raise Unavailable if the kernel was built without one of these options, such as
    `CONFIG_IPVLAN`; do nothing if the options are unknown."""
    release = kernel_release(host)
    text = kernel_config(host)
    missing = [name for name in options if not re.search(rf"^{name}=[ym]$", text, re.MULTILINE)]
    if text and missing:
        raise Unavailable(
            f"the kernel {release} was built without {', '.join(missing)}",
            hint="boot a kernel that has it, such as one of a distribution: grep "
            f"{missing[0]} /boot/config-*",
        )
