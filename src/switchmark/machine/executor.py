"""The executor is the only part that carries plans out, and takes them back.

Before each step its undo is in the journal, so that a death at any moment leaves nothing that
`clean` does not find. It knows no environment: the caller gives the way into a node.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from switchmark.errors import (
    CommandTimedOut,
    NotReady,
    SetupFailed,
    SwitchmarkError,
    Unavailable,
)
from switchmark.machine.failures import ended, evidence, failure, place_of
from switchmark.machine.host import Completed, Host, Process
from switchmark.machine.hugepages import find_pool, reserve
from switchmark.machine.journal import Command, Far, Lease, Restore, Stop, Undo
from switchmark.machine.lifetimes import Lifetimes
from switchmark.machine.script import Inside, command, describe, fill, is_host
from switchmark.machine.signals import shielded
from switchmark.machine.undo import carry_out, in_words
from switchmark.machine.workspace import Workspace
from switchmark.model.plan import Folder, Node, Plan, Reserve, Run, Spawn, Wait, Write

__all__ = ["Executor"]

_SHORTEST_S, _LONGEST_S = 0.002, 0.05
_SHORTEST_CHECK_S = 1.0
_CONSOLE_LINES = 25  # a kernel says why it panics above a trace of its calls


class Executor:
    """An executor carries plans out on `hosts`, by the names that nodes give them.

    `saved` holds what `Run(save=...)` kept and the pid of each Spawn, `lifetimes` how long these
    took. `logs_dir` gets their stderr as `NAME.stderr`, and `steps.sh`: what was done, as a script.
    """

    def __init__(
        self, hosts: Mapping[str, Host], workspace: Workspace, *, inside: Inside, logs_dir: Path
    ) -> None:
        self.saved: dict[str, str] = {}
        self._hosts = hosts
        self._workspace = workspace
        self._journal = workspace.journal
        self._inside = inside
        self._logs_dir = logs_dir
        self._processes: dict[int, tuple[str, Process]] = {}
        self.lifetimes = Lifetimes()
        logs_dir.mkdir(parents=True, exist_ok=True)

    def execute(self, plan: Plan) -> None:
        """Carry the steps out in order. The first that fails raises SetupFailed (or
        Unavailable, for a program that is missing); what was done is left for `unwind`."""
        for step in plan:
            with (self._logs_dir / "steps.sh").open("a") as log:
                log.writelines(f"{line}\n" for line in describe((step,), self._inside))
            self.host(step.check.at if isinstance(step, Wait) else step.at)
            match step:
                case Run():
                    self._run(step)
                case Spawn():
                    self._spawn(step)
                case Write():
                    self._write(step)
                case Folder():
                    self._make_folder(step)
                case Reserve():
                    self._reserve(step)
                case Wait():
                    with self.lifetimes.waiting(step.unless_dead):
                        self._wait(step)

    def can(self, plan: Plan) -> bool:
        """Say whether the steps can be carried out: they are, and undone."""
        mark = self.mark()
        try:
            self.execute(plan)
        except (SetupFailed, Unavailable):
            return False
        finally:
            self.unwind(to=mark)
        return True

    def run(self, step: Run) -> bytes:
        """Carry out one command, and return its standard output: a switch's counters."""
        return self._run(step).stdout

    def process(self, name: str) -> Process:
        """Return the process of the Spawn of that name."""
        for known, process in reversed(self._processes.values()):
            if known == name:
                return process
        raise SetupFailed(f"no process named {name} is running")

    def mark(self) -> int:
        """Return a place to unwind to, so that a block can end while the run goes on."""
        return self._journal.next_number

    def unwind(self, to: int = 0) -> tuple[str, ...]:
        """Undo everything since the mark `to`, the latest first.

        A failure stops nothing: all are returned, in words, and stay in the journal for
        `clean`. An interruption is held back until the end.
        """
        failures = []
        with shielded():
            numbers = [number for number in self._journal.pending if number >= to]
            for number in reversed(numbers):
                undo = self._journal.pending[number]
                if to and isinstance(undo, Far):
                    continue  # the run goes on there
                try:
                    self._undo(number, undo)
                    self._journal.done(number)
                except (SwitchmarkError, OSError) as error:
                    failures.append(f"could not undo ({in_words(undo)}): {error}")
        return tuple(failures)

    def _undo(self, number: int, undo: Undo) -> None:
        if isinstance(undo, Stop) and number in self._processes:
            name, process = self._processes.pop(number)
            with self.lifetimes.stopping(name):
                process.stop(undo.number, undo.grace_s)
        elif isinstance(undo, Far):
            self._workspace.let_go(undo.host)
        else:
            carry_out(
                undo,
                run=self._workspace.run,
                hosts=self._hosts,
                leases=self._workspace.leases,
            )

    def _run(self, step: Run) -> Completed:
        argv = self._filled(command(step, self._inside), step.why)
        if step.undo is not None:
            undo = self._filled(self._inside(step.at, step.undo), step.why)
            self._journal.intend(
                Command(
                    host=step.at.host,
                    argv=undo,
                    stdin=step.undo_stdin,
                    timeout_s=max(10.0, step.timeout_s),
                )
            )
        stdin = None if step.stdin is None else self._filled_bytes(step.stdin, step.why)
        completed = self._call(step.why, step.at, argv, stdin, step.timeout_s)
        if completed.status not in step.ok:
            raise failure(step.why, step.at, argv, completed)
        if step.save is not None:
            self.saved[step.save] = completed.stdout.decode(errors="replace").strip()
        return completed

    def _spawn(self, step: Spawn) -> None:
        if any(name == step.name for name, _ in self._processes.values()):
            raise SetupFailed(f"{step.why}: a process named {step.name} is already running")
        argv = self._filled(command(step, self._inside), step.why)
        number, grace_s = step.stop
        stop = self._journal.intend(
            Stop(host=step.at.host, name=step.name, number=number, grace_s=grace_s)
        )
        log = self._logs_dir / f"{step.name}.stderr"
        with shielded(), _explained(step.why), self.lifetimes.starting(step.name):
            host = self.host(step.at)
            process = host.spawn(argv, stderr_path=str(log), env=self._workspace.env)
            self._processes[stop] = (step.name, process)
            self._journal.started(stop, process.pid, process.started)
        self.saved[step.name] = str(process.pid)

    def _write(self, step: Write) -> None:
        path = fill(step.path, self.saved, step.why)
        content = self._filled_bytes(step.content, step.why)
        if not is_host(step.at):
            self._write_inside(step, path, content)
            return
        host = self.host(step.at)
        try:
            if step.machine_wide:
                self._lease(host, path, content)
            else:
                old = host.read(path) if host.exists(path) else None
                self._journal.intend(Restore(host=host.name, path=path, content=old))
                host.write(path, content)
        except OSError as error:
            reason = error.strerror or str(error)
            raise SetupFailed(f"{step.why}: {path} cannot be set: {reason}") from error

    def _lease(self, host: Host, path: str, content: bytes) -> None:
        lease = self._journal.intend(Lease(host=host.name, path=path))
        try:
            self._workspace.leases.take(self._workspace.run, host, path, content)
        except (SetupFailed, Unavailable, OSError):
            # There is no lease: the undo would give back one that the run had before.
            self._journal.done(lease)
            raise

    def _write_inside(self, step: Write, path: str, content: bytes) -> None:
        """Write a file as its node sees it, by the node's own `cat` and `tee`."""
        read = self._inside(step.at, ("cat", path))
        completed = self._call(step.why, step.at, read, None, 10.0)
        if completed.status == 0:
            undo = Command(
                host=step.at.host, argv=self._inside(step.at, ("tee", path)), stdin=completed.stdout
            )
        elif b"No such file" in completed.stderr:
            undo = Command(host=step.at.host, argv=self._inside(step.at, ("rm", "-f", path)))
        else:
            raise failure(step.why, step.at, read, completed)
        self._journal.intend(undo)
        write = self._inside(step.at, ("tee", path))
        written = self._call(step.why, step.at, write, content, 10.0)
        if written.status != 0:
            raise failure(step.why, step.at, write, written)

    def _make_folder(self, step: Folder) -> None:
        path = PurePosixPath(fill(step.path, self.saved, step.why))
        missing = [
            str(each)
            for each in (path, *path.parents)
            if self._call(
                step.why, step.at, self._inside(step.at, ("test", "-d", str(each))), None, 10.0
            ).status
        ]
        if missing:
            removing = ("rmdir", "--ignore-fail-on-non-empty", *missing)
            making = ("mkdir", "-p", str(path))
            self._run(Run(step.why, making, at=step.at, undo=removing))

    def _reserve(self, step: Reserve) -> None:
        host = self.host(step.at)
        with _explained(step.why):
            pool = find_pool(host, step.node)
            lease = self._journal.intend(Lease(host=host.name, path=pool.total))
            try:
                reserve(
                    pool,
                    step.megabytes,
                    run=self._workspace.run,
                    host=host,
                    leases=self._workspace.leases,
                )
            except (SetupFailed, Unavailable):
                # There is no lease: the undo would give back one that the run had before.
                self._journal.done(lease)
                raise
            except OSError as error:
                reason = error.strerror or str(error)
                raise SetupFailed(f"{pool.total} cannot be set: {reason}") from error

    def _wait(self, step: Wait) -> None:
        argv = self._filled(command(step.check, self._inside), step.why)
        deadline = time.monotonic() + step.timeout_s
        interval_s = _SHORTEST_S
        while True:
            last_try = time.monotonic() >= deadline
            limit_s = max(deadline - time.monotonic(), _SHORTEST_CHECK_S)
            try:
                completed = self._call(step.why, step.check.at, argv, None, limit_s)
            except CommandTimedOut as error:
                raise NotReady(f"{error.message}{self._last_words(step)}") from error
            if _holds(step, completed):
                return
            self._refuse_dead(step)
            if last_try:
                raise NotReady(
                    f"{step.why}: still not so after {step.timeout_s:g} s\n"
                    f"  {place_of(step.check.at)}: {shlex.join(argv)}{evidence(completed)}"
                    f"{self._last_words(step)}"
                )
            time.sleep(max(0.0, min(interval_s, deadline - time.monotonic())))
            interval_s = min(1.5 * interval_s, _LONGEST_S)

    def _refuse_dead(self, step: Wait) -> None:
        if step.unless_dead is None:
            return
        if (status := self.process(step.unless_dead).poll()) is not None:
            raise NotReady(
                f"{step.why}: {step.unless_dead} {ended(status)}{self._last_words(step)}"
            )

    def _last_words(self, step: Wait) -> str:
        """Return what the process that a Wait is for wrote last, as evidence."""
        if step.unless_dead is None:
            return ""
        words = self.process(step.unless_dead).last_words(_CONSOLE_LINES)
        return "".join(f"\n  {line}" for line in words.splitlines())

    def _call(
        self, why: str, at: Node, argv: tuple[str, ...], stdin: bytes | None, timeout_s: float
    ) -> Completed:
        with _explained(why):
            return self.host(at).run(
                argv, stdin=stdin, env=self._workspace.env, timeout_s=timeout_s
            )

    def host(self, at: Node) -> Host:
        """Return the host that a node is on."""
        if at.host not in self._hosts:
            raise SetupFailed(f"no host is named {at.host}; there are: {', '.join(self._hosts)}")
        host = self._hosts[at.host]
        self._workspace.reach(host)
        return host

    def _filled(self, argv: tuple[str, ...], why: str) -> tuple[str, ...]:
        return tuple(fill(word, self.saved, why) for word in argv)

    def _filled_bytes(self, content: bytes, why: str) -> bytes:
        # Surrogates carry bytes that are no text through the substitution unharmed.
        text = content.decode(errors="surrogateescape")
        return fill(text, self.saved, why).encode(errors="surrogateescape")


@contextmanager
def _explained(why: str) -> Iterator[None]:
    """Put the reason of the step before what a host says of its failure."""
    try:
        yield
    except (SetupFailed, Unavailable) as error:
        raise type(error)(f"{why}: {error.message}", hint=error.hint) from error


def _holds(step: Wait, completed: Completed) -> bool:
    if completed.status not in step.check.ok:
        return False
    output = completed.stdout.decode(errors="replace")
    return step.check.pattern is None or bool(re.search(step.check.pattern, output, re.MULTILINE))
