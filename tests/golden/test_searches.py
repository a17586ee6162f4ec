"""These tests compare the transcript of each search with a stored one: every trial that it asks a
simulated switch for, and every field of its result.

A line has trials of the same length, in order: the load in frames per second (or `max`, and the
frames of a burst), `!` if frames were lost, `?` if frames were not sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pytest

from golden_cases import text_of_cases
from switchmark.errors import UsageError
from switchmark.metrics.latency import from_counts
from switchmark.model.record import TrialResult, TrialSpec
from switchmark.model.units import parse_verification
from switchmark.searches import TABLE
from switchmark.searches.base import Estimate, LoadBounds
from synthetic import SyntheticSwitch

USUAL: dict[str, Any] = {"rate_pps": None, "duration_s": 1.0, "warmup_s": 0.1}

CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a switch at half the rate of the sender": ({}, {}),
    "a sender that is the limit": ({"capacity_pps": 9e6}, {}),
    "a rate of the test": ({}, {"rate_pps": 7e5, "duration_s": 2.0}),
    "a link that is full": ({"capacity_pps": 9e6}, {"line_pps": 1.4e6}),
    "a link that is faster than the sender": ({}, {"line_pps": 4e6}),
    "rings that drop": ({"receiver": True}, {"finals": 3}),
    "one of 1000 frames lost from 300 kpps": ({"lossless_pps": 3e5}, {"loss_ratio": 0.002}),
    "one of 1000 frames lost at any rate": (
        {"lossless_pps": 0},
        {"loss_ratio": 1e-4, "finals": 2, "precision": 0.1},
    ),
    "a frame lost in each third trial": ({"rare": 3}, {"precision": 0.05, "finals": 3}),
    "a frame lost in each fourth trial, by the rule of TST 009": (
        {"rare": 4},
        {"precision": 0.05, "finals": 3, "verification": parse_verification("tst009:3:20%")},
    ),
    "a frame lost in each fifth trial, each decides": (
        {"rare": 5},
        {"precision": 0.05, "verification": parse_verification("none")},
    ),
    "noise": ({"noise": 0.05}, {"precision": 0.02, "finals": 2}),
    "two senders with bursts of 32": (
        {"noise": 0.01, "buffer": 300},
        {"senders": 2, "burst": 32, "finals": 4, "loads": (0.9, 0.25)},
    ),
    "short trials": (
        {"buffer": 20_000},
        {"duration_s": 0.3, "duration_sum_s": 0.5, "exceed_ratio": 0.25, "warmup_s": 0.0},
    ),
    # Two frames in each interval: the rate of the steady part is always the same.
    "so few frames that only the whole trial varies": (
        {"capacity_pps": 120.0, "sender_pps": 240.0, "noise": 0.05},
        {"until_certain": 0.01, "precision": 0.1, "loads": ()},
    ),
}


@dataclass
class Told(SyntheticSwitch):
    """A simulated switch whose trials can be told apart by their latency."""

    def __call__(self, spec: TrialSpec) -> TrialResult:
        trial = super().__call__(spec)
        number = len(self.asked)
        histogram = {"count": 50, "min": number, "max": number, "sum": 50 * number}
        latency = from_counts("one-way", [{**histogram, "counts": [[number, 50]]}])
        return trial.model_copy(update={"latency": latency})


def numbered(trials: Sequence[TrialResult]) -> str:
    """Return the numbers of trials."""
    return " ".join(str(trial.latency.min) for trial in trials if trial.latency) or "-"


def asked(trials: Sequence[TrialResult]) -> list[str]:
    """Return the lines of the trials that a search asked for."""

    def length(trial: TrialResult) -> str:
        spec = trial.spec
        steps = "".join(f", {share:g} from {step_s:g} s" for step_s, share in spec.steps)
        return f"{spec.duration_s:.4g} s after {spec.warmup_s:g} s{steps}"

    def load(trial: TrialResult) -> str:
        spec = trial.spec
        rate = "max" if spec.rate_pps is None else f"{spec.rate_pps:.7g}"
        burst = "" if spec.frames is None else f"*{spec.frames}"
        return f"{rate}{burst}{'!' * bool(trial.lost)}{'?' * bool(trial.tx_unsent)}"

    return [f"{each}: {' '.join(map(load, some))}" for each, some in groupby(trials, length)]


def worded(value: Any) -> str:
    """Return a value of a goal, with as many digits as do not depend on the machine."""
    if isinstance(value, float):
        return f"{value:.9g}"
    return str(value)


def found(estimate: Estimate) -> list[str]:
    """Return the lines of the result of a search."""
    lines = [
        f"trials {numbered(estimate.trials)}, goal {estimate.goal}, verdict {estimate.verdict}, "
        f"doubts {', '.join(estimate.doubts) or '-'}"
    ]
    lines += [f"finals of {name}: {numbered(some)}" for name, some in estimate.finals.items()]
    summary = estimate.summary
    if summary is None:
        return lines
    lines.append(f"{summary.name}: {summary.trials} trials, r+ {worded(summary.r_plus_pps)}")
    for goal in summary.goals:
        values = goal.model_dump(exclude_defaults=True)
        latency = values.pop("latency_ns", None)
        values |= {"latency": latency and latency["p50"]}
        lines.append("  " + " ".join(f"{name}={worded(v)}" for name, v in values.items()))
    return lines


@pytest.mark.parametrize("name", TABLE)
def test_the_transcript_of_a_search(name: str, golden: Callable[[str, str], None]) -> None:
    told = {}
    for title, (members, given) in CASES.items():
        switch = Told(**members)
        trials: list[TrialResult] = []

        def measure(spec: TrialSpec, switch: Told = switch, made: Any = trials) -> TrialResult:
            made.append(switch(spec))
            return made[-1]  # type: ignore[no-any-return]

        def judge(some: Sequence[TrialResult]) -> str:
            """Say which trials are judged, unless the frames decide."""
            few = any(trial.lost_at or trial.tx_unsent for trial in some)
            return "unknown" if few else f"of {numbered(some)}"

        bounds = LoadBounds(**{**USUAL, **given}, judge=judge)
        try:
            lines = found(TABLE[name].find(measure, bounds))
        except UsageError as error:
            lines = [str(error), f"hint: {error.hint}"]
        usual = TABLE[name].usual_durations(bounds)
        lengths = [f"{len([*some])} of {each:.4g} s" for each, some in groupby(usual)]
        lines += [f"usually {', '.join(lengths)}, tells {TABLE[name].tells(bounds):g}"]
        told[title] = [*asked(trials), *lines]
    golden(f"searches/{name.replace(':', '-')}.txt", text_of_cases(told))
