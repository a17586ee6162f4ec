"""The checks of an experiment's file beyond its form: that its published values, claims and figures
are about points that its campaign has, and that its claims agree with its own values.

The tests check the experiments of this package. `paper` and `gallery` check those from elsewhere
first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from switchmark.campaign.experiments import blocks_of, planned, value_words
from switchmark.errors import UsageError
from switchmark.metrics.difference import MIN_REPEATS
from switchmark.metrics.named import metric
from switchmark.model.refusal import Refusal
from switchmark.model.test import Test
from switchmark.papers.claims import Claim
from switchmark.papers.experiment import Drawn, Experiment
from switchmark.papers.library import folders_of, library, located
from switchmark.papers.points import At, Point
from switchmark.papers.published import published_points

NO_METRICS = frozenset({"share"})
"""The names that figures have for what no record has by itself."""

_SIDES = ("greater", "less", "from_", "to", "of", "over")
_KEPT = ("environment", "switch-environment")
_MANY_CORES = 64
"""A number of CPUs for which values by CPUs are checked too."""


def chosen_experiments(pattern: str, folders: Sequence[Path] = ()) -> list[Experiment]:
    """Return the experiments that a name, a pattern or a path means, also in further folders. Raise
    UsageError with the mistakes of one from outside of the package."""
    found, names = located(pattern, folders_of(folders))
    chosen = [found.read(name) for name in names]
    for experiment in chosen:
        if experiment.name not in library().names:
            check_experiment(experiment)
    return chosen


def check_experiment(experiment: Experiment) -> None:
    """Raise UsageError with all mistakes of an experiment, if there are any."""
    if mistakes := list(mistakes_of(experiment)):
        raise UsageError(
            "\n  ".join([f"{experiment.file} contradicts itself", *mistakes]),
            hint="docs/guide/papers.md: your own experiment",
        )


def mistakes_of(experiment: Experiment) -> Iterator[str]:
    """Yield the mistakes of an experiment."""
    points = all_points(experiment)
    if not points:
        yield "its campaign has no points"
        return
    for row in experiment.published:
        for place in (row.at, {**row.at, **row.relative_to}):
            yield from (f"published: no point is at {gap}" for gap in _unmatched(place, points))
    for claim in experiment.claims:
        for side in _sides(claim):
            yield from (
                f"claim {claim.id}: no point is at {gap}" for gap in _unmatched(side, points)
            )
    for figure in experiment.figures:
        yield from _of_figure(experiment, figure, points)
    for name in experiment.metrics:
        if name not in NO_METRICS and (why := _unknown_metric(name)):
            yield why
    yield from _of_method(experiment.owner)
    yield from _of_claims(experiment)


def all_points(experiment: Experiment) -> list[Point]:
    """Return the points with the paper's own values and with those relative to a host, whatever can
    measure them."""
    found = [*planned(experiment, _anything, {}, as_published=True)]
    if experiment.owner.scale:
        found += planned(experiment, _anything, {}, cores=_MANY_CORES)
    return [point.point for point in found]


def _anything(test: Test) -> Sequence[Refusal]:
    """Return no refusal: points are the same whether or not this build can measure them."""
    del test
    return ()


def _unmatched(at: At, points: Sequence[Point]) -> Iterator[str]:
    """Yield the values of an `at` at which there is no point that is at its other axes."""
    if not any(point.is_at(at) for point in points):
        yield str(at)
        return
    for axis, value in at.items():
        for word in value if isinstance(value, list) else [value]:
            if not any(point.is_at({**at, axis: word}) for point in points):
                yield f"{axis}: {word}"


def _sides(claim: Claim) -> Iterator[At]:
    """Yield each set of points that a claim is about."""
    yield claim.among
    for side in _SIDES:
        at = getattr(claim, side, None)
        if isinstance(at, dict):
            yield {**claim.among, **at}


def _of_figure(experiment: Experiment, figure: Drawn, points: Sequence[Point]) -> Iterator[str]:
    if not any(point.is_at(figure.among) for point in points):
        yield f"figure: no point is at {figure.among}"
    yield from (
        f"figure: '{axis}' is none of its axes"
        for axis in (*figure.by, *figure.panels)
        if axis not in experiment.axes
    )
    for shown in {figure.x, figure.y, figure.y2} - {"", *experiment.axes} - NO_METRICS:
        if why := _unknown_metric(shown):
            yield f"figure: {why}"


def _unknown_metric(name: str) -> str:
    try:
        metric(name)
    except UsageError as error:
        return error.message.partition("\n")[0]
    return ""


def _of_method(owner: Experiment) -> Iterator[str]:
    """Yield the mistakes in what a quick run and a scale change, and in the number of repeats."""
    blocks = list(blocks_of(owner.campaign))
    repeats: list[Any] = [block.get("repeat", 1) for block in blocks]
    if "repeat" in owner.quick.axes:
        repeats.append(owner.quick.axes["repeat"])
    if min(int(count) for count in repeats) < MIN_REPEATS:
        yield f"repeat: claims need {MIN_REPEATS} trials or more"
    yield from (f"quick: it changes {axis}" for axis in _KEPT if axis in owner.quick.axes)
    given = {axis for block in blocks for axis in block}
    yield from (
        f"scale: {axis} is not in the campaign" for axis in owner.scale if axis not in given
    )
    for axis, value in owner.campaign.items():
        if axis not in ("tests", "name"):
            value_words(axis, value)


def _of_claims(experiment: Experiment) -> Iterator[str]:
    """Yield the claims that the published values contradict although the file does not say so, and
    those that hold although it says that they do not."""
    places = [entry.point for entry in planned(experiment, _anything, {}, as_published=True)]
    published = published_points(experiment, places)
    for claim in experiment.claims:
        answer = claim.judge(published)
        if answer.verdict == "does not hold" and not claim.contradicted:
            yield f"claim {claim.id}: the published values contradict it: {answer.why}"
        if answer.verdict == "holds" and claim.contradicted:
            yield f"claim {claim.id}: the published values do not contradict it: {answer.why}"
