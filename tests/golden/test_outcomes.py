"""These tests compare the effect of every number in the reports of a trial with stored texts: what
of the result changes when one number of a process, a counter or the host is another."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from golden_cases import shortened, text_of_cases
from reported import SECOND, received, report, sent
from switchmark.lab.outcome import Outcome
from switchmark.model.counters import PathCounters, PortCounters
from switchmark.model.cpus import Cpu
from switchmark.model.evidence import ClockEvidence
from switchmark.model.place import PortEnd
from switchmark.model.record import TrialSpec
from switchmark.model.series import TimeSeries
from switchmark.model.topology import Role
from switchmark.path.path import Path
from switchmark.path.placement import place
from unit.test_outcome import outcome, path_of

Golden = Callable[[str, str], None]

SPEC = TrialSpec(rate_pps=1000, duration_s=1, warmup_s=0)


def histogram() -> dict[str, Any]:
    """Return the latencies of five frames."""
    return {"count": 5, "min": 100, "max": 130, "sum": 560, "counts": [[100, 3], [130, 2]]}


HISTOGRAMS = ("latency", "ipdv", "earliest", "width", "lag")

CASES: Mapping[str, dict[str, Any]] = {
    "a flow": {},
    "two ways": {"direction": "bi", "cpu_limit": "function:60"},
    "copies of two flows": {"copies": 2, "flows": 2},
    "round trips": {"dimension": "latency", "rate": "1k"},
    "functions of a chain": {"scenario": "loopback", "chain": 2},
    "frames that are not read": {"touch": "none"},
    "processes together": {"placement": "shared-process"},
    "sockets": {"engine": "udp", "scenario": "v2v"},
    "machines": {"environment": "vm"},
}


EVERY = ("a flow", "copies of two flows", "round trips", "functions of a chain")
"""The cases of which every number is changed, and not those of threads and ports alone."""


def reports_of(path: Path) -> list[dict[str, Any]]:
    """Return reports of the processes of a path, whose numbers all differ."""
    flows, reports = path.test.flow_numbers, []
    for number, player in enumerate(path.processes):
        tasks: list[dict[str, Any]] = []
        for part in player.parts:
            for job in part.jobs:
                counts: dict[str, Any] = {}
                if job.role in (Role.SENDER, Role.CLIENT):
                    copied = path.test.copies > 1
                    cores = [[flows * (1 if copied else len(part.sent)), 90]]
                    counts["sent"] = sent(90, cores=cores, unsent=3)
                if job.role in (Role.RECEIVER, Role.CLIENT):
                    counts["received"] = arrived(flows * len(part.received or part.sent))
                if job.role in (Role.FORWARDER, Role.SERVER):
                    counts["forwarded"] = {"dropped": [1, 2], "polls": 9, "empty_polls": 1}
                    counts["forwarded"] |= {"stray": 4} if job.role is Role.SERVER else {}
                tasks.append({"announced": 5, **counts})
        one = report(*tasks)
        thread = one["threads"][0] | {"cpu": number, "cpu_ns": SECOND // 4, "wait_ns": SECOND // 3}
        threads = [dict(thread) for _ in player.parts]
        ports = [dict(one["ports"][0], mode=f"mode{place}") for place in range(len(player.opened))]
        reports.append(one | {"threads": threads, "ports": ports, "start_ns": 1_000})
    return reports


def arrived(flows: int) -> dict[str, Any]:
    """Return the report of a receiver with everything that it can have."""
    each = 80 // flows
    gap = [0, 3, 2, 2_000, 3_000, 4_000, 5_000]
    return received(
        80,
        flows=[[each, 1, 0, 0] for _ in range(flows)],
        headers={"compared": 80, "broken": 0, "unkept": 0},
        mixed=0,
        gaps={
            "longest": [gap],
            "silences": [[0, 9, 0, 6_000, 7_000, 0, 8_000]],
            "earliest": gap,
            "latest": None,
            "ends": [[each, 9_000, 10_000] for _ in range(flows)],
        },
    )


def leaves(value: Any, *way: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the ways to the numbers within a value."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from leaves(one, *way, name)
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from leaves(one, *way, number)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield way


def flat(value: Any, way: str = "") -> dict[str, Any]:
    """Return what a result has, by the way to it."""
    if isinstance(value, Mapping):
        return {k: v for name, one in value.items() for k, v in flat(one, f"{way}.{name}").items()}
    if isinstance(value, list) and any(isinstance(one, Mapping) for one in value):
        return {k: v for n, one in enumerate(value) for k, v in flat(one, f"{way}.{n}").items()}
    return {way[1:]: value}


SERIES = TimeSeries(
    interval_ns=SECOND // 2,
    **dict.fromkeys(("offered", "lost", "received", "duplicated", "reordered"), (5, 6)),
    **dict.fromkeys(("p50_ns", "p99_ns", "p999_ns", "max_ns"), (7, 8)),
)


def found(
    with_path: Outcome, reports: list[dict[str, Any]], counters: PathCounters, **host: Any
) -> dict[str, Any]:
    """Return the result of a trial, or the reason for none."""
    functions = {part.id: (0.25, 0.5) for part in with_path.path.parts if part.separate_kernel}
    used = host.pop("used", {"switch": (0.5, 0.75), **functions})
    load = host.pop("load", {"0": 0.9, "1": 0.8})
    spec, stolen = host.pop("spec", SPEC), host.pop("stolen", 0.0)
    try:
        trial = with_path.result(spec, SECOND // 2, reports, counters, used, stolen, load, SERIES)
    except (ArithmeticError, LookupError, StopIteration, TypeError, ValueError) as error:
        return {"error": f"refused by {type(error).__name__}"}
    return flat(trial.model_dump(mode="json"))


def apart(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return what differs between two results."""
    names = dict.fromkeys((*before, *after))
    if "error" in after:
        return str(after["error"])
    told = [
        f"{name} {before.get(name)} -> {after.get(name)}"
        for name in names
        if before.get(name) != after.get(name)
    ]
    return ", ".join(told) or "nothing"


def changed(reports: list[dict[str, Any]], way: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Return reports of which one number is another."""
    other = copy.deepcopy(reports)
    within: Any = other
    for step in way[:-1]:
        within = within[step]
    within[way[-1]] += 11
    return other


def drawn(axes: Mapping[str, Any]) -> tuple[Outcome, list[dict[str, Any]], PathCounters]:
    """Return the path of some axes on four CPUs, with its reports and counters."""
    path = path_of(**axes)
    path = path.placed(place(path.cpu_users, tuple(Cpu(number) for number in range(4))))
    links = {PortEnd(flow.source): PortCounters(90, 80, 1, 2) for flow in path.flows}
    clock = ClockEvidence(unsure_ns=70, round_trip_ns=500, drift_ppm=0.5)
    return outcome(path, far=clock), reports_of(path), PathCounters(links=links)


HOSTS: tuple[dict[str, Any], ...] = (
    {"stolen": 0.0101},
    {"load": {}},
    {"load": {"0": 0.3, "1": 0.4, "2": 0.1}},
    {"used": {}},
    {"used": {"switch": (0.1, 0.1), "f0": (0.25, 0.5), "f1": (0.25, 0.5)}},
    {"spec": SPEC.model_copy(update={"frames": 90})},
)


def test_the_effect_of_every_number(golden: Golden) -> None:
    told = {name: effects_of_numbers(name) for name in CASES}
    golden("outcomes/numbers.txt", text_of_cases(told))


def effects_of_numbers(name: str) -> list[str]:
    """Return what is found in a case, and what each number of its reports changes."""
    with_path, reports, counters = drawn(CASES[name])
    base = found(with_path, reports, counters)
    assert "error" not in base
    lines = [f"{way}: {value}" for way, value in base.items()]
    for way in leaves(reports):
        if name not in EVERY and "tasks" in way:
            continue  # as those of the other cases
        other = found(with_path, changed(reports, way), counters)
        lines.append(f"{'.'.join(map(str, way))}: {apart(base, other)}")
    lines += [
        f"{host}: {apart(base, found(with_path, reports, counters, **host))}" for host in HOSTS
    ]
    return lines


def test_the_effect_of_latencies(golden: Golden) -> None:
    lines = []
    for axes in ({}, {"dimension": "latency", "rate": "1k"}):
        with_path, reports, counters = drawn(axes)
        for task in (task for one in reports for task in one["tasks"]):
            if "received" in task:
                stamps = {"earliest": histogram(), "width": histogram(), "by": "kernel", "noted": 7}
                task["received"] |= {"latency": histogram(), "ipdv": histogram(), "stamps": stamps}
            if "sent" in task:
                task["sent"]["lag"] = histogram()
        base = found(with_path, reports, counters)
        lines += [f"## {axes}", *(f"{way}: {value}" for way, value in base.items())]
        for way in leaves(reports):
            if {*way} & {*HISTOGRAMS} and way[-1] in ("count", "max", 0):
                other = found(with_path, changed(reports, way), counters)
                lines.append(f"{'.'.join(map(str, way))}: {apart(base, other)}")
    golden("outcomes/latencies.txt", shortened("\n".join([*lines, ""])))


def lists(value: Any, *way: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the ways to the lists within a value."""
    if isinstance(value, list):
        yield way
    if isinstance(value, (dict, list)):
        for name, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from lists(one, *way, name)


def test_lists_of_another_length(golden: Golden) -> None:
    """A program that reports fewer or more than it has is refused."""
    lines = []
    for name, axes in CASES.items():
        with_path, reports, counters = drawn(axes)
        base = found(with_path, reports, counters)
        lines.append(f"## {name}")
        for way in lists(reports):
            if len(way) > 3 and name not in EVERY:
                continue  # as those of the other cases
            for longer in (False, True):
                other = copy.deepcopy(reports)
                within: Any = other
                for step in way:
                    within = within[step]
                if longer and within:
                    within.append(copy.deepcopy(within[-1]))
                elif within:
                    within.pop()
                told = apart(base, found(with_path, other, counters))
                lines.append(f"{'.'.join(map(str, way))}{' and one' * longer}: {told}")
    golden("outcomes/lists.txt", shortened("\n".join([*lines, ""])))


def test_the_doubts_of_a_trial(golden: Golden) -> None:
    """Each bound is reached, and exceeded by one."""
    lines = []

    def doubts(name: str, with_path: Outcome, reports: list[dict[str, Any]], **host: Any) -> None:
        trial = found(with_path, reports, PathCounters(), **host)
        told = {way: trial.get(way) for way in ("doubts", "evidence.unsure_ns", "latency.count")}
        lines.append(f"{name}: {told}")

    for case in ("a flow", "round trips", "machines"):
        with_path, reports, _ = drawn(CASES[case])
        if case == "machines":
            for task in reports[-1]["tasks"]:
                task["received"] |= {"latency": histogram(), "ipdv": histogram()}
        for stolen in (0.01, 0.010001):
            doubts(f"{case}, {stolen} stolen", with_path, reports, stolen=stolen)
        for late_ns in (100_000, 100_001):
            other = copy.deepcopy(reports)
            other[0]["threads"][0]["started_late_ns"] = late_ns
            doubts(f"{case}, started {late_ns} ns late", with_path, other)
        for name in ("foreign", "mixed", "unfollowed", "ties", "stray"):
            other = copy.deepcopy(reports)
            for task in other[-1]["tasks"]:
                task.get("received", {})[name] = 1
            doubts(f"{case}, {name}", with_path, other)
        for each in ((5_000_000,), (5_000_001,), (9, 2_500_000, 2_500_000), (2_500_001, 2_500_000)):
            clocks = {
                str(number): ClockEvidence(unsure_ns=unsure, round_trip_ns=500, drift_ppm=0.5)
                for number, unsure in enumerate(each)
            }
            doubts(f"{case}, clocks {each}", replace(with_path, clocks=clocks), reports)
        for duration_s in (0.09, 0.1, 0.5, 0.99, 1.0):
            spec = SPEC.model_copy(update={"duration_s": duration_s})
            doubts(f"{case}, {duration_s} s", with_path, reports, spec=spec)
    for repeat, duration in ((1, 0.5), (2, 0.5), (2, 0.49), (9, 0.1), (10, 0.1), (20, 0.09)):
        with_path, reports, _ = drawn({"repeat": repeat, "duration": duration})
        spec = SPEC.model_copy(update={"duration_s": duration})
        doubts(f"{repeat} of {duration} s", with_path, reports, spec=spec)
        spec = SPEC.model_copy(update={"duration_s": duration + 0.001})
        doubts(f"{repeat} of another length", with_path, reports, spec=spec)
    for share in (0.0, 0.2, 0.2001, 0.5):
        with_path, reports, _ = drawn({"switch": "testpmd", "engine": "dpdk"})
        for one in reports:
            one["threads"][0]["wait_ns"] = -1
        used = {"switch": (0.5, share)}
        doubts(f"{share} of a CPU taken", with_path, reports, used=used)
    golden("outcomes/doubts.txt", "\n".join([*lines, ""]))
