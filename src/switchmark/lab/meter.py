"""The costs of a path during the measured phase of a trial, in addition to the CPU time that the
traffic program reports: CPU time of other processes, context switches and migrations of threads,
interrupts on their CPUs, and the processor's counters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from switchmark import clock
from switchmark.errors import SwitchmarkError
from switchmark.hosts.base import Host
from switchmark.hosts.programs import tool_program
from switchmark.lab.profile import Profiler
from switchmark.model.cost import PerfCost, ProcessorCounts, SchedulerCounts, TrialCost
from switchmark.model.event import REPLACING
from switchmark.model.plan import Spawn
from switchmark.observe.perf import (
    CountableEvents,
    added,
    control,
    of_cpus,
    of_threads,
    parse_counts,
)
from switchmark.observe.softirq import SoftirqTimes, softirq_files, within_threads
from switchmark.observe.taken import taken_at_once
from switchmark.observe.threads import (
    Switches,
    cpu_ns,
    cpu_time_files,
    switch_files,
    switched_since,
    thread_switches,
    threads,
)
from switchmark.path.path import Path
from switchmark.runs.executor import Executor

_SWITCH, _FUNCTION = "switch", "function"
_RESOLVED_NS = 50e6
"""The shortest window in which waiting time counts. Kernels add up run time at their ticks, every
10 ms or less, but waiting time at once, so in a burst of 1 ms one tick looks like a busy CPU."""
_CPUS = "cpus"
"""The place for all CPUs of a test. A switch in the kernel has no threads: its work runs in
theirs."""

Pids = Mapping[str, Collection[int]]
"""The processes of a path by place. A place is `switch`, a function, or the parts that share a
process, joined by `+`."""


@dataclass(frozen=True, slots=True)
class Meter:
    """A meter for a path that is up.

    Context switches are read from the kernel's own counts, which cost nothing extra. A perf event
    per thread costs 0.4 us per context switch, a third of a turn of two parts that yield to each
    other. A perf event per CPU costs 0.1 us (measured with Linux 6.18). For this reason, the
    processor's counters also cover the whole CPU where parts share it.
    """

    host: Host
    """The host of the measurement."""
    executor: Executor
    """Starts perf."""
    folder: str
    """The folder that perf writes to."""
    cpus: Collection[int]
    """The CPUs of the test."""
    playing: Callable[[], Pids]
    """Returns the processes of the traffic program, by place."""
    hosted: Callable[[], Pids]
    """Returns the other processes that work, by place."""
    counting: CountableEvents
    """The processor's counters on this host."""
    hosts: Mapping[str, Host]
    """The hosts of the processes, by place."""

    @contextmanager
    def armed(self, path: Path, hz: int | None) -> Iterator[Window]:
        """Yield a window that is ready to begin, with `hz` samples per second per CPU. At the end,
        stop everything started for it."""
        window = Window(self, path, hz)
        try:
            yield window
        finally:
            window.disarm()


class Window:
    """The time from `begin` to `stop`. perf starts with the window, but counts only from `begin`.

    If a counter fails, its value is missing and the cost gives the reason. The trial stays valid.

    `cost` sets the values that the traffic program does not report. `used` are the cores that the
    hosted processes used and the cores that they waited for, by place. `stolen` is the steal time,
    as a share of the host's CPU time.
    """

    def __init__(self, meter: Meter, path: Path, hz: int | None) -> None:
        self._meter = meter
        self._hosted = {
            place: pids for place, pids in meter.hosted().items() if not _is_replaced(path, place)
        }
        self._pids = pids = {**meter.playing(), **self._hosted}
        self.used: Mapping[str, tuple[float, float]] = {}
        self.stolen = 0.0
        self._roles = roles_of(path)
        self._by_thread, self._by_cpu = _whose_counters(meter, path, pids)
        self._threads = {
            tid: place for place in self._by_thread for tid in threads(meter.host, pids[place])
        }
        self._missing = meter.counting.missing
        self._since_ns = 0
        self._elapsed_ns = 0
        self._began: KernelCounts | None = None
        self._stopped: KernelCounts | None = None
        self._mark = meter.executor.mark()
        self._steps = tuple(self._perf())
        self._try(lambda: meter.executor.execute(self._steps))
        arguments = (meter.host, meter.executor, meter.folder, meter.cpus)
        self._profiler = Profiler(*arguments, hz, tool_program())

    def ready(self) -> None:
        """Wait until the counters have started."""
        self._command("ping")  # perf answers when it has started
        self._profiler.ready()

    def begin(self) -> None:
        """Start counting."""
        self._began = self._kernels_counts()
        self._since_ns = clock.monotonic_ns()
        self._command("enable")
        self._profiler.begin()

    def stop(self) -> None:
        """Stop counting."""
        self._command("disable")
        self._profiler.end()
        self._elapsed_ns = clock.monotonic_ns() - self._since_ns
        self._stopped = self._kernels_counts()

    def cost(self, tsc_hz: int | None) -> TrialCost:
        """Return the counts of the window and end the counters. `tsc_hz` is the frequency of the
        cycle counter."""
        began, now = self._began, self._stopped
        assert began is not None
        assert now is not None
        self.used, self.stolen = now.used_since(began), now.softirq.stolen_since(began.softirq)
        scheduler = {place: self._scheduled(place, now) for place in self._pids}
        place_of = {tid: place for place, switches in now.switches.items() for tid in switches}
        profile = self._profiler.result(place_of, self._roles)
        self.disarm()
        counts = self._counts()
        return TrialCost(
            elapsed_ns=self._elapsed_ns,
            softirq=now.softirq.since(began.softirq, within=within_threads(self._meter.host)),
            scheduler=scheduler,
            perf=PerfCost(
                missing=self._missing,
                user_only=self._meter.counting.user_only,
                parts={} if self._missing else counts,
            ),
            tsc_hz=tsc_hz,
            load=now.softirq.loads_since(began.softirq),
            **profile,
        )

    def disarm(self) -> None:
        """End perf, which then writes its counts."""
        self._meter.executor.unwind(to=self._mark)

    def _perf(self) -> Iterator[Spawn]:
        events, folder = self._meter.counting.events, self._meter.folder
        pids = [pid for place in self._by_thread for pid in self._pids[place]]
        if pids:
            yield of_threads("perf-threads", events, pids, f"{folder}/perf-threads")
        if cpus := {cpu for shared in self._by_cpu.values() for cpu in shared}:
            yield of_cpus("perf-cpus", events, cpus, f"{folder}/perf-cpus")

    def _command(self, word: str) -> None:
        for step in self._steps:
            self._try(partial(self._control, step.name, word))

    def _control(self, name: str, word: str) -> None:
        control(self._meter.executor.process(name), word)

    def _try(self, action: Callable[[], None]) -> None:
        if self._missing is None:
            try:
                action()
            except (SwitchmarkError, OSError) as error:
                self._missing = f"perf failed: {str(error).partition(chr(10))[0]}"

    def _kernels_counts(self) -> KernelCounts:
        """Return the current counts of the kernels."""
        host, cpus, hosts = self._meter.host, self._meter.cpus, self._meter.hosts
        return KernelCounts.read(host, cpus, hosts, self._pids, self._hosted)

    def _scheduled(self, place: str, now: KernelCounts) -> SchedulerCounts:
        """Return the context switches and the migrations of the threads of a place."""
        assert self._began is not None
        switches, moves = switched_since(self._began.switches[place], now.switches[place])
        roles = self._roles[place]
        return SchedulerCounts(roles=roles, context_switches=switches, migrations=moves)

    def _counts(self) -> dict[str, ProcessorCounts]:
        """Return the processor's counts by place, or by the CPUs that several places share."""
        by_tid, by_cpu = (self._written(step) for step in ("perf-threads", "perf-cpus"))
        by_place: dict[str, ProcessorCounts] = {}
        for place in self._by_thread:
            counts = [
                by_tid.get(tid, {})
                for tid, thread_place in self._threads.items()
                if thread_place == place
            ]
            roles = self._roles[place]
            by_place[place] = ProcessorCounts(by="thread", roles=roles, **added(counts))
        for places, cpus in self._by_cpu.items():
            roles = roles_within(self._roles, places)
            counts = [by_cpu.get(cpu, {}) for cpu in cpus]
            by_place[places] = ProcessorCounts(by="cpu", cpus=cpus, roles=roles, **added(counts))
        return by_place

    def _written(self, name: str) -> Mapping[int, Mapping[str, int]]:
        text: list[str] = []
        if any(step.name == name for step in self._steps):
            file = f"{self._meter.folder}/{name}"
            self._try(lambda: text.append(self._meter.host.read(file).decode(errors="replace")))
        return parse_counts("".join(text))


@dataclass(frozen=True, slots=True)
class KernelCounts:
    """The counts that kernels keep for the processes of a path at a moment, by place."""

    softirq: SoftirqTimes
    """The times of CPUs in softirqs."""
    switches: Mapping[str, Switches]
    """The context switches of threads."""
    ran: Mapping[str, tuple[int, int]]
    """The run time and the waiting time of some processes, in ns."""

    @classmethod
    def read(
        cls,
        host: Host,
        cpus: Collection[int],
        hosts: Mapping[str, Host],
        pids: Pids,
        timed: Collection[str],
    ) -> KernelCounts:
        """Read the counts of the CPUs of one host, and of the processes of every place on its host,
        from all hosts at once. Read the CPU time for `timed` places only."""
        files = defaultdict(list, {host: softirq_files(host, cpus)})
        for place, place_pids in pids.items():
            files[hosts[place]] += switch_files(place_pids)
            files[hosts[place]] += cpu_time_files(place_pids) if place in timed else ()
        taken = taken_at_once(files)
        return cls(
            SoftirqTimes.read(host, cpus, taken[host]),
            {
                place: thread_switches(taken[hosts[place]], pids_there)
                for place, pids_there in pids.items()
            },
            {place: cpu_ns(taken[hosts[place]], pids[place]) for place in timed},
        )

    def used_since(self, before: KernelCounts) -> dict[str, tuple[float, float]]:
        """Return, by place, the cores that its processes used since `before`, and the cores that
        they waited for: 0 in a window too short to tell."""
        elapsed_ns = 1e9 * (self.softirq.at_s - before.softirq.at_s)
        used = {}
        for place, (ran, waited) in self.ran.items():
            ran_before, waited_before = before.ran[place]
            waited_ns = waited - waited_before if elapsed_ns >= _RESOLVED_NS else 0
            used[place] = (ran - ran_before) / elapsed_ns, waited_ns / elapsed_ns
        return used


def _is_replaced(path: Path, place: str) -> bool:
    """Return whether an event replaces the processes of a place, whose counts then begin again."""
    replaces = any(event.kind in REPLACING for event in path.test.events)
    return replaces and place.startswith(_SWITCH)


def _whose_counters(
    meter: Meter, path: Path, pids: Pids
) -> tuple[list[str], dict[str, tuple[int, ...]]]:
    """Return the places to count by thread, and the CPUs to count for places that share them.
    Virtual machines use separate counters and are skipped."""
    if not meter.counting.events:
        return [], {}
    by_thread = []
    sharing: dict[tuple[int, ...], list[str]] = defaultdict(list)
    guests = {part.id for part in path.in_vms}
    in_kernel = not path.dedicated_core
    for place in pids:
        first = place.partition("+")[0]
        pin = path.placement.pin(first)
        if first in guests or (place.startswith(_SWITCH) and in_kernel):
            continue
        if pin.yield_:
            sharing[pin.cpus].append(place)
        else:
            by_thread.append(place)
    by_cpu = {"+".join(places): cpus for cpus, places in sharing.items() if cpus}
    if in_kernel:
        by_cpu[_CPUS] = tuple(sorted(meter.cpus))
    return by_thread, by_cpu if meter.counting.by_cpu else {}


def roles_within(roles: Mapping[str, Sequence[str]], places: str) -> list[str]:
    """Return the roles of the places that share CPUs. The name of a process that plays several
    parts has a plus sign too: `f0+f1+switch` is the process `f0+f1` and the switch."""
    return [
        role
        for place, place_roles in roles.items()
        if f"+{place}+" in f"+{places}+"
        for role in place_roles
    ]


def roles_of(path: Path) -> dict[str, list[str]]:
    """Return the roles of every place of a path."""
    played = {
        player.name: [role.value for part in player.parts for role in part.roles]
        for player in path.processes
    }
    return {
        **{switch.id: [_SWITCH] for switch in path.switches},
        **{part.id: [_FUNCTION] for part in path.hosted},
        **{place: list(dict.fromkeys(roles)) for place, roles in played.items()},
    }
