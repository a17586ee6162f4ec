"""Measurements without a switch: a test runs with a cable in place of its switch, on the same CPUs.
`calibration` derives the baseline rate from these trials, `cable_latency` the baseline latency."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from switchmark.errors import SetupFailed, SwitchmarkError, TrialFailed, Unavailable, UsageError
from switchmark.metrics.doubts import passing
from switchmark.model.cable import CABLE
from switchmark.model.record import TrialResult, TrialSpec
from switchmark.model.test import Test, axes_in_key, key_of_content
from switchmark.path.path import Path
from switchmark.path.placement import Placement

ENDS = "ends"
"""The name of the cable between the ends of a test."""

MeasureOnCable = Callable[
    [Test, Placement, TrialSpec, Callable[[Sequence[TrialResult]], bool]], Sequence[TrialResult]
]
"""Runs trials of a test without a switch, on the CPUs of another test's placement, until the
callback accepts the trials so far. No path may be up."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Basis:
    """The path of a test, and the host properties that its figures depend on."""

    path: Path
    versions: Mapping[str, str]
    """The versions of everything that the test uses."""
    boot: str
    """The boot id of the host, or of both hosts."""
    cpu: str
    """The processor of the host, or of both hosts."""


@dataclass(frozen=True, slots=True)
class Cable:
    """A test on a cable."""

    test: Test
    """The test, with the cable as its switch."""
    placement: Placement
    """The CPUs of its parts."""
    key: str
    """A key for all that its figures depend on."""


@dataclass(frozen=True, slots=True, eq=False)
class Dated(Generic[T]):
    """The result of one trial on a cable, with its time."""

    time_s: float
    """The time of the trial."""
    result: T
    """The figures of the trial."""
    calm: bool = True
    """Whether no passing disturbance spoiled the trial."""
    in_run: bool = False
    """Whether the cable is a test of this run."""


def undisturbed(trials: Sequence[Dated[T]]) -> Sequence[Dated[T]]:
    """Return the undisturbed trials, or all trials if every trial was disturbed."""
    return [trial for trial in trials if trial.calm] or trials


def key_of(cable: Test, placement: Placement, **dependencies: Any) -> str:
    """Return a key for interchangeable trials: the test on a cable, the CPUs of its parts, and
    further `dependencies`. The caches of earlier runs use the same key."""
    seats = placement.recorded().model_dump(mode="json")["seats"]
    pins = {part: pin for part, pin in seats.items() if part != "switch"}
    return key_of_content({"test": axes_in_key(cable), "seats": pins, **dependencies})


class OnCable(ABC, Generic[T]):
    """Results of trials on cables, by the key of the cable.

    The first test that needs a cable has it measured, and later tests reuse the result. A cable
    that failed is not measured again.
    """

    def __init__(self, measure: MeasureOnCable, clock: Callable[[], float]) -> None:
        self._measure = measure
        self._clock = clock
        self._results: dict[str, list[Dated[T]]] = {}
        self._failed: dict[str, SwitchmarkError] = {}

    def lacks(self, basis: Basis) -> bool:
        """Return whether a test needs a measurement on a cable now. If so, no path may be up."""
        return any(self._wants(basis.path.test, cable) for cable in self._cables(basis).values())

    def learn(self, basis: Basis, trial: TrialResult) -> None:
        """Record a trial of the run's own test on the cable."""
        cable = self._cables(basis).get(ENDS) if basis.path.test.switch == CABLE else None
        if cable is not None and self._counts(basis, cable, trial):
            self._note(cable.key, self._dated([trial], in_run=True))

    def _measure_missing(self, basis: Basis) -> Mapping[str, Cable]:
        """Measure the missing cables of a test, and return all its cables by name."""
        cables = self._cables(basis)
        for cable in cables.values():
            if self._wants(basis.path.test, cable):
                try:
                    self._note(cable.key, self._dated(self._trials(cable)))
                except (SetupFailed, TrialFailed, Unavailable, UsageError) as error:
                    self._failed[cable.key] = error
        return cables

    def _dated(self, trials: Iterable[TrialResult], *, in_run: bool = False) -> list[Dated[T]]:
        now = self._clock()
        return [
            Dated(now, result, calm=not passing(trial.doubts), in_run=in_run)
            for trial in trials
            if (result := self._shows(trial)) is not None
        ]

    def _note(self, key: str, trials: Sequence[Dated[T]]) -> None:
        self._results.setdefault(key, []).extend(trials)

    @abstractmethod
    def _cables(self, basis: Basis) -> Mapping[str, Cable]:
        """Return the cables that replace the switch of a test, by name; empty if no cable can."""

    @abstractmethod
    def _wants(self, test: Test, cable: Cable) -> bool:
        """Return whether a test needs a measurement of this cable now."""

    @abstractmethod
    def _trials(self, cable: Cable) -> Sequence[TrialResult]:
        """Measure a cable."""

    @abstractmethod
    def _shows(self, trial: TrialResult) -> T | None:
        """Return the result to keep from a trial, or None if the trial gives no result."""

    @abstractmethod
    def _counts(self, basis: Basis, cable: Cable, trial: TrialResult) -> bool:
        """Return whether a trial of the run's own test is equivalent to a trial of `_trials`."""
