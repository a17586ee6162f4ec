"""The client of the agent on another host: one OpenSSH session runs `switchmark-agent` there.

All requests to that host go through the agent. When the session ends, the agent undoes what the run
did. The client copies the agent into the user's cache if it is not there yet. The agent has the
rights of that user.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import secrets
import select
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from switchmark.errors import HostLost, SetupFailed, Unavailable
from switchmark.hosts.agent_messages import (
    CHANNELS,
    VERSION,
    Answer,
    Ask,
    Kind,
    frame,
    frames,
    message,
    uint32,
)
from switchmark.hosts.agent_process import AgentProcess
from switchmark.model.printable import last_lines, printable

_ANSWER_S = 30.0
"""The time a host may take to answer, in seconds; after that the connection counts as lost."""

_ENDS_S = 2.0  # after the end of its input

_GREETING_MOST = 1 << 20
_STDERR_MOST = 1 << 16
_ANSWERS_MOST = 1 << 29
"""The most bytes kept of a login's output, of ssh's errors, and of answers nobody fetched yet. A
host that sends more is at fault."""

_FIND = """\
printf %s {nonce}
for a in {places}; do [ ! -f "$a" ] || break; done
printf 'have %s\\n' "$a"
exec "$a" serve
"""

_BRING = """\
printf %s {nonce}
c=${{XDG_CACHE_HOME:-$HOME/.cache}}/switchmark/{folder}; a=$c/switchmark-agent
if [ "$(sha256sum "$a" 2>/dev/null | cut -c 1-64)" != {digest} ]; then
  echo need
  (umask 077; mkdir -p "$c" && head -c {size} >"$a.$$" && [ "$(wc -c <"$a.$$")" -eq {size} ] &&
    chmod 700 "$a.$$" && mv -f "$a.$$" "$a") || {{ rm -f "$a.$$"; echo full; exit 1; }}
fi
printf 'have %s\\n' "$a"
exec "$a" serve
"""
"""The only shell scripts: they find the agent, or receive it on the session's stdin, and start
it."""


class Agent:
    """A connection to an agent.

    `ssh` is the command that opens a session, without the remote command; `program` is the agent on
    this host. `places` are the agent's paths on the other host, if the host file names them. `host`
    is the name used in errors. That host may take `patience` times as long as usual. Raise
    Unavailable if the host cannot be reached or cannot run the agent, and HostLost once the
    connection is gone.
    """

    def __init__(
        self,
        host: str,
        ssh: Sequence[str],
        program: str,
        places: Sequence[str] = (),
        patience: float = 1.0,
    ) -> None:
        self.host = host
        self.path = ""
        self.patience = patience
        self._changed = threading.Condition()
        self._write_lock = threading.Lock()
        self._open = True
        self._up = False
        self._numbers = 0
        self._wanted: set[int] = set()
        self._answers: dict[int, bytes] = {}
        self._partial = bytearray()
        self._kept = 0
        self._fault = ""
        self._processes: dict[int, AgentProcess] = {}
        self._log = _bounded_file(_STDERR_MOST)
        nonce = f"<{secrets.token_hex(16)}>"
        content = b"" if places else _content(program)
        digest = hashlib.sha256(content).hexdigest()
        script = (
            _FIND.format(nonce=shlex.quote(nonce), places=shlex.join(places))
            if places
            else _BRING.format(
                nonce=shlex.quote(nonce),
                folder=digest[:16],
                digest=digest,
                size=len(content),
            )
        )
        self._child = _session((*ssh, f"exec /bin/sh -c {shlex.quote(script)}"), self._log)
        assert self._child.stdin is not None and self._child.stdout is not None
        self._stdin, self._stdout = self._child.stdin, self._child.stdout
        try:
            self._begin(nonce, content, ssh)
        except BaseException:
            self.close()
            raise

    # --- asking --------------------------------------------------------------------------------

    def ask(self, question: Ask, payload: bytes) -> Answer:
        """Return the answer to a request; raise OSError if the answer reports an error."""
        answer = self.answer(self.begin((question, payload))[0])
        if error := answer.number():
            error = error if error in errno.errorcode else errno.EIO
            raise OSError(error, os.strerror(error))
        return answer

    def begin(self, *questions: tuple[Ask, bytes]) -> list[int]:
        """Send requests in one write; return their numbers."""
        with self._changed:
            numbers = [self._numbers + 1 + offset for offset in range(len(questions))]
            self._numbers += len(questions)
            self._wanted |= set(numbers)
        self._write(
            b"".join(message(n, *parts) for n, parts in zip(numbers, questions, strict=True))
        )
        return numbers

    def notify(self, question: Ask, payload: bytes) -> None:
        """Send a message that gets no answer. The agent handles messages in order."""
        self._write(message(0, question, payload))

    def answer(self, number: int, timeout_s: float = 0.0) -> Answer:
        """Return an answer; the request itself may take `timeout_s`. Raise HostLost if no answer
        comes."""
        limit_s = (timeout_s + _ANSWER_S) * self.patience
        with self._changed:
            try:
                self._changed.wait_for(lambda: number in self._answers or not self._open, limit_s)
            finally:
                answer = self._fetched(number)
            lost = not self._open
        if answer is None:
            raise self.lost(self._fault if lost else f"it did not answer for {limit_s:g} s")
        return Answer(answer, self.host)

    def forget(self, numbers: Iterable[int]) -> None:
        """Drop the answers with these numbers."""
        with self._changed:
            for number in numbers:
                self._fetched(number)

    def _fetched(self, number: int) -> bytes | None:
        """Return an answer and stop keeping it; None if it has not arrived."""
        self._wanted.discard(number)
        answer = self._answers.pop(number, None)
        self._kept -= len(answer or b"")
        return answer

    # --- processes -----------------------------------------------------------------------------

    def spawn(self, payload: bytes, command: str, stderr_path: str) -> AgentProcess:
        """Start a process. Raise OSError if the program does not exist or the host has no resources
        for it."""
        with self._changed:
            channel = next((n for n in range(CHANNELS) if n not in self._processes), None)
            if channel is None:
                raise SetupFailed(f"host {self.host} has {CHANNELS} processes of this run")
            process = AgentProcess(self, channel, command, stderr_path)
            self._processes[channel] = process
        try:
            answer = self.ask(Ask.SPAWN, uint32(channel) + payload)
        except OSError:
            with self._changed:
                del self._processes[channel]
            process.forget()
            raise
        process.is_there(answer.number(), answer.long())
        return process

    def send(self, channel: int, kind: Kind, stream: int, payload: bytes = b"") -> None:
        """Send a frame to a process; do nothing if the connection is lost."""
        with suppress(HostLost):
            self._write(frame(channel, kind, stream, payload))

    def wait(self, holds: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until incoming frames make a condition true; return whether it is true."""
        with self._changed:
            return self._changed.wait_for(holds, max(0.0, timeout_s))

    # --- the connection --------------------------------------------------------------------------

    def lives(self) -> bool:
        """Return whether the connection is up, as far as this side knows."""
        return self._open and self._child.poll() is None

    def lost(self, why: str = "") -> HostLost:
        """Close the connection and return the error that reports the loss."""
        self.close()
        return HostLost(
            f"the connection to host {self.host} was lost"
            + (f": {why}" if why else "")
            + "".join(f"\n  {line}" for line in self._last_words().splitlines()),
            hint=f"switchmark doctor --host {self.host}",
        )

    def close(self) -> None:
        """End the session and with it every process on it."""
        self._end_ssh()
        if self._up:
            self._listener.join()
        self._end()
        self._stdout.close()

    def _end_ssh(self) -> None:
        """Wait for the end of ssh, which may still print why the host ended the session."""
        with suppress(OSError):
            self._stdin.close()
        try:
            self._child.wait(_ENDS_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def __del__(self) -> None:
        with suppress(OSError, AttributeError):
            os.close(self._log)

    def _begin(self, nonce: str, content: bytes, ssh: Sequence[str]) -> None:
        """Copy the agent there if necessary, and wait for its greeting."""
        unread = bytearray()
        deadline = time.monotonic() + _ANSWER_S * self.patience
        try:
            self._until(nonce.encode(), unread, deadline)  # skip what the login prints first
        except (EOFError, TimeoutError) as error:
            self._end_ssh()
            output = self._last_words() or "it gives no shell"
            raise Unavailable(
                f"host {self.host} cannot be reached"
                + "".join(f"\n  {line}" for line in output.splitlines()),
                hint=_cure(output, self.host, ssh),
            ) from error
        try:
            answer = self._until(b"\n", unread, deadline)
            if answer == b"need":
                self._write(content)
                answer = self._until(b"\n", unread, deadline + _ANSWER_S * self.patience)
            self.path = os.fsdecode(answer.partition(b" ")[2])
            if answer == b"full":
                raise EOFError
            hello = frame(0, Kind.HELLO, 0, uint32(VERSION))
            while len(unread) < len(hello):
                self._read_more(unread, deadline + _ANSWER_S * self.patience)
            if not unread.startswith(hello):
                raise EOFError
        except (EOFError, TimeoutError, HostLost) as error:
            self._end_ssh()
            raise _not_run(self.host, self.path, self._last_words(), bytes(unread)) from error
        self._listener = threading.Thread(
            target=self._listen, args=(unread,), name=f"agent of {self.host}", daemon=True
        )
        # Signals must reach the thread that waits; a signal in this one would not wake it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._listener.start()
            self._up = True
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _until(self, end: bytes, unread: bytearray, deadline: float) -> bytes:
        """Return the bytes before `end`, and remove them and `end` from the buffer."""
        while (index := unread.find(end)) < 0:
            self._read_more(unread, deadline)
        before = bytes(unread[:index])
        del unread[: index + len(end)]
        return before

    def _read_more(self, unread: bytearray, deadline: float) -> None:
        poll = select.poll()
        poll.register(self._stdout, select.POLLIN)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise TimeoutError
        if not (chunk := os.read(self._stdout.fileno(), 1 << 16)):
            raise EOFError
        unread += chunk
        if len(unread) > _GREETING_MOST:
            raise EOFError

    def _listen(self, unread: bytearray) -> None:
        """Handle the agent's frames until it closes its output."""
        chunk = b"hello"
        try:
            while chunk:
                with self._changed:
                    heard = [self._hear(*frame) for frame in frames(unread)]
                    self._changed.notify_all()
                if grants := b"".join(heard):
                    with suppress(HostLost):
                        self._write(grants)
                chunk = os.read(self._stdout.fileno(), 1 << 18)
                unread += chunk
        except ValueError as error:
            self._fault = str(error)
        except OSError:
            pass  # the session ended
        self._end()

    def _hear(self, channel: int, kind: Kind, stream: int, payload: bytes) -> bytes:
        """Handle one frame; return the bytes to send in reply."""
        if kind is Kind.ANSWER:
            self._partial += payload
            if self._kept + len(self._partial) > _ANSWERS_MOST:
                raise ValueError("its answers are longer than any")
            if not stream:
                number = int.from_bytes(self._partial[:4], sys.byteorder)
                if number in self._wanted and number not in self._answers:
                    self._answers[number] = bytes(self._partial[4:])
                    self._kept += len(self._answers[number])
                self._partial.clear()
            return b""
        process = self._processes.get(channel)
        if process is None:
            return b""
        granted = process.hear(kind, stream, payload)
        if kind is Kind.EXIT:
            del self._processes[channel]
        return frame(channel, Kind.GRANT, stream, uint32(granted)) if granted else b""

    def _end(self) -> None:
        with self._changed:
            self._open = False
            for process in self._processes.values():
                process.lost()
            self._processes.clear()
            self._changed.notify_all()

    def _write(self, content: bytes) -> None:
        rest = memoryview(content)
        try:
            with self._write_lock:
                while rest:
                    rest = rest[self._stdin.write(rest) :]
        except (OSError, ValueError) as error:
            if threading.current_thread() is getattr(self, "_listener", None):
                raise HostLost("") from error
            raise self.lost(self._fault) from error
        except BaseException:
            # Interrupted in the middle of a frame: the next bytes would not be a valid frame.
            self.close()
            raise

    def _last_words(self) -> str:
        size = os.lseek(self._log, 0, os.SEEK_CUR)  # where ssh has written up to
        most = min(size, 4096)  # zeros follow: the file has its full size from the beginning
        return last_lines(os.pread(self._log, most, size - most))


def _content(program: str) -> bytes:
    try:
        return Path(program).read_bytes()
    except OSError as error:
        raise Unavailable(
            f"{program} is not there, which commands on other hosts need: {error.strerror}",
            hint="make setup",
        ) from error


def _bounded_file(size: int) -> int:
    """Return a memory file of this size; writes beyond the size fail."""
    file = os.memfd_create("ssh", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.truncate(file, size)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
    return file


def _session(argv: Sequence[str], log: int) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(
            argv, bufsize=0, stdin=pipe, stdout=pipe, stderr=log, start_new_session=True
        )
    except FileNotFoundError as error:
        raise Unavailable(
            f"the program '{argv[0]}' is not installed",
            hint="apt-get install openssh-client" if argv[0] == "ssh" else None,
        ) from error


def _not_run(host: str, path: str, output: str, answer: bytes) -> Unavailable | SetupFailed:
    """Return the error for a host that cannot run the agent, with a hint."""
    named = f'[hosts.{host}.programs] agent = "/path/to/switchmark-agent" in the host file'
    reason = "".join(f"\n  {line}" for line in output.splitlines())
    if not path:
        return SetupFailed(
            f"switchmark-agent cannot be copied to host {host}{reason}",
            hint=f"on {host}: df -h ~/.cache",
        )
    if answer:
        reason = "\n  it is not of this version"
    if "Exec format error" in output:
        hint = f"build switchmark there, for its processor, and name it: {named}"
    elif "Permission denied" in output:
        hint = (
            f"~/.cache may be mounted noexec there: put the agent elsewhere, and name it: {named}"
        )
    else:
        hint = f"build this version of switchmark there, and name its agent: {named}"
    return Unavailable(
        f"switchmark-agent does not run on host {host}: {printable(path)}{reason}", hint=hint
    )


def _cure(output: str, host: str, session: Sequence[str]) -> str:
    """Return a hint that fits the error message of ssh, or of another program for sessions."""
    if session[0] != "ssh":
        return f"try it by hand: {shlex.join(session)} true"
    if "HOST IDENTIFICATION HAS CHANGED" in output or "Host key verification failed" in output:
        return (
            f"find out why; if the key of {host} is right, put it into known_hosts "
            "(ssh-keygen -R removes the old one)"
        )
    return f"try it by hand: ssh -o BatchMode=yes {host}"
