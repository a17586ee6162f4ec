"""The history of tests over many runs: a series for each test, its states, and what fails.

`metrics.trend` finds the changes. `report.trend_text` and `report.trend_page` write the result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from statistics import median
from typing import Literal

from switchmark.errors import UsageError
from switchmark.metrics.repeats import FIGURES, Figure, main_figure, repeats_of
from switchmark.metrics.trend import ChangePoint, State, changes, last_good, states
from switchmark.model.cable import CABLE, CableLatency, Calibration
from switchmark.model.objects import Printed
from switchmark.model.printable import printable
from switchmark.model.record import SCHEMA, Record
from switchmark.model.test import Test
from switchmark.report.conditions import Condition
from switchmark.report.host_differences import HostDifference, RunFacts, host_differences
from switchmark.report.json import plain
from switchmark.report.notes import version_text
from switchmark.report.pairing import identity

Place = Literal["time", "run", "version"]
"""What stands on the x axis: the day, the name of the run (such as a commit), or the version of the
switch."""

_FEW = 0.5
"""The share of nights with a baseline from which a series is judged by its ratio to it."""


@dataclass(frozen=True, slots=True)
class Night:
    """A test in one run."""

    record: Record
    """The record of the test."""
    run: str
    """The name of the run."""
    value: float
    """The median of the figure, in its unit."""
    cable: float | None
    """The figure of the same test on a cable in that run; None if it was not measured."""


@dataclass(frozen=True)
class Series:
    """A figure of a test over runs, in order of time."""

    test: Test
    """The test."""
    figure: Figure
    """The figure."""
    nights: tuple[Night, ...]
    """The runs that measured it."""
    uses_cable: bool
    """Whether the series is judged by its ratio to the cable."""
    left_out: int
    """How many runs were left out, because they lack a baseline or received nothing."""
    accepted: str | None = None
    """The run whose state the user accepts as good."""

    @property
    def is_cable(self) -> bool:
        """Return whether this is a cable, whose changes are those of the host."""
        return self.test.switch == CABLE

    @cached_property
    def values(self) -> tuple[float, ...]:
        """Return the figure of each night as if the cable always had its median: the effect of the
        host, which the cable shows too, is taken out (difference in differences)."""
        if not self.uses_cable:
            return tuple(night.value for night in self.nights)
        usual = median(night.cable or 0.0 for night in self.nights)
        return tuple(night.value / (night.cable or 1.0) * usual for night in self.nights)

    @cached_property
    def _scaled(self) -> tuple[float, ...]:
        share = self.figure.unit == "share"
        return self.values if share else tuple(math.log(value) for value in self.values)

    @cached_property
    def changes(self) -> list[ChangePoint]:
        return changes(self._scaled)

    @cached_property
    def states(self) -> list[State]:
        return states(self._scaled, self.changes)

    @cached_property
    def good(self) -> int:
        """Return the index of the last good state."""
        runs = [night.run for night in self.nights]
        accepted = runs.index(self.accepted) if self.accepted in runs else 0
        better = self.figure.more_is_better
        return last_good(self.states, more_is_better=better, accepted=accepted)

    @property
    def good_nights(self) -> tuple[Night, ...]:
        """Return the nights of the last good state."""
        state = self.states[self.good]
        return self.nights[state.start : state.end]

    @property
    def is_worse(self) -> bool:
        """Return whether the last state is worse than the last good state."""
        return self.good != len(self.states) - 1

    @property
    def worse_by(self) -> float:
        """Return by how much the last state is worse than the last good state: a share of it, or of
        all frames. 0 if it is not worse."""
        return abs(self.amount(self.states[self.good], self.states[-1])) if self.is_worse else 0.0

    def level(self, state: State) -> float:
        """Return the level of a state in the unit of the figure."""
        return state.level if self.figure.unit == "share" else math.exp(state.level)

    def amount(self, before: State, after: State) -> float:
        """Return the change from a state to another: relative, or for shares absolute."""
        change = after.level - before.level
        return change if self.figure.unit == "share" else math.expm1(change)

    def differences(self, change: ChangePoint) -> list[HostDifference]:
        """Return what differs between the hosts and versions of the first run of a change and the
        run before."""
        nights = self.nights[change.start - 1 : change.start + 1]
        hosts = [night.record.origin.host if night.record.origin else {} for night in nights]
        return host_differences(
            [
                RunFacts(night.run, host, [night.record])
                for night, host in zip(nights, hosts, strict=True)
            ]
        )

    def is_for_worse(self, change: ChangePoint) -> bool:
        return (change.amount < 0) == self.figure.more_is_better


@dataclass(frozen=True, slots=True)
class WorseSeries:
    """A condition that holds for a series."""

    series: Series
    condition: str

    @property
    def reason(self) -> str:
        """Return how much worse it became, since which run, and how likely chance is."""
        series = self.series
        change = next(c for c in series.changes if c.start >= series.states[series.good].end)
        kind = "pp more loss" if series.figure.unit == "share" else "% worse"
        return (
            f"{100 * series.worse_by:.2g} {kind} than the last good state since run"
            f" {series.nights[change.start].run} (p {change.p:.2g})"
        )


@dataclass(frozen=True, slots=True)
class Trend:
    """The series of some runs, and the conditions that hold."""

    series: tuple[Series, ...]
    runs: tuple[str, ...]
    """The names of the runs, in order of time."""
    place: Place = "time"
    conditions: tuple[Condition, ...] = ()

    @property
    def failures(self) -> list[WorseSeries]:
        """Return the conditions that hold. A cable never fails: its changes are the host's."""
        return [
            WorseSeries(series, condition.text)
            for series in self.series
            for condition in self.conditions
            if not series.is_cable
            and series.is_worse
            and applies(condition, series)
            and series.worse_by >= (condition.amount or 0.0)
        ]

    def x(self, series: Series, night: Night) -> float | str:
        """Return the position of a night: days since the first one, or a name."""
        if self.place == "run":
            return night.run
        if self.place == "version":
            return version_text(night.record) or "unknown"
        first = min(one.nights[0].record.started or "" for one in self.series)
        return (_time(night.record) - datetime.fromisoformat(first).timestamp()) / 86_400


def applies(condition: Condition, series: Series) -> bool:
    """Return whether a condition is about the figure of a series."""
    if condition.figure is None:
        return series.figure is main_figure(series.nights[0].record)
    return condition.figure == series.figure.name


def trend_of(
    runs: Sequence[tuple[str, Sequence[Record]]],
    conditions: Sequence[Condition] = (),
    *,
    place: Place = "time",
    accepted: str | None = None,
    use_cable: bool = True,
) -> Trend:
    """Return the series of the tests of some runs with their names: by the main figure, and by the
    figures in the conditions.

    `accepted` names a run whose state is good, such as the first run after an intended change.
    Without `use_cable`, the baseline is shown and not taken out. Raise UsageError for the condition
    `undecided`, and for an unknown run.
    """
    if any(condition.is_undecided for condition in conditions):
        raise UsageError(
            "--fail-on undecided is for compare: a trend has changes, or none",
            hint="--fail-on slower:2%",
        )
    ordered = sorted(
        ((printable(name), records) for name, records in runs if any(r.started for r in records)),
        key=lambda run: min(_time(record) for record in run[1] if record.started),
    )
    names = tuple(name for name, _ in ordered)
    if accepted is not None and accepted not in names:
        raise UsageError(
            f"--accept: no run is named '{accepted}'",
            hint=f"such as {names[-1]}" if names else None,
        )
    by_test: dict[Test, list[tuple[str, Record, float | None, float | None]]] = {}
    for name, records in ordered:
        cables = {
            identity(record.test): record for record in records if record.test.switch == CABLE
        }
        for record in records:
            if record.status == "ok" and record.trials and record.started:
                test = identity(record.test)
                cable = cables.get(test.model_copy(update={"switch": CABLE}))
                by_test.setdefault(test, []).append((name, record, *_cable(record, cable)))
    further = [FIGURES[c.figure] for c in conditions if c.figure is not None]
    series = []
    for test, measured in by_test.items():
        main = main_figure(measured[0][1])
        for figure in dict.fromkeys((main, *further)):
            one = _series(test, figure, measured, accepted, use_cable=use_cable)
            series += [one] if one else []
    return Trend(tuple(series), names, place, tuple(conditions))


def good_records(runs: Sequence[tuple[str, Sequence[Record]]]) -> list[Record]:
    """Return for each test of some runs the record of the latest run of its last good state."""
    return [series.good_nights[-1].record for series in trend_of(runs).series]


def _series(
    test: Test,
    figure: Figure,
    measured: Sequence[tuple[str, Record, float | None, float | None]],
    accepted: str | None,
    *,
    use_cable: bool,
) -> Series | None:
    nights = []
    for name, record, rate, latency in measured:
        value = repeats_of([record], figure).middle
        cable = {"rate": rate, "latency": latency}.get(figure.name)
        if value is not None and (value > 0 or figure.unit == "share"):
            nights.append(Night(record, name, value, cable))
    with_cable = [night for night in nights if night.cable]
    uses_cable = use_cable and test.switch != CABLE and len(with_cable) > _FEW * len(nights) > 0
    kept = with_cable if uses_cable else nights
    if not kept:
        return None
    out = len(measured) - len(kept)
    return Series(test, figure, tuple(kept), uses_cable, out, accepted)


def _cable(record: Record, cable: Record | None) -> tuple[float | None, float | None]:
    """Return the rate and the latency of a test's cable: of the test `direct` in the same run, or
    of the calibration before the test. The cable itself has none."""
    if record.test.switch == CABLE:
        return None, None
    if cable is not None and cable.status == "ok":
        rate = repeats_of([cable], FIGURES["rate"]).middle
        return rate, repeats_of([cable], FIGURES["latency"]).middle
    rate = record.calibration.rate_pps[1] if isinstance(record.calibration, Calibration) else None
    floor = record.floor.p50 if isinstance(record.floor, CableLatency) else None
    return rate, None if floor is None else float(floor)


def _time(record: Record) -> float:
    """Return the start of a test in seconds since 1970."""
    return datetime.fromisoformat(record.started or "").timestamp()


def as_object(series: Series, failures: Sequence[WorseSeries]) -> Printed:
    """Return a series as the JSON object of `--json`."""
    return {
        "schema": SCHEMA,
        "test": series.test.model_dump(mode="json"),
        "by": series.figure.name,
        "unit": series.figure.unit,
        "baseline_taken_out": series.uses_cable,
        "left_out": series.left_out,
        "nights": [
            {
                "run": night.run,
                "started": night.record.started,
                "version": version_text(night.record) or None,
                "figure": plain(night.value),
                "baseline": plain(night.cable),
                "adjusted": plain(value),
                "doubts": list(night.record.doubts),
            }
            for night, value in zip(series.nights, series.values, strict=True)
        ],
        "changes": [
            {
                "run": series.nights[change.start].run,
                "found": series.nights[change.found].run,
                "kind": change.kind,
                "change": plain(series.amount(before, after)),
                "p": plain(change.p),
                "differences": {one.what: list(one.values) for one in series.differences(change)},
            }
            for change, (before, after) in zip(series.changes, pairwise(series.states), strict=True)
        ],
        "last_good": series.good_nights[-1].run,
        "worse_by": plain(series.worse_by),
        "failures": [
            {"condition": failure.condition, "reason": failure.reason}
            for failure in failures
            if failure.series is series
        ],
    }
