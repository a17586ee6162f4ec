"""The part of a run on a host that ssh reaches: its folder, its journal and its undos there.

That host executes the remaining undos when the connection ends. The journal has the local format,
so that `switchmark clean` on that host can read it.
"""

from __future__ import annotations

from contextlib import suppress

from switchmark.errors import SwitchmarkError, Unavailable
from switchmark.hosts.base import Held, Host
from switchmark.model.plan import PORTS_DIR, SWITCH_DIR
from switchmark.runs.journal import (
    Begin,
    Command,
    Done,
    Intend,
    Lease,
    Restore,
    Started,
    Stop,
    Undo,
)


class FarRun:
    """The part of the run `run` on `host`; `folder` is its folder on both hosts."""

    def __init__(self, host: Host, run: str, folder: str) -> None:
        self._host = host
        self._run = run
        self._folder = folder
        self._held: Held | None = None
        self._stops: dict[int, Stop] = {}
        self._noted: set[int] = set()

    def hold(self) -> None:
        """Make the host hold the run over this connection, unless it already does."""
        if self._held is not None and self._held.lives():
            return
        self._require_root()
        self._held = held = self._host.hold(self._run, self._folder, (PORTS_DIR, SWITCH_DIR))
        begin = Begin(run=self._run, boot=held.boot, pid=held.pid, start=held.started)
        held.journal(begin.model_dump_json())

    def note(self, entry: object) -> None:
        """Copy a line of the run's journal to that host, if the line is about it."""
        match entry:
            case Intend() if entry.undo.host == self._host.name:
                self._noted.add(entry.number)
                if isinstance(entry.undo, Stop):
                    self._stops[entry.number] = entry.undo
                self._holding().journal(_line_there(entry))
                self._keep(entry.number, entry.undo)
            case Started() if entry.number in self._stops:
                stop = self._stops[entry.number]
                self._holding().stop(
                    entry.number, entry.pid, entry.start, stop.number, stop.grace_s
                )
                self._holding().journal(entry.model_dump_json())
            case Done() if entry.number in self._noted:
                self._noted.discard(entry.number)
                with suppress(SwitchmarkError):  # the undo there is idempotent
                    self._holding().done(entry.number)
                    self._holding().journal(entry.model_dump_json())

    def end(self) -> None:
        """End the run there and remove its folder."""
        self._let_go(kept=False)

    def keep(self) -> None:
        """Leave the run's folder there, for `clean`."""
        self._let_go(kept=True)

    def _let_go(self, *, kept: bool) -> None:
        if self._held is not None and self._held.lives():
            with suppress(SwitchmarkError):
                self._held.end(kept=kept)
        self._held = None

    def _holding(self) -> Held:
        assert self._held is not None, "a run is noted where it is held"
        return self._held

    def _require_root(self) -> None:
        completed = self._host.run(("id", "-u"))
        if completed.stdout.strip() != b"0":
            raise Unavailable(
                f"a run on host {self._host.name} needs root there, and this is another user",
                hint=f'address = "root@..." in [hosts.{self._host.name}] of the host file',
            )

    def _keep(self, number: int, undo: Undo) -> None:
        match undo:
            case Command():
                self._holding().command(number, undo.argv, undo.stdin)
            case Restore():
                self._holding().restore(number, undo.path, undo.content)
            case Lease():
                self._holding().lease(number, undo.path, undo.added)


def _line_there(entry: Intend) -> str:
    """Return a journal line for that host, to which it is the local host."""
    there = entry.undo.model_copy(update={"host": "local"})
    return entry.model_copy(update={"undo": there}).model_dump_json()
