"""The common part of all kinds of claims, and the combination of answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

from pydantic import BaseModel, ConfigDict, Field

from switchmark.model.axis import key_of
from switchmark.papers.comparing import Compared, Question
from switchmark.papers.points import (
    IMPOSSIBLE,
    LEFT_OUT,
    OVERLOADED,
    UNABLE,
    At,
    Point,
    PointFigure,
    Spoiled,
    grouped,
)

Verdict = Literal["holds", "does not hold", "cannot be told"]

_FORM = ConfigDict(
    frozen=True, extra="forbid", alias_generator=lambda name: key_of(name.rstrip("_"))
)


@dataclass(frozen=True, slots=True)
class ClaimAnswer:
    """The verdict on a claim or on one of its comparisons, with its reason as text.

    `about` names the points of a comparison, `change` is its ratio, difference, spread, exponent or
    place, and `band` the range in which it has to lie, if it has one. A claim has the answers of
    its comparisons as `parts`.
    """

    verdict: Verdict
    why: str
    needed: int | None = None
    """The number of rounds that would probably decide an undecided claim, if it is known."""

    about: str = ""
    change: PointFigure | None = None
    band: tuple[float, float] | None = None
    parts: tuple[ClaimAnswer, ...] = ()
    left_out: int = 0
    """The number of points of the claim that a quick run left out."""


NOTHING = ClaimAnswer("cannot be told", "no points that it compares were measured")
"""The answer to a claim without comparisons."""


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

    cores_at_most: int | None = None
    """The greatest number of CPUs of the host, if scarce CPUs cause what is claimed."""

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
        most = self.cores_at_most
        if most is not None and (facts.cores is None or facts.cores > most):
            lacking.append(f"{most} cores at most, as it is about scarce ones")
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
        groups = list(grouped(points, self.among, self.own_axes))
        return together(
            [answer for group in groups for answer in self._answers(group, len(groups))]
        )

    def members(self, points: Sequence[Point]) -> list[Point]:
        """Return the points that the claim needs."""
        return [point for point in points if point.is_at(self.among)]

    def _answers(self, group: Sequence[Point], of: int) -> Iterator[ClaimAnswer]:
        """Yield an answer for each comparison among points that differ only on the claim's own
        axes, one of `of` groups."""
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


def answer_of(
    claim: BaseClaim, points: Sequence[Point], facts: Facts, left_out: Sequence[Point] = ()
) -> ClaimAnswer:
    """Return the answer to a claim from the points of its experiment.

    The reasons why it cannot be told have an order: what no host can measure, what a quick run left
    out (`left_out`), what this host cannot measure, and what the claim needs beyond its points.
    """
    points = _carried(claim, points)
    members, missing = claim.members(points), claim.members(left_out)
    is_measured = any(point.figures for point in members)
    if not is_measured and missing:
        return ClaimAnswer("cannot be told", _why_none(members, missing), left_out=len(missing))
    if is_measured and (unmet := claim.needs.unmet(facts)):
        return ClaimAnswer("cannot be told", unmet, left_out=len(missing))
    answer = claim.judge(points)
    if not missing:
        return answer
    whole = len(members) + len(missing)
    note = f"--quick left out {len(missing)} of its {whole} points"
    why = note if answer is NOTHING else f"{answer.why}; {note}"
    return replace(answer, why=why, left_out=len(missing))


def _carried(claim: BaseClaim, points: Sequence[Point]) -> Sequence[Point]:
    """Return the points without those whose load this host does not carry, if there are points of
    the claim at another load in their place."""
    carried = [point for point in points if not point.untold.startswith(OVERLOADED)]
    return carried if any(point.figures for point in claim.members(carried)) else points


def _why_none(members: Sequence[Point], missing: Sequence[Point]) -> str:
    """Return why no point of a claim was measured in a quick run."""
    never = [point.untold for point in (*members, *missing) if _rank(point.untold) < _OTHER]
    if len(never) == len(members) + len(missing):
        return min(never, key=_rank)
    if members:
        return min((point.untold for point in members), key=_rank)
    return f"{LEFT_OUT}: all {len(missing)} of its points"


_OTHER = 2


def _rank(why: str) -> int:
    """Return the place of a reason: first what no build, or this build, can measure."""
    return 0 if why.startswith(IMPOSSIBLE) else 1 if why.startswith(UNABLE) else _OTHER


_NAMED = 3
"""The number of comparisons that an answer names."""


def together(answers: Sequence[ClaimAnswer]) -> ClaimAnswer:
    """Return the answer to a claim of several comparisons, which are tested together: a single
    refuted comparison refutes the claim, and it holds if all comparisons hold. The reason names the
    part that holds, if only a part does."""
    parts = tuple(part for answer in answers for part in answer.parts or (answer,))
    if not parts:
        return NOTHING
    of_verdict = {
        verdict: [part for part in parts if part.verdict == verdict]
        for verdict in ("does not hold", "cannot be told", "holds")
    }
    verdict, decisive = next((word, found) for word, found in of_verdict.items() if found)
    first = min(decisive, key=lambda part: _rank(part.why))
    held, why = of_verdict["holds"], first.why
    if held and len(held) < len(parts):
        why = f"{len(held)} of {len(parts)} comparisons hold{_named(held)}; {why}"
    rounds = [part.needed for part in decisive if part.needed is not None]
    is_known = verdict == "cannot be told" and len(rounds) == len(decisive)
    needed = max(rounds) if is_known else None
    if needed is not None:
        why = f"{why}; about {needed} rounds would decide"
    return ClaimAnswer(cast(Verdict, verdict), why, needed, parts=parts)


def _named(parts: Sequence[ClaimAnswer]) -> str:
    names = [part.about for part in parts if part.about]
    if not names:
        return ""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f" ({'; '.join(names[:_NAMED])}{more})"


def undecided(outcome: Compared, description: str) -> ClaimAnswer:
    """Return the answer for an undecided comparison, with the reason."""
    why = f"{outcome.why}: {description}"
    return ClaimAnswer("cannot be told", why, outcome.needed, change=outcome.change)


def in_band(
    figure: PointFigure, low: float, high: float, description: str, margin: float = 0.0
) -> ClaimAnswer:
    """Return whether a figure lies in a band. It holds if the whole interval is inside, it does not
    hold if the whole interval is outside, and else it is undecided. `margin` widens both ends of
    the band by a share of their value."""
    in_words = f"{figure} of {low:.3g} to {high:.3g}: {description}"
    least, most = low - margin * abs(low), high + margin * abs(high)
    verdict: Verdict = "cannot be told"
    if least <= figure.low and figure.high <= most:
        verdict = "holds"
    elif figure.high < least or most < figure.low:
        verdict = "does not hold"
    return ClaimAnswer(verdict, in_words, change=figure, band=(low, high))


def listed(points: Sequence[Point], figures: Sequence[PointFigure]) -> str:
    """Return points with their figures as text."""
    return ", ".join(
        f"{point.name} {figure}" for point, figure in zip(points, figures, strict=True)
    )
