"""Simulate what the one rule by which results differ promises, and write the tables into the guide.

    make simulate [RUNS=1000]

Results of the same switch are drawn with noise of several shapes and judged by `metrics.difference`
as those of a run are; each run in which any difference is claimed counts as an error. Then one of
them is made slower, and each run in which all of its differences are found counts. Last, the
intervals that tables print are held against the median that the values were drawn from.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from switchmark.metrics.difference import Family
from switchmark.metrics.repeats import FIGURES, Repeats
from switchmark.metrics.statistics import MIN_OF_INTERVAL, median_interval

GUIDE = Path(__file__).parents[1] / "docs/guide/trust.md"
BEGIN, END = "<!-- make simulate: begin -->", "<!-- make simulate: end -->"

RESULTS = (2, 5, 10, 30)
REPEATS = (3, 5, 10, 20)
OF_INTERVALS = (MIN_OF_INTERVAL, 20, 50)
"""Repeats of which an interval is printed: the fewest, the usual number, and many."""
STATES = math.log(0.85)
"""Two states of a host are 15 % apart."""

_SEED = 25
Logs = NDArray[np.float64]
"""Logarithms of rates, by result and round."""

Draw = Callable[[np.random.Generator, int, int], Logs]
"""Draws the logarithms of so many results in so many rounds."""


@dataclass(frozen=True)
class Shape:
    """A shape of noise has a name and what draws it: logarithms of rates of so many results in so
    many rounds. `drifts` says that there is no one value that an interval could cover."""

    name: str
    draw: Draw
    drifts: bool = False


def times(draw: np.random.Generator, results: int, rounds: int) -> NDArray[np.int64]:
    """Return when each result was measured in each round, counted in trials: the order is drawn for
    each second round, and turned round for the next one."""
    places = np.empty((results, rounds), dtype=np.int64)
    for round_ in range(rounds):
        if round_ % 2 == 0:
            order = draw.permutation(results)
        else:
            order = results - 1 - order
        places[:, round_] = order + round_ * results
    return places


def normal(noise: float) -> Draw:
    return lambda draw, results, rounds: noise * draw.standard_normal((results, rounds))


def skewed(noise: float) -> Draw:
    """Most trials are near the best rate, a few far below: an exponential distribution."""

    def one(draw: np.random.Generator, results: int, rounds: int) -> Logs:
        slowed = noise * (draw.exponential(1, (results, rounds)) - 1)
        return np.log(np.maximum(1 - slowed, 0.05))

    return one


def unequal(
    noises: Callable[[int], list[float]],
) -> Draw:
    def one(draw: np.random.Generator, results: int, rounds: int) -> Logs:
        return np.array(noises(results))[:, None] * draw.standard_normal((results, rounds))

    return one


def states(share: float, noise: float) -> Draw:
    """Each trial is in one of two states."""

    def one(draw: np.random.Generator, results: int, rounds: int) -> Logs:
        second = draw.random((results, rounds)) < share
        return second * STATES + noise * draw.standard_normal((results, rounds))

    return one


def stretches(
    share: float, noise: float, apart: float = STATES, trials: tuple[int, int] = (1, 5)
) -> Draw:
    """The host is in one of two states for one to five trials, whatever is measured."""

    def one(draw: np.random.Generator, results: int, rounds: int) -> Logs:
        count = results * rounds
        lengths = draw.integers(trials[0], trials[1] + 1, count)
        state = np.repeat(draw.random(count) < share, lengths)[:count]
        shift = state[times(draw, results, rounds)]
        return shift * apart + noise * draw.standard_normal((results, rounds))

    return one


def drifting(noise: float) -> Draw:
    """The host becomes slower by a tenth from the first trial of a run to its last."""

    def one(draw: np.random.Generator, results: int, rounds: int) -> Logs:
        place = times(draw, results, rounds) / max(1, results * rounds - 1)
        return place * math.log(0.9) + noise * draw.standard_normal((results, rounds))

    return one


SHAPES = (
    *(Shape(f"normal, {noise:.0%}", normal(noise)) for noise in (0.01, 0.05, 0.2)),
    Shape(
        "normal, the first 1 %, the last 20 %", unequal(lambda k: [0.01, *[0.05] * (k - 2), 0.2])
    ),
    Shape("normal, one 20 %, the others 1 %", unequal(lambda k: [0.2, *[0.01] * (k - 1)])),
    Shape("normal, one 1 %, the others 20 %", unequal(lambda k: [0.01, *[0.2] * (k - 1)])),
    *(Shape(f"skewed, {noise:.0%}", skewed(noise)) for noise in (0.01, 0.05, 0.2)),
    Shape("two states 1:1 by trial, 1 %", states(0.5, 0.01)),
    Shape("two states 1:4 by trial, 1 %", states(0.2, 0.01)),
    Shape("two states 1:1 by trial, 5 %", states(0.5, 0.05)),
    Shape("two states 1:4 by trial, 5 %", states(0.2, 0.05)),
    Shape("two states 1:1 in stretches, 1 %", stretches(0.5, 0.01)),
    Shape("two states 1:4 in stretches, 1 %", stretches(0.2, 0.01)),
    Shape("drift of 10 %, 1 %", drifting(0.01), drifts=True),
    Shape("drift of 10 %, 5 %", drifting(0.05), drifts=True),
)


@dataclass(frozen=True)
class Power:
    """One of several results that is slower than the others."""

    results: int
    repeats: int
    slower: float
    """The share by which it is slower."""
    noise: Shape


def _normal(noise: float) -> Shape:
    return Shape(f"normal, {noise:.0%}", normal(noise))


POWERS = (
    *(Power(results, 5, 0.10, _normal(0.02)) for results in (2, 5, 10)),
    *(Power(results, 10, 0.03, _normal(0.01)) for results in (2, 5, 10)),
    Power(2, 3, 0.30, _normal(0.02)),
    Power(2, 10, 0.10, _normal(0.05)),
    Power(2, 20, 0.03, _normal(0.02)),
    Power(2, 100, 0.10, _normal(0.20)),
    Power(
        2,
        100,
        0.05,
        Shape(
            "two states 2.5 times apart for 10 to 30 trials, 2 %",
            stretches(0.5, 0.02, math.log(0.4), (10, 30)),
        ),
    ),
)


def family(logs: Logs) -> Family:
    """Return the results of a run as those of records are."""
    rounds = tuple(range(logs.shape[1]))
    results = (Repeats(tuple(np.exp(values).tolist()), rounds) for values in logs)
    return Family(FIGURES["rate"], tuple(results))


def claims_any(logs: Logs) -> bool:
    judged, count = family(logs), len(logs)
    return any(judged.difference(i, j).is_shown for i in range(count) for j in range(i))


def finds_all(logs: Logs) -> bool:
    """Return whether the first result is found to be slower than all others."""
    judged = family(logs)
    return all(judged.difference(index, 0).word == "slower" for index in range(1, len(logs)))


def errors(shape: int, results: int, repeats: int, runs: int) -> float:
    draw = np.random.default_rng((_SEED, shape, results, repeats))
    return sum(claims_any(SHAPES[shape].draw(draw, results, repeats)) for _ in range(runs)) / runs


def power(number: int, runs: int) -> float:
    case = POWERS[number]
    draw, found = np.random.default_rng((_SEED, 99, number)), 0
    for _ in range(runs):
        logs = case.noise.draw(draw, case.results, case.repeats)
        logs[0] += math.log(1 - case.slower)
        found += finds_all(logs)
    return found / runs


def coverage(shape: int, results: int, repeats: int, runs: int) -> float:
    """Return how often the printed interval of a result has the median of all that it was drawn
    from."""
    draw = np.random.default_rng((_SEED, 77, shape, results, repeats))
    # Where noise is not the same for all, each has the same median.
    many = [SHAPES[shape].draw(draw, 5, 100) for _ in range(1000)]
    middle = math.exp(float(np.median(np.concatenate([sample.ravel() for sample in many]))))
    covered = 0
    for _ in range(runs):
        low, high = median_interval(np.exp(SHAPES[shape].draw(draw, results, repeats)[0])) or (0, 0)
        covered += low <= middle <= high
    return covered / runs


def tables(runs: int) -> Iterator[str]:
    """Yield the lines of the tables."""
    with ProcessPoolExecutor() as pool:
        wrong = {
            (shape, results, repeats): pool.submit(
                errors, shape, results, repeats, max(200, runs // (4 if results == 30 else 1))
            )
            for shape in range(len(SHAPES))
            for repeats in REPEATS
            for results in RESULTS
        }
        right = [pool.submit(power, number, max(200, runs // 2)) for number in range(len(POWERS))]
        covers = {
            (shape, repeats, results): pool.submit(coverage, shape, results, repeats, 4 * runs)
            for shape, named in enumerate(SHAPES)
            for repeats in OF_INTERVALS
            for results in (2, 5)
            if not named.drifts
        }
        yield f"Share of {runs} runs of identical results ({runs // 4} runs of 30 results) with a"
        yield "false difference, in percent. It must not exceed 5 %."
        yield ""
        heads = [f"{k} results, {n} repeats" for n in REPEATS for k in RESULTS]
        yield from head(("noise", *heads))
        for shape, named in enumerate(SHAPES):
            cells = [f"{100 * wrong[shape, k, n].result():.1f}" for n in REPEATS for k in RESULTS]
            yield row((named.name, *cells))
        yield ""
        yield "Share of runs that find all differences of a single slower result:"
        yield ""
        yield from head(("results", "repeats", "slower by", "noise", "found, percent"))
        for case, answers in zip(POWERS, right, strict=True):
            found = f"{100 * answers.result():.1f}"
            slower = f"{case.slower:.0%}"
            yield row((f"{case.results}", f"{case.repeats}", slower, case.noise.name, found))
        yield ""
        yield f"Share of {4 * runs} intervals printed as `[95 %]` that contain the true median, in"
        yield f"percent. With fewer than {MIN_OF_INTERVAL} trials, the minimum and maximum are"
        yield "printed instead."
        yield ""
        yield from head(
            ("noise", *(f"{k} results, {n} repeats" for n in OF_INTERVALS for k in (2, 5)))
        )
        for shape, named in enumerate(SHAPES):
            if not named.drifts:
                cells = [
                    f"{100 * covers[shape, n, k].result():.1f}"
                    for n in OF_INTERVALS
                    for k in (2, 5)
                ]
                yield row((named.name, *cells))


def head(cells: tuple[str, ...]) -> Iterator[str]:
    yield row(cells)
    yield row(("---", *["---:"] * (len(cells) - 1)))


def row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    lines = list(tables(parser.parse_args().runs))
    text = GUIDE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        sys.exit(f"{GUIDE}: no place for the tables between {BEGIN} and {END}")
    GUIDE.write_text("\n".join((before + BEGIN, "", *lines, "", END)) + after)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
