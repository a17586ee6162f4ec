"""The lab for tests that are compared in turns. Their paths stay up between visits, frozen or idle,
so that a round of short trials covers all tests (docs/decisions/0030).

All other tests run in one lab, one at a time. Here every path has a lab with a separate run id,
journal and set of names, so that paths do not collide.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from switchmark import clock
from switchmark.errors import SetupFailed, SwitchmarkError, Unavailable
from switchmark.hosts.base import Host
from switchmark.lab.measure import Lab
from switchmark.metrics.throughput import of_latency
from switchmark.model.plan import HOST
from switchmark.model.record import Kept, Record, TurnsRecord
from switchmark.model.test import Test
from switchmark.model.visit import Visit
from switchmark.observe.threads import cpu_ns
from switchmark.path.path import path_key
from switchmark.runs.freezer import Freezer

_IDLE = 0.01
"""The maximum CPU use of an idle path, in cores."""

_LOOK_S = 0.05
"""The time for checking whether a path is idle."""


class Turns:
    """Keeps the paths of compared tests up while other tests are measured. `options` are those of
    `Lab`."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self._folder, self._options = folder, options
        self._alone = Lab(folder, **options)
        self._slots: dict[Hashable, _Slot] = {}
        self._among: tuple[Test, ...] = ()
        self._opened = 0
        self._left: tuple[str, ...] = ()

    @property
    def kept(self) -> list[str]:
        """Return the commands that enter the nodes of kept paths."""
        return self._alone.kept

    @property
    def left(self) -> tuple[str, ...]:
        """Return what could not be undone, and how to clean it up."""
        return (*self._left, *self._alone.left)

    def __enter__(self) -> Self:
        self._alone.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with ExitStack() as ending:
            ending.callback(self._alone.__exit__, kind, error, trace)
            for key in list(self._slots):
                ending.callback(self._close, key)

    def versions(self, test: Test) -> Mapping[str, str]:
        """Return the versions that the figures of a test depend on."""
        return self._alone.versions(test)

    def visit(self, visit: Visit) -> Record | None:
        """Run a test, or some of its trials, as `Lab` does. The path of a test that is compared
        `among` others stays up until its record is done."""
        keys = {path_key(test) for test in visit.among}
        for key in [key for key in self._slots if key not in keys]:
            self._close(key)
        if not visit.among:
            return self._alone.visit(visit)
        self._calibrate(visit)
        slot = self._slot(visit.test)
        evicted: list[_Slot] = []
        record = self._measure_in(slot, visit)
        while record is not None and slot.lab.unbuilt and (others := self._in_the_way(slot)):
            why = f"no room for another path: {_first_line(record.error)}"
            for other in others[-1:] if not evicted else others:
                other.stand_up(why)
                evicted.append(other)
            record = self._measure_in(slot, visit)
        if evicted and slot.lab.unbuilt:  # the evicted paths were not the reason
            for other in evicted:
                other.stay_up()
        elif evicted:
            slot.stand_up(evicted[0].why or "")
        if record is not None:
            record = record.model_copy(update={"turns": slot.record()})
            if slot.lab.up is None:
                self._close(path_key(visit.test))
        return record

    def _calibrate(self, visit: Visit) -> None:
        """Measure what the tests need on cables, while all paths rest. The first visit covers all
        tests, and later visits cover only expired latencies."""
        tests = visit.among
        if visit.among == self._among:
            tests = (visit.test,) if of_latency(visit.test) else ()
        self._among = visit.among
        for test in tests:
            with suppress(SwitchmarkError):  # the visit reports the error
                self._alone.calibrate(test)

    def _slot(self, test: Test) -> _Slot:
        key = path_key(test)
        if key not in self._slots:
            self._opened += 1
            logs = f"turns/{self._opened}"
            lab = Lab(self._folder, beside=self._alone, logs=logs, **self._options)
            lab.__enter__()
            host = lab.instruments.hosts[HOST.host]
            slot = self._slots[key] = _Slot(lab, host)
            try:
                slot.freezer = Freezer(lab.executor, host, lab.workspace.run)
            except Unavailable as error:
                slot.no_freezer = _first_line(str(error))
        return self._slots[key]

    def _measure_in(self, slot: _Slot, visit: Visit) -> Record | None:
        """Run a visit in a slot, and let its path rest afterwards."""
        slot.wake()
        record = slot.lab.visit(visit if slot.why is None else replace(visit, among=(), then=None))
        if slot.lab.up is not None:
            slot.rest()
        return record

    def _in_the_way(self, slot: _Slot) -> list[_Slot]:
        """Return the other slots that have a path up."""
        return [other for other in self._slots.values() if other is not slot and other.lab.up]

    def _close(self, key: Hashable) -> None:
        slot = self._slots.pop(key)
        slot.lab.__exit__(None, None, None)
        self._left += slot.lab.left


@dataclass(slots=True)
class _Slot:
    """The lab of one path, and the local host."""

    lab: Lab
    """The lab."""
    host: Host
    """The local host."""
    why: str | None = None
    """The reason for setting the path up again in every round; None if the path stays up."""
    freezer: Freezer | None = None
    """Freezes the processes of the path; None if the host cannot."""
    no_freezer: str = ""
    """The reason why the host cannot freeze processes."""
    rested_s: float = 0.0
    """The time that the path rested, in seconds."""
    rested_cpu_s: float = 0.0
    """The CPU time of the path's processes while it rested, in seconds."""
    _kept: Kept = "idle"
    _frames_after: int | None = None
    _resting_since: tuple[float, int] | None = None
    _of_path: object = None
    _pids: tuple[int, ...] = field(default_factory=tuple)

    def rest(self) -> None:
        """Freeze the path, or check that it is idle. If neither works, take it down."""
        path = self.lab.up
        assert path is not None
        self._frames_after = path.frames_after
        if path is not self._of_path:
            self._of_path, self._pids = path, self._processes()
            if self.freezer is not None:
                self.freezer.forget()
        try:
            if self.freezer is not None and (path.works or not self._is_idle()):
                self.freezer.freeze()
                self._kept = "frozen"
            elif self.freezer is None and not self._is_idle():
                self.stand_up(self.no_freezer)
                return
        except SetupFailed as error:
            self.stand_up(f"it cannot be frozen: {_first_line(str(error))}")
            return
        self._resting_since = clock.monotonic(), self._used_ns()

    def wake(self) -> None:
        """Resume a resting path."""
        if self._resting_since is None:
            return
        since, used = self._resting_since
        self._resting_since = None
        self.rested_s += clock.monotonic() - since
        self.rested_cpu_s += (self._used_ns() - used) / 1e9
        if self.freezer is not None:
            self.freezer.thaw()

    def stand_up(self, why: str) -> None:
        """Take the path down, and set it up again in every round from now on."""
        self.wake()
        self.lab.take_down()
        self.why, self._kept = why, "set-up-again"

    def stay_up(self) -> None:
        """Keep the path up between visits again: it was not in the way."""
        self.why, self._kept = None, "idle"

    def record(self) -> TurnsRecord:
        """Return the slot's part of the record."""
        rested_s, rested_cpu_s = round(self.rested_s, 3), round(self.rested_cpu_s, 6)
        self.rested_s = self.rested_cpu_s = 0.0
        if self.why is not None:
            return TurnsRecord(kept="set-up-again", why=self.why)
        return TurnsRecord(
            kept=self._kept,
            freezer=self.freezer.name if self.freezer and self._kept == "frozen" else None,
            rested_s=rested_s,
            rested_cpu_s=rested_cpu_s,
            frames_after=self._frames_after,
        )

    def _processes(self) -> tuple[int, ...]:
        return tuple(pid for pid, _ in self.host.marked(self.lab.workspace.run))

    def _used_ns(self) -> int:
        return cpu_ns(self.host, self._pids)[0]

    def _is_idle(self) -> bool:
        """Return whether the processes of the path are idle now."""
        if self._kept == "idle" and self.rested_s:
            return True
        before = self._used_ns()
        clock.sleep(_LOOK_S)
        return self._used_ns() - before < _IDLE * _LOOK_S * 1e9


def _first_line(text: str | None) -> str:
    return (text or "").partition("\n")[0]
