"""One POSIX `sh` of a host lives as long as its connection, and all commands are fed to it: no
process of ssh, no login and no rc file for each of them.

An answer is framed by a random word that no output can know. Nothing here knows what a command is
for, nor what a run is.
"""

from __future__ import annotations

import os
import secrets
import select
import shlex
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress

from switchmark.errors import HostLost, SetupFailed, Unavailable
from switchmark.hosts.local_process import last_lines

PREAMBLE = 'LC_ALL=C PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"; export LC_ALL PATH; unset ENV'
"""What a shell of a remote host begins with: as commands of the local host are started."""

_BEGIN = (
    PREAMBLE
    + r"""
for b in "$XDG_RUNTIME_DIR" /dev/shm /tmp; do
  [ -n "$b" ] && d=$(umask 077; mktemp -d "$b/switchmark-XXXXXX" 2>/dev/null) && break
done
trap '[ -n "$d" ] && rm -rf "$d"' EXIT
trap 'exit 1' HUP TERM
printf '%s' {nonce} 2>/dev/null >"$d/s" && : >"$d/c"
[ "$(cat "$d/s" 2>/dev/null)" = {nonce} ] || {{ echo {nonce}full; exit 1; }}
for t in setsid xargs cat stat tee; do
  command -v $t >/dev/null || {{ echo {nonce}$t; exit 1; }}
done
echo {nonce}ready
"""
)
_ANSWER_S = 30.0
"""How long a host may be silent that has nothing to wait for: then its connection is dead."""
_RECENT = 64


class RemoteShell:
    """A remote shell is the connection to one host: `ask` feeds it a script and returns what came
    before each of the marks that the script printed.

    `argv` is the command that gives the shell; `host` is named in errors, and may take `patience`
    times as long as others. Unavailable where there is no shell, HostLost once its connection is
    gone.
    """

    def __init__(self, host: str, argv: Sequence[str], patience: float = 1.0) -> None:
        self.host = host
        self._answer_s = _ANSWER_S * patience
        self.nonce = f"<{secrets.token_hex(16)}>"
        self._number = 0
        self._stale: list[int] = []
        self._unread = bytearray()
        self._log = os.memfd_create("ssh")
        try:
            self._child = subprocess.Popen(
                argv,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise Unavailable(
                "the program 'ssh' is not installed", hint="apt-get install openssh-client"
            ) from error
        before = time.monotonic()
        self._begin()
        self.round_trip_s = time.monotonic() - before

    def ask(self, script: str, marks: int) -> list[bytes]:
        """Ask by a script: return what it wrote before each of the `marks` times that it printed
        the shell's nonce, which `mark` does. HostLost where that takes too long."""
        self.post(script)
        deadline = time.monotonic() + self._answer_s + self.round_trip_s
        try:
            return [self._until_mark(deadline) for _ in range(marks)]
        except TimeoutError as error:
            raise self.lost(f"it did not answer for {self._answer_s:g} s") from error
        except BaseException:
            self.close()  # what it says next is not what is asked next
            raise

    def post(self, script: str) -> None:
        """Send a script that prints nothing; what is asked after it comes after it."""
        assert self._child.stdin is not None
        rest = memoryview(script.encode(errors="surrogateescape") + b"\n")
        try:
            while rest:
                rest = rest[self._child.stdin.write(rest) :]
        except (OSError, ValueError) as error:
            raise self.lost() from error

    def answer(self, timeout_s: float) -> bytes:
        """Return what was written before the next mark; TimeoutError where none comes in time."""
        return self._until_mark(time.monotonic() + timeout_s + self.round_trip_s)

    @property
    def mark(self) -> str:
        """Return the command that prints the nonce."""
        return f"printf %s {shlex.quote(self.nonce)}"

    def new_numbers(self, count: int) -> range:
        """Return numbers for the files of as many commands, which are `$d/NUMBERo` and `e`. Those
        of commands long past go, which were fed before these."""
        if len(self._stale) > 2 * _RECENT:
            old, self._stale = self._stale[:-_RECENT], self._stale[-_RECENT:]
            names = " ".join(f'"$d"/{number}[oei]' for number in old)
            self.post(f"rm -f {names} &")
        numbers = range(self._number + 1, self._number + 1 + count)
        self._number += count
        self._stale += numbers
        return numbers

    def lives(self) -> bool:
        """Say whether the connection is up, as far as this side knows."""
        return self._child.poll() is None

    def lost(self, why: str = "") -> HostLost:
        """Close what is left of the connection; return the error that says so."""
        self.close()
        return HostLost(
            f"the connection to host {self.host} was lost"
            + (f": {why}" if why else "")
            + "".join(f"\n  {line}" for line in self.last_words().splitlines()),
            hint=f"switchmark doctor --host {self.host}",
        )

    def last_words(self) -> str:
        """Return what ssh, or the shell, said last."""
        size = os.fstat(self._log).st_size
        return last_lines(os.pread(self._log, 4096, max(0, size - 4096)))

    def close(self) -> None:
        """End the shell and with it the connection, and all that goes through it."""
        assert self._child.stdin is not None and self._child.stdout is not None
        with suppress(OSError):
            self._child.stdin.close()
        try:
            self._child.wait(2.0)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._child.stdout.close()

    def __del__(self) -> None:
        with suppress(OSError, AttributeError):
            os.close(self._log)

    def _begin(self) -> None:
        try:
            self.post(_BEGIN.format(nonce=shlex.quote(self.nonce)))
            deadline = time.monotonic() + self._answer_s
            self._until_mark(deadline)  # a login may say something first
            said = self._until(b"\n", deadline)
        except (HostLost, TimeoutError) as error:
            self.close()
            words = self.last_words() or "it gives no shell"
            raise Unavailable(
                f"host {self.host} cannot be reached"
                + "".join(f"\n  {line}" for line in words.splitlines()),
                hint=_cure(words, self.host),
            ) from error
        if said == b"ready":
            return
        self.close()
        if said == b"full":
            raise SetupFailed(
                f"host {self.host} has no room for the outputs of commands in /dev/shm or /tmp",
                hint=f"on {self.host}: df -h /dev/shm /tmp",
            )
        raise Unavailable(
            f"host {self.host} lacks the program {said.decode(errors='replace')}",
            hint=f"on {self.host}: apt-get install coreutils findutils util-linux",
        )

    def _until_mark(self, deadline: float) -> bytes:
        return self._until(self.nonce.encode(), deadline)

    def _until(self, end: bytes, deadline: float) -> bytes:
        """Return what comes before `end`, which is taken too."""
        assert self._child.stdout is not None
        looked = 0
        descriptor = self._child.stdout.fileno()
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while (at := self._unread.find(end, looked)) < 0:
            looked = max(0, len(self._unread) - len(end) + 1)
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise TimeoutError
            chunk = os.read(descriptor, 1 << 18)
            if not chunk:
                raise self.lost()
            self._unread += chunk
        before = bytes(self._unread[:at])
        del self._unread[: at + len(end)]
        return before


def _cure(words: str, host: str) -> str:
    """Return what helps against what ssh says."""
    if "HOST IDENTIFICATION HAS CHANGED" in words or "Host key verification failed" in words:
        return (
            f"find out why; if the key of {host} is right, put it into known_hosts "
            "(ssh-keygen -R removes the old one)"
        )
    return f"try it by hand: ssh -o BatchMode=yes {host}"
