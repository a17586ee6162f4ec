"""This module has what every kind of claim has, and how answers are put together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from switchmark.model.axis import key_of
from switchmark.papers.comparing import Compared, Question
from switchmark.papers.points import At, Figure, Point, Spoiled, grouped

Verdict = Literal["holds", "does not hold", "cannot be told"]

_FORM = ConfigDict(
    frozen=True, extra="forbid", alias_generator=lambda name: key_of(name.rstrip("_"))
)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a claim comes with what decided it, in words."""

    verdict: Verdict
    why: str
    needed: int | None = None
    """How many rounds would probably decide what cannot be told, where that is known."""


@dataclass(frozen=True, slots=True)
class Facts:
    """These facts of a host and of runs decide whether what a claim needs is there."""

    cores: int | None
    """CPUs that the host has; None where that is not known."""

    has_line_rate: bool
    """Whether every test had a line rate."""

    switch_modes: frozenset[str | None]
    """The modes of the switches."""

    kernel_options: frozenset[str] | None = frozenset()
    """Options that the kernel is known to be built with; None where that is not known."""


class Needs(BaseModel):
    """A claim may need something of the host or of the runs, without which it cannot be told."""

    model_config = _FORM

    cores: int | None = None
    """CPUs that the host must have."""

    line_rate: bool = False
    """Whether the tests must have had a line rate."""

    switch_mode: str | None = None
    """The mode of the switch, such as `kernel`."""

    kernel_option: str | None = None
    """An option that the kernel must have been built with, which no test can set."""

    without_kernel_option: str | None = None
    """One that it must have been built without."""

    def unmet(self, facts: Facts) -> str:
        """Return what is not there, in words; nothing where all is."""
        lacking = []
        if self.cores is not None and (facts.cores or 0) < self.cores:
            lacking.append(f"{self.cores} cores")
        if self.line_rate and not facts.has_line_rate:
            lacking.append("a line rate (--line-rate 10Gbps)")
        if self.switch_mode is not None and facts.switch_modes - {None} != {self.switch_mode}:
            lacking.append(f"a switch in mode {self.switch_mode}")
        known = facts.kernel_options
        if self.kernel_option is not None and self.kernel_option not in (known or ()):
            lacking.append(f"a kernel with {self.kernel_option}")
        without = self.without_kernel_option
        if without is not None and (known is None or without in known):
            lacking.append(f"a kernel without {without}")
        return f"needs {', '.join(lacking)}" if lacking else ""


class BaseClaim(BaseModel):
    """This is what every kind of claim has."""

    model_config = _FORM

    id: str
    """Its name, unique in the experiment."""

    says: str
    """What is claimed, in a sentence of ours."""

    place: str = ""
    """Where the paper says it."""

    said: bool = True
    """Whether the paper says it; otherwise it is deduced from the paper's values."""

    contradicted: str = ""
    """How the paper's own values contradict it, if they do."""

    metric: str
    """What is compared, by its name in `metrics.named`."""

    among: At = Field(default_factory=dict)
    """The points that it is about: by axis, the values of theirs. All without."""

    needs: Needs = Needs()
    """What has to be there for it to be told."""

    subject: tuple[Spoiled, ...] = ()
    """What spoils comparisons for other claims and is the subject of this one."""

    @property
    def own_axes(self) -> set[str]:
        """Return the axes that it compares along. Points that differ in others are judged apart."""
        raise NotImplementedError

    def judge(self, points: Sequence[Point]) -> Answer:
        """Say whether the claim holds, from the points of its experiment."""
        groups = grouped(points, self.among, self.own_axes)
        return together([answer for group in groups for answer in self._answers(group)])

    def members(self, points: Sequence[Point]) -> list[Point]:
        """Return the points that it takes to judge the claim."""
        return [point for point in points if point.is_at(self.among)]

    def _answers(self, group: Sequence[Point]) -> Iterator[Answer]:
        """Yield an answer for each comparison within points that differ only in the claim's own
        axes."""
        raise NotImplementedError

    @property
    def question(self) -> Question:
        """Return how its points are compared."""
        axes = self.own_axes
        of_loads, of_sizes = "rate" in axes, "frame-size" in axes
        return Question(self.metric, self.subject, of_loads=of_loads, of_sizes=of_sizes)

    def _figures(self, points: Sequence[Point]) -> list[Figure] | Answer:
        """Return the figures of points, or the first reason why one has none."""
        figures = []
        for point in points:
            figure = point.figure(self.metric)
            if isinstance(figure, str):
                return Answer("cannot be told", figure)
            figures.append(figure)
        return figures


def together(answers: Sequence[Answer]) -> Answer:
    """Return the answer to a claim of several comparisons, all of which are judged at once: one
    that is decided against it refutes it, and all that are decided for it show it."""
    if not answers:
        return Answer("cannot be told", "no points that it compares were measured")
    held = sum(answer.verdict == "holds" for answer in answers)
    verdicts: tuple[Verdict, ...] = ("does not hold", "cannot be told", "holds")
    for verdict in verdicts:
        decisive = [answer for answer in answers if answer.verdict == verdict]
        if decisive:
            so_far = f"{held} of {len(answers)} comparisons hold; "
            why = (so_far if held not in (0, len(answers)) else "") + decisive[0].why
            known = [answer.needed for answer in decisive if answer.needed is not None]
            if verdict != "cannot be told" or len(known) < len(decisive):
                return Answer(verdict, why)
            return Answer(verdict, f"{why}; about {max(known)} rounds would decide", max(known))
    raise AssertionError("an answer has one of three verdicts")


def undecided(outcome: Compared, words: str) -> Answer:
    """Return that a comparison is not decided, and why."""
    return Answer("cannot be told", f"{outcome.why}: {words}", outcome.needed)


def in_band(figure: Figure, low: float, high: float, words: str, margin: float = 0.0) -> Answer:
    """Say whether a figure lies in a band: all of its interval does, or none of it, or else it
    cannot be told. The band is wider by a `margin` at each end, a share of it."""
    told = f"{figure} of {low:.3g} to {high:.3g}: {words}"
    least, most = low - margin * abs(low), high + margin * abs(high)
    if least <= figure.low and figure.high <= most:
        return Answer("holds", told)
    apart = figure.high < least or most < figure.low
    return Answer("does not hold" if apart else "cannot be told", told)


def listed(points: Sequence[Point], figures: Sequence[Figure]) -> str:
    """Write points with their figures in a row."""
    return ", ".join(
        f"{point.name} {figure}" for point, figure in zip(points, figures, strict=True)
    )
