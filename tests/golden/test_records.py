"""These tests compare what a lab makes of the searches of a test, and of the path that it was
measured on, with stored texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

from golden.test_outcomes import flat
from golden_cases import shortened
from recorded import fresh
from switchmark.lab.judging import JudgedTrials
from switchmark.lab.running import RunningPath
from switchmark.lab.searching import _together, next_stored, recorded, repeat_search
from switchmark.model.cpus import Cpu
from switchmark.model.place import PortEnd
from switchmark.model.record import GateResult, PartReport, TrialResult, TrialSpec
from switchmark.model.search import Goal, SearchResult
from switchmark.model.test import Test
from switchmark.path.placement import place
from switchmark.path.resolving import resolve
from switchmark.runs.pci import Device
from switchmark.searches import TABLE as SEARCHES
from switchmark.searches.base import Estimate, LoadBounds
from synthetic import SyntheticSwitch

Golden = Callable[[str, str], None]


def trial(number: int, rate_pps: float | None = 1000) -> TrialResult:
    """Return a trial that a number tells from others."""
    spec = TrialSpec(rate_pps=rate_pps, duration_s=1, warmup_s=0)
    return SyntheticSwitch(capacity_pps=100.0 * number)(spec)


def estimate(number: int, goal: str | None, *goals: str, **members: Any) -> Estimate:
    """Return the estimate of one search, whose figures a number tells from others."""
    found = tuple(
        Goal(goal=name, loss_ratio=0.0, rate_pps=100.0 * number, verdict="switch") for name in goals
    )
    summary = SearchResult(name="mlr", trials=number, r_plus_pps=7.0 * number, goals=found)
    finals = {name: (trial(number),) for name in goals}
    return Estimate((trial(number),), summary, goal=goal, finals=finals, **members)


SEARCHED: Mapping[str, tuple[Estimate, ...]] = {
    "one": (estimate(1, "ndr", "ndr", "pdr", verdict="switch", doubts=("short",)),),
    "one without a verdict": (estimate(1, "ndr", "ndr", "pdr"),),
    "one verdict of three": (
        estimate(1, "ndr", "ndr", "pdr"),
        estimate(3, "ndr", "ndr", "pdr", doubts=("short", "clock")),
        estimate(2, "ndr", "ndr", "pdr", verdict="sender", doubts=("clock", "host-busy")),
    ),
    "the most common goal": (
        estimate(1, "ndr", "ndr", "pdr", verdict="switch"),
        estimate(3, "pdr", "ndr", "pdr", verdict="switch"),
        estimate(2, "pdr", "ndr", "pdr", verdict="switch"),
    ),
    "goals as common as each other": (
        estimate(1, "pdr", "ndr", "pdr", verdict="switch"),
        estimate(3, "ndr", "ndr", "pdr", verdict="switch"),
    ),
    "a search that met nothing": (
        estimate(1, None, "ndr", verdict="receiver"),
        estimate(3, "ndr", "ndr", verdict="switch"),
    ),
    "searches that met nothing": (
        estimate(2, None, "ndr", verdict="receiver"),
        estimate(1, None, "ndr", verdict="sender"),
    ),
    "searches that met nothing, with no verdict": (estimate(2, None, "ndr"), estimate(1, None)),
}


def lines_of(found: Estimate) -> list[str]:
    """Return all that an estimate has, with trials as their rates."""
    assert found.summary is not None
    rates = {name: [t.rx_frames for t in trials] for name, trials in sorted(found.finals.items())}
    told = flat(found.summary.model_dump(mode="json", exclude_none=True))
    return [
        f"trials {[one.rx_frames for one in found.trials]}, finals {rates}",
        f"goal {found.goal}, verdict {found.verdict}, doubts {found.doubts}",
        *(f"  {way}: {value}" for way, value in told.items()),
    ]


def test_searches_together(golden: Golden) -> None:
    text: list[str] = []
    for name, searches in SEARCHED.items():
        text += [f"## {name}", *lines_of(_together(searches))]
    golden("records/searches.txt", shortened("\n".join(text)))


def test_searches_are_repeated(golden: Golden) -> None:
    text: list[str] = []
    for name, search in SEARCHES.items():
        for bounds in (
            LoadBounds(1e6, 0.5, 0.1, repeat=2),
            LoadBounds(None, 0.5, 0.1, repeat=2, until_certain=0.02),
        )[: 2 if name in ("max", "pdr") else 1]:
            switch = SyntheticSwitch(capacity_pps=4e5, noise=0.01)
            found = repeat_search(search, switch, bounds)
            asked = [(spec.repeat, spec.frames, spec.rate_pps) for spec in switch.asked]
            text += [f"# {name}, {bounds.until_certain}: {len(asked)} trials", str(asked[:3])]
            text += [str(asked[-1]), f"{found.goal}, {found.verdict}, {found.doubts}, "]
            text.append(str(sum(one.rx_frames for one in found.trials)))
    golden("records/repeats.txt", "\n".join([*text, ""]))


def test_stored_trials_are_taken_in_order() -> None:
    stored = [trial(1), trial(2, 5), trial(3), trial(4)]
    spec, other = stored[0].spec, stored[1].spec
    left = list(stored)
    assert next_stored(left, spec) is stored[0]
    assert left == stored[1:]
    assert next_stored(left, spec) is stored[2], "what is before it is of another search"
    assert left == stored[3:]
    assert next_stored(left, other) is None
    assert left == []
    assert next_stored(left, spec) is None


PATHS: Mapping[str, dict[str, Any]] = {
    "a switch of the kernel": {},
    "a switch that polls": {"switch": "testpmd", "engine": "dpdk"},
    "a chain": {"scenario": "loopback", "chain": 2},
    "two hosts": {"locality": "remote", "hosts": "left,right"},
    "NICs": {"scenario": "p2p", "nic": "a0=x:y,b0=z:w"},
    "a machine": {"environment": "vm", "scenario": "v2p"},
}


def test_the_record_of_a_path(golden: Golden) -> None:
    text: list[str] = []
    record = fresh()
    base = flat(record.model_dump(mode="json"))
    parts = [
        PartReport(part="f0", roles=("sender",), cpu=0, cores=1, engine_mode=mode)
        for mode in ("qdisc", "", "af_xdp", "qdisc")
    ]
    trials = tuple(
        record.trials[0].model_copy(update={"parts": tuple(parts[:count]), "doubts": doubts})
        for count, doubts in ((0, ("short",)), (1, ()), (4, ("clock", "short")))
    )
    for name, axes in PATHS.items():
        path = resolve(Test(**axes), prefix="sm0000", run_dir="/run/x")
        path = path.placed(place(path.cpu_users, tuple(map(Cpu, range(4)))))
        running = SimpleNamespace(
            path=path,
            nics={PortEnd("a0"): Device("0000:03:00.0", "8086:10d3", "e1000e")},
            gate=GateResult(passed=True, tries=1, frames=98),
        )
        judged = SimpleNamespace(discarded=["host-busy: 1", "host-busy: 2"])
        for found in (
            Estimate((), None),
            Estimate(trials, None, doubts=("drifting", "clock")),
            Estimate(trials[1:], None, verdict="sender"),
        ):
            made = recorded(
                record.model_copy(update={"test": path.test}),
                found,
                cast(RunningPath, running),
                cast(JudgedTrials, judged),
            )
            content = flat(made.model_dump(mode="json", exclude={"trials", "test"}))
            text.append(f"## {name}, {len(made.trials)} trials, {found.verdict}")
            text += [f"{way}: {value}" for way, value in content.items() if value != base.get(way)]
    golden("records/paths.txt", shortened("\n".join([*text, ""])))
