"""The executor: the only part that executes plans and undoes them.

It runs commands singly or together: on a far host in one round trip, on this host in parallel if
their subjects differ. It writes the undo of each step into the journal before the step, so that
`clean` finds everything after a crash at any moment. It knows no environment: the caller provides
the way into a node.
"""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path, PurePosixPath

from switchmark import clock
from switchmark.errors import (
    CommandFailed,
    CommandTimedOut,
    NotReady,
    SetupFailed,
    SwitchmarkError,
    Unavailable,
)
from switchmark.hosts.base import Call, Completed, Host, Process
from switchmark.hosts.signals import ending_what_hangs, shielded
from switchmark.model.plan import (
    HOST,
    End,
    Folder,
    Node,
    Plan,
    Reserve,
    Rest,
    Run,
    Spawn,
    Step,
    Wait,
    Write,
    on_host,
)
from switchmark.model.printable import last_lines
from switchmark.runs.hugepages import find_pool, reserve
from switchmark.runs.journal import Command, Far, Lease, Restore, Stop, Undo
from switchmark.runs.lifetimes import Lifetimes
from switchmark.runs.script import Inside, command, describe, fill, is_host
from switchmark.runs.together import place_of_step, steps_beside, steps_together
from switchmark.runs.undo import Refused, carry_out, in_words, undone_together
from switchmark.runs.workspace import Workspace

_SHORTEST_S, _LONGEST_S = 0.002, 0.05
_SHORTEST_CHECK_S = 1.0
_CONSOLE_LINES = 25  # a kernel prints the reason of a panic above the call trace


class Executor:
    """An executor of plans on `hosts`, keyed by the host names of nodes.

    `logs_dir` gets the stderr of each Spawn as `NAME.stderr`, and `steps.sh`, a script of the
    executed steps. `saved` holds the outputs of `Run(save=...)` and the pid of each Spawn;
    `lifetimes` holds their start and stop times. `refused` holds, in words, the undos that programs
    refused and that left nothing. `home` is the host of steps that name none.
    """

    def __init__(
        self, hosts: Mapping[str, Host], workspace: Workspace, *, inside: Inside, logs_dir: Path
    ) -> None:
        self.saved: dict[str, str] = {}
        self.refused: list[str] = []
        self.lifetimes = Lifetimes()
        self.home = HOST.host
        self._hosts = hosts
        self._workspace = workspace
        self._journal = workspace.journal
        self._inside = inside
        self._processes: dict[int, tuple[str, Process]] = {}
        self._since: dict[int, int] = {}
        self._stopped: dict[str, Process] = {}
        self._logs_dir = logs_dir
        logs_dir.mkdir(parents=True, exist_ok=True)

    def execute(self, plan: Plan, *, since: int | None = None) -> None:
        """Execute the steps in order. The first failure raises SetupFailed, or Unavailable for a
        missing program; `unwind` undoes the steps before it.

        With `since`, the steps belong to the block that began at this mark: an `unwind` to a later
        mark leaves them."""
        first = self._journal.next_number
        steps = on_host(plan, self.home)
        try:
            while steps:
                some = self._together(steps)
                with (self._logs_dir / "steps.sh").open("a", encoding="utf-8") as log:
                    log.writelines(f"{line}\n" for line in describe(some, self._inside))
                self._carry_out(some)
                steps = steps[len(some) :]
        finally:
            if since is not None:
                self._since |= dict.fromkeys(range(first, self._journal.next_number), since)

    def can(self, plan: Plan) -> bool:
        """Return whether the steps succeed; execute them and undo them."""
        mark = self.mark()
        try:
            self.execute(plan)
        except (SetupFailed, Unavailable):
            return False
        finally:
            self.unwind(to=mark)
        return True

    def mark(self) -> int:
        """Return a mark for `unwind`, so that a block can end while the run continues."""
        return self._journal.next_number

    def unwind(self, to: int | None = None) -> tuple[str, ...]:
        """Undo everything since the mark `to`, the latest first; without a mark, undo the whole run
        and release its hosts.

        A failure does not stop the other undos. Return all failures as text; they stay in the
        journal for `clean`. An interruption takes effect at the end. Another signal ends an undo
        that hangs, and the undo counts as failed.
        """
        failures = []
        with shielded():
            # If only a part of the run ends, the run keeps its far hosts.
            left = [
                number
                for number, undo in self._journal.pending.items()
                if to is None
                or (self._since.get(number, number) >= to and not isinstance(undo, Far))
            ][::-1]
            while left:
                undos = [self._journal.pending[number] for number in left]
                gone = [False]
                with suppress(SwitchmarkError), ending_what_hangs():
                    gone = undone_together(undos, self._hosts)
                for number, undo, is_gone in zip(left, undos, gone, strict=False):
                    try:
                        if not is_gone:
                            with ending_what_hangs():
                                self._undo(number, undo)
                        self._journal.done(number)
                    except Refused as refusal:
                        self.refused.append(f"refused ({in_words(undo)}): {refusal}")
                        self._journal.done(number)
                    except (SwitchmarkError, OSError) as error:
                        failures.append(f"could not undo ({in_words(undo)}): {error}")
                left = left[len(gone) :]
        return tuple(failures)

    def run(self, *steps: Run) -> tuple[bytes, ...]:
        """Run commands that read, such as a switch's counters, and return their standard
        outputs."""
        return tuple(completed.stdout for completed in self._carry_out_all(*steps))

    def process(self, name: str) -> Process:
        """Return the process of the Spawn with this name. A process that an End ended is the answer
        until the next one starts."""
        for step, process in reversed(self._processes.values()):
            if step == name:
                return process
        if name in self._stopped:
            return self._stopped[name]
        raise SetupFailed(f"no process named {name} is running")

    def host(self, node: Node) -> Host:
        """Return the host of a node."""
        name = self.home if node.host == HOST.host else node.host
        if name not in self._hosts:
            raise SetupFailed(f"no host is named {name}; there are: {', '.join(self._hosts)}")
        host = self._hosts[name]
        self._workspace.reach(host)
        return host

    # --- steps ---

    def _carry_out(self, steps: Plan) -> None:
        if len(steps) > 1:
            self._carry_out_together(steps)
            return
        match steps[0]:
            case Run() as step:
                self._run(step)
            case Spawn() as step:
                self._spawn(step)
            case End() as step:
                self._end(step)
            case Rest() as step:
                clock.sleep(step.seconds)
            case Write() as step:
                self._write(step)
            case Folder() as step:
                self._make_folder(step)
            case Reserve() as step:
                self._reserve(step)
            case Wait() as step:
                self._wait(step)

    def _carry_out_all(self, *steps: Run) -> Sequence[Completed]:
        """Run commands that are independent of each other, those of each host together."""
        by_host: dict[str, list[int]] = {}
        for number, step in enumerate(steps):
            by_host.setdefault(self.host(step.at).name, []).append(number)
        results: dict[int, Completed] = {}
        for numbers in by_host.values():
            left: Plan = on_host(tuple(steps[number] for number in numbers), self.home)
            finished: list[Completed] = []
            while left:
                some = self._together(left)
                finished += self._carry_out_together(some)
                left = left[len(some) :]
            results |= zip(numbers, finished, strict=True)
        return [results[number] for number in range(len(steps))]

    def _together(self, steps: Plan) -> Plan:
        """Return the first steps that can be executed together."""
        host = self.host(place_of_step(steps[0]))
        return steps_together(steps) if host.in_order else steps_beside(steps)

    def _carry_out_together(self, steps: Plan) -> Sequence[Completed]:
        """Run commands on one host together, then wait for the Waits behind them. On a far host
        they take one round trip, and commands that a failure prevented need no undo. On this host,
        commands with different subjects run in parallel."""
        host = self.host(place_of_step(steps[0]))
        prepared = [self._prepared(step) for step in steps]
        calls, undos = [call for call, _ in prepared], [undo for _, undo in prepared]
        ran: list[Completed] = []
        tried: list[tuple[Wait, Completed | None]] = []
        with closing(host.run_all(calls)) as outcomes:
            for number, (step, call) in enumerate(zip(steps, calls, strict=True), 1):
                if isinstance(step, Wait):
                    first = None
                    with suppress(CommandTimedOut):
                        first = next(outcomes, None)
                    tried.append((step, first))
                elif isinstance(step, Run):
                    try:
                        with explained(step.why):
                            completed = next(outcomes)
                        ran.append(self._ended(step, call.argv, completed))
                    except (CommandFailed, Unavailable):
                        for undo in undos[number:]:
                            if undo is not None and host.in_order:
                                self._journal.done(undo)
                        raise
        for wait, first in tried:
            self._wait(wait, first)
        return ran

    def _prepared(self, step: Step) -> tuple[Call, int | None]:
        """Return the command of a step, and the number of its undo in the journal."""
        if isinstance(step, Wait):
            argv = self._filled(command(step.check, self._inside), step.why)
            limit_s = max(step.timeout_s, _SHORTEST_CHECK_S)
            env = self._workspace.env
            return Call(argv, None, env, limit_s, step.check.ok, subject=repr(step.check)), None
        assert isinstance(step, Run)
        argv, number = self._filled(command(step, self._inside), step.why), None
        if step.undo is not None:
            number = self._journal.intend(
                Command(
                    host=self.host(step.at).name,
                    argv=self._filled(self._inside(step.at, step.undo), step.why),
                    about=step.subject,
                    stdin=step.undo_stdin,
                    timeout_s=max(10.0, step.timeout_s),
                    refusable=step.undo_refusable,
                )
            )
        stdin = None if step.stdin is None else self._filled_bytes(step.stdin, step.why)
        env = self._workspace.env
        return Call(argv, stdin, env, step.timeout_s, step.ok, step.subject), number

    def _ended(self, step: Run, argv: tuple[str, ...], completed: Completed) -> Completed:
        """Save a command's output; raise CommandFailed if the step does not allow its status."""
        if completed.status not in step.ok:
            raise failure(step.why, step.at, argv, completed)
        if step.save is not None:
            self.saved[step.save] = completed.stdout.decode(errors="replace").strip()
        return completed

    def _run(self, step: Run) -> Completed:
        call, _ = self._prepared(step)
        completed = self._call(step.why, step.at, call.argv, call.stdin, step.timeout_s)
        return self._ended(step, call.argv, completed)

    def _wait(self, step: Wait, first: Completed | None = None) -> None:
        """Poll until the check succeeds; `first` is the check's first result, if it ran already."""
        with self.lifetimes.waiting(step.unless_dead):
            self._poll(step, first)

    def _poll(self, step: Wait, completed: Completed | None) -> None:
        argv = self._filled(command(step.check, self._inside), step.why)
        host = self.host(step.check.at)
        limit_s = step.timeout_s * host.patience
        deadline = clock.monotonic() + limit_s
        interval_s = _SHORTEST_S
        while True:
            last_try = clock.monotonic() >= deadline
            left_s = max((deadline - clock.monotonic()) / host.patience, _SHORTEST_CHECK_S)
            try:
                completed = completed or self._call(step.why, step.check.at, argv, None, left_s)
            except CommandTimedOut as error:
                raise NotReady(f"{error.message}{self._last_words(step)}") from error
            if _holds(step, completed):
                return
            self._refuse_dead(step)
            if last_try:
                raise NotReady(
                    f"{step.why}: still not so after {limit_s:g} s\n"
                    f"  {place_of(step.check.at)}: {shlex.join(argv)}{evidence(completed)}"
                    f"{self._last_words(step)}"
                )
            clock.sleep(max(0.0, min(interval_s, deadline - clock.monotonic())))
            interval_s, completed = min(1.5 * interval_s, _LONGEST_S * host.patience), None

    def _refuse_dead(self, step: Wait) -> None:
        if step.unless_dead is None:
            return
        if (status := self.process(step.unless_dead).poll()) is not None:
            raise NotReady(
                f"{step.unless_dead} {ended(status)}\n  waiting until this is so: {step.why}"
                f"{self._last_words(step)}"
            )

    def _last_words(self, step: Wait) -> str:
        """Return the last output of the process that a Wait is for, as evidence."""
        if step.unless_dead is None:
            return ""
        output = self.process(step.unless_dead).last_words(_CONSOLE_LINES)
        return "".join(f"\n  {line}" for line in output.splitlines())

    def _call(
        self, why: str, node: Node, argv: tuple[str, ...], stdin: bytes | None, timeout_s: float
    ) -> Completed:
        with explained(why):
            return self.host(node).run(
                argv, stdin=stdin, env=self._workspace.env, timeout_s=timeout_s
            )

    def _filled(self, argv: tuple[str, ...], why: str) -> tuple[str, ...]:
        return tuple(fill(word, self.saved, why) for word in argv)

    def _filled_bytes(self, content: bytes, why: str) -> bytes:
        # surrogateescape carries bytes that are not text through the substitution.
        text = content.decode(errors="surrogateescape")
        return fill(text, self.saved, why).encode(errors="surrogateescape")

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

    def _spawn(self, step: Spawn) -> None:
        if any(name == step.name for name, _ in self._processes.values()):
            raise SetupFailed(f"{step.why}: a process named {step.name} is already running")
        argv = self._filled(command(step, self._inside), step.why)
        number, grace_s = step.stop
        stop = self._journal.intend(
            Stop(host=step.at.host, name=step.name, number=number, grace_s=grace_s)
        )
        with shielded(), explained(step.why), self.lifetimes.starting(step.name):
            host = self.host(step.at)
            process = host.spawn(argv, stderr_path=self._log_of(step), env=self._workspace.env)
            self._processes[stop] = (step.name, process)
            self._journal.started(stop, process.pid, process.started)
        self.saved[step.name] = str(process.pid)

    def _end(self, step: End) -> None:
        """End the process of a Spawn, whose undo is then done."""
        undo = next(
            (undo for undo, (name, _) in self._processes.items() if name == step.name), None
        )
        if undo is None:
            raise SetupFailed(f"{step.why}: no process named {step.name} is running")
        (_, process), (number, grace_s) = self._processes[undo], step.stop
        with shielded(), explained(step.why), self.lifetimes.stopping(step.name):
            process.stop(number, grace_s)
            del self._processes[undo]
            self._stopped[step.name] = process
            self._journal.done(undo)

    def _log_of(self, step: Spawn) -> str:
        return str(self._logs_dir / f"{step.name}.stderr")

    def _write(self, step: Write) -> None:
        path = fill(step.path, self.saved, step.why)
        content = self._filled_bytes(step.content, step.why)
        if not is_host(step.at):
            self._write_inside(step, path, content)
            return
        host = self.host(step.at)
        if step.optional and not host.exists(path):
            return
        try:
            if step.machine_wide:
                lease(self._workspace, host, path, content)
            else:
                old = _content(host, path)
                self._journal.intend(Restore(host=host.name, path=path, content=old))
                host.write(path, content)
        except OSError as error:
            if step.refusable:
                return
            reason = error.strerror or str(error)
            raise SetupFailed(f"{step.why}: {path} cannot be set: {reason}") from error

    def _write_inside(self, step: Write, path: str, content: bytes) -> None:
        """Write a file as its node sees it, with the node's own `cat` and `tee`."""
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
        result = self._call(step.why, step.at, write, content, 10.0)
        if result.status != 0:
            raise failure(step.why, step.at, write, result)

    def _make_folder(self, step: Folder) -> None:
        path = PurePosixPath(fill(step.path, self.saved, step.why))
        if is_host(step.at) and self.host(step.at).is_local:  # other runs may be using it
            with explained(step.why):
                lease(self._workspace, self.host(step.at), f"{path}/", b"")
            return
        folders = [str(folder) for folder in (path, *path.parents)]
        looks = (Run(step.why, ("test", "-d", folder), step.at, ok=(0, 1)) for folder in folders)
        statuses = [completed.status for completed in self._carry_out_all(*looks)]
        missing = [folder for folder, status in zip(folders, statuses, strict=True) if status]
        if missing:
            removing = ("rmdir", "--ignore-fail-on-non-empty", *missing)
            making = ("mkdir", "-p", str(path))
            self._run(Run(step.why, making, at=step.at, undo=removing))

    def _reserve(self, step: Reserve) -> None:
        with explained(step.why):
            reserve_pages(self._workspace, self.host(step.at), step)


def _content(host: Host, path: str) -> bytes | None:
    try:
        return host.read(path)
    except FileNotFoundError:
        return None


@contextmanager
def explained(why: str) -> Iterator[None]:
    """Prefix the step's reason to the host's error."""
    try:
        yield
    except (SetupFailed, Unavailable) as error:
        raise type(error)(f"{why}: {error.message}", hint=error.hint) from error


def _holds(step: Wait, completed: Completed) -> bool:
    if completed.status not in step.check.ok:
        return False
    output = completed.stdout.decode(errors="replace")
    return step.check.pattern is None or bool(re.search(step.check.pattern, output, re.MULTILINE))


def lease(workspace: Workspace, host: Host, path: str, content: bytes) -> None:
    """Set a value of the whole host; the last run that holds the lease restores the old value."""
    number = workspace.journal.intend(Lease(host=host.name, path=path))
    try:
        workspace.leases.take(workspace.run, host, path, content)
    except (SetupFailed, Unavailable, OSError):
        # Without a lease, this undo would release an earlier lease of the run.
        workspace.journal.done(number)
        raise


def reserve_pages(workspace: Workspace, host: Host, step: Reserve) -> None:
    """Reserve hugepages for a run. Raise SetupFailed or Unavailable if the host lacks them."""
    pool = find_pool(host, step.node)
    numbers: list[int] = []

    def intend(added: int) -> None:
        undo = Lease(host=host.name, path=pool.total, added=added)
        numbers.append(workspace.journal.intend(undo))

    try:
        reserve(
            pool,
            step.megabytes,
            run=workspace.run,
            host=host,
            leases=workspace.leases,
            intend=intend,
        )
    except (SetupFailed, Unavailable):
        # Without a lease, this undo would release an earlier lease of the run.
        for number in numbers:
            workspace.journal.done(number)
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise SetupFailed(f"{pool.total} cannot be set: {reason}") from error


# --- failures ---


def failure(why: str, node: Node, argv: tuple[str, ...], completed: Completed) -> CommandFailed:
    """Return the error for a command whose status its step does not allow."""
    return CommandFailed(
        f"{why}: the command {ended(completed.status)}\n"
        f"  {place_of(node)}: {shlex.join(argv)}{evidence(completed)}"
    )


def evidence(completed: Completed) -> str:
    """Return the last lines of a command's output, indented."""
    output = last_lines(completed.stderr) or last_lines(completed.stdout) or "(no output)"
    return "".join(f"\n  {line}" for line in output.splitlines())


def place_of(node: Node) -> str:
    """Return the words for a node's place."""
    return (
        f"on {node.host}"
        if is_host(node)
        else f"at {node.name} ({node.environment}) on {node.host}"
    )


def ended(status: int) -> str:
    """Return the words for the end of a process."""
    if status < 0:
        return f"was ended by signal {-status} ({signal.strsignal(-status)})"
    return f"ended with status {status}"
