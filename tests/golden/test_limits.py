"""These tests compare with stored texts where figures and doubts change: limits are touched from
both sides, and what a figure needs is left out in turn."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

from golden.test_figures import all_records, worded
from recorded import fresh
from switchmark.metrics import loss, profile
from switchmark.metrics.doubts import TABLE as DOUBTS
from switchmark.metrics.doubts import spoiled
from switchmark.metrics.latency import latency_ns
from switchmark.metrics.repeats import FIGURES, repeats_of
from switchmark.model.cost import Profile, Shares
from switchmark.model.imported import Imported
from switchmark.model.latency import Latency

Golden = Callable[[str, str], None]


def test_the_loss_that_trials_exclude(golden: Golden) -> None:
    counts = (-1, 0, 1, 2, 50, 9_998, 9_999, 10_000, 10_001, 10_002, 10**6)
    lines = [
        f"{lost} lost of {frames}: at most {loss.upper_bound(lost, frames):.12g}"
        for lost, frames in product(counts, (1, 3, 10**4, 10**9))
    ]
    lines += [
        f"{share:.6g} takes {loss.frames_that_tell(share)}"
        for share in (1.0, 0.5, 0.005, 2.9957 / 600, 3e-6)
    ]
    golden("limits/losses.txt", "\n".join([*lines, ""]))


def test_the_weight_of_a_profiler(golden: Golden) -> None:
    (trial, *_), lines = [one for one in trials_of() if one.cost], []
    assert trial.cost is not None
    whole = Shares(samples=99, groups={}, symbols={})
    for sample_ns, hz, lost, met, missing in product(
        (None, 0.0, 100_000.0, 100_001.0, 101_010.0),
        (99, 100),
        (0, 1, 2),
        (None, 0, 98, 99, 100, 199),
        (None, "no perf"),
    ):
        sampled = Profile(
            event="cycles",
            hz=hz,
            lost=lost,
            sample_ns=sample_ns,
            missing=missing,
            whole=None if met is None else whole.model_copy(update={"samples": met}),
        )
        cost = trial.cost.model_copy(update={"profile": sampled})
        evidence = profile.weighs(trial.model_copy(update={"cost": cost}))
        if evidence is not None:
            lines.append(f"{sample_ns} ns, {hz} Hz, {lost} lost of {met}, {missing}: {evidence}")
    assert profile.weighs(trial.model_copy(update={"cost": None})) is None
    golden("limits/profilers.txt", "\n".join([*lines, ""]))


def trials_of() -> list[Any]:
    return [trial for record in all_records() for trial in record.trials]


def test_the_rates_of_files_of_other_programs(golden: Golden) -> None:
    lines = []
    imported = Imported(tool="CSIT", measured_by="T-Rex", rates_pps=(3e6, 2e6, 1e6))
    one = fresh().model_copy(update={"imported": imported, "trials": ()})
    failed = one.model_copy(update={"status": "failed"})
    other = one.model_copy(
        update={"imported": imported.model_copy(update={"rates_pps": (9e6, 5e6)})}
    )
    for name, some in {
        "one": [one],
        "one failed": [failed],
        "one of two failed": [failed, one],
        "two": [one, other],
        "none": [],
        "another kind": [fresh(), one],
    }.items():
        for figure in ("rate", "latency"):
            for by_run in (False, True):
                try:
                    found: Any = repeats_of(some, FIGURES[figure], by_run=by_run)
                except (IndexError, ValueError) as error:
                    found = type(error).__name__
                lines.append(f"{name}, {figure}, by run {by_run}: {found}")
    golden("limits/imported.txt", "\n".join([*lines, ""]))


def test_the_error_of_a_latency_of_several_trials(golden: Golden) -> None:
    """A trial without the times of polls leaves the widest timestamps as the bound of all."""
    lines = []
    records = [
        record
        for record in all_records()
        if len(record.trials) == 1
        and (latency := record.trials[0].latency) is not None
        and latency.earliest is not None
    ]
    for record in records[::9]:
        (trial,) = record.trials
        assert trial.latency is not None
        changes: tuple[dict[str, Any], ...] = (
            {},
            {"earliest": None},
            {"count": 0, "earliest": None},
        )
        kinds: list[Latency | None] = [trial.latency.model_copy(update=one) for one in changes]
        for number, latencies in enumerate(product([*kinds, None], repeat=2)):
            trials = tuple(trial.model_copy(update={"latency": one}) for one in latencies)
            found = latency_ns(record.model_copy(update={"trials": trials}))
            error = found and found.error
            lines.append(f"{record.test.switch} {number}: {error}")
    golden("limits/latencies.txt", "\n".join([*lines, ""]))


def test_how_many_trials_a_doubt_spoils(golden: Golden) -> None:
    record, lines = fresh(), []
    (trial, *_) = record.trials
    kinds: dict[tuple[str, bool], str] = {}
    for doubt in DOUBTS.values():
        kinds.setdefault((doubt.spoils, doubt.only_latency), doubt.name)
    for (spoils, only_latency), name in kinds.items():
        for count, of in ((0, 4), (1, 4), (1, 5), (2, 8), (1, 1), (2, 9), (3, 3)):
            doubted = trial.model_copy(update={"doubts": (name, "unheard of")})
            trials = (*[doubted] * count, *[trial] * (of - count))
            some = record.model_copy(update={"trials": trials})
            sides = [
                sorted(spoiled(some, latency=latency, excused=excused))
                for latency in (None, False, True)
                for excused in ((), (name,))
            ]
            lines.append(f"{spoils or 'nothing'}, latency {only_latency}, {count}/{of}: {sides}")
    for of_record, of_trials in product(("host", "switch"), (0, 1, 2)):
        limited = trial.model_copy(update={"verdict": "host"})
        trials = (*[limited] * of_trials, *[trial] * (5 - of_trials))
        some = record.model_copy(update={"trials": trials, "verdict": of_record})
        sides = [sorted(spoiled(some, excused=excused)) for excused in ((), ("host",))]
        lines.append(f"verdict {of_record}, {of_trials} of 5 by the host: {worded(sides)}")
    golden("limits/doubts.txt", "\n".join([*lines, ""]))
