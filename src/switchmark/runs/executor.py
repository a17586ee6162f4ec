"""The executor is the only part that carries plans out, and takes them back.

Before each step its undo is in the journal, so that a death at any moment leaves nothing that
`clean` does not find. It knows no environment: the caller gives the way into a node.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath

from switchmark.errors import SetupFailed, SwitchmarkError, Unavailable
from switchmark.hosts.base import Host
from switchmark.hosts.signals import ending_what_hangs, shielded
from switchmark.model.plan import Folder, Plan, Reserve, Run, Spawn, Wait, Write, on_host
from switchmark.runs.commands import Commands, explained
from switchmark.runs.failures import failure
from switchmark.runs.journal import Command, Far, Restore, Stop, Undo
from switchmark.runs.leasing import lease, reserve_pages
from switchmark.runs.script import Inside, command, describe, fill, is_host
from switchmark.runs.undo import carry_out, in_words, undone_together
from switchmark.runs.workspace import Workspace


class Executor(Commands):
    """An executor carries plans out on `hosts`. `logs_dir` gets the stderr of each Spawn as
    `NAME.stderr`, and `steps.sh`: what was done, as a script."""

    def __init__(
        self, hosts: Mapping[str, Host], workspace: Workspace, *, inside: Inside, logs_dir: Path
    ) -> None:
        super().__init__(hosts, workspace, inside=inside)
        self._logs_dir = logs_dir
        logs_dir.mkdir(parents=True, exist_ok=True)

    def execute(self, plan: Plan) -> None:
        """Carry the steps out in order. The first that fails raises SetupFailed (or
        Unavailable, for a program that is missing); what was done is left for `unwind`."""
        steps = on_host(plan, self.home)
        for step in steps:
            if isinstance(step, Spawn):
                self.host(step.at).expect(self._log_of(step))
        while steps:
            some = self._together(steps)
            with (self._logs_dir / "steps.sh").open("a") as log:
                log.writelines(f"{line}\n" for line in describe(some, self._inside))
            self._carry_out(some)
            steps = steps[len(some) :]

    def _carry_out(self, steps: Plan) -> None:
        if len(steps) > 1:
            self._carry_out_together(steps)
            return
        match steps[0]:
            case Run() as step:
                self._run(step)
            case Spawn() as step:
                self._spawn(step)
            case Write() as step:
                self._write(step)
            case Folder() as step:
                self._make_folder(step)
            case Reserve() as step:
                self._reserve(step)
            case Wait() as step:
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

    def mark(self) -> int:
        """Return a place to unwind to, so that a block can end while the run goes on."""
        return self._journal.next_number

    def unwind(self, to: int | None = None) -> tuple[str, ...]:
        """Undo everything since the mark `to`, the latest first; without one the whole run, and let
        its hosts go.

        A failure stops nothing: all are returned, in words, and stay in the journal for
        `clean`. An interruption is held back until the end; a further one ends an undo that hangs,
        and that is a failure.
        """
        failures = []
        with shielded():
            # Where only a part of the run ends, it goes on on its hosts.
            left = [
                number
                for number, undo in self._journal.pending.items()
                if to is None or (number >= to and not isinstance(undo, Far))
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
                    except (SwitchmarkError, OSError) as error:
                        failures.append(f"could not undo ({in_words(undo)}): {error}")
                left = left[len(gone) :]
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
            reason = error.strerror or str(error)
            raise SetupFailed(f"{step.why}: {path} cannot be set: {reason}") from error

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
        folders = [str(each) for each in (path, *path.parents)]
        looks = (Run(step.why, ("test", "-d", each), step.at, ok=(0, 1)) for each in folders)
        statuses = [each.status for each in self._carry_out_all(*looks)]
        missing = [each for each, status in zip(folders, statuses, strict=True) if status]
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
