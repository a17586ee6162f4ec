"""The traffic processes of a path: they get commands in parallel, and use this host's time on all
kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from switchmark import clock
from switchmark.errors import TrialFailed
from switchmark.functions.traffic import TrafficProcess
from switchmark.lab.clocks import FarClock, Moment, moment_of
from switchmark.model.evidence import ClockEvidence
from switchmark.model.objects import Message
from switchmark.path.path import Part, Player

OWN_CLOCK = ""
"""The name of this host's clock."""

_WELL, _ROUGHLY = 48, 4
_DRAIN_S, _SLOW_DRAIN_S = 2.0, 20.0
_SLOW_QUIET_MS = 500  # an emulated host may pause that long between two frames
_EXCHANGES_S, _SLOW_EXCHANGES_S = 0.03, 1.0  # an exchange with an emulated host took up to 50 ms


@dataclass(frozen=True, slots=True)
class Worker:
    """A traffic process that is up."""

    process: TrafficProcess
    plays: Player

    @property
    def parts(self) -> tuple[Part, ...]:
        """Return the parts that the process plays."""
        return self.plays.parts

    @property
    def sends(self) -> bool:
        """Return whether the process sends flows."""
        return any(part.sent for part in self.parts)

    @property
    def clock(self) -> str:
        """Return the name of the clock that the process reads. Processes on one kernel share a
        clock."""
        return self.parts[0].clock


class Workers:
    """The traffic processes, in the order of `every`. Senders get their commands last, so that
    receivers poll before the first frame leaves."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self._every = tuple(workers)
        self._in_turn = sorted(workers, key=lambda worker: worker.sends)
        self._clocks: dict[str, dict[str, int]] = {}
        self._far: dict[str, FarClock] = {}

    def __iter__(self) -> Iterator[Worker]:
        return iter(self._every)

    def __len__(self) -> int:
        return len(self._every)

    def send(
        self,
        command: str,
        members: Callable[[Worker], Message] = lambda worker: {},
        timeout_s: float = 10.0,
    ) -> list[Message]:
        """Send a command to all processes and return the answers in order. Raise TrialFailed after
        all processes have answered or failed."""
        for worker in self._in_turn:
            worker.process.send(command, **members(worker))
        answers: dict[Worker, Message] = {}
        failures: list[TrialFailed] = []
        for worker in self._in_turn:
            try:
                answers[worker] = worker.process.answer(command, timeout_s=timeout_s)
            except TrialFailed as failure:
                failures.append(failure)
        if failures:
            raise failures[0]
        return [answers[worker] for worker in self._every]

    def drain(self, quiet_ms: int) -> None:
        """Wait until no frame arrives for `quiet_ms`, or for longer on a slow host."""
        limit_s = _DRAIN_S
        if any(worker.process.slow for worker in self._every):
            quiet_ms, limit_s = max(quiet_ms, _SLOW_QUIET_MS), _SLOW_DRAIN_S
        limit_s = max(limit_s, 2 * quiet_ms / 1000)
        limits = {"quiet_ms": quiet_ms, "timeout_ms": round(limit_s * 1000)}
        self.send("drain", lambda worker: limits, timeout_s=limit_s + 5.0)

    def end(self) -> None:
        """Ask all processes to end, in parallel. They must still be stopped."""
        for worker in self._every:
            worker.process.hang_up()

    @property
    def tsc_hz(self) -> int | None:
        """Return the frequency of this host's cycle counter, if a process reads it."""
        return self._clocks[OWN_CLOCK]["hz"] if OWN_CLOCK in self._clocks else None

    @property
    def far_clocks(self) -> bool:
        """Return whether a process reads another clock than this host's."""
        return any(worker.clock != OWN_CLOCK for worker in self._every)

    def clock(self, worker: Worker) -> Mapping[str, int]:
        """Return the clock parameters for a process. They convert its counter to this host's time,
        and are exact on this host's kernel."""
        return self._clocks[worker.clock]

    def read_clocks(self, *, well: bool = True) -> None:
        """Read all clocks for the next trial. `well` asks for the accuracy that comparing times
        needs."""
        for name, worker in self._by_clock().items():
            if name == OWN_CLOCK:
                if name not in self._clocks:
                    self._clocks[name] = _clock(worker)
                continue
            if name not in self._far:
                self._far[name] = FarClock(_clock(worker)["hz"])
            self._clocks[name] = self._far[name].arm(_moment(worker, _WELL if well else _ROUGHLY))

    def told_clocks(self) -> dict[str, ClockEvidence]:
        """Return the accuracy of the clocks of other kernels in the trial that ends."""
        clocks = {}
        for name, worker in self._by_clock().items():
            if name != OWN_CLOCK:
                now, far = _moment(worker, _WELL), self._far[name]
                clocks[name] = ClockEvidence(
                    unsure_ns=far.unsure_ns(now),
                    round_trip_ns=2 * now.unsure_ns,
                    drift_ppm=round(far.drift * 1e6, 3),
                )
        return clocks

    def _by_clock(self) -> Mapping[str, Worker]:
        """Return one process per clock."""
        return {worker.clock: worker for worker in reversed(self._every)}


def _clock(worker: Worker) -> dict[str, int]:
    answer = worker.process.ask("clock")
    return {key: answer[key] for key in ("ticks", "ns", "hz")}


def _moment(worker: Worker, times: int) -> Moment:
    """Read the clock of a process several times."""
    exchanges: list[tuple[int, int, int]] = []
    until = clock.monotonic() + (_SLOW_EXCHANGES_S if worker.process.slow else _EXCHANGES_S)
    while not exchanges or (len(exchanges) < times and clock.monotonic() < until):
        asked_ns = clock.monotonic_ns()
        ticks = _clock(worker)["ticks"]
        exchanges.append((asked_ns, ticks, clock.monotonic_ns()))
    return moment_of(exchanges)
