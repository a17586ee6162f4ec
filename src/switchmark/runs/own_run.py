"""A separate run for one process on this host, so that `clean` can end the process if its owner
died."""

from __future__ import annotations

from pathlib import Path

from switchmark.hosts.local import LocalHost, LocalProcess
from switchmark.hosts.signals import shielded
from switchmark.runs.journal import Stop
from switchmark.runs.workspace import Workspace


class OwnRun:
    """A run with one process, from `spawn` to `end`."""

    def __init__(self, base: Path | None = None) -> None:
        """Begin a run under `base`, by default the folder of all runs of this user."""
        self._workspace = Workspace(base)
        self._spawned: tuple[LocalProcess, Stop, int] | None = None
        self._ended = False

    @property
    def folder(self) -> Path:
        """Return the folder of the run, which `end` removes."""
        return self._workspace.folder

    def spawn(self, name: str, argv: tuple[str, ...], stop: tuple[int, float]) -> LocalProcess:
        """Start the process. `stop` is the signal that ends it and the seconds until SIGKILL. The
        process dies with this one."""
        journal = self._workspace.journal
        with shielded():
            undo = Stop(name=name, number=stop[0], grace_s=stop[1])
            number = journal.intend(undo)
            process = LocalHost().spawn(
                ("setpriv", "--pdeathsig", "KILL", *argv),
                stderr_path=str(self.folder / "process.stderr"),
                env=self._workspace.env,
            )
            self._spawned = (process, undo, number)
            journal.started(number, process.pid, process.started)
        return process

    def end(self) -> None:
        """Stop the process and end the run."""
        with shielded():
            if self._spawned is not None:
                process, stop, number = self._spawned
                process.stop(stop.number, stop.grace_s)
                self._workspace.journal.done(number)
                self._spawned = None
            if not self._ended:
                self._ended = True
                self._workspace.close()
