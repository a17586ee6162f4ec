"""The common part of all kinds of claims, and the combination of answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from switchmark.model.axis import key_of
from switchmark.papers.comparing import Compared, Question
from switchmark.papers.points import At, Point, PointFigure, Spoiled, grouped

Verdict = Literal["holds", "does not hold", "cannot be told"]

_FORM = ConfigDict(
    frozen=True, extra="forbid", alias_generator=lambda name: key_of(name.rstrip("_"))
)


@dataclass(frozen=True, slots=True)
class ClaimAnswer:
    """The verdict on a claim, with its reason as text."""

    verdict: Verdict
    why: str
    needed: int | None = None
    """The number of rounds that would probably decide an undecided claim, if it is known."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Properties of the host and the runs that claims may require."""

    cores: int | None
    """The number of CPUs of the host; None if unknown."""

    has_line_rate: bool
    """Whether all tests had a line rate."""

    switch_modes: frozenset[str | None]
    """The modes of the switches."""

    kernel_options: frozenset[str] | None = frozenset()
    """The known build options of the kernel; None if unknown."""


class ClaimNeeds(BaseModel):
    """Requirements of a claim. If they are not met, the claim cannot be tested."""

    model_config = _FORM

    cores: int | None = None
    """The least number of CPUs of the host."""

    line_rate: bool = False
    """Whether the tests need a line rate."""

    switch_mode: str | None = None
    """The required mode of the switch, such as `kernel`."""

    kernel_option: str | None = None
    """A required build option of the kernel, which tests cannot set."""

    without_kernel_option: str | None = None
    """A build option that the kernel must lack."""

    def unmet(self, facts: Facts) -> str:
        """Return the missing requirements as text; empty if all are met."""
        lacking = []
        if self.cores is not None and (facts.cores or 0) < self.cores:
            lacking.append(f"{self.cores} cores")
        if self.line_rate and not facts.has_line_rate:
            lacking.append("a line rate (--line-rate 10Gbps)")
        if self.switch_mode is not None and facts.switch_modes - {None} != {self.switch_mode}:
            lacking.append(f"a switch in mode {self.switch_mode}")
        options = facts.kernel_options
        if self.kernel_option is not None and self.kernel_option not in (options or ()):
            lacking.append(f"a kernel with {self.kernel_option}")
        without = self.without_kernel_option
        if without is not None and (options is None or without in options):
            lacking.append(f"a kernel without {without}")
        return f"needs {', '.join(lacking)}" if lacking else ""


class BaseClaim(BaseModel):
    """The fields of all kinds of claims."""

    model_config = _FORM

    id: str
    """Its name, unique in the experiment."""

    says: str
    """The claim in our words."""

    place: str = ""
    """The place of the claim in the paper."""

    said: bool = True
    """Whether the paper states the claim; otherwise it follows from the paper's values."""

    contradicted: str = ""
    """The contradiction in the paper's own values, if there is any."""

    metric: str
    """The metric to compare, by its name in `metrics.named`."""

    among: At = Field(default_factory=dict)
    """The points of the claim, as values by axis; all if empty."""

    needs: ClaimNeeds = ClaimNeeds()
    """Requirements for testing the claim."""

    subject: tuple[Spoiled, ...] = ()
    """Causes that spoil comparisons for other claims, but are the subject of this claim."""

    @property
    def own_axes(self) -> set[str]:
        """Return the axes along which the claim compares points. Points that differ on other axes
        are judged separately."""
        raise NotImplementedError

    def judge(self, points: Sequence[Point]) -> ClaimAnswer:
        """Return the answer to the claim from the points of its experiment."""
        groups = grouped(points, self.among, self.own_axes)
        return together([answer for group in groups for answer in self._answers(group)])

    def members(self, points: Sequence[Point]) -> list[Point]:
        """Return the points that the claim needs."""
        return [point for point in points if point.is_at(self.among)]

    def _answers(self, group: Sequence[Point]) -> Iterator[ClaimAnswer]:
        """Yield an answer for each comparison among points that differ only on the claim's own
        axes."""
        raise NotImplementedError

    @property
    def question(self) -> Question:
        """Return the question by which its points are compared."""
        axes = self.own_axes
        of_loads, of_sizes = "rate" in axes, "frame-size" in axes
        return Question(self.metric, self.subject, of_loads=of_loads, of_sizes=of_sizes)

    def _figures(self, points: Sequence[Point]) -> list[PointFigure] | ClaimAnswer:
        """Return the figures of points, or the first reason for a missing figure."""
        figures = []
        for point in points:
            figure = point.figure(self.metric)
            if isinstance(figure, str):
                return ClaimAnswer("cannot be told", figure)
            figures.append(figure)
        return figures


def together(answers: Sequence[ClaimAnswer]) -> ClaimAnswer:
    """Return the answer to a claim of several comparisons, which are tested together: a single
    refuted comparison refutes the claim, and it holds if all comparisons hold."""
    if not answers:
        return ClaimAnswer("cannot be told", "no points that it compares were measured")
    held = sum(answer.verdict == "holds" for answer in answers)
    verdicts: tuple[Verdict, ...] = ("does not hold", "cannot be told", "holds")
    for verdict in verdicts:
        decisive = [answer for answer in answers if answer.verdict == verdict]
        if decisive:
            so_far = f"{held} of {len(answers)} comparisons hold; "
            why = (so_far if held not in (0, len(answers)) else "") + decisive[0].why
            needed = [answer.needed for answer in decisive if answer.needed is not None]
            if verdict != "cannot be told" or len(needed) < len(decisive):
                return ClaimAnswer(verdict, why)
            return ClaimAnswer(
                verdict, f"{why}; about {max(needed)} rounds would decide", max(needed)
            )
    raise AssertionError("an answer has one of three verdicts")


def undecided(outcome: Compared, description: str) -> ClaimAnswer:
    """Return the answer for an undecided comparison, with the reason."""
    return ClaimAnswer("cannot be told", f"{outcome.why}: {description}", outcome.needed)


def in_band(
    figure: PointFigure, low: float, high: float, description: str, margin: float = 0.0
) -> ClaimAnswer:
    """Return whether a figure lies in a band. It holds if the whole interval is inside, it does not
    hold if the whole interval is outside, and else it is undecided. `margin` widens both ends of
    the band by a share of their value."""
    in_words = f"{figure} of {low:.3g} to {high:.3g}: {description}"
    least, most = low - margin * abs(low), high + margin * abs(high)
    if least <= figure.low and figure.high <= most:
        return ClaimAnswer("holds", in_words)
    apart = figure.high < least or most < figure.low
    return ClaimAnswer("does not hold" if apart else "cannot be told", in_words)


def listed(points: Sequence[Point], figures: Sequence[PointFigure]) -> str:
    """Return points with their figures as text."""
    return ", ".join(
        f"{point.name} {figure}" for point, figure in zip(points, figures, strict=True)
    )
