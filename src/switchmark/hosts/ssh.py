"""This host is reached by OpenSSH's own client, with the user's configuration, keys, jump hosts and
known hosts. Nothing of switchmark is installed there: it needs a POSIX shell and a few usual tools.

No password is ever asked for, and a host key is judged as the user's configuration says.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from switchmark.errors import CommandFailed, CommandTimedOut, HostLost, SwitchmarkError, Unavailable
from switchmark.hosts.base import Call, Completed
from switchmark.hosts.carried import Carried
from switchmark.hosts.far_undo import undo_there
from switchmark.hosts.local_process import last_lines
from switchmark.hosts.programs import program_on
from switchmark.hosts.remote_shell import RemoteShell
from switchmark.hosts.shell_words import assignments, ending, literal, quoted, why_not
from switchmark.hosts.ssh_files import LONG, SshFiles
from switchmark.hosts.ssh_process import SshProcess, ended, open_session, start
from switchmark.hosts.ssh_sockets import new_folder, socket_name
from switchmark.model.cpus import parse_cpus

_OPTIONS = (
    *("BatchMode=yes", "RequestTTY=no", "EscapeChar=none", "LogLevel=ERROR", "RemoteCommand=none"),
    *("ClearAllForwardings=yes", "ForwardAgent=no", "ForwardX11=no", "PermitLocalCommand=no"),
    "StdinNull=no",
    *("ForkAfterAuthentication=no", "SessionType=default"),
)
_SHELL = "exec /bin/sh"
_KILL_S = 10.0
_TRY_AGAIN_S = 5.0
_MARKS = 4
"""What a command answers with: its process, its outputs, its status."""
_EXPECTED = 6


class SshHost(SshFiles):
    """A host is behind `address`, as `ssh` takes it; `options` are of its configuration, as behind
    `-o`. It is connected when it is first used, and again after its connection was lost.

    `there` are the paths of programs on that host, or of folders with them, by what plans call
    them; each of `carried` is put there when it is first run. `cpus` are those that runs may have
    of it. All that has its time there may take `patience` times as long.

    The socket of the connection is in `folder`, or in a folder of its own, until `close`.
    """

    is_far = True

    def __init__(
        self,
        name: str,
        address: str | None = None,
        options: Sequence[str] = (),
        folder: Path | None = None,
        *,
        there: Mapping[str, str] = {},
        carried: Sequence[Carried] = (),
        cpus: str | None = None,
    ) -> None:
        self.name = name
        self.cpus = cpus
        self._named = dict(there)
        self._there: dict[str, str] = {}
        self._carried = list(carried)
        self.address = address or name
        self.options = tuple(options)
        self._folder = folder
        self._made: Path | None = None
        self._connection: RemoteShell | None = None
        self._refused: tuple[float, SwitchmarkError] | None = None
        self._expected: dict[str, subprocess.Popen[bytes]] = {}
        self._connected = 0

    # --- commands and processes ---------------------------------------------------------------

    def run(
        self,
        argv: tuple[str, ...],
        *,
        stdin: bytes | None = None,
        env: Mapping[str, str] = {},
        timeout_s: float = 10.0,
    ) -> Completed:
        (completed,) = self.run_all([Call(argv, stdin, env, timeout_s)])
        return completed

    def run_all(self, calls: Sequence[Call]) -> Generator[Completed, None, None]:
        """Run commands in one round trip, in order; yield how each ended. What comes after one that
        ends with none of the statuses that are fine is not run."""
        shell = self._shell()
        calls = [replace(call, argv=self._as_there(call.argv)) for call in calls]
        numbers = shell.new_numbers(len(calls))
        for call, number in zip(calls, numbers, strict=True):
            if call.stdin is not None and len(call.stdin) > LONG:
                path = shell.ask(f'printf %s "$d/{number}i"; {shell.mark}', 1)[0].decode()
                self._upload(path, call.stdin)
        every = zip(calls, numbers, strict=True)
        shell.post("x=\n" + "\n".join(_script(shell, call, number) for call, number in every))
        told = 0
        try:
            for call in calls:
                told += 1
                stdout, stderr, status = self._outcome(
                    shell, call.argv, call.timeout_s * self.patience
                )
                if status == "skipped":
                    return
                if status == "full":
                    raise CommandFailed(
                        f"host {self.name} has no room for the outputs of commands"
                        f"\n  {quoted(call.argv)}",
                        hint=f"on {self.name}: df -h /dev/shm /tmp",
                    )
                if status in ("missing", "forbidden"):
                    raise _refusal(self.name, call.argv[0], status)
                yield Completed(ended(int(status)), stdout, stderr)
        finally:
            if shell.lives():  # what comes next is the answer to another question
                for _ in range(_MARKS * (len(calls) - told)):
                    self._answer(shell)

    def spawn(
        self, argv: tuple[str, ...], *, stderr_path: str, env: Mapping[str, str] = {}
    ) -> SshProcess:
        self._shell()
        argv = self._as_there(argv)
        why = f"s=0; {why_not(argv[0])}"
        session = self._expected.pop(stderr_path, None)
        if session is None or session.poll() is not None:
            session = open_session(self._session(), stderr_path)
        process, refused = start(self, session, argv, stderr_path, env, why)
        if refused:
            raise _refusal(self.name, argv[0], refused)
        assert process is not None
        return process

    def expect(self, stderr_path: str) -> None:
        """Open a session for a process that will be spawned soon, while other work is done."""
        if stderr_path not in self._expected and len(self._expected) < _EXPECTED:
            self._shell()
            self._expected[stderr_path] = open_session(self._session(), stderr_path)

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

    def allowed_cpus(self) -> frozenset[int]:
        """Return the CPUs that runs may use, of those that the user lets them have."""
        granted = super().allowed_cpus()
        return granted if self.cpus is None else granted & frozenset(parse_cpus(self.cpus))

    # --- the connection ------------------------------------------------------------------------

    def close(self) -> None:
        """End the connection, and all that goes through it."""
        while self._expected:
            _, session = self._expected.popitem()
            session.kill()
            session.communicate()
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
            self._connection = RemoteShell(self.name, self._ssh("ControlMaster=yes"), self.patience)
        except SwitchmarkError as error:
            # Of a host that was there once nothing is to be refused: it was lost.
            told = HostLost(error.message, hint=error.hint) if self._connected else error
            self._refused = (time.monotonic(), told)
            raise told from error
        self._connected += 1
        return self._connection

    @property
    def connected(self) -> int:
        return self._connected

    def path_of(self, program: str) -> str:
        """Return where a program of this side is on that host, which has it afterwards."""
        return self._as_there((program,))[0]

    def _as_there(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Return a command with the programs that this host has elsewhere."""
        for carried in [each for each in self._carried if not {*each.paths}.isdisjoint(argv)]:
            self._carried.remove(carried)
            try:
                self._there.update(carried.to(self))
            except BaseException:
                self._carried.append(carried)
                raise
        for word in self._named.keys() & set(argv):
            named = self._named.pop(word)
            try:
                self._there[word] = program_on(self, named, word)
            except BaseException:
                self._named[word] = named
                raise
        return tuple(self._there.get(each, each) for each in argv)

    def _session(self) -> tuple[str, ...]:
        return self._ssh("ControlMaster=no")

    def _ssh(self, *options: str) -> tuple[str, ...]:
        """Return the command that gives a shell over this host's connection. What is said here
        comes first: OpenSSH takes the first of what it finds."""
        control = (f"ControlPath={self._folder}/{socket_name(self.name)}", "ControlPersist=no")
        waits = (f"ConnectTimeout={10 * self.patience:.0f}", "ServerAliveInterval=5")
        count = f"ServerAliveCountMax={3 * self.patience:.0f}"
        settings = (*options, *control, *_OPTIONS, *waits, count, *self.options)
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
            try:
                self._kill(pid)
            except subprocess.TimeoutExpired as error:
                raise shell.lost("a command there could not be killed") from error
            stdout = self._answer(shell)
        except BaseException:
            if shell.lives():
                # Interrupted: the shell waits on, and what it says next is not what is asked next.
                with suppress(SwitchmarkError, OSError, subprocess.TimeoutExpired):
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

    def _kill(self, pid: str) -> None:
        """Kill a process with its group, past the shell that waits for it."""
        script = f"kill -9 -{pid} {pid} 2>/dev/null\n".encode()
        subprocess.run(
            self._session(),
            input=script,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_KILL_S * self.patience,
            check=False,
            start_new_session=True,
        )


def _refusal(host: str, program: str, why: str) -> Unavailable:
    if why == "missing":
        return Unavailable(
            f"the program '{program}' is not installed on {host}",
            hint=f"switchmark doctor --host {host}",
        )
    return Unavailable(f"the program '{program}' may not be executed by this user of {host}")


def _script(shell: RemoteShell, call: Call, number: int) -> str:
    """Return what the shell is fed of a command: it answers with its process, its outputs and its
    status, or that it was skipped."""
    out, err, source = (f'"$d"/{number}{end}' for end in "oei")
    feed, given = "", "</dev/null"
    if call.stdin is not None and len(call.stdin) > LONG:
        given = f"<{source}"
    elif call.stdin is not None:
        feed, given = f"{literal(call.stdin)} | ", ""
    fine = "*" if call.ok is None else "|".join(str(_told(status)) for status in call.ok)
    mark, nonce = shell.mark, shlex.quote(shell.nonce)
    # What is written at once goes in one packet, and wakes everyone on its way once.
    return (
        f'if [ -n "$x" ]; then printf "%s%s%sskipped%s" {nonce} {nonce} {nonce} {nonce}\nelse\n'
        f"{feed}{assignments(call.env)}setsid -- {quoted(call.argv)} {given} >{out} 2>{err} &\n"
        f"p=$!; printf '%s%s' $p {nonce}; wait $p; s=$?; [ -e {err} ] || s=full\n"
        f"[ $s != 126 ] && [ $s != 127 ] || {why_not(call.argv[0])}\n"
        f"[ ! -s {out} ] || cat {out}\n"
        f"if [ -s {err} ]; then {mark}; cat {err}; printf '%s%s%s' {nonce} $s {nonce}\n"
        f"else printf '%s%s%s%s' {nonce} {nonce} $s {nonce}; fi\n"
        f"case $s in {fine}) ;; *) x=1;; esac\nfi"
    )


def _told(status: int) -> int:
    """Return an exit status as a shell tells it: that of a signal is above 128."""
    return 128 - status if status < 0 else status
