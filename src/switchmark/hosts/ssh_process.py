"""A process of a remote host is talked to through a session of its own over the host's connection;
it is signalled through the host's shell."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from switchmark.errors import CommandTimedOut, SwitchmarkError
from switchmark.hosts.local_process import LocalProcess
from switchmark.hosts.remote_shell import PREAMBLE
from switchmark.hosts.shell_words import assignments, quoted, word
from switchmark.hosts.signals import shielded

_START_S = 30.0
_GONE_S = 5.0
_MARK = "switchmark-started:"

_TELL = f'read -r s </proc/self/stat; printf "\\n{_MARK}%s\\n" "$s"; exec "$@"'
"""The process tells its own pid and start time before it becomes the program."""


class Connected(Protocol):
    """A connected host takes scripts that are not waited for, and may take `patience` times as long
    as others."""

    name: str
    patience: float

    def post(self, script: str) -> None: ...
    def lives(self) -> bool: ...


class SshProcess:
    """A remote process, `pid` and `started` as that host has them. Its client on this side ends
    with its exit status, or with 255 when the connection is lost."""

    def __init__(self, host: Connected, client: LocalProcess, stat: str, command: str) -> None:
        self.pid = int(stat.partition(" ")[0])
        # The name, in parentheses, may hold anything; field 22 counts from behind it.
        self.started = int(stat.rpartition(")")[2].split()[19])
        self._host = host
        self._client = client
        self._command = command
        self._status: int | None = None

    @property
    def patience(self) -> float:
        """Return how many times the usual it may take."""
        return self._host.patience

    def send(self, line: str) -> None:
        self._client.send(line)

    def receive(self, timeout_s: float) -> str | None:
        return self._client.receive(timeout_s * self.patience)

    def poll(self) -> int | None:
        if self._status is None:
            status = self._client.poll()
            self._status = None if status is None else ended(status)
        return self._status

    def last_words(self, count: int = 5) -> str:
        words = self._client.last_words(count)
        if self.poll() == 255 and not self._host.lives():
            lost = f"the connection to host {self._host.name} was lost"
            return f"{words}\n{lost}" if words else lost
        return words

    def hang_up(self) -> None:
        self._client.hang_up()

    def stop(self, number: int, grace_s: float) -> int:
        if self.poll() is not None:
            self._post(f"kill -9 -{self.pid} 2>/dev/null")
            self._client.stop(number, 0)
            return self._status or 0
        self._client.hang_up()
        # Its group is its own, and its number nobody else's while it is there.
        self._post(_signal(self.pid, self.started, number))
        if not self._client.wait(grace_s):
            self._post(_signal(self.pid, self.started, 9))
        self._post(f"kill -9 -{self.pid} 2>/dev/null")
        if not self._client.wait(_GONE_S) and self._host.lives():
            self._client.stop(9, 0)
            raise CommandTimedOut(
                f"process {self.pid} on {self._host.name} survives SIGKILL\n  {self._command}"
            )
        self.poll()
        status = ended(self._client.stop(9, 0))
        self._status = status if self._status is None else self._status
        return self._status

    def _post(self, script: str) -> None:
        # Where the connection is lost, the host ends the process by itself.
        if self._host.lives():
            with suppress(SwitchmarkError):
                self._host.post(script)


def open_session(session: Sequence[str], stderr_path: str) -> subprocess.Popen[bytes]:
    """Open a session that gives a shell, for a process whose errors go to a file of this side."""
    with shielded(), Path(stderr_path).open("ab") as err:
        pipe = subprocess.PIPE
        return subprocess.Popen(
            session, bufsize=0, stdin=pipe, stdout=pipe, stderr=err, start_new_session=True
        )


def start(
    host: Connected,
    child: subprocess.Popen[bytes],
    argv: tuple[str, ...],
    stderr_path: str,
    env: Mapping[str, str],
    check: str,
) -> tuple[SshProcess | None, str]:
    """Start a program in the shell of a session. `check` is shell text that sets `s` to why
    it cannot be started, or to 0; that is the second of what is returned."""
    # One compound: the shell has read all of it before its input becomes the program's. The shell
    # waits, so that the session ends with the program's status; it holds none of its outputs.
    script = (
        f"{{ {PREAMBLE}; {check}; [ $s = 0 ] || {{ printf '\\n{_MARK}%s\\n' $s; exit 127; }}; "
        f"exec 3<&0 </dev/null; {assignments(env)}setsid -- /bin/sh -c {word(_TELL)} sh "
        f"{quoted(argv)} <&3 3<&- & exec 3<&- >/dev/null 2>&1; wait $!; s=$?; "
        # What it started would hold the session open.
        "kill -9 -$!; exit $s; }"
    )
    command = f"on {host.name}: {quoted(argv)}"
    with shielded():
        client = LocalProcess(child, command, stderr_path)
        client.send(script)
        deadline = time.monotonic() + _START_S * host.patience
        while (line := client.receive(deadline - time.monotonic())) is not None:
            # A login may say something first.
            _, marked, told = line.rpartition(_MARK)
            if not marked:
                continue
            if ")" in told:
                return SshProcess(host, client, told, command), ""
            client.stop(9, 0)
            return None, told
        words = client.last_words()
        client.stop(9, 0)
    raise CommandTimedOut(
        f"a process did not start\n  {command}"
        + "".join(f"\n  {line}" for line in words.splitlines())
    )


def ended(status: int) -> int:
    """Return an exit status as the local host has it: that of a signal, which a shell adds to 128,
    is negative."""
    return 128 - status if 128 < status <= 192 else status


def _signal(pid: int, started: int, number: int) -> str:
    """Return shell text that signals a process, if it is still the one that started then."""
    return (
        f"if read -r s </proc/{pid}/stat; then s=${{s##*) }}; set -- $s; "
        f'[ "${{20}}" != {started} ] || kill -{number} {pid}; fi 2>/dev/null'
    )
