"""The reasons why a difference is undecided, and the number of rounds that would decide it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from switchmark.metrics.difference import Difference, Reason

WHY: Mapping[Reason, str] = {
    "few": "there are fewer than three repeats",
    "zero": "a ratio needs two figures above 0",
    "load": "rates at different offered loads are not compared",
    "chance": "chance may explain the difference",
    "bound": "the traffic generator was the limit",
    "spoiled": "doubts about one side may explain the difference",
    "error": "the error of the clocks may be as large as the difference",
}


def in_the_way(difference: Difference) -> Reason:
    """Return why it cannot be excluded that `after` is worse.

    More rounds help only against chance. A bound on `before`, or doubts that may hide a change,
    take precedence.
    """
    if difference.reason in ("few", "zero", "load"):
        return difference.reason
    if difference.before.bound:
        return "bound"
    if difference.before.lowered or difference.after.raised:
        return "spoiled"
    return difference.reason or "chance"


def why_undecided(difference: Difference, reason: Reason) -> str:
    """Return why a difference is undecided, and the number of rounds that would decide it."""
    needed = _needed(difference, reason)
    if needed is None:
        return WHY[reason]
    rounds = f"at least {needed}" if reason == "few" else f"about {needed}"
    return f"{WHY[reason]}; needs {rounds} {unit_of_repeats(difference)}"


def rounds_that_decide(open_: Sequence[tuple[Difference, Reason]]) -> str:
    """Return the number of rounds that would decide these differences as text: `about 24 rounds
    would`, `about 24 rounds would decide 1 of them`, with runs in place of rounds if the sides are
    compared run by run. Empty if rounds would not help."""
    needed = [rounds for rounds in (_needed(*one) for one in open_) if rounds is not None]
    if not needed:
        return ""
    text = f"about {max(needed)} {unit_of_repeats(*(difference for difference, _ in open_))} would"
    return text if len(needed) == len(open_) else f"{text} decide {len(needed)} of them"


def unit_of_repeats(*differences: Difference) -> str:
    """Return what more of would decide: rounds, or whole runs."""
    return "runs" if all(difference.are_run_by_run for difference in differences) else "rounds"


def _needed(difference: Difference, reason: Reason) -> int | None:
    return difference.needed if reason in ("few", "chance") else None
