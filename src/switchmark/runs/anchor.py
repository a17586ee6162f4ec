"""The privileges of a run: root's, or those of a user namespace that anchors everything a run
makes.

Without root, the same command line starts again below `unshare`. The end of that process ends every
namespace, interface and process in it, so nothing is left to clean.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Literal, NoReturn

from switchmark.errors import Interrupted, SwitchmarkError, Unavailable
from switchmark.hosts.local import LocalHost
from switchmark.model.printable import last_lines

_ANCHORED = "SWITCHMARK_ANCHORED"
_NEEDED_CAPABILITIES = 1 << 12 | 1 << 21
"""CAP_NET_ADMIN and CAP_SYS_ADMIN: root in a container may lack them."""

_UNSHARE = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--user", "--map-root-user", "--net", "--mount", "--pid", "--fork"),
    *("--kill-child", "--mount-proc"),
)
_PROBE = "mount -t tmpfs tmpfs /run && ip link add name sm-probe type bridge"


def privileges() -> Literal["root", "user-namespace"]:
    """Return the privileges that a run on this host has or will have. Raise Unavailable if it can
    have neither."""
    if _ANCHORED in os.environ:
        return "user-namespace"
    if os.geteuid() == 0 and _capabilities() & _NEEDED_CAPABILITIES == _NEEDED_CAPABILITIES:
        return "root"
    if reason := _refusal():
        raise Unavailable(
            f"this needs root or a user namespace, and this user can have neither\n  {reason}",
            hint=f"sudo {shlex.join(_command_line())}",
        )
    return "user-namespace"


def anchor() -> None:
    """Return immediately if the process has the privileges of a run. If it needs a user namespace,
    start the command again in one, and exit with its exit status."""
    if _ANCHORED in os.environ:
        if os.environ[_ANCHORED] == "unprepared":
            _prepare()
    elif privileges() == "user-namespace":
        sys.stderr.write("switchmark: not root: working in a separate user namespace\n")
        _supervise([*_UNSHARE, *_command_line()])


def _prepare() -> None:
    """Mount a private /run for this process, for `ip netns add` and the folders of runs."""
    mounted = LocalHost().run(("mount", "-t", "tmpfs", "tmpfs", "/run"))
    if mounted.status != 0:
        raise Unavailable(f"no private /run can be mounted\n  {last_lines(mounted.stderr)}")
    os.environ[_ANCHORED] = "prepared"


def _supervise(argv: Sequence[str]) -> NoReturn:
    """Run the command and exit with its exit status.

    `unshare` ignores SIGTERM while it waits, so it does not replace this process: signals go to its
    whole process group, which is not the terminal's. If this process is killed, setpriv's death
    signal ends the anchor.
    """
    child = subprocess.Popen(
        argv, env={**os.environ, _ANCHORED: "unprepared"}, start_new_session=True
    )

    sent = set()

    def forward(number: int, frame: FrameType | None) -> None:
        sent.add(-number)
        os.killpg(child.pid, number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, forward)
    status = child.wait()
    if status in sent:  # Python had not started yet
        raise Interrupted(f"interrupted by {signal.Signals(-status).name}")
    sys.exit(status if status >= 0 else 128 - status)


def _refusal() -> str:
    """Return the error message that explains why no anchor is possible; empty if it is possible."""
    try:
        probe = LocalHost().run((*_UNSHARE, "sh", "-c", _PROBE))
    except SwitchmarkError as error:
        return error.message
    return "" if probe.status == 0 else last_lines(probe.stderr, 1) or "unshare fails"


def _capabilities() -> int:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("CapEff:")[2].split()[0], 16)


def _command_line() -> list[str]:
    return [sys.executable, *sys.orig_argv[1:]]
