"""Simulate what `switchmark trend` promises, and write the tables into the guide.

    make simulate-trend [YEARS=200]

Years of nights without a change are judged as `trend` judges them, with noise of several shapes,
and every change that it shows is a false alarm. A host that drifts and changes its state moves the
switch and the cable alike, and the ratio of both is judged. Then the switch becomes slower, and the
nights until it is shown are counted.
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

from switchmark.metrics.trend import changes

GUIDE = Path(__file__).parents[1] / "docs/guide/trend.md"
BEGIN, END = "<!-- make simulate-trend: begin -->", "<!-- make simulate-trend: end -->"

YEAR = 365
_SEED = 31
STATES = 0.15
"""Two states of a host are 15 % apart."""

Logs = NDArray[np.float64]
"""Logarithms of rates, by night."""


@dataclass(frozen=True)
class Shape:
    """Noise of a switch and of its cable."""

    name: str
    draw: Callable[[np.random.Generator, int], tuple[Logs, Logs]]
    """Returns the logarithms of the rates of the switch and of the cable in so many nights."""


def noise(draw: np.random.Generator, nights: int, spread: float, trials: int = 1) -> Logs:
    """Return the medians of each night's trials."""
    return np.median(spread * draw.standard_normal((nights, trials)), axis=1)


def quiet(spread: float, trials: int) -> Callable[[np.random.Generator, int], tuple[Logs, Logs]]:
    def one(draw: np.random.Generator, nights: int) -> tuple[Logs, Logs]:
        return noise(draw, nights, spread, trials), noise(draw, nights, spread, 9)

    return one


def on_a_host(
    spread: float, trials: int, drift: float = 0.0, apart: float = 0.0, stay: float = 0.5
) -> Callable[[np.random.Generator, int], tuple[Logs, Logs]]:
    """The host drifts by `drift` in a year, and is in one of two states, which lasts for a night
    with probability `1 - stay`."""

    def one(draw: np.random.Generator, nights: int) -> tuple[Logs, Logs]:
        state = np.cumsum(draw.random(nights) > stay) % 2
        host = state * apart + np.arange(nights) / YEAR * drift
        return host + noise(draw, nights, spread, trials), host + noise(draw, nights, spread, 9)

    return one


def apart_at_times(
    share: float, apart: float
) -> Callable[[np.random.Generator, int], tuple[Logs, Logs]]:
    """In a share of the nights, the host changes its state between the cable and the switch."""

    def one(draw: np.random.Generator, nights: int) -> tuple[Logs, Logs]:
        switch, cable = quiet(0.01, 5)(draw, nights)
        away = draw.random(nights) < share
        return switch + away * draw.choice([-apart, apart], nights), cable

    return one


def skewed(draw: np.random.Generator, nights: int) -> tuple[Logs, Logs]:
    """Most nights are near the best rate, a few far below."""
    slowed = np.log(np.maximum(1 - 0.03 * draw.exponential(1, nights), 0.05))
    return slowed, noise(draw, nights, 0.01, 9)


SHAPES = (
    Shape("normal, 1 % per trial", quiet(0.01, 5)),
    Shape("normal, 5 % per trial", quiet(0.05, 5)),
    Shape("skewed, 3 % per night", skewed),
    Shape("host drifts by 10 % in a year", on_a_host(0.01, 5, drift=-0.10)),
    Shape("host in two states, for a night each", on_a_host(0.01, 5, apart=STATES)),
    Shape("host in two states, for 20 nights each", on_a_host(0.01, 5, apart=STATES, stay=0.95)),
    Shape(
        "host drifts by 10 %, two states for 20 nights",
        on_a_host(0.01, 5, drift=-0.10, apart=STATES, stay=0.95),
    ),
    Shape("two states, 1 night in 10 between cable and switch", apart_at_times(0.1, STATES)),
    Shape("two states, 1 night in 3 between cable and switch", apart_at_times(1 / 3, STATES)),
)


@dataclass(frozen=True)
class Power:
    """A switch that becomes slower after some nights."""

    before: int
    trials: int
    """The trials of the switch each night."""
    spread: float
    """The noise of a trial."""
    slower: float


POWERS = (
    *(Power(before, 5, 0.01, 0.02) for before in (14, 30, 90)),
    Power(30, 3, 0.01, 0.02),
    Power(30, 1, 0.01, 0.02),
    Power(30, 5, 0.01, 0.01),
    Power(30, 5, 0.03, 0.05),
)

_LATER = 10
"""The nights after a change that are simulated."""


def alarms(shape: int, year: int) -> int:
    """Return the false alarms of a year."""
    draw = np.random.default_rng((_SEED, shape, year))
    switch, cable = SHAPES[shape].draw(draw, YEAR)
    return len(changes((switch - cable).tolist()))


def nights_until_shown(case: Power, number: int) -> float:
    """Return the number of nights until a change is shown; infinity if it is not."""
    draw = np.random.default_rng((_SEED, 99, case.before, case.trials, number))
    host = on_a_host(case.spread, case.trials, drift=-0.10, apart=STATES, stay=0.95)
    switch, cable = host(draw, case.before + _LATER)
    switch[case.before :] += math.log(1 - case.slower)
    found = [one.found for one in changes((switch - cable).tolist()) if one.found >= case.before]
    return found[0] - case.before + 1 if found else math.inf


def tables(years: int) -> Iterator[str]:
    """Yield the lines of the tables."""
    with ProcessPoolExecutor() as pool:
        yield f"False alarms of one series in a year of {YEAR} nights, over {years} years:"
        yield ""
        yield "| noise | mean | years with none | years with more than one |"
        yield "| --- | ---: | ---: | ---: |"
        for number, shape in enumerate(SHAPES):
            counts = list(pool.map(alarms, [number] * years, range(years), chunksize=5))
            none = sum(count == 0 for count in counts) / years
            many = sum(count > 1 for count in counts) / years
            yield f"| {shape.name} | {sum(counts) / years:.2f} | {none:.0%} | {many:.0%} |"
        yield ""
        yield "Share of changes that are shown within so many nights, on a host that drifts and has"
        yield "two states:"
        yield ""
        yield "| nights before | trials a night | noise of a trial | slower by | 3 | 5 | 8 |"
        yield "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
        for case in POWERS:
            until = list(pool.map(nights_until_shown, [case] * years, range(years), chunksize=20))
            shares = [sum(nights <= most for nights in until) / years for most in (3, 5, 8)]
            cells = " | ".join(f"{share:.0%}" for share in shares)
            noise_text = f"{case.spread:.0%} | {case.slower:.0%}"
            yield f"| {case.before} | {case.trials} | {noise_text} | {cells} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--years", type=int, default=200)
    lines = list(tables(parser.parse_args().years))
    print("\n".join(lines))
    before, _, rest = GUIDE.read_text().partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        sys.exit(f"{GUIDE}: no place for the tables between {BEGIN} and {END}")
    GUIDE.write_text("\n".join((before + BEGIN, "", *lines, "", END)) + after)


if __name__ == "__main__":
    main()
