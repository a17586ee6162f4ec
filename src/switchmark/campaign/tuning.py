"""The search for the settings of switches: the tests that try settings, and the comparison that
follows. This module keeps the requested tests in one file of the run folder.

One rule applies to all switches. Settings are values of axes (`Axis.tries`) that a switch follows
(`Switch.resources`) and that the user left open. They come from points that fill the space of all
these axes evenly (Halton 1960, shifted by the campaign's seed). All switches get the same points
and use the coordinates that they support. The number of CPUs is no setting, because more CPUs are
not better settings. The figure that selects the best settings is partly chance, so the best
settings are measured again, in turn with the default.
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
"""The fewest trials of the default and of the best settings: enough for an interval. None of these
trials selected the best settings."""

TUNED = "tuned"
"""The run folder of the comparison, inside the folder of the search."""

_ASKED = "asked.yaml"
_SETTINGS = {name: axis for name, axis in AXES.items() if axis.tries}
_BASES = (2, 3, 5, 7, 11, 13, 17, 19)
_POINTS = 20_000


def to_try(campaign: Campaign, count: int, check: Check) -> Campaign:
    """Return the tests of the search: one trial of each requested test with its own settings, and
    with up to `count` other settings. Raise UsageError if a test has no rate to maximize."""
    _refuse(campaign)
    tests = []
    for test in campaign.tests:
        tests += [_once(test), *itertools.islice(_with_settings(_once(test), check), count)]
    return Campaign(campaign.name, grouped(tests))


def to_compare(
    campaign: Campaign, tried: Sequence[Record], rate: Callable[[Record], float]
) -> Campaign:
    """Return the tests of the comparison, with `REPEATS` trials or more: every requested test, and
    its variant with the highest `rate` among the other settings, if any was measured."""
    measured = {record.test: record for record in tried if record.status == "ok"}
    tests = []
    for test in campaign.tests:
        default = test.model_copy(update=_repeated(test))
        tests.append(default)
        if others := with_settings_of_its_own(default, measured):
            best = max(others, key=lambda other: rate(measured[other]))
            tests.append(default.model_copy(update=_settings_of(best)))
    return Campaign(campaign.name, grouped(tests))


def expected_tuning_s(campaign: Campaign, tried: Campaign) -> float:
    """Return an estimate of the seconds for the search and for the comparison of any best
    settings."""
    compared = []
    for test in campaign.tests:
        pair = [test, *with_settings_of_its_own(test, tried.tests)[:1]]
        compared += [variant.model_copy(update=_repeated(test)) for variant in pair]
    return expected_s(tried.tests, calibrated=False) + expected_s(compared)


def with_default_settings(requested: Test, tests: Iterable[Test]) -> list[Test]:
    """Return the tests that equal the requested test, except for the number of trials."""
    return [test for test in tests if _once(test) == _once(requested)]


def with_settings_of_its_own(requested: Test, tests: Iterable[Test]) -> list[Test]:
    """Return the tests that differ from the requested test in settings, and otherwise only in the
    number of trials."""
    settings = _settings_of(requested)
    return [
        test
        for test in tests
        if _settings_of(test) != settings
        and _once(test.model_copy(update=settings)) == _once(requested)
    ]


def folders_of(run: Path) -> list[Path]:
    """Return the run folders in a run: itself, and the folder of the comparison if it exists."""
    within = run / TUNED
    return [run, within] if is_tuning(run) and is_run(within) else [run]


def keep_asked(folder: Path, campaign: Campaign) -> None:
    """Store the requested tests in the run folder of the search."""
    (folder / _ASKED).write_text(dump(campaign), encoding="utf-8")


def is_tuning(folder: Path) -> bool:
    """Return whether a run folder belongs to a search for settings."""
    return (folder / _ASKED).is_file()


def asked_for(folder: Path) -> Campaign:
    """Return the requested tests from the run folder of a search for settings."""
    return load(folder / _ASKED, {}, unknown_names)


def _refuse(campaign: Campaign) -> None:
    for test in campaign.tests:
        search = SEARCHES[test.search]
        if test.dimension != "throughput":
            raise UsageError(
                f"--tune looks for the highest rate: dimension {test.dimension} has none",
                hint="--dimension throughput --search max",
            )
        if search.finds_rate or not search.independent or not test.parsed_rate.is_max:
            load = f"a rate of {test.rate}" if search.independent else f"search {test.search}"
            raise UsageError(
                f"--tune looks for the highest rate under saturation: {load} is another figure",
                hint="--rate max --search max",
            )
    for name in varying(campaign.tests):
        if name in _SETTINGS:
            raise UsageError(
                f"--tune chooses {_SETTINGS[name].option}, and this campaign has several values of "
                "it",
                hint=f"give {_SETTINGS[name].option} one value, which then stays, or none",
            )


def _with_settings(test: Test, check: Check) -> Iterator[Test]:
    """Yield a test with other settings of its switch, without duplicates, if they can work."""
    switch_settings = {
        name: (axis.default, *axis.tries)
        for name, axis in _SETTINGS.items()
        if name in SWITCHES[test.switch].resources and getattr(test, name) == axis.default
    }
    chosen = {test}
    whole = math.prod(len(values) for values in switch_settings.values())
    for point in itertools.islice(_points(test.seed), _POINTS):
        if len(chosen) == whole:
            return
        coordinates = dict(zip(_SETTINGS, point, strict=True))
        drawn = {
            name: values[int(coordinates[name] * len(values))]
            for name, values in switch_settings.items()
        }
        other = test.model_copy(update=drawn)
        if other not in chosen:
            chosen.add(other)
            if not check(other):
                yield other


def _points(seed: int) -> Iterator[list[float]]:
    """Yield points that fill the unit cube evenly, with a coordinate for each axis of settings:
    Halton points, shifted by an offset from the seed."""
    draw = random.Random(seed)
    axes = [(base, draw.random()) for base in _BASES[: len(_SETTINGS)]]
    for number in itertools.count(1):
        yield [(_mirrored(number, base) + shift) % 1.0 for base, shift in axes]


def _mirrored(number: int, base: int) -> float:
    """Return a number with its digits in a base mirrored at the point: 6 is 110, so 0.011 in base
    2."""
    mirrored, weight = 0.0, 1.0
    while number:
        number, digit = divmod(number, base)
        weight /= base
        mirrored += digit * weight
    return mirrored


def _settings_of(test: Test) -> dict[str, Any]:
    return {name: getattr(test, name) for name in _SETTINGS}


def _repeated(test: Test) -> dict[str, Any]:
    """Return the repeat axes of a test in the comparison."""
    return {"repeat": max(REPEATS, test.repeat), "until_certain": test.until_certain}


def _once(test: Test) -> Test:
    """Return a test with one trial."""
    return test.model_copy(update={"repeat": 1, "until_certain": None})
