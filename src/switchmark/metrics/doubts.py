"""This table lists the doubts: reasons not to trust a trial, each with its threshold, what would
cure it, and how it may have falsified a figure.

One table; the guide's list is written from it. Who finds a doubt names it by this table.

A disturbance falsifies a figure: other work, a hypervisor, a sender that was late. A set-up does
not: where parts share a CPU, or frames lie in small pages, in every trial, the figure is right for
that set-up, and so is a comparison of two. Nor does what shows as a spread over the trials: short
ones, rates that drift, less than a fifth of a CPU.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from switchmark.metrics.throughput import of_latency
from switchmark.model.record import Record, TrialResult

Spoils = Literal["", "lowers", "raises", "both"]

SPOILS: Mapping[Spoils, str] = MappingProxyType(
    {
        "": "",
        "lowers": "the switch may be better than its figure",
        "raises": "the switch may be worse than its figure",
        "both": "the switch may be better or worse than its figure",
    }
)
"""In words, what a doubt says of a figure. More latency or loss is worse."""

_SIDES: tuple[Spoils, ...] = ("lowers", "raises")

_MOVES = 1 / 4
"""The share of its trials from which spoiled ones spoil a median: fewer move it no further than to
a quartile of the trials, so that it stays within what they differ by."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """A doubt is one reason not to trust a trial. `passing`: a disturbance of the moment, so that
    the trial is worth running again (`--rerun`). `spoils` says how it may have falsified a figure;
    with `only_latency` it did so to none but latencies."""

    name: str
    threshold: str
    meaning: str
    cure: str
    passing: bool = False
    spoils: Spoils = ""
    only_latency: bool = False


_DOUBTS = (
    Doubt(
        "cores-shared",
        "two parts that poll have one CPU",
        "busy parts wait for each other's turn",
        "a machine with more cores, or --placement shared-process",
    ),
    Doubt(
        "cores-overcommitted",
        "a polling switch shares its CPU, or more than two parts do",
        "a functional result, left out of rankings",
        "fewer --pairs or --switch-cores, or more cores",
        spoils="lowers",
    ),
    Doubt(
        "sibling-busy",
        "both hyperthreads of a core are in use",
        "two parts share a core's execution units",
        "--placement with CPUs of different cores, or booting with nosmt",
    ),
    Doubt(
        "nic-on-other-node",
        "a CPU of a part, or of the switch, is on another NUMA node than a NIC that it opens",
        "frames cross from node to node of the machine",
        "--placement with CPUs of the NIC's node, or NICs of one node",
    ),
    Doubt(
        "hosts-share-machine",
        "both hosts of a remote test are one machine, or machines on one",
        "they share its CPUs, memory and kernel, and the cable between them is no link",
        "--hosts with two machines",
    ),
    Doubt(
        "not-isolated",
        "others took more than 0.05 of a used CPU that isolcpus does not hold",
        "the kernel ran other work on the cores of the test",
        "booting with isolcpus= and --placement with those CPUs",
    ),
    Doubt(
        "host-busy",
        "others took more than 0.2 of a CPU on which parts poll",
        "something else ran there",
        "ending what else runs, --rerun 3, or --placement with other CPUs",
        passing=True,
        spoils="lowers",
    ),
    Doubt(
        "cpu-stolen",
        "the hypervisor kept more than 1 % of all CPU time",
        "the virtual machine had no cores of its own",
        "--rerun 3, or a machine of one's own",
        passing=True,
        spoils="lowers",
    ),
    Doubt(
        "started-late",
        "a part began the measured phase later than its start, by more than 0.01 % of the phase",
        "what a sender had to send before is unsent; to a receiver the first frames look older",
        "ending what else runs, or --rerun 3",
        passing=True,
        spoils="lowers",
    ),
    Doubt(
        "flows-mixed",
        "frames of one flow came to several cores of a function, and the times of some do not tell "
        "which came first",
        "reordered is the least that it can be; `ties` more may be",
        "--engine mmap, whose frames the kernel stamps, --function-cores 1, or more flows for a "
        "device that spreads them",
    ),
    Doubt(
        "interrupts",
        "devices interrupted a used CPU more than 1000 times a second",
        "drivers worked on the cores of the test",
        "booting with irqaffinity=, or --placement with other CPUs",
        passing=True,
        spoils="lowers",
    ),
    Doubt(
        "frequency-changed",
        "the frequency of a used CPU differs by more than 5 % across the trial",
        "the same work took other time at its end than at its beginning",
        "cpupower frequency-set -g performance",
        passing=True,
        spoils="both",
    ),
    Doubt(
        "emulated",
        "functions, or a host that is a machine, run on an emulated processor (TCG)",
        "speeds are the emulator's",
        "a host with KVM",
        spoils="both",
    ),
    Doubt(
        "no-hugepages",
        "frames lie in small pages, and --memory did not ask for them",
        "address translation costs more than where there are hugepages",
        "sysctl vm.nr_hugepages=1024, or --memory no-huge to mean it",
    ),
    Doubt(
        "unstable",
        "arrivals drift by a tenth during a trial, or split in two bands",
        "there is no one rate that the trial could state",
        "longer --warmup and --duration",
    ),
    Doubt(
        "uncertain",
        "--until-certain was not reached with as many repeats as there can be",
        "the interval of the median is wider than was asked for",
        "a quieter host, longer --duration, or a wider --until-certain",
    ),
    Doubt(
        "drifting",
        "figures rise or fall by a tenth over six repeats or more, beyond what chance does",
        "there is no one figure that the test could state, and its interval is not one",
        "a quieter host, a longer --warmup, or looking for what changes: heat, memory, a table",
    ),
    Doubt(
        "short",
        "the measured phases of a test's trials took less than 1 s together (of a search, one of "
        "them), or one less than 0.1 s",
        "start and end weigh much",
        "--duration 1 or more",
    ),
    Doubt(
        "clock",
        "the two ends have clocks of their own, which cannot be told apart, or to half the latency "
        "at best; or a frame came before it was sent; or the cycle counter is not constant and "
        "nonstop",
        "one-way latency is null, or wrong by up to what is told, or by an unknown amount",
        "--dimension latency (one end reads its own clock), or a host with a constant TSC",
        spoils="both",
        only_latency=True,
    ),
    Doubt(
        "foreign-frames",
        "a frame arrived that no part of this run had sent",
        "somebody else sends on the path",
        "--environment netns, or a network of its own",
        spoils="lowers",
    ),
    Doubt(
        "not-equivalent",
        "the functional trial before measuring failed three times (--gate doubt)",
        "the switch does not do the work that it is compared by",
        "mending the switch; --gate refuse does not measure it",
        spoils="both",
    ),
    Doubt(
        "nothing-arrived",
        "frames were sent, and none arrived",
        "the switch stood still, or dropped everything: its rate of 0 is not how fast it is",
        "--keep, to look at the path while it is up, or a lower --rate",
        spoils="lowers",
    ),
    Doubt(
        "past-switch",
        "a port of the switch counted less than 99 % of the frames that arrived by way of it",
        "frames went past the switch: it is not, or not alone, what was measured",
        "--nic with both ends of one cable (a0=SWITCH_END:FAR_END), and no other way between them",
        spoils="raises",
    ),
    Doubt(
        "flooded",
        "a frame came to a receiver or server that it was not for, or a port of the switch sent "
        "more frames than came in for it, by more than ten and 0.1 % of those sent",
        "the switch did more work than to forward: it had forgotten a MAC, or had no room for it",
        "fewer --flows with --flows-by mac, or --semantics static, whose rules do not age",
        spoils="lowers",
    ),
    Doubt(
        "slow-path",
        "a switch that has a fast path forwarded more than 10 % of the frames past it",
        "what was measured is not its fast path, or not that alone",
        "a longer --warmup, fewer --flows, frames of UDP or TCP",
        spoils="lowers",
    ),
    Doubt(
        "path-unseen",
        "neither the switch nor an interface counts the frames at a port",
        "nothing shows that the frames passed the switch",
        "a driver that tells counters, or ports of another kind (--port)",
        spoils="raises",
    ),
    Doubt(
        "profiled",
        "--profile took more than 1 % of a CPU, or samples were lost",
        "what was sampled was slowed down by it",
        "--profile 99, or a figure without it beside",
        spoils="lowers",
    ),
    Doubt(
        "shared-machine",
        "two measurements were allowed on one machine at once (--share-machine)",
        "each may have taken CPU time, caches and memory's bandwidth from the other",
        "a machine for each testbed; without --share-machine a run waits for the other one",
        spoils="lowers",
    ),
    Doubt(
        "other-commit",
        "a run went on with another commit of switchmark than it began with",
        "what measures may have changed between the trials of a test",
        "a new run, whose trials are all of one commit",
    ),
    Doubt(
        "captured",
        "tcpdump listened",
        "every frame was copied once more",
        "no --capture",
        spoils="lowers",
    ),
)

TABLE: Mapping[str, Doubt] = MappingProxyType({doubt.name: doubt for doubt in _DOUBTS})


def passing(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of some doubts that another try may not have."""
    return tuple(name for name in names if name in TABLE and TABLE[name].passing)


def spoiled(
    record: Record, *, latency: bool | None = None, excused: Collection[str] = ()
) -> frozenset[Spoils]:
    """Return how a figure of a record may have been falsified: `lowers`, `raises`, both or neither.

    `latency` says that the figure is one; by default it is what the test is measured for. A figure
    is the median of the trials: one in ten that was disturbed does not move it far, a quarter of
    them does. Verdict `host` says of a trial, or of a search, that the host was the limit. Doubts
    that are `excused` do not count, nor does verdict `host` if it is one of them.
    """
    if latency is None:
        latency = of_latency(record.test)
    ways = [_ways(trial, latency, excused) for trial in record.trials]
    is_host = record.verdict == "host" and "host" not in excused
    sides: set[Spoils] = {"lowers"} if is_host else set()
    for side in _SIDES:
        count = sum(side in each for each in ways)
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
