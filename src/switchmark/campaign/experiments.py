"""The tests of a paper's experiment. A point that this build cannot express waits for the missing
feature; that is no error. A point that no host can measure says so first.

This module reads nothing from a host: other modules decide whether this host can run a test.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from switchmark.campaign.expand import grouped, product
from switchmark.campaign.load import Campaign, Check
from switchmark.campaign.values import read_value, read_words
from switchmark.errors import UsageError
from switchmark.model.axis import field_name
from switchmark.model.test import AXES, Test
from switchmark.papers.experiment import OF_CORES, Experiment
from switchmark.papers.points import (
    IMPOSSIBLE,
    LEFT_OUT,
    UNABLE,
    WAITING,
    Point,
    Scalar,
    meaning,
)

_OF_A_FILE = ("name", "tests")

_HOSTS = "a,b"
"""The names of two hosts, to find out whether a test between hosts can ever work."""

_value = cache(read_value)
"""Experiments have few distinct words, each many times."""


@cache
def _table(name: str) -> Mapping[str, Any]:
    """Return the table of an axis, such as `switches`."""
    table: Mapping[str, Any] = importlib.import_module(f"switchmark.{name}").TABLE
    return table


@lru_cache(maxsize=8192)
def _test_of(*values: tuple[str, Any]) -> Test:
    """Return the test with these values of axes. An experiment is planned several times: for its
    published values, for a run, and for a quick run."""
    return next(iter(product({name: [value] for name, value in values})))


@dataclass(frozen=True, slots=True)
class PlannedPoint:
    """A planned point: its test, or the reason why it waits."""

    point: Point
    test: Test | None


def planned(
    experiment: Experiment,
    check: Check,
    options: Mapping[str, str],
    *,
    quick: bool = False,
    as_published: bool = False,
    cores: int | None = None,
) -> list[PlannedPoint]:
    """Return the points of an experiment without duplicates, sorted by its first axis, then by the
    next, each in the order of its written values.

    `options` are axes of the command line; they replace the experiment's axes. Rates are relative
    to this host if the file says so, except with `as_published`. Changes for relative rates and for
    a quick run apply to the blocks that name the axis; changes of axes that describe the method
    apply to all blocks. `cores` is the number of CPUs of the host, if it is known.
    """
    changed = _changed(experiment, quick=quick, as_published=as_published, cores=cores)
    points: dict[str, PlannedPoint] = {}
    for made in _made(experiment, check, options, changed):
        if not quick or is_kept(experiment, made.point):
            points.setdefault(repr(made.point.axes), made)
    return _by_axes(list(points.values()), experiment.axes)


def left_out(
    experiment: Experiment,
    check: Check,
    options: Mapping[str, str],
    *,
    as_published: bool = False,
    cores: int | None = None,
) -> list[Point]:
    """Return the points that a quick run of an experiment leaves out, with the reason."""
    changed = _changed(experiment, quick=True, as_published=as_published, cores=cores)
    points: dict[str, Point] = {}
    for made in _made(experiment, check, options, changed):
        if not is_kept(experiment, made.point):
            untold = "" if made.test else made.point.untold
            reason = untold if untold.startswith((IMPOSSIBLE, UNABLE)) else LEFT_OUT
            points.setdefault(repr(made.point.axes), Point(made.point.axes, untold=reason))
    return list(points.values())


def is_kept(experiment: Experiment, point: Point) -> bool:
    """Return whether a quick run of an experiment keeps a point."""
    keep = experiment.owner.quick.keep
    return point.is_at({axis: at for axis, at in keep.items() if axis in experiment.owner.axes})


def _changed(
    experiment: Experiment, *, quick: bool, as_published: bool, cores: int | None
) -> dict[str, list[str]]:
    """Return the values that replace those of the campaign, by axis."""
    owner = experiment.owner
    changed = {} if as_published else dict(owner.scale)
    changed |= owner.quick.axes if quick else {}
    return {axis: _scaled_words(owner, axis, value, cores) for axis, value in changed.items()}


def _scaled_words(
    owner: Experiment, axis: str, value: Scalar | list[Scalar], cores: int | None
) -> list[str]:
    """Return the values of an axis as written. Those by the number of CPUs (`25%..25%..100% of
    cores`) are left out on a host with no more CPUs than the paper's."""
    items = value if isinstance(value, list) else [value]
    shares = [str(item).removesuffix(OF_CORES) for item in items if str(item).endswith(OF_CORES)]
    others = [item for item in items if not str(item).endswith(OF_CORES)]
    words = value_words(axis, others)
    if cores is not None and owner.grows(axis, cores):
        percents = [word for text in shares for word in read_words(field_name(axis), text)]
        words += [str(max(1, round(cores * float(word.rstrip("%")) / 100))) for word in percents]
    return list(dict.fromkeys(words))


def _made(
    experiment: Experiment,
    check: Check,
    options: Mapping[str, str],
    changed: Mapping[str, Sequence[str]],
) -> Iterator[PlannedPoint]:
    """Yield the points of an experiment, with duplicates, in the order of its file."""
    for block in blocks_of(experiment.owner.campaign):
        values_by_axis = {
            field_name(axis): value_words(axis, value) for axis, value in block.items()
        }
        for axis, words in changed.items():
            if axis in block or AXES[field_name(axis)].of == "method":
                values_by_axis[field_name(axis)] = list(words)
        values_by_axis |= {name: read_words(name, text) for name, text in options.items()}
        for combination in itertools.product(*values_by_axis.values()):
            asked = dict(zip(values_by_axis, combination, strict=True))
            if asked.get("locality", "local") == "local" and "," in asked.get("hosts", ""):
                del asked["hosts"]  # they belong to the points between hosts
            made = _planned(experiment, asked, check, options)
            if made.point.is_at(experiment.shows):
                yield made


def _by_axes(points: Sequence[PlannedPoint], axes: Sequence[str]) -> list[PlannedPoint]:
    ranks = {
        axis: list(dict.fromkeys(repr(entry.point.axes[axis]) for entry in points)) for axis in axes
    }
    return sorted(
        points,
        key=lambda entry: [ranks[axis].index(repr(entry.point.axes[axis])) for axis in axes],
    )


def campaign_of(name: str, points: Sequence[PlannedPoint]) -> Campaign:
    """Return the campaign of the points that can run."""
    return Campaign(name, grouped(point.test for point in points if point.test is not None))


def blocks_of(campaign: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the values of each block of a campaign, by axis."""
    top = {axis: value for axis, value in campaign.items() if axis not in _OF_A_FILE}
    for block in campaign.get("tests", [{}]):
        yield {**top, **block}


def value_words(axis: str, value: Scalar | list[Scalar]) -> list[str]:
    """Return the values of an axis as written."""
    name = field_name(axis)
    if name not in AXES:
        raise UsageError(f"there is no axis named '{axis}'")
    values = value if isinstance(value, list) else [value]
    written = ("none" if item is None else str(item) for item in values)
    return [word for text in written for word in read_words(name, text)]


def _planned(
    experiment: Experiment, asked: Mapping[str, str], check: Check, options: Mapping[str, str]
) -> PlannedPoint:
    """Return the point for a set of words, with its test or the reason why it has none. Axes of
    the command line are tried even where the experiment says that it is impossible."""
    axes = {axis: meaning(axis, _asked(axis, asked)) for axis in experiment.axes}
    for row in (*experiment.impossible, *experiment.owner.impossible):
        chosen = {field_name(axis) for axis in row.at} & {*options}
        if not chosen and {*row.at} <= {*axes} and Point(axes).is_at(row.at):
            return PlannedPoint(Point(axes, untold=IMPOSSIBLE + row.why), None)
    if unknown := next(_unknown(asked), ""):
        return PlannedPoint(Point(axes, untold=f"{WAITING}{unknown}"), None)
    lacks_hosts = asked.get("locality") == "remote" and "hosts" not in asked
    named = {**asked, "hosts": _HOSTS} if lacks_hosts else asked
    try:
        test = _test_of(*((name, _value(name, word)) for name, word in named.items()))
        refusals = [refusal.why for refusal in check(test)]
    except UsageError as error:
        refusals = [error.message]
    if refusals:
        why = "; ".join(map(str.strip, refusals[0].splitlines()))
        return PlannedPoint(Point(axes, untold=UNABLE + why), None)
    if lacks_hosts:
        untold = f"{WAITING}two hosts are needed (--hosts A,B)"
        return PlannedPoint(Point(axes, untold=untold), None)
    own = {axis: AXES[field_name(axis)].meaning(getattr(test, field_name(axis))) for axis in axes}
    return PlannedPoint(Point(own), test)


def _unknown(asked: Mapping[str, str]) -> Iterator[str]:
    """Yield what this build lacks: the words that are no value of their axis."""
    for name, word in asked.items():
        table = AXES[name].table
        if table and word not in _table(table):
            yield f"{AXES[name].label} {word} is not known here"
            continue
        try:
            _value(name, word)
        except UsageError:
            yield f"{AXES[name].label} {word} is not known here"


def _asked(axis: str, asked: Mapping[str, str]) -> Any:
    """Return the word of an axis, or its default."""
    name = field_name(axis)
    return asked.get(name, AXES[name].default)
