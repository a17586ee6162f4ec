"""The lock that keeps two measurements on one machine apart; all users share it.

The lock is a file in /tmp, because the /run of a user namespace is private. On a far host a shell
holds it and ends with the connection.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from switchmark.errors import Unavailable
from switchmark.hosts.base import Host, boot_id
from switchmark.hosts.local import LocalHost

VARIABLE = "SWITCHMARK_MACHINE_LOCK"
"""The environment variable that names another lock file, such as a file that containers on one
machine share. /dev/null turns the lock off."""

_FILE = "/tmp/switchmark-measuring"
_TOLD = 300
"""The most bytes of a holder's description."""


@contextmanager
def measuring_alone(
    who: str, *, shared: bool = False, waiting: Callable[[str], None] = lambda holder: None
) -> Iterator[None]:
    """Hold the machine's lock as `who`. Before a wait, call `waiting` with the current holder.
    `shared` never waits, and it takes the lock only if the lock is free."""
    path = os.environ.get(VARIABLE) or _FILE
    if path == os.devnull:
        yield
        return
    descriptor = _opened(path)
    try:
        held = _take(descriptor, wait=False)
        if not held and not shared:
            waiting(_holder(descriptor))
            held = _take(descriptor, wait=True)
        if held:
            _say(descriptor, who)
        try:
            yield
        finally:
            if held:
                _say(descriptor, "")
    finally:
        os.close(descriptor)


@contextmanager
def measuring_alone_on(
    hosts: Iterable[Host],
    who: str,
    *,
    shared: bool = False,
    waiting: Callable[[str], None] = lambda holder: None,
) -> Iterator[None]:
    """Hold the locks of this machine and of the machines of hosts, once per machine. A fixed order
    prevents deadlocks between runs that take several locks."""
    if os.environ.get(VARIABLE) == os.devnull:
        yield
        return
    machines = {boot_id(host): host for host in hosts} | {boot_id(LocalHost()): None}
    with ExitStack() as stack:
        for _, host in sorted(machines.items(), key=lambda entry: entry[0]):
            if host is None:
                stack.enter_context(measuring_alone(who, shared=shared, waiting=waiting))
            else:
                stack.enter_context(_alone_there(host, who, shared, waiting))
        yield


_HOLD = """\
f=$1 who=$2
command -v flock >/dev/null || { echo held; exec cat; }
(umask 0; set -C; : >"$f") 2>/dev/null  # where nothing has the name, not even a link
[ -f "$f" ] && [ ! -L "$f" ] && exec 9<"$f" || { echo "$f is no file that can be read"; exit 1; }
say() { # to that file alone, though another user may have put a link in its place since
  [ "$(stat -L -c '%d %i %h' /proc/self/fd/9)" = "$(stat -c '%d %i' "$f") 1" ] || return
  printf '%s' "$1" >/proc/self/fd/9
}
if flock -n 9; then mine=y
elif [ -n "$3" ]; then mine=
else
  echo "busy $(head -c 300 /proc/self/fd/9 | tr -d '\n')"
  flock 9; mine=y
fi
[ -z "$mine" ] || say "$who"
trap '' TERM  # the end of its input ends it, which takes the word back
echo held
cat >/dev/null
[ -z "$mine" ] || say ""
"""
_ANSWER_S = 3600.0


@contextmanager
def _alone_there(
    host: Host, who: str, shared: bool, waiting: Callable[[str], None]
) -> Iterator[None]:
    """Hold the lock of another host's machine by a shell there, which ends with its input."""
    argv = ("sh", "-c", _HOLD, "sh", _FILE, who, "shared" * shared)
    process = host.spawn(argv, stderr_path=os.devnull)
    why = "no shell holds it"
    try:
        while (answer := process.receive(_ANSWER_S) or "") != "held":
            why = answer or why
            if process.poll() is not None:
                raise _unusable(f"{_FILE} on {host.name}", why)
            if answer.startswith("busy "):
                waiting(f"{_printable(answer.removeprefix('busy '))} (on {host.name})")
        yield
    finally:
        process.hang_up()
        process.stop(signal.SIGTERM, 2.0)


def _opened(path: str) -> int:
    """Open the lock file, which another user may own; create it for all users if it is missing."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK
    for _ in range(2):
        with suppress(FileNotFoundError):
            try:
                descriptor = os.open(path, flags)
            except PermissionError:  # a lock needs read access only
                descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            except OSError as error:
                if isinstance(error, FileNotFoundError):
                    raise
                raise _unusable(path, error.strerror or str(error)) from error
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
                os.close(descriptor)
                raise _unusable(path, "it is no file, or has another name too")
            return descriptor
        try:
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            continue
        except OSError as error:
            raise _unusable(path, error.strerror or str(error)) from error
        os.fchmod(descriptor, 0o666)  # independent of the umask
        return descriptor
    raise _unusable(path, "others make and remove it")


def _unusable(path: str, why: str) -> Unavailable:
    return Unavailable(
        f"the lock of this machine cannot be had: {path}: {why}",
        hint=f"{VARIABLE}=FILE names another one, {VARIABLE}=/dev/null none",
    )


def _take(descriptor: int, *, wait: bool) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def _say(descriptor: int, name: str) -> None:
    """Write who measures into the lock file; another user's file may be read-only."""
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, name.encode()[:_TOLD], 0)


def _holder(descriptor: int) -> str:
    """Return the holder's own description, made printable, and the kernel's, which nobody can
    forge."""
    holder = _printable(os.pread(descriptor, _TOLD, 0).decode(errors="replace"))
    return f"{holder}{_process(os.fstat(descriptor).st_ino)}"


def _process(inode: int) -> str:
    """Return the process that locks a file, with its user; empty if this process cannot see it."""
    host = LocalHost()
    with suppress(OSError):
        for line in host.read("/proc/locks").decode().splitlines():
            _, kind, _, _, pid, file, *_ = line.split()
            if kind == "FLOCK" and file.rpartition(":")[2] == str(inode):
                status = host.read(f"/proc/{pid}/status").decode(errors="replace")
                (uid,) = re.findall(r"^Uid:\s+(\d+)", status, re.MULTILINE)
                return f"; process {pid} of user {uid}"
    return ""


def _printable(text: str) -> str:
    return "".join(letter for letter in text if letter.isprintable()) or "another switchmark"


def myself(folder: Path) -> str:
    """Return the description of this run for runs that wait for it."""
    return f"pid {os.getpid()}, {folder.absolute()}"
