"""This module measures without a switch: trials of a test with a cable in its switch's place, on
the CPUs that its parts have. `calibration` says what they show of a rate, `floor` of a latency."""

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
"""The name of the cable that joins the ends of a test."""

MeasureOnCable = Callable[
    [Test, Placement, TrialSpec, Callable[[Sequence[TrialResult]], bool]], Sequence[TrialResult]
]
"""Runs trials of a test without a switch on one path, on the CPUs of another one's placement,
until it is told that those so far are enough. No path may be up."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Basis:
    """The path of a test, and what else its figures depend on."""

    path: Path
    versions: Mapping[str, str]
    """Of all that it needs."""
    boot: str
    """Of its host, or of both."""
    cpu: str
    """The processor of its host, or of both."""


@dataclass(frozen=True, slots=True)
class Cable:
    """This record is a test on a cable, its placement, and the key of all that its figures depend
    on."""

    test: Test
    placement: Placement
    key: str


@dataclass(frozen=True, slots=True, eq=False)
class Dated(Generic[T]):
    """This record says what one trial on a cable showed, and when. `calm` where no passing
    disturbance spoiled it, `own` where the run has that test on the cable for its own sake."""

    at: float
    shown: T
    calm: bool = True
    own: bool = False


def undisturbed(trials: Sequence[Dated[T]]) -> Sequence[Dated[T]]:
    """Return the trials that count: those that nothing disturbed, or all where each was
    disturbed."""
    return [each for each in trials if each.calm] or trials


def key_of(cable: Test, placement: Placement, **more: Any) -> str:
    """Return a name for trials that can stand for each other: a test on a cable, the CPUs of its
    parts, and what `more` their figures depend on. Caches of earlier runs know it."""
    every = placement.recorded().model_dump(mode="json")["seats"]
    pins = {part: pin for part, pin in every.items() if part != "switch"}
    return key_of_content({"test": axes_in_key(cable), "seats": pins, **more})


class OnCable(ABC, Generic[T]):
    """This object keeps what trials on cables showed, by the key of each cable. They are measured
    for the first test that wants them and serve the others; one that fails is not tried again."""

    def __init__(self, measure: MeasureOnCable, clock: Callable[[], float]) -> None:
        self._measure = measure
        self._clock = clock
        self._shown: dict[str, list[Dated[T]]] = {}
        self._failed: dict[str, SwitchmarkError] = {}

    def lacks(self, basis: Basis) -> bool:
        """Say whether something is to be measured for a test now. Then no path may be up."""
        return any(self._wants(basis.path.test, cable) for cable in self._cables(basis).values())

    def learn(self, basis: Basis, trial: TrialResult) -> None:
        """Count a trial that the run has just made of its own test on the cable."""
        cable = self._cables(basis).get(ENDS) if basis.path.test.switch == CABLE else None
        if cable is not None and self._counts(basis, cable, trial):
            self._note(cable.key, self._dated([trial], own=True))

    def _measure_missing(self, basis: Basis) -> Mapping[str, Cable]:
        """Return the cables of a test, by name, once what it lacks of them has been measured."""
        cables = self._cables(basis)
        for cable in cables.values():
            if self._wants(basis.path.test, cable):
                try:
                    self._note(cable.key, self._dated(self._trials(cable)))
                except (SetupFailed, TrialFailed, Unavailable, UsageError) as error:
                    self._failed[cable.key] = error
        return cables

    def _dated(self, trials: Iterable[TrialResult], *, own: bool = False) -> list[Dated[T]]:
        now = self._clock()
        return [
            Dated(now, shown, calm=not passing(trial.doubts), own=own)
            for trial in trials
            if (shown := self._shows(trial)) is not None
        ]

    def _note(self, key: str, trials: Sequence[Dated[T]]) -> None:
        self._shown.setdefault(key, []).extend(trials)

    @abstractmethod
    def _cables(self, basis: Basis) -> Mapping[str, Cable]:
        """Return what stands for a test without its switch, by name; nothing where no cable can."""

    @abstractmethod
    def _wants(self, test: Test, cable: Cable) -> bool:
        """Say whether a cable is to be measured now for a test."""

    @abstractmethod
    def _trials(self, cable: Cable) -> Sequence[TrialResult]:
        """Measure a cable."""

    @abstractmethod
    def _shows(self, trial: TrialResult) -> T | None:
        """Return what is kept of a trial; None if it shows nothing."""

    @abstractmethod
    def _counts(self, basis: Basis, cable: Cable, trial: TrialResult) -> bool:
        """Say whether a trial of a test on the cable is such as `_trials` would measure for it."""
