"""A host that OpenSSH's own client reaches, with the user's configuration, keys, jump hosts and
known hosts.

Nothing of switchmark is installed there: its agent is copied into the user's cache. ssh never asks
for a password, and it checks host keys as the user's configuration demands.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from pathlib import PurePath

from switchmark.errors import (
    CommandFailed,
    CommandTimedOut,
    HostLost,
    SetupFailed,
    SwitchmarkError,
    Unavailable,
)
from switchmark.hosts import agent_messages as messages
from switchmark.hosts.agent import Agent
from switchmark.hosts.agent_held import AgentHeld
from switchmark.hosts.agent_messages import Answer, Ask, CallEnd
from switchmark.hosts.agent_process import AgentProcess
from switchmark.hosts.base import Call, Completed, Host
from switchmark.hosts.carried import Carried
from switchmark.hosts.programs import AGENT, USUAL_FOLDERS, program_on, program_path
from switchmark.hosts.signals import shielded
from switchmark.model.cpus import parse_cpus
from switchmark.model.printable import evidence

_OPTIONS = (
    *("BatchMode=yes", "RequestTTY=no", "EscapeChar=none", "LogLevel=ERROR", "RemoteCommand=none"),
    *("ClearAllForwardings=yes", "ForwardAgent=no", "ForwardX11=no", "PermitLocalCommand=no"),
    *("StdinNull=no", "ControlMaster=no", "ControlPath=none"),
    *("ForkAfterAuthentication=no", "SessionType=default"),
)
_TRY_AGAIN_S = 5.0
_CLEAN_S = 120.0
_FAR_FOLDER = re.compile(r"/run/switchmark/(sm[0-9a-f]{4})(/far-[^/]+)?")


class SshHost(Host):
    """A host at `address`, as `ssh` takes it; `options` are ssh options, as for `-o`.

    It connects on first use, and again after a lost connection. `there` maps the names of programs
    in plans to their paths on that host, or to folders with them; `carried` programs are copied
    when they are first run. `cpus` are the CPUs that runs may use. Everything with a time limit may
    take `patience` times as long.
    """

    is_far = True

    def __init__(
        self,
        name: str,
        address: str | None = None,
        options: Sequence[str] = (),
        *,
        there: Mapping[str, str] = {},
        carried: Carried | None = None,
        cpus: str | None = None,
    ) -> None:
        self.name = name
        self.cpus = cpus
        self._named = dict(there)
        self._there: dict[str, str] = {}
        self._carried = carried
        self.address = address or name
        self.options = tuple(options)
        self._connection: Agent | None = None
        self._refused: tuple[float, SwitchmarkError] | None = None
        self._was_connected = False
        self._batches = 0

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
        """Run commands in one round trip, in order; yield each result. No command runs after a
        status that its call does not allow."""
        agent = self._agent()
        self._batches += 1
        batch, questions = self._batches, []
        for call in calls:
            argv, limit_s = self._as_there(call.argv), call.timeout_s * self.patience
            command = messages.command(batch, limit_s, call.ok, call.stdin, call.env, argv)
            questions.append((Ask.RUN, command))
        numbers = agent.begin(*questions)
        try:
            for call, number in zip(calls, numbers, strict=True):
                answer = agent.answer(number, call.timeout_s)
                completed = self._outcome(answer, call)
                if completed is None:
                    return
                yield completed
        except BaseException:
            # After an interruption, say: end the running command and start no later one.
            if agent.lives():
                agent.notify(Ask.CANCEL, messages.uint32(batch))
            raise
        finally:
            agent.forget(numbers)

    def spawn(
        self, argv: tuple[str, ...], *, stderr_path: str, env: Mapping[str, str] = {}
    ) -> AgentProcess:
        agent = self._agent()
        argv = self._as_there(argv)
        command = f"on {self.name}: {shlex.join(argv)}"
        request = messages.variables(env) + messages.texts(argv)
        try:
            # An interruption before the caller's assignment would orphan the process.
            with shielded():
                return agent.spawn(request, command, stderr_path)
        except OSError as error:
            raise self._not_started(argv, error.errno or 0) from error

    def end(self, pid: int, started: int, number: int, grace_s: float) -> bool:
        agent = self._agent()
        process = messages.uint32(pid) + messages.uint64(started)
        request = process + messages.uint32(number) + messages.uint32(int(grace_s * 1000))
        (number,) = agent.begin((Ask.END, request))
        answer = agent.answer(number, grace_s)
        return not answer.number() and bool(answer.number())

    def allowed_cpus(self) -> frozenset[int]:
        """Return the CPUs that runs may use, limited to those that the user allows."""
        granted = super().allowed_cpus()
        return granted if self.cpus is None else granted & frozenset(parse_cpus(self.cpus))

    def path_of(self, program: str) -> str:
        self._agent()
        return self._as_there((program,))[0]

    # --- files ------------------------------------------------------------------------------------

    def read(self, path: str) -> bytes:
        return self._of_file(Ask.READ, path).counted()

    def write(self, path: str, content: bytes) -> None:
        self._of_file(Ask.WRITE, path, content)

    def exists(self, path: str) -> bool:
        return bool(self._of_file(Ask.EXISTS, path).number())

    def remove(self, path: str) -> None:
        self._of_file(Ask.REMOVE, path)

    def read_all(self, *patterns: str) -> Mapping[str, bytes]:
        return self.read_later(*patterns)()

    def read_later(self, *patterns: str) -> Callable[[], Mapping[str, bytes]]:
        agent = self._agent()
        (number,) = agent.begin((Ask.READ_ALL, messages.texts(patterns)))
        return partial(_contents, agent, number)

    def inodes(self, *patterns: str) -> Mapping[str, int]:
        answer = self._agent().ask(Ask.INODES, messages.texts(patterns))
        numbers = {}
        while answer:
            path = answer.text()
            numbers[path] = answer.long()
        return numbers

    # --- runs ---------------------------------------------------------------------------------

    def hold(self, run: str, folder: str, names: Sequence[str]) -> AgentHeld:
        try:
            return AgentHeld(self._agent(), run, folder, names)
        except OSError as error:
            raise SetupFailed(
                f"host {self.name} has no room for a run in {folder}: {error.strerror}",
                hint=f"on {self.name}: df -h {PurePath(folder).parent}",
            ) from error

    def runs_there(self) -> Sequence[tuple[str, str, bool]]:
        answer = self._agent().ask(Ask.RUNS, b"")
        runs = []
        while answer:
            folder, dead = answer.text(), bool(answer.number())
            if of_run := _FAR_FOLDER.fullmatch(folder):
                runs.append((of_run[1], folder, dead))
        return runs

    def undo_run(self, run: str, folder: str) -> None:
        agent = self._agent()
        request = messages.texts((run, f"{folder}/far-{self.name}", folder))
        (number,) = agent.begin((Ask.CLEAN, request))
        answer = agent.answer(number, _CLEAN_S)
        if error := answer.number():
            raise SetupFailed(f"run {run} on host {self.name}: error {error}")

    # --- the connection ------------------------------------------------------------------------

    def lives(self) -> bool:
        return self._connection is not None and self._connection.lives()

    def close(self) -> None:
        """End the connection and every process on it."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _agent(self) -> Agent:
        """Return the agent of this host; raise Unavailable if the host cannot be reached."""
        if self._connection is not None and self._connection.lives():
            return self._connection
        if self._connection is not None:
            self._connection.close()
        if self._refused and time.monotonic() - self._refused[0] < _TRY_AGAIN_S:
            raise self._refused[1]
        program = program_path(AGENT)
        named = self._named.get(program)
        places = [str(PurePath(named, folder, AGENT)) for folder in USUAL_FOLDERS] if named else []
        try:
            self._connection = Agent(
                self.name,
                self._session(),
                program,
                [*places, named] if named else [],
                self.patience,
            )
        except SwitchmarkError as error:
            # A host that was connected before is lost, not refused.
            lost = HostLost(error.message, hint=error.hint) if self._was_connected else error
            self._refused = (time.monotonic(), lost)
            raise lost from error
        self._was_connected = True
        self._there[program] = self._connection.path
        return self._connection

    def _session(self) -> tuple[str, ...]:
        """Return the command that opens a session. These options come first, because OpenSSH takes
        the first value of an option."""
        waits = (f"ConnectTimeout={10 * self.patience:.0f}", "ServerAliveInterval=5")
        count = f"ServerAliveCountMax={3 * self.patience:.0f}"
        settings = (*_OPTIONS, *waits, count, *self.options)
        flags = (word for setting in settings for word in ("-o", setting))
        return ("ssh", "-T", *flags, "--", self.address)

    def _as_there(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Return a command with the paths that its programs have on this host."""
        if self._carried is not None and not {*self._carried.paths}.isdisjoint(argv):
            carried, self._carried = self._carried, None
            try:
                self._there.update(carried.to(self))
            except BaseException:
                self._carried = carried
                raise
        for word in self._named.keys() & (set(argv) - self._there.keys()):
            self._there[word] = word
            try:
                self._there[word] = program_on(self, self._named[word], word)
            except BaseException:
                del self._there[word]
                raise
        return tuple(self._there.get(word, word) for word in argv)

    def _of_file(self, question: Ask, path: str, content: bytes = b"") -> Answer:
        request = messages.text(path) + content
        try:
            return self._agent().ask(question, request)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None

    def _outcome(self, answer: Answer, call: Call) -> Completed | None:
        """Return the result of a command; None if it was not run."""
        end, value = answer.number(), answer.status()
        if end == CallEnd.SKIPPED:
            return None
        if end == CallEnd.NOT_STARTED:
            raise self._not_started(call.argv, value)
        if end not in (CallEnd.RAN, CallEnd.OVERDUE):
            raise CommandFailed(
                f"a command says more than is read of it\n  on {self.name}: {shlex.join(call.argv)}"
            )
        completed = Completed(value, answer.counted(), answer.counted())
        if end == CallEnd.OVERDUE:
            raise CommandTimedOut(
                f"a command did not end within {call.timeout_s * self.patience:g} s and was "
                f"killed\n  on {self.name}: {shlex.join(call.argv)}{evidence(completed.stderr)}"
            )
        return completed

    def _not_started(self, argv: Sequence[str], number: int) -> SwitchmarkError:
        if number == errno.ENOENT:
            return Unavailable(
                f"the program '{argv[0]}' is not installed on {self.name}",
                hint=f"switchmark doctor --host {self.name}",
            )
        if number == errno.EACCES:
            return Unavailable(
                f"the program '{argv[0]}' may not be executed by this user of {self.name}"
            )
        reason = OSError(number, os.strerror(number))
        return CommandFailed(
            f"cannot start a command on {self.name}: {reason}\n  {shlex.join(argv)}"
        )


def _contents(agent: Agent, number: int) -> Mapping[str, bytes]:
    answer = agent.answer(number)
    answer.number()
    contents = {}
    while answer:
        path = answer.text()
        contents[path] = answer.counted()
    return contents
