"""This module answers what a run was asked, in sentences: who leads where, by how much, how sure
that is, and of what only a bound is known.

It reads records alone. What may be said of an order is decided in `report.standing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from switchmark.metrics.throughput import is_lower_bound
from switchmark.model.cable import CABLE
from switchmark.model.labels import label, telling
from switchmark.model.record import Record
from switchmark.model.spec import AXES
from switchmark.report import remarks
from switchmark.report.figures import goal_name, scaled_figure, with_interval
from switchmark.report.standing import FUNCTIONAL, Figure, Relation, figures_of, relation, united
from switchmark.report.words import NAMED, listed, listed_all, times

__all__ = ["answer"]

_SENTENCES = 6
"""Of more cases than these some are counted."""

_DELAYS = {"rtt": "median round trip", "one-way": "median one-way delay"}

_WORDS = {"at", "between", "in", "no", "nothing", "of", "the"}
"""Words that a sentence may begin with."""

_LIMITS = {
    "sender": ", where the sender was the limit",
    "receiver": ", where the receiver was the limit",
    "offered-load": ", all that was offered",
    "host": ", where the host was the limit",
    "function": ", where the functions were the limit",
    "unknown": ", and what was the limit is not known",
}
"""What is said of a figure by its verdict; of the switch's own nothing more."""


@dataclass(frozen=True, slots=True)
class _Group:
    """A group has the figures of tests that differ in what is `compared` only, the best first, and
    how the first stands to each of the others. `where` says what these tests share and others do
    not."""

    compared: str
    where: str
    figures: tuple[Figure, ...]
    relations: tuple[Relation, ...]

    @property
    def leader(self) -> Figure:
        return self.figures[0]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(_name(figure.record, self.compared) for figure in self.figures)

    def having(self, kind: str) -> list[str]:
        """Return the names of those that the first stands to in this way."""
        pairs = zip(self.names[1:], self.relations, strict=True)
        return [name for name, each in pairs if each.kind == kind]


def answer(records: Sequence[Record]) -> list[str]:
    """Return the sentences that these records allow, what is asked for first."""
    measured = [record for record in records if record.status == "ok" and record.trials]
    switches = [record for record in measured if record.test.switch != CABLE]
    ranked = [record for record in switches if FUNCTIONAL not in record.doubts]
    said: list[str] = []
    claims: list[Figure] = []
    for figures in _alike(figure for record in ranked for figure in figures_of(record)):
        groups = _groups(figures)
        said += _sentences(groups)
        claims += [figure for group in groups for figure in _claimed(group)]
    return [
        *said,
        *remarks.semantics(ranked),
        *remarks.cables(measured),
        *remarks.sureness(claims),
        *remarks.left_out(records, [each for each in switches if FUNCTIONAL in each.doubts]),
    ]


def _alike(figures: Iterable[Figure]) -> list[list[Figure]]:
    """Return figures of one unit and one goal together, in the order in which they come; those of
    testbeds that differ are no figures of one kind."""
    kinds: dict[tuple[str, str, str, tuple[str, ...]], list[Figure]] = {}
    for figure in figures:
        test = figure.record.test
        kind = (test.dimension, figure.unit, figure.what, figure.record.alike)
        kinds.setdefault(kind, []).append(figure)
    return list(kinds.values())


def _groups(figures: Sequence[Figure]) -> list[_Group]:
    """Return the figures that can be compared with each other, by the values of all other axes."""
    told = telling([figure.record.test for figure in figures])
    compared = max(told, key=_is_asked, default="switch")
    others = [axis for axis in told if axis != compared]
    by_others: dict[tuple[object, ...], list[Figure]] = {}
    for figure in figures:
        where = tuple(getattr(figure.record.test, axis) for axis in others)
        by_others.setdefault(where, []).append(figure)
    return [_group(each, compared, others) for each in by_others.values()]


def _is_asked(axis: str) -> tuple[bool, bool, int]:
    """Say how likely it is that this axis is the question: the switch, else what has names."""
    return axis == "switch", bool(AXES[axis].table), AXES[axis].used


def _group(figures: Sequence[Figure], compared: str, others: Sequence[str]) -> _Group:
    order = sorted(figures, key=lambda each: each.value, reverse=not figures[0].is_less_better)
    where = " ".join(_value(order[0].record, axis) for axis in others)
    relations = tuple(relation(order[0], each) for each in order[1:])
    return _Group(compared, where, tuple(order), relations)


def _name(record: Record, compared: str) -> str:
    return record.test.switch if compared == "switch" else _value(record, compared)


def _value(record: Record, axis: str) -> str:
    """Write the value of an axis as a reader meets it."""
    written = label(record.test, (axis,)).removeprefix(record.test.switch).strip()
    return written or f"{AXES[axis].words} none"


def _claimed(group: _Group) -> list[Figure]:
    """Return the figures of which an order is told."""
    pairs = zip(group.figures[1:], group.relations, strict=True)
    worse = [figure for figure, each in pairs if each.kind == "better"]
    return [group.leader, *worse] if worse else []


# --- sentences -------------------------------------------------------------------------------


def _sentences(groups: Sequence[_Group]) -> list[str]:
    """Return a sentence for all groups that the same can be said of."""
    same: dict[tuple[object, ...], list[_Group]] = {}
    for group in groups:
        kinds = zip(group.names[1:], (each.kind for each in group.relations), strict=True)
        same.setdefault((group.names[0], frozenset(kinds)), []).append(group)
    told = list(same.values())
    said = [_sentence(each, len(groups)) for each in told[:_SENTENCES]]
    more = sum(map(len, told[_SENTENCES:]))
    return [*said, *([f"{more} more cases are in the table."] if more else [])]


def _sentence(groups: Sequence[_Group], of: int) -> str:
    goal = _goal(groups[0].leader)
    wheres = [group.where for group in groups if group.where]
    every = "in both cases" if of == 2 else f"in all {of} cases"
    where = every if len(groups) == of > 1 else listed(wheres)
    clauses = [*_best(groups), *_alike_ones(groups), *_bounded(groups), *_untold(groups)]
    alike = groups[0].leader.record.alike
    prefix = ", ".join(filter(None, (goal, where, f"on {listed(alike)}" if alike else "")))
    return _begun(f"{prefix}{': ' * bool(prefix)}{'; '.join(clauses)}.")


def _best(groups: Sequence[_Group]) -> list[str]:
    """Say what the best of some groups does, and by how much it is better than those that it is
    shown to be better than."""
    first = groups[0]
    ratios = {
        other: united([group.relations[group.names.index(other) - 1] for group in groups])
        for other in first.having("better")
    }
    if not ratios and len(first.names) > 1:
        return []
    many = len(ratios) > NAMED
    if many:
        ratios = {f"{len(ratios)} others": united(list(ratios.values()))}
    name, own = _subject(first), _figure_of(groups)
    much = {other: times(each.low, each.high) for other, each in ratios.items()}
    if first.leader.is_less_better:
        late = _delay(first.leader)
        lead = f"the {late} of {name} is {own}" if own else f"{name} has the least {late}"
        take = "take" if many else "takes"
        return [lead, *(f"{other} {take} {ratio} as long" for other, ratio in much.items())]
    verb = "takes a burst of" if first.leader.unit == "frames" else "carries"
    do = "do" if many else "does"
    more = listed_all([f"{ratio} what {other} {do}" for other, ratio in much.items()])
    return [" ".join(filter(None, (f"{name} {verb}", own + ":" * bool(own and more), more)))]


def _figure_of(groups: Sequence[_Group]) -> str:
    """Return the figure of the best with its limit; nothing where there are several groups."""
    leaders = sorted((group.leader for group in groups), key=lambda each: each.value)
    if len(leaders) == 1:
        limit = "" if leaders[0].is_less_better else _LIMITS.get(leaders[0].record.verdict, "")
        return _figure_text(leaders[0]) + limit
    if groups[0].relations:
        return ""
    return " to ".join(scaled_figure(each.value, each.unit) for each in (leaders[0], leaders[-1]))


def _alike_ones(groups: Sequence[_Group]) -> list[str]:
    others = groups[0].having("alike")
    if not others:
        return []
    if groups[0].having("better"):
        return [f"against {listed(others)} no difference is shown"]
    names = [_subject(groups[0]), *others]
    if len(groups) == 1:
        known = dict(zip(groups[0].names, groups[0].figures, strict=True))
        known[names[0]] = groups[0].leader
        names = [f"{name} ({_figure_text(known[name])})" for name in names]
    return [f"between {listed(names)} no difference is shown"]


def _bounded(groups: Sequence[_Group]) -> list[str]:
    """Say of whom only a bound is known, and why: then the other way round may be true."""
    first = groups[0]
    if first.leader.at_least and not any(first.having(kind) for kind in ("better", "alike")):
        if all(figure.record.verdict == "offered-load" for figure in first.figures):
            return [_carried(first)] if first.relations else []
    culprits = {
        name if figure.at_least else first.names[0]: figure if figure.at_least else first.leader
        for name, figure, each in zip(
            first.names[1:], first.figures[1:], first.relations, strict=True
        )
        if each.kind == "bounded"
    }
    if not culprits:
        return []
    by_traffic = any(is_lower_bound(figure.record.verdict) for figure in culprits.values())
    why = "the traffic program was the limit" if by_traffic else "no more was offered"
    return [f"of {listed(list(culprits))} only a bound is known, as {why}"]


def _carried(group: _Group) -> str:
    if group.compared == "switch":
        return f"{listed(group.names)} carry all that is offered"
    return (
        f"{group.leader.record.test.switch} carries all that is offered, at {listed(group.names)}"
    )


def _untold(groups: Sequence[_Group]) -> list[str]:
    first = groups[0]
    others = first.having("untold")
    if not others:
        return []
    if first.leader.is_told:
        return [f"nothing is shown of {listed(others)}, without an interval"]
    known = zip(first.names, first.figures, strict=True)
    figures = [f"{name} {_figure_text(figure)}" for name, figure in known]
    told = f": {listed(figures)}" if len(groups) == 1 else ""
    of = f" of the {_delay(first.leader)}s" if first.leader.is_less_better else ""
    return [f"no order{of} is shown without intervals (--repeat {remarks.SURE}){told}"]


# --- words -----------------------------------------------------------------------------------


def _figure_text(figure: Figure) -> str:
    """Write a figure with its interval, or with how few trials it is that of."""
    trials = len(figure.record.trials)
    few = "" if figure.low is not None else f" ({trials} trial{'s' * (trials != 1)})"
    bound = "at least " * figure.at_least
    return bound + with_interval(figure.value, figure.low, figure.high, figure.unit) + few


def _begun(sentence: str) -> str:
    """Begin a sentence with a capital, unless it begins with a name."""
    first = sentence.partition(" ")[0]
    return sentence[0].upper() + sentence[1:] if first in _WORDS else sentence


def _delay(figure: Figure) -> str:
    return _DELAYS.get(figure.what.partition(" ")[0], "median delay")


def _subject(group: _Group) -> str:
    switch, name = group.leader.record.test.switch, group.names[0]
    return switch if group.compared == "switch" else f"{switch} with {name}"


def _goal(figure: Figure) -> str:
    """Write the goal of a search as it stands before a sentence."""
    search = figure.record.search
    if search is None or not figure.what:
        return ""
    if figure.unit == "ns":
        return "at the highest load"
    return next(goal_name(goal, search) for goal in search.goals if goal.goal == figure.what)
