"""The execution of one undo, for the executor of a live run and for `clean` after a dead run.

Undos are idempotent: an object that is already gone counts as undone.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from itertools import takewhile

from switchmark import clock
from switchmark.errors import CommandTimedOut, SetupFailed, SwitchmarkError, UsageError
from switchmark.hosts.base import Call, Host
from switchmark.model.printable import last_lines
from switchmark.runs.journal import Command, Far, Lease, Restore, Stop, Undo
from switchmark.runs.leases import Leases
from switchmark.runs.together import commands_together

_GONE = re.compile(
    rb"no such |cannot find device|does not exist|is not (running|defined)", re.IGNORECASE
)
"""The messages of `ip`, coreutils, lxc, docker and podman about an object that does not exist."""


class Refused(SetupFailed):
    """A program refused an undo, and nothing is left, because its node is removed anyway."""


_BUSY = re.compile(rb"resource busy$", re.MULTILINE)
_BUSY_S = 3.0
"""A killed process takes a moment to release what it held."""


def carry_out(undo: Undo, *, run: str, hosts: Mapping[str, Host], leases: Leases) -> None:
    """Execute the undo, or raise SetupFailed. A Stop reaches its process by pid and start time;
    `clean` finds a process without a journal entry by its mark. Nothing is left on a virtual
    machine that has ended."""
    if _has_ended(hosts, undo.host):
        if isinstance(undo, Lease):
            leases.forget(run, undo.host, undo.path)
        return
    match undo:
        case Stop(pid=int(pid), start=int(start)):
            if not _host(hosts, undo.host).end(pid, start, undo.number, undo.grace_s):
                raise CommandTimedOut(f"process {pid} ({undo.name}) survives SIGKILL")
        case Stop():
            pass
        case Command():
            _run(undo, _host(hosts, undo.host))
        case Restore():
            _restore(undo, _host(hosts, undo.host))
        case Far():
            _host(hosts, undo.host).undo_run(run, undo.folder)
        case Lease():
            try:
                leases.give_back(run, _host(hosts, undo.host), undo.path)
            except OSError as error:
                raise SetupFailed(f"cannot restore {undo.path}: {error.strerror}") from error


def undone_together(undos: Sequence[Undo], hosts: Mapping[str, Host]) -> list[bool]:
    """Execute the first undos that are commands of one host: on a far host in one round trip, on
    this host those with a subject, in parallel. Return for each whether it is done. The caller
    executes an undo that is not done by itself, and all others if the first is not done."""
    if _has_ended(hosts, undos[0].host):
        return [False]
    commands = commands_together(undos)
    host = hosts.get(undos[0].host)
    if host is not None and not host.in_order:
        commands = list(takewhile(lambda undo: undo.about, commands))
    if host is None or len(commands) < 2:
        return [False]
    finished = [False] * len(commands)
    calls = [
        Call(undo.argv, undo.stdin, timeout_s=undo.timeout_s, subject=undo.about)
        for undo in commands
    ]
    with suppress(SwitchmarkError), closing(host.run_all(calls)) as outcomes:
        for number, completed in enumerate(outcomes):
            finished[number] = completed.status == 0 or bool(_GONE.search(completed.stderr))
    return finished


def in_words(undo: Undo) -> str:
    """Return one line that describes the undo."""
    match undo:
        case Command():
            return shlex.join(undo.argv)
        case Restore(content=None):
            return f"remove {undo.path}"
        case Restore():
            return f"restore {undo.path}"
        case Stop():
            return f"stop {undo.name}" + ("" if undo.pid is None else f" (process {undo.pid})")
        case Lease():
            return f"give back {undo.path}"
        case Far():
            return f"end the run on host {undo.host}"


def _run(undo: Command, host: Host) -> None:
    deadline = clock.monotonic() + _BUSY_S
    while True:
        completed = host.run(undo.argv, stdin=undo.stdin, timeout_s=undo.timeout_s)
        if not _BUSY.search(completed.stderr) or clock.monotonic() > deadline:
            break
        clock.sleep(0.05)
    if completed.status != 0 and not _GONE.search(completed.stderr):
        kind = Refused if undo.refusable else SetupFailed
        raise kind(
            f"an undo ended with status {completed.status}: {shlex.join(undo.argv)}"
            f"\n  {last_lines(completed.stderr)}"
        )


def _restore(undo: Restore, host: Host) -> None:
    try:
        if undo.content is None:
            host.remove(undo.path)
        else:
            host.write(undo.path, undo.content)
    except FileNotFoundError:
        return
    except OSError as error:
        # A file that could not be written needs no restoring.
        if not _holds(host, undo):
            raise SetupFailed(f"cannot restore {undo.path}: {error.strerror}") from error


def _holds(host: Host, undo: Restore) -> bool:
    """Return whether a file has the content to restore."""
    try:
        return host.exists(undo.path) and host.read(undo.path) == undo.content
    except OSError:
        return False


def _has_ended(hosts: Mapping[str, Host], name: str) -> bool:
    return name in hosts and not hosts[name].up


def _host(hosts: Mapping[str, Host], name: str) -> Host:
    if name not in hosts:
        raise UsageError(f"the host {name} is not known here; known: {', '.join(hosts)}")
    return hosts[name]
