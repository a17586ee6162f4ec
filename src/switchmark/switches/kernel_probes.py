"""This module asks whether a kernel can do what a switch is made of, by trying it."""

from __future__ import annotations

import errno
import os
import re
import shlex

from switchmark.errors import Unavailable
from switchmark.hosts.base import Host
from switchmark.hosts.local_process import last_lines
from switchmark.observe.facts import kernel_release

_REFUSED = re.compile(f"{os.strerror(errno.EPERM)}|{os.strerror(errno.EACCES)}")
"""What programs say where a kernel has what is asked for, and refuses it to this user."""

CABLE = ("ip", "link", "add", "sm-a", "type", "veth", "peer", "name", "sm-b")
"""What `probe_kernel` tries for a switch whose ports are veth pairs."""


def probe_kernel(host: Host, *commands: tuple[str, ...]) -> str:
    """Return the release of a kernel that has what a switch is made of, or raise Unavailable with
    what is wrong. `commands`, which make it with interfaces of any name, are tried in a network
    namespace that ends with them."""
    release = kernel_release(host)
    user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    tried = " && ".join(map(shlex.join, commands))
    # Programs are words of their own: some are elsewhere on another host, which puts them right.
    programs = list(dict.fromkeys(command[0] for command in commands))
    text = " && ".join(
        f'"${{{programs.index(program) + 1}}}" {shlex.join(words)}' for program, *words in commands
    )
    done = host.run(("unshare", *user, "--net", "sh", "-c", text, "sh", *programs))
    if done.status:
        said = last_lines(done.stderr, 1)
        if user and _REFUSED.search(said):
            why = "this switch needs root itself, not that of a user namespace"
            hint = "run it with sudo"
        else:
            why = f"the kernel {release} cannot do what this switch is made of"
            hint = "switchmark doctor"
        raise Unavailable(f"{why}\n  {tried}\n  {said}", hint=hint)
    return release
