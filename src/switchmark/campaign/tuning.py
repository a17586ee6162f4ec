"""This module plans a search for the settings of switches: what is tried, and what is compared
then. Its one file in a run folder has the tests that were asked for.

One rule is for all switches. Settings are values of axes (`Axis.tries`) that a switch follows
(`Switch.resources`) and that were not asked for. They are drawn from points that fill the space of
all these axes evenly (Halton 1960, shifted by the campaign's seed): the same points for each
switch, of which it takes the coordinates that mean something to it. CPUs are no setting: with more
of them it is not the settings that are better. The figure that the best is chosen by owes something
to chance, so that it is measured anew, in turn with the default.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from switchmark.campaign.duration import expected_s
from switchmark.campaign.expand import grouped
from switchmark.campaign.load import Campaign, Check, dump, load
from switchmark.campaign.store import is_run
from switchmark.errors import UsageError
from switchmark.model.labels import varying
from switchmark.model.record import Record
from switchmark.model.test import AXES, Test
from switchmark.path.resolving import unknown_names
from switchmark.searches import TABLE as SEARCHES
from switchmark.switches import TABLE as SWITCHES

REPEATS = 5
"""Trials of the default and of the best, at least: so many have an interval. None of them is one
that the best was chosen by."""

TUNED = "tuned"
"""The run folder of what is compared, within that of what was tried."""

_ASKED = "asked.yaml"
_SETTINGS = {name: axis for name, axis in AXES.items() if axis.tries}
_BASES = (2, 3, 5, 7, 11, 13, 17, 19)
_POINTS = 20_000


def to_try(asked: Campaign, count: int, check: Check) -> Campaign:
    """Return the tests that come first: a trial of each test that was asked for, and of it with up
    to `count` other settings. UsageError where no rate is looked for that could be the highest."""
    _refuse(asked)
    tests = []
    for test in asked.tests:
        tests += [_once(test), *itertools.islice(_with_settings(_once(test), check), count)]
    return Campaign(asked.name, grouped(tests))


def to_compare(
    asked: Campaign, tried: Sequence[Record], rate: Callable[[Record], float]
) -> Campaign:
    """Return the tests that come then, with `REPEATS` trials or more: each test that was asked for,
    and what had the highest `rate` of its other settings, if any was measured."""
    measured = {record.test: record for record in tried if record.status == "ok"}
    tests = []
    for test in asked.tests:
        default = test.model_copy(update=_repeated(test))
        tests.append(default)
        if others := with_settings_of_its_own(default, measured):
            best = max(others, key=lambda other: rate(measured[other]))
            tests.append(default.model_copy(update=_settings_of(best)))
    return Campaign(asked.name, grouped(tests))


def expected_tuning_s(asked: Campaign, tried: Campaign) -> float:
    """Return about how many seconds it takes to try what is to be tried, and to compare the best
    then, whichever that is."""
    compared = []
    for test in asked.tests:
        both = [test, *with_settings_of_its_own(test, tried.tests)[:1]]
        compared += [each.model_copy(update=_repeated(test)) for each in both]
    return expected_s(tried.tests, calibrated=False) + expected_s(compared)


def with_default_settings(asked: Test, tests: Iterable[Test]) -> list[Test]:
    """Return those of `tests` that are what was asked for, however often they are measured."""
    return [test for test in tests if _once(test) == _once(asked)]


def with_settings_of_its_own(asked: Test, tests: Iterable[Test]) -> list[Test]:
    """Return those of `tests` that differ from what was asked for in settings, and in nothing else
    but how often they are measured."""
    settings = _settings_of(asked)
    return [
        test
        for test in tests
        if _settings_of(test) != settings
        and _once(test.model_copy(update=settings)) == _once(asked)
    ]


def folders_of(run: Path) -> list[Path]:
    """Return the run folders in one: itself, and that of what was compared, if it is there."""
    within = run / TUNED
    return [run, within] if is_tuning(run) and is_run(within) else [run]


def keep_asked(folder: Path, asked: Campaign) -> None:
    """Write what was asked for into the run folder of what is tried."""
    (folder / _ASKED).write_text(dump(asked))


def is_tuning(folder: Path) -> bool:
    """Say whether a run folder is that of a search for settings."""
    return (folder / _ASKED).is_file()


def asked_for(folder: Path) -> Campaign:
    """Return what was asked for, of a run folder that a search for settings has made."""
    return load(folder / _ASKED, {}, unknown_names)


def _refuse(asked: Campaign) -> None:
    for test in asked.tests:
        search = SEARCHES[test.search]
        if test.dimension != "throughput":
            raise UsageError(
                f"--tune looks for the highest rate: dimension {test.dimension} has none",
                hint="--dimension throughput --search max",
            )
        if search.finds_rate or not search.independent or not test.parsed_rate.is_max:
            what = f"a rate of {test.rate}" if search.independent else f"search {test.search}"
            raise UsageError(
                f"--tune looks for the highest rate under saturation: {what} is another figure",
                hint="--rate max --search max",
            )
    for name in varying(asked.tests):
        if name in _SETTINGS:
            raise UsageError(
                f"--tune chooses {_SETTINGS[name].option}, and this campaign has several values of "
                "it",
                hint=f"give {_SETTINGS[name].option} one value, which then stays, or none",
            )


def _with_settings(test: Test, check: Check) -> Iterator[Test]:
    """Yield a test with other settings of its switch, each once, where it can work."""
    own = {
        name: (axis.default, *axis.tries)
        for name, axis in _SETTINGS.items()
        if name in SWITCHES[test.switch].resources and getattr(test, name) == axis.default
    }
    seen = {test}
    whole = math.prod(len(values) for values in own.values())
    for point in itertools.islice(_points(test.seed), _POINTS):
        if len(seen) == whole:
            return
        at = dict(zip(_SETTINGS, point, strict=True))
        drawn = {name: values[int(at[name] * len(values))] for name, values in own.items()}
        other = test.model_copy(update=drawn)
        if other not in seen:
            seen.add(other)
            if not check(other):
                yield other


def _points(seed: int) -> Iterator[list[float]]:
    """Yield points that fill the unit cube evenly, with a coordinate for each axis of settings:
    Halton's, moved round by what the seed draws."""
    draw = random.Random(seed)
    axes = [(base, draw.random()) for base in _BASES[: len(_SETTINGS)]]
    for number in itertools.count(1):
        yield [(_mirrored(number, base) + shift) % 1.0 for base, shift in axes]


def _mirrored(number: int, base: int) -> float:
    """Return a number whose digits in a base are mirrored at the point: 6 is 110, so 0.011 of 2."""
    mirrored, weight = 0.0, 1.0
    while number:
        number, digit = divmod(number, base)
        weight /= base
        mirrored += digit * weight
    return mirrored


def _settings_of(test: Test) -> dict[str, Any]:
    return {name: getattr(test, name) for name in _SETTINGS}


def _repeated(asked: Test) -> dict[str, Any]:
    """Return how often a test is measured that is compared."""
    return {"repeat": max(REPEATS, asked.repeat), "until_certain": asked.until_certain}


def _once(test: Test) -> Test:
    """Return a test with one trial."""
    return test.model_copy(update={"repeat": 1, "until_certain": None})
