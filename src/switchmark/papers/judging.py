"""This module has what every kind of claim has, and how answers are put together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from switchmark.model.axis import key_of
from switchmark.papers.points import At, Figure, Point, Spoiled, grouped

__all__ = [
    "Answer",
    "BaseClaim",
    "Facts",
    "Needs",
    "Verdict",
    "in_band",
    "listed",
    "ratio",
    "together",
    "unless_bounded",
]

Verdict = Literal["holds", "does not hold", "cannot be told"]

_FORM = ConfigDict(
    frozen=True, extra="forbid", alias_generator=lambda name: key_of(name.rstrip("_"))
)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a claim comes with what decided it, in words."""

    verdict: Verdict
    why: str


@dataclass(frozen=True, slots=True)
class Facts:
    """These facts of a host and of runs decide whether what a claim needs is there."""

    cores: int | None
    """CPUs that the host has; None where that is not known."""

    has_line_rate: bool
    """Whether every test had a line rate."""

    switch_modes: frozenset[str | None]
    """The modes of the switches."""

    kernel_options: frozenset[str] = frozenset()
    """Options that the kernel is known to be built with."""


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
        if self.kernel_option is not None and self.kernel_option not in facts.kernel_options:
            lacking.append(f"a kernel with {self.kernel_option}")
        if self.without_kernel_option in facts.kernel_options:
            lacking.append(f"a kernel without {self.without_kernel_option}")
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
    """What spoils points for other claims and is the subject of this one."""

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

    def _figures(self, points: Sequence[Point], *, bounded: bool = False) -> list[Figure] | Answer:
        """Return the figures of points, or the first reason why one is no ground for a claim: a
        `bounded` figure is one only where that is allowed."""
        figures = []
        for point in points:
            figure = point.figure(self.metric, self.subject)
            if isinstance(figure, str):
                return Answer("cannot be told", figure)
            if figure.bounded and not bounded and "bounded" not in self.subject:
                return Answer("cannot be told", f"{point.name}: the traffic program was the limit")
            figures.append(figure)
        return figures


def together(answers: Sequence[Answer]) -> Answer:
    """Return the answer to a claim of several comparisons: one that does not hold decides, then one
    that cannot be told."""
    if not answers:
        return Answer("cannot be told", "no points that it compares were measured")
    held = sum(answer.verdict == "holds" for answer in answers)
    verdicts: tuple[Verdict, ...] = ("does not hold", "cannot be told", "holds")
    for verdict in verdicts:
        decisive = [answer for answer in answers if answer.verdict == verdict]
        if decisive:
            so_far = f"{held} of {len(answers)} comparisons hold; "
            return Answer(
                verdict, (so_far if held not in (0, len(answers)) else "") + decisive[0].why
            )
    raise AssertionError("an answer has one of three verdicts")


def unless_bounded(bounded: bool, verdict: Verdict, words: str) -> Answer:
    """Return a verdict, which cannot be told where it rests on a rate that may be greater."""
    if bounded:
        return Answer("cannot be told", f"the traffic program was the limit: {words}")
    return Answer(verdict, words)


def in_band(figure: Figure, low: float, high: float, words: str) -> Answer:
    """Say whether a figure lies in a band: all of its interval does, or none of it, or else it
    cannot be told."""
    told = f"{figure} of {low:.3g} to {high:.3g}: {words}"
    if low <= figure.low and figure.high <= high:
        return Answer("holds", told)
    apart = figure.high < low or high < figure.low
    return Answer("does not hold" if apart else "cannot be told", told)


def ratio(above: Figure, below: Figure) -> Figure:
    """Return how many times one figure is another, with the ends that this can have."""
    if below.low <= 0:
        return Figure(above.value / below.value if below.value else 0.0, 0.0, float("inf"))
    return Figure(above.value / below.value, above.low / below.high, above.high / below.low)


def listed(points: Sequence[Point], figures: Sequence[Figure]) -> str:
    """Write points with their figures in a row."""
    return ", ".join(
        f"{point.name} {figure}" for point, figure in zip(points, figures, strict=True)
    )
