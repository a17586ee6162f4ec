"""These tests compare figures of counts with stored texts: the balance of frames along a path, the
cost of a trial, the figures of intervals and the errors of latencies, each with one count changed
in turn."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

from golden.test_outcomes import apart, changed, flat, leaves
from golden_cases import shortened, text_of_cases
from recorded import RECORDINGS, fresh
from switchmark.metrics.balance import Way, balanced
from switchmark.metrics.cpu import cores_by_role, cost
from switchmark.metrics.disturbed import flooded, frequency_changed, past_switch, slow_path
from switchmark.metrics.named import METRICS
from switchmark.metrics.series import columns_of, joined
from switchmark.metrics.uncertainty import apart_ns, error_of
from switchmark.model.latency import LatencyFigures
from switchmark.model.noise import NoiseCertificate
from switchmark.model.record import Record, TrialResult
from switchmark.model.test import Test

Golden = Callable[[str, str], None]

TRIAL = fresh().trials[0].model_dump(mode="json")


def counts(rx: int, tx: int) -> dict[str, int]:
    return {"rx": rx, "tx": tx, "rx_dropped": 0, "tx_dropped": 0}


AT_SWITCH = {"a@switch": counts(90, 5), "b@switch": counts(4, 80)}
AT_PARTS = {"a": counts(5, 95), "b": counts(78, 4)}
CHAIN = {"x@switch": counts(60, 70), "y@switch": counts(61, 71)}
WAYS = (Way("a-b", 0, ("a",), ("b",)), Way("b-a", 1, ("b",), ("a",)))
COPIED = (Way("a-b", 0, ("a",), ("b",)), Way("a-c", 0, ("a",), ("c",)))

BALANCES: Mapping[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "the switch alone": ({"counters": AT_SWITCH}, {"ports": "ab", "through": True}),
    "the switch alone, with answers": ({"counters": AT_SWITCH}, {"ports": "ab", "through": False}),
    "both ends": ({"counters": {**AT_SWITCH, **AT_PARTS}}, {"ports": "ab", "through": True}),
    "a port without counters": ({"counters": AT_SWITCH}, {"ports": "abc", "through": True}),
    "a function at the switch": (
        {"counters": {**AT_SWITCH, **CHAIN}},
        {"ports": "abxy", "through": True, "functions": {"f0": "xy"}},
    ),
    "a function at its own ports": (
        {"counters": {**AT_SWITCH, **AT_PARTS, "x": counts(69, 60), "y": counts(71, 58), **CHAIN}},
        {"ports": "abxy", "through": True, "functions": {"f0": "xy"}},
    ),
    "two hosts": (
        {"counters": {**AT_SWITCH, **CHAIN}},
        {
            "ports": "abxy",
            "through": True,
            "hosts": {"near": "ax", "far": "by"},
            "cables": {"far": ("x", "y")},
        },
    ),
    "copies": ({"counters": AT_SWITCH, "copies": 2}, {"ports": "ab", "through": True}),
    "ways": ({"counters": AT_SWITCH}, {"ports": "ab", "through": True, "ways": WAYS}),
    "ways of copies": (
        {"counters": {**AT_SWITCH, "c@switch": counts(0, 70)}, "copies": 2},
        {"ports": "abc", "through": True, "ways": COPIED},
    ),
    "ways of frames that are not read": (
        {"counters": AT_SWITCH, "per_flow": []},
        {"ports": "ab", "through": True, "ways": WAYS},
    ),
}

FLOWS = [
    {"flow": name, "tx": 60, "rx": rx, "lost": 60 - rx, "duplicated": 0, "reordered": 0}
    for name, rx in (("a-b", 85), ("b-a#0", 3), ("b-a#1", 2), ("a-c", 82))
]
LOST = {"late": 1, "corrupted": 2, "stray": 1, "beyond": 1, "ring b": 3, "engine a": 2, "a out": 1}


def frames(**members: Any) -> dict[str, Any]:
    """Return a trial of which 30 of 100 frames were lost, some at places that are known."""
    lost_at = {**LOST, "function f0": 2, "a@switch out": 1, "b@switch in": 1}
    content = {**TRIAL, "tx_frames": 100, "rx_frames": 71, "duplicated": 1, "lost": 30}
    content |= {"per_flow": FLOWS, "lost_at": lost_at, "latency": None}
    return {**content, "evidence": {"announced": 2, "left_over": 3}, **members}


def test_the_balance_of_frames(golden: Golden) -> None:
    told = {name: balance_lines(*case) for name, case in BALANCES.items()}
    golden("counts/balances.txt", text_of_cases(told))


def balance_lines(members: Mapping[str, Any], options: Mapping[str, Any]) -> list[str]:
    """Return the balance of a trial, and the effect of every number of the trial on it."""
    content = frames(**members)

    def of(trial: dict[str, Any]) -> dict[str, Any]:
        found = balanced(TrialResult.model_validate(trial), **options).model_dump(mode="json")
        shown = {"lost_at": found["lost_at"], **found["evidence"]}
        return flat({name: shown.get(name, {}) for name in ("lost_at", "balance", "past")})

    base = of(content)
    lines = [f"{way}: {value}" for way, value in base.items()]
    for way in leaves(content):
        if way[0] in ("counters", "per_flow", "lost_at", "evidence", "tx_frames", "lost", "copies"):
            (other,) = changed([content], (0, *way))
            lines.append(f"{'.'.join(map(str, way))}: {apart(base, of(other))}")
    return lines


# --- costs ---------------------------------------------------------------------------------------

PERF = {
    "by": "thread",
    "cycles": 90_000_000,
    "ref_cycles": 80_000_000,
    "instructions": 70_000_000,
    "cache_misses": 6_000,
}


def test_the_cost_of_a_trial(golden: Golden) -> None:
    line = (RECORDINGS / "profile.records.jsonl").read_text().splitlines()[0]
    stored = {"key": "k", **json.loads(line)["record"]}
    (trial,) = stored["trials"]
    del trial["cost"]["profile"]
    trial["cost"]["perf"] = {
        "missing": None,
        "user_only": False,
        "parts": {
            "f0": {**PERF, "roles": ["sender"]},
            "switch": {**PERF, "roles": ["switch"], "cycles": 20_000_000},
        },
    }
    kernel = copy.deepcopy(stored)
    cpus = {**PERF, "by": "cpu", "roles": [], "cpus": [0, 1]}
    kernel["trials"][0]["cost"]["perf"]["parts"] = {"cpus": cpus}
    several = copy.deepcopy(stored)
    several["trials"] = [copy.deepcopy(trial), copy.deepcopy(kernel["trials"][0]), trial]
    lines = []
    for name, content in (("parts", stored), ("cpus", kernel), ("several", several)):
        base = of_record(content)
        lines += [f"## {name}", *(f"{way}: {value}" for way, value in base.items())]
        for way in leaves(content["trials"]):
            if way[1] in ("cost", "parts", "elapsed_ns", "rx_frames") and name != "several":
                other = {**content, "trials": changed(content["trials"], way)}
                lines.append(f"{'.'.join(map(str, way))}: {apart(base, of_record(other))}")
    golden("counts/cost.txt", shortened("\n".join([*lines, ""])))


def of_record(content: dict[str, Any]) -> dict[str, Any]:
    """Return the costs of a stored record."""
    try:
        record = Record.model_validate(content)
    except ValueError:
        return {"error": "refused"}
    found = cost(record)
    assert found is not None
    names = [name for name in METRICS if name.startswith(("cost.", "cpu."))]
    metrics = {name: METRICS[name].of(record) for name in names}
    figures = {**flat(found.model_dump(mode="json")), **cores_by_role(record), **metrics}
    return {k: float(f"{v:.10g}") if isinstance(v, float) else v for k, v in figures.items()}


# --- intervals, errors -------------------------------------------------------------------------


def test_the_figures_of_intervals(golden: Golden) -> None:
    draw = random.Random(3)

    def bins(size: int) -> list[list[int]]:
        return [[draw.randrange(400), draw.randrange(1, 900)] for _ in range(size)]

    tasks: list[dict[str, Any]] = [
        {
            "received": {
                **{
                    name: [draw.randrange(1000) for _ in range(6)]
                    for name in ("arrived", "received", "duplicated", "reordered")
                },
                "latency": [
                    [],
                    [[3, 1]],
                    [[40, 10_000]],
                    bins(3),
                    bins(30),
                    [[31, 500], [32, 500]],
                ],
                "highest": [0, 3, 80, 900_000, 5_000, 40],
            }
        }
        for _ in range(2)
    ]
    tasks += [{"sent": {"sent": [draw.randrange(2000) for _ in range(6)]}} for _ in range(2)]
    lines = []
    for copies, counted in ((1, True), (3, True), (1, False)):
        found = columns_of(tasks, copies=copies, counted=counted)
        lines += [f"# {copies} copies, counted {counted}", *(f"{k}: {v}" for k, v in found.items())]
    lines += ["# joined", *(f"{k}: {v}" for k, v in joined([found, found]).items())]
    golden("counts/intervals.txt", "\n".join([*lines, ""]))


def test_the_errors_of_latencies(golden: Golden) -> None:
    lines = []
    trial = TrialResult.model_validate(TRIAL)
    usual = {"kind": "rtt", "count": 9, "min": 1, "mean": 50.0, "max": 9_000_000}
    stamps = {"by": "poll", "noted": 0, "p50": 30, "p99": 400, "max": 900}
    for by, noted, p99 in (
        ("poll", 0, 400),
        ("call", 0, None),
        ("kernel", 5, 400),
        ("device", 0, 7),
    ):
        for p50 in (None, 0, 50, 2047, 2048, 5_000_000):
            for earliest in (None, 45):
                told = {"f": {**stamps, "by": by, "noted": noted, "p99": p99}}
                evidence = {"stamps": told, "skew_ns": 20}
                one = TrialResult.model_validate({**TRIAL, "evidence": evidence})
                figures = LatencyFigures.model_validate({**usual, "p50": p50, "unsure_ns": 6})
                found = error_of(figures, [one, trial], earliest)
                lines.append(f"{by} {noted} {p99}, median {p50}, earliest {earliest}: {found}")
    for skews in ([], [(0, 5)], [(40, 5), (-7, 9), (3, 20)], [(None, 3), (12, 1)]):
        jitter = {
            str(cpu): {"longest_ns": 1, "share": 0.0, "skew_ns": skew, "skew_within_ns": within}
            for cpu, (skew, within) in enumerate(skews)
        }
        for axes in ({}, {"dimension": "latency"}, {"dimension": "latency", "function_cores": 2}):
            noise = NoiseCertificate.model_construct(jitter=noise_of(jitter))
            lines.append(f"skews {skews}, {axes}: {apart_ns(noise, Test(**axes, rate='1k'))}")
    lines.append(f"no noise: {apart_ns(None, Test())}")
    golden("counts/errors.txt", "\n".join([*lines, ""]))


def noise_of(jitter: Mapping[str, Mapping[str, Any]]) -> Any:
    """Return what was measured of CPUs, as a certificate has it."""
    return {cpu: SimpleNamespace(**members) for cpu, members in jitter.items()}


def least(holds: Callable[[int], bool], most: int) -> int:
    """Return the least number for which something holds, which holds for all larger ones."""
    low, high = -1, most
    assert holds(high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def test_the_limits_of_disturbances(golden: Golden) -> None:
    lines = []
    feeds = {"b": "a", "c": "ab"}
    for sent in (100, 1_000_000):
        for announced, left_over, stray in ((0, 0, 0), (2, 3, 1)):
            evidence = {"announced": announced, "left_over": left_over}
            ports = {"a@switch": counts(90, 0), "b@switch": counts(10, 0)}
            content = {"tx_frames": sent, "evidence": evidence, "stray": stray}

            def found(excess: int, content: Any = content, ports: Any = ports) -> dict[str, int]:
                there = {**ports, "b@switch": counts(10, 90 + excess), "c@switch": counts(0, 60)}
                trial = TrialResult.model_validate(frames(**content, counters=there))
                return flooded(trial, feeds)

            first = least(partial(is_flooded, found), 10**7)
            lines.append(f"{sent} sent, {announced}+{left_over}: {found(first)}, before {found(0)}")
    for entered in (100, 10_000):
        slow = least(partial(is_slow, entered), 10**7)
        past = least(partial(is_through, entered), 10**7)
        lines.append(f"slow path of {entered}: from {slow}; past the switch: fewer than {past}")
    for khz in (1_000_000, 2_500_000):
        up, down = (least(partial(has_changed, khz, sign), khz // 2) for sign in (1, -1))
        lines.append(f"frequency of {khz} kHz: changed by {up} up, {down} down")
    golden("counts/disturbances.txt", "\n".join([*lines, ""]))


def is_flooded(found: Callable[[int], Mapping[str, int]], excess: int) -> bool:
    return "b" in found(excess)


def is_slow(rx: int, count: int) -> bool:
    ports = {"a@switch": counts(rx, 0), "b@switch": counts(0, rx)}
    trial = TrialResult.model_validate(frames(counters=ports))
    slow = replace(trial.counters, slow_path=count)
    return slow_path(trial.model_copy(update={"counters": slow})) is not None


def is_through(arrived: int, counted: int) -> bool:
    past = {"a@switch in": {"arrived": arrived, "counted": counted}}
    return not past_switch(TrialResult.model_validate(frames(evidence={"past": past})))


def has_changed(before: int, sign: int, by: int) -> bool:
    frequencies = {"0": (before, before + sign * by), "1": (None, 5), "2": (5, None)}
    window: Any = SimpleNamespace(frequency_khz=frequencies)
    return bool(frequency_changed(window))
