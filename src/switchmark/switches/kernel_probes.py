"""Probe commands that show whether a kernel supports a switch."""

from __future__ import annotations

import errno
import os
import re
import shlex

from switchmark.errors import Unavailable
from switchmark.hosts.base import Host
from switchmark.hosts.programs import require_programs
from switchmark.model.printable import last_lines
from switchmark.observe.facts import kernel_release

_REFUSED = re.compile(f"{os.strerror(errno.EPERM)}|{os.strerror(errno.EACCES)}")
"""Error messages of a kernel that supports the operation but refuses it to this user."""

_NOT_FOUND = 127
"""The status of a shell that does not find a program."""

_PACKAGES = {"ip": "iproute2", "tc": "iproute2", "nft": "nftables"}
"""Debian packages of the programs in probe commands."""

CABLE = ("ip", "link", "add", "sm-a", "type", "veth", "peer", "name", "sm-b")
"""The probe command of switches whose ports are veth pairs."""


def probe_kernel(host: Host, *commands: tuple[str, ...]) -> str:
    """Return the release of a kernel that supports a switch, or raise Unavailable with the reason.
    `commands` create the parts of the switch with arbitrary interface names; they run in a
    temporary network namespace."""
    release = kernel_release(host)
    user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    tried = " && ".join(map(shlex.join, commands))
    # Programs are separate arguments, because a host may map them to other paths.
    programs = list(dict.fromkeys(command[0] for command in commands))
    text = " && ".join(
        f'"${{{programs.index(program) + 1}}}" {shlex.join(arguments)}'
        for program, *arguments in commands
    )
    completed = host.run(("unshare", *user, "--net", "sh", "-c", text, "sh", *programs))
    if completed.status == _NOT_FOUND:
        require_programs(host, {name: _PACKAGES.get(name, name) for name in programs})
    if completed.status:
        reason = last_lines(completed.stderr, 1)
        if user and _REFUSED.search(reason):
            why = "this switch needs real root, not root in a user namespace"
            hint = "run it with sudo"
        else:
            why = f"the kernel {release} lacks something that this switch needs"
            hint = "switchmark doctor"
        raise Unavailable(f"{why}\n  {tried}\n  {reason}", hint=hint)
    return release
