"""Conditions on which a comparison fails.

    --fail-on CONDITION[,CONDITION...]

    slower:P           the main figure of a test is worse by P or more
    latency:P          the median latency is higher by P or more; latency-p90, -p99, -p999 alike
    loss, loss:P       more frames are lost; P of all frames or more
    undecided          no outcome: neither faster nor slower nor the same is shown

P is a share: `3%` or `0.03`. A condition holds if a change for the worse is significant and at
least that large. It does not hold if the data exclude a change of that size. Otherwise it is
undecided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from switchmark.errors import UsageError
from switchmark.metrics.difference import Difference
from switchmark.metrics.repeats import FIGURES
from switchmark.model.units import parse_share

GRAMMAR = "slower:3%, latency:5%, latency-p99:10%, loss, loss:0.1%, undecided"
"""Examples of conditions."""

Holds = Literal["yes", "no", "cannot tell"]

_LEAST_LOSS = 0.001
"""The additional loss that must be excluded if `loss` has no amount. Counting cannot show that
there is no additional loss at all."""

SLOWER, UNDECIDED, LOSS = "slower", "undecided", "loss"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a figure, with the smallest relevant amount. `undecided` has neither."""

    text: str
    """The condition as written."""
    figure: str | None = None
    """The name of the figure; None for the main figure of each test."""
    amount: float | None = None
    """The smallest relevant change."""

    @property
    def is_undecided(self) -> bool:
        return self.text == UNDECIDED

    def holds(self, difference: Difference) -> Holds:
        """Return whether the condition holds for a difference of its figure."""
        if self.is_undecided:
            return "no" if difference.is_decided else "yes"
        amount = self.amount or 0.0
        if _receives_nothing(difference):
            return "yes"
        if difference.word == "slower" and difference.amount >= amount:
            return "yes"
        return "no" if difference.excludes(amount or _LEAST_LOSS) else "cannot tell"


def parse_conditions(texts: Sequence[str]) -> list[Condition]:
    """Parse the conditions of `--fail-on`. Raise UsageError for invalid syntax."""
    parts = [word.strip() for text in texts for word in text.split(",")]
    return list(dict.fromkeys(map(_condition, parts)))


def _receives_nothing(difference: Difference) -> bool:
    """Return whether frames were received before and none after. The change has no ratio, but it is
    not chance."""
    before, after = difference.before, difference.after
    return (
        (difference.figure.unit, difference.reason) == ("pps", "zero")
        and min(before.values) > 0
        and max(after.values) <= 0
        and not after.lowered
    )


def _condition(text: str) -> Condition:
    name, separator, amount = text.partition(":")
    if name == UNDECIDED and not separator:
        return Condition(text)
    if name == LOSS and not separator:
        return Condition(text, name, 0.0)
    if name == SLOWER or (name in FIGURES and name != "rate"):
        figure = None if name == SLOWER else name
        try:
            return Condition(text, figure, parse_share(amount))
        except UsageError as error:
            raise UsageError(
                f"--fail-on {name} takes a share, not '{amount}'", hint=f"--fail-on {name}:3%"
            ) from error
    raise UsageError(
        f"--fail-on: unknown condition '{text}'",
        hint=f"for example --fail-on {GRAMMAR.split(',')[0]}\n  known: {GRAMMAR}",
    )
