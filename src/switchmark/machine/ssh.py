"""This host is reached by OpenSSH's own client, with the user's configuration, keys, jump hosts and
known hosts. Nothing of switchmark is installed there: it needs a POSIX shell and a few usual tools.

No password is ever asked for, and a host key is judged as the user's configuration says.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from switchmark.errors import CommandFailed, CommandTimedOut, HostLost, SwitchmarkError, Unavailable
from switchmark.machine.carried import Carried
from switchmark.machine.far_undo import undo_there
from switchmark.machine.host import Completed, last_lines
from switchmark.machine.remote_shell import RemoteShell
from switchmark.machine.shell_words import (
    assignments,
    ending,
    literal,
    os_error,
    patterns_of,
    quoted,
    why_not,
    word,
)
from switchmark.machine.ssh_process import SshProcess, ended, start
from switchmark.machine.ssh_sockets import new_folder, socket_name

__all__ = ["SshHost"]

_OPTIONS = (
    *("BatchMode=yes", "RequestTTY=no", "EscapeChar=none", "LogLevel=ERROR", "RemoteCommand=none"),
    *("ClearAllForwardings=yes", "ForwardAgent=no", "ForwardX11=no", "PermitLocalCommand=no"),
    *("ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=3", "StdinNull=no"),
    *("ForkAfterAuthentication=no", "SessionType=default"),
)
_SHELL = "exec /bin/sh"
_LONG = 48 * 1024
"""Longer inputs go through a session of their own, as they are."""
_UPLOAD_S = 120.0
_KILL_S = 10.0
_SILENT_S = 30.0
_TRY_AGAIN_S = 5.0
_CAT = re.compile(rb"cat: (?:can't open |read error: )?'?(.*?)'?: [^:]+")


class SshHost:
    """A host is behind `address`, as `ssh` takes it; `options` are of its configuration, as behind
    `-o`. It is connected when it is first used, and again after its connection was lost.

    `there` are the paths of programs on that host, by what plans call them; `carried` is put there
    when it is first run. `cpus` are those that runs may have of it.

    The socket of the connection is in `folder`, or in a folder of its own, until `close`.
    """

    def __init__(
        self,
        name: str,
        address: str | None = None,
        options: Sequence[str] = (),
        folder: Path | None = None,
        *,
        there: Mapping[str, str] = {},
        carried: Carried | None = None,
        cpus: str | None = None,
    ) -> None:
        self.name = name
        self.cpus = cpus
        self._there = dict(there)
        self._carried = carried
        self.address = address or name
        self._options = tuple(options)
        self._folder = folder
        self._made: Path | None = None
        self._connection: RemoteShell | None = None
        self._refused: tuple[float, SwitchmarkError] | None = None
        self.connected = 0

    # --- commands and processes ---------------------------------------------------------------

    def run(
        self,
        argv: tuple[str, ...],
        *,
        stdin: bytes | None = None,
        env: Mapping[str, str] = {},
        timeout_s: float = 10.0,
    ) -> Completed:
        shell = self._shell()
        argv = self._as_there(argv)
        number = shell.new_number()
        out, err, source = (f'"$d"/{number}{end}' for end in "oei")
        feed, given = "", "</dev/null"
        if stdin is not None and len(stdin) > _LONG:
            path = shell.ask(f'printf %s "$d/{number}i"; {shell.mark}', 1)[0].decode()
            self._upload(path, stdin)
            given = f"<{source}"
        elif stdin is not None:
            feed, given = f"{literal(stdin)} | ", ""
        shell.post(
            f"{feed}{assignments(env)}setsid -- {quoted(argv)} {given} >{out} 2>{err} &\n"
            f"p=$!; printf '%s' \"$p\"; {shell.mark}; wait $p; s=$?; [ -e {err} ] || s=full\n"
            f"[ $s != 126 ] && [ $s != 127 ] || {why_not(argv[0])}\n"
            f"[ ! -s {out} ] || cat {out}; {shell.mark}; [ ! -s {err} ] || cat {err}; "
            f"{shell.mark}; printf '%s' $s; {shell.mark}"
        )
        stdout, stderr, status = self._outcome(shell, argv, timeout_s)
        if status == "full":
            raise CommandFailed(
                f"host {self.name} has no room for the outputs of commands\n  {quoted(argv)}",
                hint=f"on {self.name}: df -h /dev/shm /tmp",
            )
        if status in ("missing", "forbidden"):
            raise _refusal(self.name, argv[0], status)
        return Completed(ended(int(status)), stdout, stderr)

    def spawn(
        self, argv: tuple[str, ...], *, stderr_path: str, env: Mapping[str, str] = {}
    ) -> SshProcess:
        self._shell()
        argv = self._as_there(argv)
        why = f"s=0; {why_not(argv[0])}"
        process, refused = start(self, self._session(), argv, stderr_path, env, why)
        if refused:
            raise _refusal(self.name, argv[0], refused)
        assert process is not None
        return process

    def post(self, script: str) -> None:
        """Send the shell a script that prints nothing and is not waited for."""
        self._shell().post(script)

    def lives(self) -> bool:
        """Say whether the connection is up, as far as this side knows."""
        return self._connection is not None and self._connection.lives()

    def end(self, pid: int, started: int, number: int, grace_s: float) -> bool:
        argv = ("sh", "-c", ending(pid, started, number, grace_s))
        return self.run(argv, timeout_s=grace_s + 10.0).status == 0

    def undo_run(self, run: str, folder: str) -> None:
        undo_there(self, run, folder)

    # --- files ---------------------------------------------------------------------------------

    def read(self, path: str) -> bytes:
        shell = self._shell()
        content, error, status = shell.ask(
            f"{{ e=$(cat -- {word(path)} 2>&1 >&3); s=$?; }} 3>&1; {shell.mark}; "
            f"printf '%s' \"$e\"; {shell.mark}; printf '%s' $s; {shell.mark}",
            3,
        )
        if status != b"0":
            raise os_error(error, path)
        return content

    def write(self, path: str, content: bytes) -> None:
        if len(content) > _LONG:
            self._upload(path, content)
            return
        self._file_command(f"{literal(content)} | tee -- {word(path)}", path)

    def exists(self, path: str) -> bool:
        shell = self._shell()
        return shell.ask(f"[ ! -e {word(path)} ] || printf y; {shell.mark}", 1)[0] == b"y"

    def remove(self, path: str) -> None:
        # As `unlink` does: a folder is an error.
        self._file_command(f"rm -f -- {word(path)}", path)

    def read_all(self, *patterns: str) -> Mapping[str, bytes]:
        shell = self._shell()
        # Behind each content comes a file that holds the mark, whether or not it could be read.
        shell.post(
            f"set -- {patterns_of(patterns)}; printf '%s\\0' \"$@\"; {shell.mark}; "
            "{ e=$(printf '%s\\0'\"$d\"'/s\\0' \"$@\" | xargs -0 cat -- 2>&1 >&3); } 3>&1; "
            f"printf '%s' \"$e\"; {shell.mark}"
        )
        names = self._answer(shell).decode(errors="surrogateescape").split("\0")[:-1]
        contents = {name: self._answer(shell) for name in names}
        failed = {
            error[1].decode(errors="surrogateescape")
            for line in self._answer(shell).splitlines()
            if (error := _CAT.fullmatch(line))
        }
        return {name: content for name, content in contents.items() if name not in failed}

    def inodes(self, *patterns: str) -> Mapping[str, int]:
        shell = self._shell()
        lines, *_ = shell.ask(
            f"set -- {patterns_of(patterns)}; printf '%s\\0' \"$@\" | "
            f"xargs -0 stat -L -c '%i %n' -- 2>/dev/null; {shell.mark}",
            1,
        )
        numbers = {}
        for line in lines.decode(errors="surrogateescape").splitlines():
            inode, _, path = line.partition(" ")
            numbers[path] = int(inode)
        return numbers

    # --- the connection ------------------------------------------------------------------------

    def close(self) -> None:
        """End the connection, and all that goes through it."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._made is not None:
            shutil.rmtree(self._made, ignore_errors=True)
            self._folder = self._made = None

    def _shell(self) -> RemoteShell:
        """Return the shell of this host; Unavailable where it cannot be reached."""
        if self._connection is not None and self._connection.lives():
            return self._connection
        if self._connection is not None:
            self._connection.close()
        if self._refused and time.monotonic() - self._refused[0] < _TRY_AGAIN_S:
            raise self._refused[1]
        if self._folder is None:
            self._folder = self._made = new_folder()
        try:
            self._connection = RemoteShell(self.name, self._ssh("ControlMaster=yes"))
        except SwitchmarkError as error:
            # Of a host that was there once nothing is to be refused: it was lost.
            told = HostLost(error.message, hint=error.hint) if self.connected else error
            self._refused = (time.monotonic(), told)
            raise told from error
        self.connected += 1
        return self._connection

    def path_of(self, program: str) -> str:
        """Return where a program of this side is on that host, which has it afterwards."""
        return self._as_there((program,))[0]

    def _as_there(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Return a command with the programs that this host has elsewhere."""
        if self._carried is not None and self._carried.path in argv:
            carried, self._carried = self._carried, None
            try:
                self._there[carried.path] = carried.to(self)
            except BaseException:
                self._carried = carried
                raise
        return tuple(self._there.get(each, each) for each in argv)

    def _session(self) -> tuple[str, ...]:
        return self._ssh("ControlMaster=no")

    def _ssh(self, *options: str) -> tuple[str, ...]:
        """Return the command that gives a shell over this host's connection. What is said here
        comes first: OpenSSH takes the first of what it finds."""
        control = (f"ControlPath={self._folder}/{socket_name(self.name)}", "ControlPersist=no")
        settings = (*options, *control, *_OPTIONS, *self._options)
        flags = (word for setting in settings for word in ("-o", setting))
        return ("ssh", "-T", *flags, "--", self.address, _SHELL)

    def _outcome(
        self, shell: RemoteShell, argv: tuple[str, ...], timeout_s: float
    ) -> tuple[bytes, bytes, str]:
        """Return the outputs of the command that was fed, and how it ended. What outlives its time
        is killed, with all that it started."""
        pid = self._answer(shell).decode()
        overdue = False
        try:
            stdout = shell.answer(timeout_s)
        except TimeoutError:
            overdue = True
            self._kill(pid)
            stdout = self._answer(shell)
        except BaseException:
            if shell.lives():
                # Interrupted: the shell waits on, and what it says next is not what is asked next.
                with suppress(SwitchmarkError, OSError):
                    self._kill(pid)
                shell.close()
            raise
        stderr, status = self._answer(shell), self._answer(shell).decode()
        if overdue:
            raise CommandTimedOut(
                f"a command did not end within {timeout_s:g} s and was killed\n"
                f"  on {self.name}: {quoted(argv)}"
                + "".join(f"\n  {line}" for line in last_lines(stderr).splitlines())
            )
        return stdout, stderr, status

    def _answer(self, shell: RemoteShell) -> bytes:
        try:
            return shell.answer(_SILENT_S)
        except TimeoutError as error:
            raise shell.lost(f"it did not answer for {_SILENT_S:g} s") from error

    def _kill(self, pid: str) -> None:
        """Kill a process with its group, past the shell that waits for it."""
        script = f"kill -9 -{pid} {pid} 2>/dev/null\n".encode()
        subprocess.run(
            self._session(),
            input=script,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_KILL_S,
            check=False,
            start_new_session=True,
        )

    def _upload(self, path: str, content: bytes) -> None:
        """Write a file by a session of its own, which takes it as it is."""
        self._shell()
        done = subprocess.run(
            (
                *self._session()[:-1],
                f"exec /bin/sh -c {word('LC_ALL=C exec tee -- ' + word(path))}",
            ),
            input=content,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_UPLOAD_S,
            check=False,
            start_new_session=True,
        )
        if done.returncode:
            raise os_error(done.stderr, path)

    def _file_command(self, command: str, path: str) -> None:
        shell = self._shell()
        error, status = shell.ask(
            f"e=$({command} 2>&1 >/dev/null); s=$?; printf '%s' \"$e\"; {shell.mark}; "
            f"printf '%s' $s; {shell.mark}",
            2,
        )
        if status != b"0":
            raise os_error(error, path)


def _refusal(host: str, program: str, why: str) -> Unavailable:
    if why == "missing":
        return Unavailable(
            f"the program '{program}' is not installed on {host}",
            hint=f"switchmark doctor --host {host}",
        )
    return Unavailable(f"the program '{program}' may not be executed by this user of {host}")
