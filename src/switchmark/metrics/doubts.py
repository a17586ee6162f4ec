"""The table of the doubts: reasons not to trust a trial.

A doubt has a threshold, a meaning, a cure, and a note on how it may have falsified a figure. The
reference is generated from this table, and the code that raises a doubt uses its name here.

A disturbance falsifies a figure: background load, a hypervisor, a late sender. A set-up does not:
if processes share a CPU or use small pages in every trial, the figure is right for that set-up, and
so is a comparison of two such figures. Neither does a cause that shows up as spread over the
trials: short trials, drifting rates, less than 20 % of a CPU.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from switchmark.metrics.throughput import of_latency
from switchmark.model.preparation import TABLE as PREPARATIONS
from switchmark.model.preparation import option
from switchmark.model.record import Record, TrialResult

Spoils = Literal["", "lowers", "raises", "both"]
Severity = Literal["information", "caution", "invalid"]
"""`information` is about the set-up or the spread of a figure, `caution` about a figure that may be
falsified, `invalid` about a figure that is not the one that was asked for."""

SPOILS: Mapping[Spoils, str] = MappingProxyType(
    {
        "": "",
        "lowers": "the switch may be better than its figure",
        "raises": "the switch may be worse than its figure",
        "both": "the switch may be better or worse than its figure",
    }
)
"""The effect of a doubt on a figure, in words. More latency or loss is worse."""

_SIDES: tuple[Spoils, ...] = ("lowers", "raises")

_MOVES = 1 / 4
"""The share of spoiled trials that spoils the median. Fewer of them can only move it to a quartile
of the trials, which is within their spread."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """A reason not to trust a trial."""

    name: str
    """Its name in records."""
    threshold: str
    """The condition that raises it."""
    meaning: str
    """Its effect on the measurement."""
    remedy: str
    """A remedy, as a command to the user. Another one is to prepare the host, if a preparation
    says so."""
    passing: bool = False
    """The cause is temporary, so the trial is worth running again (`--rerun`)."""
    spoils: Spoils = ""
    """How it may have falsified a figure."""
    only_latency: bool = False
    """It falsifies latencies only."""
    invalid: bool = False
    """The figure is not the one that was asked for, so it must not be used."""

    @property
    def cure(self) -> str:
        """Return all remedies, as a command to the user."""
        names = [name for name, each in PREPARATIONS.items() if self.name in each.cures]
        return f"use {option(names)}, or {self.remedy}" if names else self.remedy

    @property
    def severity(self) -> Severity:
        """Return how much the doubt matters to a reader of the figure."""
        if self.invalid:
            return "invalid"
        return "caution" if self.spoils else "information"


UNDO_REFUSED = "undo-refused"

_DOUBTS = (
    Doubt(
        UNDO_REFUSED,
        "a program of the switch refused to undo its part of the set-up",
        "the program may have set up something else than it reports; nothing is left, because the "
        "node was removed",
        "read `refused` in the record, and run the program by hand",
    ),
    Doubt(
        "outage-methods",
        "the outages by lost frames and by arrival times differ by more than their errors",
        "frames waited during the outage and arrived late, or frames were lost outside of it",
        "use engine raw-mmsg, whose frames do not wait for a switch that is gone, or compare both "
        "figures",
    ),
    Doubt(
        "cores-shared",
        "two polling processes share a CPU",
        "busy processes wait for each other's time slice",
        "use a machine with more cores, or --placement shared-process",
    ),
    Doubt(
        "cores-overcommitted",
        "a polling switch shares its CPU, or more than two processes share one",
        "the result is functional only and excluded from rankings",
        "use fewer --pairs or --switch-cores, or a machine with more cores",
        spoils="lowers",
        invalid=True,
    ),
    Doubt(
        "sibling-busy",
        "the test uses both hyperthreads of a core",
        "two processes share the execution units of a core",
        "use --placement with CPUs of different cores",
    ),
    Doubt(
        "nic-on-other-node",
        "a process or the switch opens a NIC on another NUMA node than its CPU",
        "frames cross between NUMA nodes",
        "use --placement with CPUs of the NIC's node, or NICs of one node",
    ),
    Doubt(
        "hosts-share-machine",
        "both hosts of a remote test are the same machine, or VMs on the same machine",
        "the hosts share CPUs, memory and kernel, and no physical link joins them",
        "use --hosts with two machines",
    ),
    Doubt(
        "not-isolated",
        "other work took more than 5 % of a CPU of the test that isolcpus does not isolate",
        "the kernel ran other work on the CPUs of the test",
        "boot with isolcpus=, and use these CPUs with --placement",
    ),
    Doubt(
        "host-busy",
        "other processes used more than 20 % of a CPU that a polling process runs on",
        "background load took CPU time from the test",
        "stop other programs, or use --rerun 3 or --placement with other CPUs",
        passing=True,
        spoils="lowers",
    ),
    Doubt(
        "cpu-stolen",
        "the hypervisor took more than 1 % of all CPU time (steal time)",
        "the virtual machine shares its cores with other guests",
        "use --rerun 3, or a machine that is not shared",
        passing=True,
        spoils="lowers",
    ),
    Doubt(
        "started-late",
        "a process began the measured phase late, by more than 0.01 % of the phase",
        "frames due before a late start count as unsent, and the first latencies are too high",
        "stop other programs, or use --rerun 3",
        passing=True,
        spoils="lowers",
    ),
    Doubt(
        "flows-mixed",
        "frames of one flow arrived on several cores of a function, and some timestamps do not "
        "show their order",
        "`reordered` is a lower bound, and up to `ties` more frames may be reordered",
        "use --engine mmap (kernel timestamps), --function-cores 1, or more flows on a device that "
        "spreads them over its queues",
    ),
    Doubt(
        "flows-in-runs",
        "an engine that sends packets of several frames (raw-gso, mmap-gso, udp-gso) sends more "
        "than one flow",
        "a flow sends up to a burst of frames before the next flow, so a switch looks up fewer "
        "flows, and `fairness` and `per_flow` count whole runs",
        "use --engine raw-mmsg or mmap, whose flows change from frame to frame",
    ),
    Doubt(
        "interrupts",
        "devices interrupted a CPU of the test more than 1000 times per second",
        "device drivers ran on the CPUs of the test",
        "use --placement with other CPUs",
        passing=True,
        spoils="lowers",
    ),
    Doubt(
        "frequency-changed",
        "the frequency of a CPU of the test changed by more than 5 % during the trial",
        "the same work took a different time at the end than at the start",
        "fix the frequency in the firmware",
        passing=True,
        spoils="both",
    ),
    Doubt(
        "emulated",
        "a VM of the test runs on an emulated processor (TCG)",
        "the figures show the speed of the emulator",
        "use a host with KVM",
        spoils="both",
        invalid=True,
    ),
    Doubt(
        "no-hugepages",
        "frames are in small pages although --memory did not ask for them",
        "address translation costs more than with hugepages",
        "run sysctl vm.nr_hugepages=1024, or use --memory no-huge if small pages are intended",
    ),
    Doubt(
        "unstable",
        "the rate drifts by 10 % during a trial, or alternates between two levels",
        "no single rate describes the trial",
        "use a longer --warmup and --duration",
    ),
    Doubt(
        "growing",
        "the memory of the switch rises in both halves of a trial, by more than 1 % and 1 MiB "
        "(`interval`)",
        "the switch may leak memory, and end in a longer run",
        "use a longer --duration, which shows whether the growth goes on",
    ),
    Doubt(
        "no-overload",
        "search recovery: no frame was lost in the overload, or senders sent less than 99 % of it",
        "there was no overload to recover from, so there is no recovery time",
        "give the throughput of the switch as --rate, or use a faster engine",
    ),
    Doubt(
        "not-recovered",
        "search recovery: frames were lost in the last tenth of the time after the step",
        "the recovery takes longer, or half of the load is too much, so there is no recovery time",
        "use a longer --duration, or check that half of the load passes without loss",
    ),
    Doubt(
        "uncertain",
        "--until-certain was not reached within the largest number of repeats",
        "the confidence interval of the median is wider than requested",
        "use a quieter host, a longer --duration, or a wider --until-certain",
    ),
    Doubt(
        "drifting",
        "figures rise or fall by 10 % over six or more repeats, beyond chance",
        "no single figure describes the test, and its confidence interval is not valid",
        "use a quieter host or a longer --warmup, or find the cause (heat, memory, a growing "
        "table)",
    ),
    Doubt(
        "short",
        "the measured phases of a test took less than 1 s in total (for a search: one of "
        "them), or one of them took less than 0.1 s",
        "start-up and shutdown effects weigh heavily",
        "use --duration 1 or more",
    ),
    Doubt(
        "clock",
        "the ends use different clocks with an unknown offset, or one known to half the latency "
        "at best; a frame arrived before it was sent, or the cycle counter (TSC) is not constant "
        "and nonstop",
        "one-way latency is null, or wrong by up to the given uncertainty, or by an unknown amount",
        "use --dimension latency (one end reads one clock), or a host with a constant TSC",
        spoils="both",
        only_latency=True,
    ),
    Doubt(
        "foreign-frames",
        "a frame arrived that this run did not send",
        "another sender uses the path",
        "use --environment netns, or a separate network",
        spoils="lowers",
    ),
    Doubt(
        "not-equivalent",
        "the functional trial failed three times (--gate doubt)",
        "the switch does not forward frames as the test requires",
        "fix the switch; --gate refuse skips the measurement",
        spoils="both",
        invalid=True,
    ),
    Doubt(
        "nothing-arrived",
        "frames were sent, and none arrived",
        "the switch stopped or dropped everything, so a rate of 0 is not its speed",
        "use --keep to inspect the running path, or a lower --rate",
        spoils="lowers",
        invalid=True,
    ),
    Doubt(
        "past-switch",
        "a port of the switch counted less than 99 % of the frames that arrived through it",
        "frames bypassed the switch, so the result is not the switch's alone",
        "use --nic with both ends of one cable (a0=SWITCH_END:FAR_END), and no other link between "
        "them",
        spoils="raises",
        invalid=True,
    ),
    Doubt(
        "flooded",
        "a frame reached a receiver or server that it was not addressed to, or a port of the "
        "switch sent more frames than arrived for it, by more than ten and 0.1 % of those sent",
        "the switch flooded frames because it had forgotten a MAC or its table was full",
        "use fewer --flows with --flows-by mac, or --semantics static, whose rules do not age",
        spoils="lowers",
    ),
    Doubt(
        "slow-path",
        "a switch with a fast path forwarded more than 10 % of the frames on its slow path",
        "the result is not the speed of the fast path alone",
        "use a longer --warmup, fewer --flows, or UDP or TCP frames",
        spoils="lowers",
    ),
    Doubt(
        "path-unseen",
        "neither the switch nor an interface counts the frames at a port",
        "no counter shows that the frames passed the switch",
        "use a driver with counters, or another kind of port (--port)",
        spoils="raises",
    ),
    Doubt(
        "profiled",
        "--profile used more than 1 % of a CPU, or perf lost samples",
        "the profiler slowed down the test",
        "use --profile 99, or run again without --profile",
        spoils="lowers",
    ),
    Doubt(
        "shared-machine",
        "--share-machine allowed two measurements on one machine at the same time",
        "the measurements may have taken CPU time, cache and memory bandwidth from each other",
        "use a machine for each testbed, or run without --share-machine, which waits for its turn",
        spoils="lowers",
    ),
    Doubt(
        "other-commit",
        "a run was resumed with another commit of switchmark",
        "the measuring code may have changed between the trials of a test",
        "start a new run on one commit",
    ),
    Doubt(
        "captured",
        "tcpdump captured the frames (--capture)",
        "every frame was copied once more",
        "run without --capture",
        spoils="lowers",
    ),
)

TABLE: Mapping[str, Doubt] = MappingProxyType({doubt.name: doubt for doubt in _DOUBTS})


_SEVERITIES: tuple[Severity, ...] = ("invalid", "caution", "information")
"""The severities, the most severe first."""


def severity_of(names: Collection[str]) -> Severity:
    """Return the severity of the most severe of these doubts. Doubts that this version does not
    know count as `caution`."""
    severities = (TABLE[name].severity if name in TABLE else "caution" for name in names)
    return min(severities, key=_SEVERITIES.index, default="information")


def is_doubtful(names: Collection[str]) -> bool:
    """Return whether a figure with these doubts may be wrong."""
    return severity_of(names) != "information"


def passing(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the doubts among `names` that may be gone in another try."""
    return tuple(name for name in names if name in TABLE and TABLE[name].passing)


def spoiled(
    record: Record, *, latency: bool | None = None, excused: Collection[str] = ()
) -> frozenset[Spoils]:
    """Return how a figure of a record may have been falsified: `lowers`, `raises`, both or neither.

    `latency` says whether the figure is a latency; the default is the dimension of the test. A
    figure is the median of the trials: a disturbed trial in ten hardly moves it, a quarter of them
    does. Verdict `host` means that the host limited a trial or a search. Doubts in `excused` do not
    count, and neither does verdict `host` if it is in there.
    """
    if latency is None:
        latency = of_latency(record.test)
    ways = [_ways(trial, latency, excused) for trial in record.trials]
    is_host = record.verdict == "host" and "host" not in excused
    sides: set[Spoils] = {"lowers"} if is_host else set()
    for side in _SIDES:
        count = sum(side in way for way in ways)
        if count and count >= _MOVES * len(ways):
            sides.add(side)
    return frozenset(sides)


def _ways(trial: TrialResult, latency: bool, excused: Collection[str]) -> set[Spoils]:
    """Return how the figure of a trial may have been falsified."""
    is_host = trial.verdict == "host" and "host" not in excused
    ways: set[Spoils] = {"lowers"} if is_host else set()
    for doubt in (TABLE[name] for name in trial.doubts if name in TABLE):
        if doubt.name not in excused and (latency or not doubt.only_latency):
            ways |= {"lowers", "raises"} if doubt.spoils == "both" else {doubt.spoils} - {""}
    return ways
