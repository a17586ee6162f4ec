"""One trial: commands to the traffic processes, and counters around the measured phase.

Between warm-up and measured phase the path becomes quiet and the counters are read. The counts of
the measured phase are therefore exact (docs/decisions/0003).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from switchmark import clock
from switchmark.errors import SetupFailed, TrialFailed
from switchmark.lab.happening import require_steps
from switchmark.lab.meter import Meter, Window
from switchmark.lab.outcome import Outcome
from switchmark.lab.series import SeriesReader
from switchmark.lab.standstill import Standstill
from switchmark.lab.workers import Worker, Workers
from switchmark.model.cgroups import PERIOD_US
from switchmark.model.counters import PathCounters
from switchmark.model.event import REPLACING, EventResult, load_steps
from switchmark.model.objects import Message
from switchmark.model.record import TrialResult, TrialSpec
from switchmark.model.series import STEPPED_S, series_interval_ns
from switchmark.path.assembly import PlannedEvent, events_of
from switchmark.path.orders import expected_of, load_of, opening_of
from switchmark.path.path import Job, Part, Path, awaits_switch

_LEAD_NS = 5_000_000
_LEAD_A_PROCESS_NS = 2_000_000
_LEAD_AWAY_MAX_NS = 500_000_000
_LEAD_TO_A_GUEST_NS = 50_000_000  # an emulated processor was 32 ms late (both of two cores busy)
_QUIET_MS = 20
_QUIET_A_FUNCTION_MS = 30  # functions that share a CPU may hold frames until their turn
_QUIET_MAX_MS = 1000
_PUSH_S = 0.0002  # short, so that its frames fit in the queues
_ANNOUNCE_S = 10.0  # the default ageing time of MACs in switches is 60 to 300 s
_OPEN_S = 20.0
_RAMP = 10  # the steps of a ramp, from a tenth of the rate on
_PHASE_SLACK_S = 10.0
_EVENT_INTERVAL_S, _EVENT_FRAMES = 0.01, 1200
"""The least length of the intervals of a trial with an event, and the frames in an interval, which
are enough for a 99th percentile."""


class Trials:
    """Runs trials on a path that is up.

    `counters` reads the counters of the whole path. `alive` raises TrialFailed if the switch or a
    function has died. `take_place` carries out an event of the measured phase. `meter` measures the
    cost of the measured phase. `lag_s` is the delay of counters that are updated late. The path is
    quiet if no frame arrives for `quiet_ms`. `resident` returns the resident memory of the switch.
    `keep` gets the finished intervals of a running trial.
    """

    def __init__(
        self,
        path: Path,
        workers: Sequence[Worker],
        *,
        counters: Callable[[], PathCounters],
        alive: Callable[[], None],
        take_place: Callable[[PlannedEvent, int], EventResult],
        meter: Meter,
        resident: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._path = path
        self._workers = Workers(workers)
        self._standstill = Standstill(counters)
        self._alive = alive
        self._take_place = take_place
        self._meter = meter
        self._resident = resident
        self.end = self._workers.end
        self.lag_s, self.quiet_ms = 0.0, _QUIET_MS
        self.keep: Callable[[Mapping[str, Any]], None] = lambda intervals: None
        self._openings: dict[Worker, Message] = {}
        self._away_ns = 0

    # -- before the first trial --------------------------------------------------------

    def open(self, *, join: Callable[[], None], settle: Callable[[], None]) -> None:
        """Open all ports and wait for their links. Raise TrialFailed with the program's reason.

        `join` is called as soon as all ports are open, except for those that open only when the
        switch joins. `settle` is called when all ports are open.
        """
        self._openings = {worker: opening_of(self._path, worker.plays) for worker in self._workers}
        waiting = [worker for worker in self._workers if awaits_switch(worker.parts)]
        left = list(self._workers)
        while left:  # in parallel, except for processes that connect to a socket of another
            ready = [worker for worker in left if not self._connects(worker, left)] or left[:1]
            for worker in ready:
                worker.process.send("open", **self._openings[worker])
            for worker in ready:
                if worker not in waiting:
                    worker.process.answer("open", timeout_s=_OPEN_S)
            left = [worker for worker in left if worker not in ready]
        join()
        for worker in waiting:
            worker.process.answer("open", timeout_s=_OPEN_S)
        settle()
        self._workers.send("ready", lambda worker: {"timeout_ms": 5000})

    def _connects(self, worker: Worker, others: Sequence[Worker]) -> bool:
        """Return whether a process connects to a socket on which one of the others listens."""
        listening = {end.path for other in others for end in other.plays.endpoints if end.server}
        return any(
            end.path in listening for end in worker.plays.endpoints if end.path and not end.server
        )

    def turn_to(self, path: Path) -> None:
        """Measure another test on the same path from now on. Ports with other settings are closed
        and opened again."""
        self._path = path
        for worker in self._workers:
            opening = opening_of(path, worker.plays)
            if opening != self._openings[worker]:
                worker.process.ask("close")
                worker.process.ask("open", timeout_s=_OPEN_S, **opening)
                worker.process.ask("ready", timeout_ms=5000)
                self._openings[worker] = opening

    # -- a trial -----------------------------------------------------------------------

    def measure(self, spec: TrialSpec, *, proving: bool = False) -> TrialResult:
        """Run one trial. Raise TrialFailed if a process died or did not answer.

        With `proving`, every byte is checked, the headers are compared by flow with the switch's
        addressing, and nothing is timed.
        """
        hz = None if proving else self._path.test.profile
        with self._meter.armed(self._path, hz) as window:
            result = self._measured(spec, window, proving)
        if self._path.test.settle and not proving:
            clock.sleep(self._path.test.settle)
        return result

    def _measured(self, spec: TrialSpec, window: Window, proving: bool) -> TrialResult:
        run = 2**28 + secrets.randbelow(2**32 - 2**28)  # no VXLAN header begins with these bits
        # A shorter trial warms the path up, or tries it.
        whole = not proving and spec.duration_s == self._path.test.duration
        if whole and (steps := load_steps(self._path.test.all_events, spec.duration_s)):
            spec = spec.model_copy(update={"steps": steps})
        series = None if proving else self._series(spec)
        one_way = self._path.test.dimension != "latency"
        self._workers.read_clocks(well=one_way and not proving)
        before_ns = clock.monotonic_ns()
        self._workers.send(
            "arm",
            lambda worker: {
                "run": run,
                "touch": "full" if proving else self._path.test.touch,
                "longest_ns": max(spec.longest_ns, self._warmup_ns(spec)),
                "interval_ns": spec.interval_ns,
                **({"series_ns": series.interval_ns} if series else {}),
                "announce_every_ns": round(_ANNOUNCE_S * 1e9),
                "clock": self._workers.clock(worker),
                "tasks": [
                    {
                        **self._load(part, job, spec),
                        **(expected_of(self._path, part, job) if proving else {}),
                    }
                    for part in worker.parts
                    for job in part.jobs
                ],
            },
        )
        self._away_ns = clock.monotonic_ns() - before_ns if self._path.is_away else 0
        if warmup_ns := self._warmup_ns(spec):
            self._phase("warmup", warmup_ns / 1e9, steps=self._ramp(spec))
        self._alive()
        # At full rate the queues fill up, and the last frames in a queue may wait for the next
        # frame.
        full = spec.rate_pps is None
        before = self._counted(partial(self._phase, "warmup", _PUSH_S) if full else None)
        window.ready()
        residual_s = 0.0 if proving else self._path.test.residual
        events = events_of(self._path) if whole else ()
        happened: list[EventResult] = []

        def during(start_ns: int, duration_ns: int) -> None:
            happened.extend(self._take_place(event, start_ns) for event in events)
            if series and all(event.failure is None for event in happened):
                with _after_events(happened):
                    series.follow(start_ns, duration_ns)

        self._phase("measured", spec.duration_s, window, residual_s, during, spec.steps)
        if all(event.failure is None for event in happened):
            with _after_events(happened):
                self._alive()
        cost = window.cost(self._workers.tsc_hz)
        # A new process counts from 0, and a switch that did not come back does not count.
        replaced = self._path.dedicated_core and any(e.kind in REPLACING for e in happened)
        lost = replaced or any(event.failure is not None for event in happened)
        counted = PathCounters() if lost else self._counted().since(before)
        reports = self._workers.send("report", timeout_s=30.0)
        path = self._path
        if proving:  # independent of the test's `touch`
            path = replace(path, test=path.test.model_copy(update={"touch": "full"}))
        clocks = self._workers.told_clocks()
        result = Outcome(path, tuple(self._workers), clocks).result(
            *(spec, spec.interval_ns, reports, counted),
            *(window.used, window.stolen, cost.load),
            series=series.whole() if series else None,
        )
        if whole:
            require_steps(result)
        if happened:
            evidence = result.evidence.model_copy(update={"events": tuple(happened)})
            result = result.model_copy(update={"evidence": evidence})
        return result.model_copy(update={"cost": cost})

    def _series(self, spec: TrialSpec) -> SeriesReader | None:
        """Return the reader of a trial's series; None for a test without one."""
        test = self._path.test
        interval_s = test.interval or (STEPPED_S if spec.steps else None)
        if interval_s is None and test.events:
            pps = (spec.rate_pps or 0.0) * self._path.streams
            interval_s = max(_EVENT_INTERVAL_S, _EVENT_FRAMES / pps if pps else 0.0)
        if interval_s is None:
            return None
        return SeriesReader(
            self._workers,
            series_interval_ns(interval_s, spec.duration_s),
            copies=test.copies,
            counted=test.touch != "none",
            resident=self._resident,
            keep=self.keep,
            alive=self._alive,
        )

    def _warmup_ns(self, spec: TrialSpec) -> int:
        """Return the length of the warm-up with its ramp."""
        ramp_s = self._path.test.ramp if spec.rate_pps is not None else 0.0
        return round((ramp_s + spec.warmup_s) * 1e9)

    def _ramp(self, spec: TrialSpec) -> Sequence[tuple[float, float]]:
        """Return the steps of a warm-up: the rate rises from a tenth to the whole."""
        ramp_s = self._path.test.ramp
        if not ramp_s or spec.rate_pps is None:
            return ()
        return [(ramp_s * step / _RAMP, (step + 1) / _RAMP) for step in range(_RAMP)]

    def _counted(self, push: Callable[[], None] | None = None) -> PathCounters:
        """Return the counters. If reading fails because the switch died, the error says so. For a
        polling switch, `push` empties its queues, and in a chain the counters must also be
        stable."""
        if self.lag_s:
            clock.sleep(self.lag_s)
        polls = self._path.dedicated_core
        apart_s = self._apart_ms() / 1000 if polls else 0
        try:
            return self._standstill.counters(apart_s, push if polls else None)
        except SetupFailed:
            self._alive()
            raise

    def _apart_ms(self) -> int:
        return _QUIET_A_FUNCTION_MS * sum(part.function.forwards for part in self._path.parts)

    def _load(self, part: Part, job: Job, spec: TrialSpec) -> Message:
        """Return the load of a task in a trial."""
        return load_of(self._path, part, job, spec)

    def _phase(
        self,
        phase: str,
        duration_s: float,
        window: Window | None = None,
        residual_s: float = 0.0,
        during: Callable[[int, int], None] = lambda start_ns, duration_ns: None,
        steps: Sequence[tuple[float, float]] = (),
    ) -> None:
        """Send for `duration_s`, with `window` open, then wait until the path is quiet, for
        `residual_s` at least. `during` gets the start and the length of the phase, and may take as
        long as the phase. `steps` change the load: the seconds since the start, and the share of
        the rate from then on."""
        lead_ns = _LEAD_NS + _LEAD_A_PROCESS_NS * len(self._workers)
        lead_ns += _LEAD_TO_A_GUEST_NS * self._workers.far_clocks
        lead_ns = max(lead_ns, min(self._away_ns, _LEAD_AWAY_MAX_NS))
        at_ns = clock.monotonic_ns() + lead_ns
        start: Message = {"phase": phase, "at_ns": at_ns, "duration_ns": round(duration_s * 1e9)}
        if steps:
            start["steps"] = [{"at_ns": round(at * 1e9), "share": share} for at, share in steps]
        self._workers.send("start", lambda worker: start)
        if window:
            wait_ns = at_ns - clock.monotonic_ns()
            clock.sleep(max(0, wait_ns) / 1e9)
            window.begin()
        during(at_ns, start["duration_ns"])
        limit_s = duration_s + _PHASE_SLACK_S
        limit = {"timeout_ms": round(limit_s * 1000)}
        for worker in self._workers:  # one after the other: a waiting process polls
            worker.process.ask("wait", timeout_s=limit_s + 5.0, **limit)
        if window:
            window.stop()
        quiet_ms = min(_QUIET_MAX_MS, self.quiet_ms + self._apart_ms())
        if self._path.test.limits:
            quiet_ms += PERIOD_US // 1000  # a process at its CPU limit pauses until the next period
        self._workers.drain(max(quiet_ms, round(residual_s * 1000)))


@contextmanager
def _after_events(happened: list[EventResult]) -> Iterator[None]:
    """Record that a switch died after the last event if events replaced it: its next process came
    up and did not last. A death without such an event fails the trial."""
    try:
        yield
    except TrialFailed as died:
        if not any(event.kind in REPLACING for event in happened):
            raise
        happened[-1] = happened[-1].model_copy(update={"failure": str(died)})
