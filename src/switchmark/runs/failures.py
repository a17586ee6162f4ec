"""This module says how a command of a step failed, where, and with what evidence."""

from __future__ import annotations

import shlex
import signal

from switchmark.errors import CommandFailed
from switchmark.hosts.base import Completed
from switchmark.hosts.local_process import last_lines
from switchmark.model.plan import Node
from switchmark.runs.script import is_host


def failure(why: str, at: Node, argv: tuple[str, ...], completed: Completed) -> CommandFailed:
    """Return the error that a command ended as its step does not allow."""
    return CommandFailed(
        f"{why}: the command {ended(completed.status)}\n"
        f"  {place_of(at)}: {shlex.join(argv)}{evidence(completed)}"
    )


def evidence(completed: Completed) -> str:
    """Return the last lines that a command wrote, each on a line of its own."""
    output = last_lines(completed.stderr) or last_lines(completed.stdout) or "(no output)"
    return "".join(f"\n  {line}" for line in output.splitlines())


def place_of(at: Node) -> str:
    """Say where a node is."""
    return f"on {at.host}" if is_host(at) else f"at {at.name} ({at.environment}) on {at.host}"


def ended(status: int) -> str:
    """Say how a process ended."""
    if status < 0:
        return f"was ended by signal {-status} ({signal.strsignal(-status)})"
    return f"ended with status {status}"
