"""Commands of plans are run on their hosts: one by one, or those of a host that is reached by ssh
in one round trip. What undoes a command is in the journal before it is run."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress

from switchmark.errors import (
    CommandFailed,
    CommandTimedOut,
    NotReady,
    SetupFailed,
    Unavailable,
)
from switchmark.hosts.base import Call, Completed, Host, Process
from switchmark.model.plan import HOST, Node, Plan, Run, Step, Wait, on_host
from switchmark.runs.failures import ended, evidence, failure, place_of
from switchmark.runs.journal import Command
from switchmark.runs.lifetimes import Lifetimes
from switchmark.runs.script import Inside, command, fill
from switchmark.runs.together import place_of_step, steps_beside, steps_together
from switchmark.runs.workspace import Workspace

_SHORTEST_S, _LONGEST_S = 0.002, 0.05
_SHORTEST_CHECK_S = 1.0
_CONSOLE_LINES = 25  # a kernel says why it panics above a trace of its calls


class Commands:
    """This object runs the commands of plans on `hosts`, by the names that nodes give them.

    `saved` holds what `Run(save=...)` kept and the pid of each Spawn, `lifetimes` how long these
    took; `home` is the host of steps that name none.
    """

    def __init__(self, hosts: Mapping[str, Host], workspace: Workspace, *, inside: Inside) -> None:
        self.saved: dict[str, str] = {}
        self._hosts = hosts
        self._workspace = workspace
        self._journal = workspace.journal
        self._inside = inside
        self._processes: dict[int, tuple[str, Process]] = {}
        self.lifetimes = Lifetimes()
        self.home = HOST.host

    def run(self, *steps: Run) -> tuple[bytes, ...]:
        """Carry out commands, and return their standard outputs: a switch's counters."""
        return tuple(each.stdout for each in self._carry_out_all(*steps))

    def process(self, name: str) -> Process:
        """Return the process of the Spawn of that name."""
        for known, process in reversed(self._processes.values()):
            if known == name:
                return process
        raise SetupFailed(f"no process named {name} is running")

    def host(self, at: Node) -> Host:
        """Return the host that a node is on."""
        name = self.home if at.host == HOST.host else at.host
        if name not in self._hosts:
            raise SetupFailed(f"no host is named {name}; there are: {', '.join(self._hosts)}")
        host = self._hosts[name]
        self._workspace.reach(host)
        return host

    def _carry_out_all(self, *steps: Run) -> Sequence[Completed]:
        """Carry out commands of which none needs another, those of one host together."""
        by_host: dict[str, list[int]] = {}
        for number, step in enumerate(steps):
            by_host.setdefault(self.host(step.at).name, []).append(number)
        every: dict[int, Completed] = {}
        for numbers in by_host.values():
            left: Plan = on_host(tuple(steps[number] for number in numbers), self.home)
            done: list[Completed] = []
            while left:
                some = self._together(left)
                done += self._carry_out_together(some)
                left = left[len(some) :]
            every |= zip(numbers, done, strict=True)
        return [every[number] for number in range(len(steps))]

    def _together(self, steps: Plan) -> Plan:
        """Return the first of some steps, with those that are carried out at once with it."""
        host = self.host(place_of_step(steps[0]))
        return steps_together(steps) if host.in_order else steps_beside(steps)

    def _carry_out_together(self, steps: Plan) -> Sequence[Completed]:
        """Carry out commands of a host, and what is waited for then: over ssh in one round trip,
        where what a failure kept from being done needs no undo; here those side by side that are
        about different things."""
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
        """Return the command of a step, with its undo in the journal by the number returned."""
        if isinstance(step, Wait):
            argv = self._filled(command(step.check, self._inside), step.why)
            limit_s = max(step.timeout_s, _SHORTEST_CHECK_S)
            env = self._workspace.env
            return Call(argv, None, env, limit_s, step.check.ok, about=repr(step.check)), None
        assert isinstance(step, Run)
        argv, number = self._filled(command(step, self._inside), step.why), None
        if step.undo is not None:
            number = self._journal.intend(
                Command(
                    host=self.host(step.at).name,
                    argv=self._filled(self._inside(step.at, step.undo), step.why),
                    about=step.about,
                    stdin=step.undo_stdin,
                    timeout_s=max(10.0, step.timeout_s),
                )
            )
        stdin = None if step.stdin is None else self._filled_bytes(step.stdin, step.why)
        env = self._workspace.env
        return Call(argv, stdin, env, step.timeout_s, step.ok, step.about), number

    def _ended(self, step: Run, argv: tuple[str, ...], completed: Completed) -> Completed:
        """Keep what a command gives; CommandFailed where it ended as its step does not allow."""
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
        """Poll until it holds; `first` is how its check ended at first, if it was made."""
        with self.lifetimes.waiting(step.unless_dead):
            self._poll(step, first)

    def _poll(self, step: Wait, completed: Completed | None) -> None:
        argv = self._filled(command(step.check, self._inside), step.why)
        host = self.host(step.check.at)
        limit_s = step.timeout_s * host.patience
        deadline = time.monotonic() + limit_s
        interval_s = _SHORTEST_S
        while True:
            last_try = time.monotonic() >= deadline
            left_s = max((deadline - time.monotonic()) / host.patience, _SHORTEST_CHECK_S)
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
            time.sleep(max(0.0, min(interval_s, deadline - time.monotonic())))
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
        """Return what the process that a Wait is for wrote last, as evidence."""
        if step.unless_dead is None:
            return ""
        words = self.process(step.unless_dead).last_words(_CONSOLE_LINES)
        return "".join(f"\n  {line}" for line in words.splitlines())

    def _call(
        self, why: str, at: Node, argv: tuple[str, ...], stdin: bytes | None, timeout_s: float
    ) -> Completed:
        with explained(why):
            return self.host(at).run(
                argv, stdin=stdin, env=self._workspace.env, timeout_s=timeout_s
            )

    def _filled(self, argv: tuple[str, ...], why: str) -> tuple[str, ...]:
        return tuple(fill(word, self.saved, why) for word in argv)

    def _filled_bytes(self, content: bytes, why: str) -> bytes:
        # Surrogates carry bytes that are no text through the substitution unharmed.
        text = content.decode(errors="surrogateescape")
        return fill(text, self.saved, why).encode(errors="surrogateescape")


@contextmanager
def explained(why: str) -> Iterator[None]:
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
