"""A process on this host: a child with pipes, and the last lines of its stderr as evidence."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from switchmark.errors import CommandFailed, CommandTimedOut
from switchmark.hosts.processes import end, start_time, wait_end
from switchmark.model.printable import printable

_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|[]PX^_][^\x07\x1b]*(\x07|\x1b\\)?|[ -/]*[0-~])")
"""Terminal escape sequences: colours, cursor moves, titles (ECMA-48)."""

_FRAME = re.compile(r"#\d+ +0x[0-9a-f]+ | +from /")


class LocalProcess:
    """A child of the orchestrator with pipes. Only `stop` reaps it: until then its zombie keeps the
    kernel from reusing its pid and process group."""

    patience = 1.0

    def __init__(self, child: subprocess.Popen[bytes], command: str, stderr_path: str) -> None:
        assert child.stdin is not None and child.stdout is not None
        self.pid = child.pid
        self.started = start_time(child.pid) or 0
        self._child = child
        self._command = command
        self._stderr_path = stderr_path
        self._pidfd = os.pidfd_open(child.pid)
        self._stdin = child.stdin
        self._stdout = child.stdout
        os.set_blocking(self._stdout.fileno(), False)
        self._unread = bytearray()
        self._open = True

    def send(self, line: str) -> None:
        try:
            self._stdin.write(line.encode() + b"\n")
            self._stdin.flush()
        except (OSError, ValueError) as error:  # ValueError: the process was stopped
            raise CommandFailed(
                f"a process does not read its commands: {error}\n  {self._command}"
                f"{evidence(self.last_words().encode())}"
            ) from error

    def receive(self, timeout_s: float) -> str | None:
        deadline = time.monotonic() + timeout_s
        while True:
            if (newline := self._unread.find(b"\n")) >= 0:
                return self._take(newline)
            remaining_s = max(0.0, deadline - time.monotonic())
            if not self._open:
                if self._unread:
                    return self._take(len(self._unread))
                # Wait for a process that is about to end, so that `poll` returns its exit status.
                if self.poll() is None:
                    wait_end(self._pidfd, remaining_s)
                return None
            poll = select.poll()
            poll.register(self._stdout, select.POLLIN)
            if not poll.poll(remaining_s * 1000):
                return None
            self._drain()

    def poll(self) -> int | None:
        # A program that writes more than its caller reads must not block on a full pipe.
        self._drain()
        if self._child.returncode is not None:
            return self._child.returncode
        ended = os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            return None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status

    def wait(self, timeout_s: float) -> bool:
        """Return whether it ended within `timeout_s`."""
        return self._child.returncode is not None or wait_end(self._pidfd, timeout_s)

    def last_words(self, count: int = 5) -> str:
        try:
            with Path(self._stderr_path).open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - 4096))
                return last_lines(log.read(), count)
        except OSError:
            return ""

    def hang_up(self) -> None:
        with suppress(OSError):
            self._stdin.close()

    def stop(self, number: int, grace_s: float) -> int:
        if self._child.returncode is not None:
            return self._child.returncode
        self.hang_up()  # stdin's end reaches a process in a container; a signal may not
        if not end(self._pidfd, number, grace_s):
            raise CommandTimedOut(f"process {self.pid} survives SIGKILL\n  {self._command}")
        status = kill_group(self._child)
        self._drain()
        self._open = False
        self._stdout.close()
        os.close(self._pidfd)
        return status

    def _take(self, length: int) -> str:
        line = self._unread[:length].decode(errors="replace")
        del self._unread[: length + 1]
        return line

    def _drain(self) -> None:
        while self._open:
            try:
                chunk = os.read(self._stdout.fileno(), 65536)
            except BlockingIOError:
                return
            self._unread += chunk
            self._open = bool(chunk)


def last_lines(output: bytes, count: int = 5) -> str:
    """Return the last non-blank lines of an output, without colours and control characters. Omit
    stack frames, which follow the reason."""
    text = _ESCAPES.sub("", output.decode(errors="replace"))
    lines = [printable(line.rstrip()) for line in text.splitlines()]
    return "\n".join([line for line in lines if line and not _FRAME.match(line)][-count:])


def evidence(stderr: bytes) -> str:
    return "".join(f"\n  {line}" for line in last_lines(stderr).splitlines())


def kill_group(child: subprocess.Popen[bytes]) -> int:
    """Kill a child and its session, then reap it. The order matters: the group's number belongs to
    this process only until its leader is reaped."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    return child.wait()
