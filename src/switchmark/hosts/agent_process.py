"""A process on another host, controlled through that host's agent."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from switchmark.errors import CommandFailed, CommandTimedOut
from switchmark.hosts.agent_messages import PART, WINDOW, Kind, uint32
from switchmark.model.printable import evidence, last_lines

_GONE_S = 5.0
_LOST = 255
"""The exit status of a process whose connection was lost."""

_UNREAD_MOST = 16 << 20
"""The most unread bytes of stdout; beyond that the process blocks until somebody reads."""

_STDERR_MOST = 256 << 20
"""The most bytes of stderr that are written to the local disk."""


class Connected(Protocol):
    """The part of a connection that a process needs: send frames, and wait for their effect."""

    host: str
    patience: float

    def send(self, channel: int, kind: Kind, stream: int, payload: bytes = b"") -> None: ...
    def wait(self, holds: Callable[[], bool], timeout_s: float) -> bool: ...
    def lives(self) -> bool: ...


class AgentProcess:
    """A process on a channel of an agent.

    `pid` and `started` are those of its host. Its stderr goes to a local file. Its exit status is
    255 if the connection is lost.
    """

    def __init__(self, agent: Connected, channel: int, command: str, stderr_path: str) -> None:
        self.pid = self.started = 0
        self._agent = agent
        self._channel = channel
        self._command = command
        self._stderr_path = stderr_path
        self._stderr = Path(stderr_path).open("ab", buffering=0)  # noqa: SIM115
        self._unread = bytearray()
        self._credit = WINDOW
        self._granted = {1: WINDOW, 2: WINDOW}
        self._owed = 0
        self._stderr_left = _STDERR_MOST
        self._status: int | None = None
        self._is_lost = False
        self._hung_up = False

    @property
    def patience(self) -> float:
        return self._agent.patience

    def is_there(self, pid: int, started: int) -> None:
        """Record the process's number and start time."""
        self.pid, self.started = pid, started

    def send(self, line: str) -> None:
        rest = f"{line}\n".encode()
        while rest:
            limit_s = _GONE_S * self.patience
            self._agent.wait(lambda: bool(self._credit) or self._ended(), limit_s)
            if self._ended() or self._hung_up or not self._credit:
                raise CommandFailed(
                    f"a process does not read its commands\n  {self._command}"
                    f"{evidence(self.last_words().encode())}"
                )
            part = rest[: min(self._credit, PART)]
            self._credit -= len(part)
            self._agent.send(self._channel, Kind.DATA, 0, part)
            rest = rest[len(part) :]

    def receive(self, timeout_s: float) -> str | None:
        def has_answer() -> bool:
            return b"\n" in self._unread or self._ended()

        if not self._agent.wait(has_answer, timeout_s * self.patience) or not self._unread:
            return None
        end = self._unread.find(b"\n")
        end = len(self._unread) if end < 0 else end
        line = self._unread[:end].decode(errors="replace")
        del self._unread[: end + 1]
        if self._owed and len(self._unread) < _UNREAD_MOST:
            owed, self._owed = self._owed, 0
            self._granted[1] += owed
            self._agent.send(self._channel, Kind.GRANT, 1, uint32(owed))
        return line

    def poll(self) -> int | None:
        return self._status

    def last_words(self, count: int = 5) -> str:
        try:
            with Path(self._stderr_path).open("rb") as log:
                log.seek(max(0, log.seek(0, 2) - 4096))
                lines = last_lines(log.read(), count)
        except OSError:
            lines = ""
        if self._is_lost:
            lost = f"the connection to host {self._agent.host} was lost"
            return f"{lines}\n{lost}" if lines else lost
        return lines

    def hang_up(self) -> None:
        if not self._hung_up and not self._ended():
            self._hung_up = True
            self._agent.send(self._channel, Kind.END, 0)

    def stop(self, number: int, grace_s: float) -> int:
        self.hang_up()  # stdin's end reaches a process in a container; a signal may not
        for signal_number, limit_s in ((number, grace_s), (9, _GONE_S * self.patience)):
            if not self._ended():
                self._agent.send(self._channel, Kind.SIGNAL, 0, uint32(signal_number))
                self._agent.wait(self._ended, limit_s)
        if self._status is None:
            raise CommandTimedOut(
                f"process {self.pid} on {self._agent.host} survives SIGKILL\n  {self._command}"
            )
        return self._status

    # --- what frames bring about ----------------------------------------------------------------

    def hear(self, kind: Kind, stream: int, payload: bytes) -> int:
        """Handle a frame of this channel; return how many more bytes of that stream the process may
        send. Raise ValueError if the process sends more than it may."""
        value = int.from_bytes(payload[:4], sys.byteorder)
        if kind is Kind.DATA:
            return self._take(stream, payload)
        if kind is Kind.GRANT:
            self._credit += value
        elif kind is Kind.END:
            self._hung_up = True
        elif kind is Kind.EXIT:
            self._status = os.waitstatus_to_exitcode(value)
            self._stderr.close()
        return 0

    def lost(self) -> None:
        """Mark the process as ended because the connection is lost."""
        self._is_lost, self._status = True, _LOST
        self._stderr.close()

    def forget(self) -> None:
        """Release the files of a process that never started."""
        self._stderr.close()

    def _take(self, stream: int, payload: bytes) -> int:
        length = len(payload)
        if length > self._granted.get(stream, 0):
            raise ValueError("a process says more than it may")
        if stream == 2:
            self._stderr.write(payload[: self._stderr_left])
            self._stderr_left -= min(length, self._stderr_left)
            return length
        self._unread += payload
        if len(self._unread) < _UNREAD_MOST:
            return length
        self._granted[stream] -= length
        self._owed += length
        return 0

    def _ended(self) -> bool:
        return self._status is not None
