"""The answer to the question of a run in sentences: which switch is the fastest, by how much,
with what confidence, and which figures are only bounds.

It reads all records of a run, and only records. `metrics.difference` decides whether two figures
differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from switchmark.metrics.difference import MIN_REPEATS
from switchmark.metrics.doubts import TABLE
from switchmark.metrics.family import Results
from switchmark.metrics.latency import latency_ns
from switchmark.metrics.throughput import is_of_search
from switchmark.model.cable import CABLE
from switchmark.model.labels import following, label, telling
from switchmark.model.record import Record
from switchmark.model.test import AXES
from switchmark.report import remarks
from switchmark.report.figures import (
    format_median,
    goal_name,
    precision,
    scaled_figure,
    with_repeats,
)
from switchmark.report.outage import sentences as outage_sentences
from switchmark.report.phrases import NAMED, listed, listed_all, times
from switchmark.report.recovery import sentences as recovery_sentences
from switchmark.report.soak import sentences as soak_sentences
from switchmark.report.standing import (
    FUNCTIONAL,
    OUTAGE,
    Kind,
    MeasuredFigure,
    Relation,
    figures_of,
    ranked,
    united,
)

_NUMBERS = {3: "three"}
_SENTENCES, _BRIEF_SENTENCES = 6, 3
"""The maximum number of sentences about cases. The rest are counted."""

_DELAYS = {"rtt": "median round trip", "one-way": "median one-way delay", OUTAGE: "outage"}

_CAPITALIZED = {"at", "between", "in", "no", "nothing", "the"}
"""Words that get a capital at the beginning of a sentence. Names of switches do not."""

_LIMITS = {
    "sender": ", limited by the sender",
    "receiver": ", limited by the receiver",
    "offered-load": ", all of the offered load",
    "host": ", limited by the host",
    "function": ", limited by the functions",
    "unknown": ", bottleneck unknown",
}
"""The words after a figure, by its verdict. A figure that the switch limits needs none."""


@dataclass(frozen=True, slots=True)
class _FigureGroup:
    """The figures of tests that differ only in one axis."""

    compared: str
    """The axis."""
    where: str
    """The values of the other axes, which distinguish the group from other groups."""
    figures: tuple[MeasuredFigure, ...]
    """The figures, the best first."""
    relations: tuple[Relation, ...]
    """The relations of the first figure to each of the others."""

    @property
    def leader(self) -> MeasuredFigure:
        return self.figures[0]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(_name(figure.record, self.compared) for figure in self.figures)

    @property
    def is_ordered(self) -> bool:
        """Return whether the first figure is significantly better than any other."""
        return any(relation.kind == "better" for relation in self.relations)

    def having(self, kind: Kind) -> list[str]:
        """Return the names of the figures with this relation to the first."""
        pairs = zip(self.names[1:], self.relations, strict=True)
        return [name for name, relation in pairs if relation.kind == kind]


def answer(records: Sequence[Record]) -> list[str]:
    """Return the sentences that the records of a run support, comparisons first."""
    measured, whole = _measured(records)
    sentences, claims = _sentences_of(whole, Results.of(records), _SENTENCES)
    return [
        *outage_sentences(whole),
        *recovery_sentences(whole),
        *sentences,
        *soak_sentences(whole),
        *remarks.semantics(whole),
        *remarks.engines(whole),
        *remarks.cables(measured),
        *remarks.sureness(claims),
        *remarks.left_out(records, _functional(measured)),
    ]


def brief_answer(records: Sequence[Record]) -> list[str]:
    """Return the sentences of `answer` that a reader needs before the table: the comparison, the
    reasons not to rank the switches, the baseline, and the missing tests."""
    measured, whole = _measured(records)
    sentences, _ = _sentences_of(whole, Results.of(records), _BRIEF_SENTENCES)
    return [
        *outage_sentences(whole),
        *recovery_sentences(whole),
        *sentences,
        *remarks.semantics(whole),
        *remarks.engines(whole),
        *remarks.cables(measured),
        *remarks.left_out(records, _functional(measured)),
    ]


def _measured(records: Sequence[Record]) -> tuple[list[Record], list[Record]]:
    """Return the measured tests, and those of them with figures of switches that count."""
    measured = [record for record in records if record.status == "ok" and record.trials]
    switches = [record for record in measured if record.test.switch != CABLE]
    return measured, [record for record in switches if FUNCTIONAL not in record.doubts]


def _functional(measured: Sequence[Record]) -> list[Record]:
    """Return the tests that only show that a switch works, without usable figures."""
    switches = (record for record in measured if record.test.switch != CABLE)
    return [record for record in switches if FUNCTIONAL in record.doubts]


def _sentences_of(
    records: Sequence[Record], results: Results, most: int
) -> tuple[list[str], list[MeasuredFigure]]:
    """Return at most `most` sentences about each kind of figure, and the figures with a claim."""
    sentences: list[str] = []
    claims: list[MeasuredFigure] = []
    for figures in _alike(figure for record in records for figure in figures_of(record)):
        groups = _groups(figures, results)
        sentences += _sentences(groups, most)
        claims += [figure for group in groups for figure in _claimed(group)]
    return sentences, claims


def _alike(figures: Iterable[MeasuredFigure]) -> list[list[MeasuredFigure]]:
    """Return the figures by dimension, unit and goal, in their order. Figures of different testbeds
    are separate."""
    kinds: dict[tuple[str, str, str, tuple[str, ...]], list[MeasuredFigure]] = {}
    for figure in figures:
        test = figure.record.test
        kind = (test.dimension, figure.unit, figure.what, figure.record.alike)
        kinds.setdefault(kind, []).append(figure)
    return list(kinds.values())


def _groups(figures: Sequence[MeasuredFigure], results: Results) -> list[_FigureGroup]:
    """Return groups of figures that can be compared, by the values of all other axes."""
    axes = telling([figure.record.test for figure in figures])
    compared = max(axes, key=_is_asked, default="switch")
    along = following([figure.record.test for figure in figures], compared)
    others = [axis for axis in axes if axis not in (compared, *along)]
    by_others: dict[tuple[object, ...], list[MeasuredFigure]] = {}
    for figure in figures:
        values = tuple(getattr(figure.record.test, axis) for axis in others)
        by_others.setdefault(values, []).append(figure)
    return [_group(group, compared, others, results) for group in by_others.values()]


def _is_asked(axis: str) -> tuple[bool, bool, int]:
    """Return a sort key: the switch is the most likely question, then axes with named values."""
    return axis == "switch", bool(AXES[axis].table), AXES[axis].used


def _group(
    figures: Sequence[MeasuredFigure], compared: str, others: Sequence[str], results: Results
) -> _FigureGroup:
    order, relations = ranked(figures, results)
    values = " ".join(_value(order[0].record, axis) for axis in others)
    return _FigureGroup(compared, values, tuple(order), tuple(relations))


def _name(record: Record, compared: str) -> str:
    return record.test.switch if compared == "switch" else _value(record, compared)


def _value(record: Record, axis: str) -> str:
    """Return the value of an axis as text for readers."""
    text = label(record.test, (axis,)).removeprefix(record.test.switch).strip()
    return text or f"{AXES[axis].label} none"


def _claimed(group: _FigureGroup) -> list[MeasuredFigure]:
    """Return the figures that the answer claims to be different or the same."""
    pairs = zip(group.figures[1:], group.relations, strict=True)
    others = [figure for figure, relation in pairs if relation.kind in ("better", "same")]
    return [group.leader, *others] if others else []


# --- sentences -------------------------------------------------------------------------------


def _sentences(groups: Sequence[_FigureGroup], most: int) -> list[str]:
    """Return at most `most` sentences, and a count of the other cases. Groups with the same
    relations share a sentence."""
    same: dict[tuple[object, ...], list[_FigureGroup]] = {}
    for group in groups:
        kinds = zip(group.names[1:], (relation.kind for relation in group.relations), strict=True)
        same.setdefault((group.names[0], frozenset(kinds)), []).append(group)
    cases = list(same.values())
    sentences = [_sentence(case, len(groups)) for case in cases[:most]]
    rest_count = sum(map(len, cases[most:]))
    return [*sentences, *([f"{rest_count} more cases are in the table."] if rest_count else [])]


def _sentence(groups: Sequence[_FigureGroup], cases: int) -> str:
    goal = _goal(groups[0].leader)
    wheres = [group.where for group in groups if group.where]
    phrase = "in both cases" if cases == 2 else f"in all {cases} cases"
    place = phrase if len(groups) == cases > 1 else listed(wheres)
    clauses = _carried(groups) or _best(groups)
    for kind, say in () if _carried(groups) else _SAY.items():
        if others := groups[0].having(kind):
            clauses += say(groups, others)
    alike = groups[0].leader.record.alike
    prefix = ", ".join(filter(None, (goal, place, f"on {listed(alike)}" if alike else "")))
    return _begun(f"{prefix}{': ' * bool(prefix)}{'; '.join(clauses)}.")


def _best(groups: Sequence[_FigureGroup]) -> list[str]:
    """Return clauses with the figure of the best, and its ratio to the figures that are
    significantly worse."""
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
    name, text = _subject(first), _figure_of(groups)
    much = {other: times(ratio.low, ratio.high) for other, ratio in ratios.items()}
    if first.leader.is_less_better:
        late = _delay(first.leader)
        lead = f"the {late} of {name} is {text}" if text else f"{name} has the least {late}"
        take = "take" if many else "takes"
        return [lead, *(f"{other} {take} {ratio} as long" for other, ratio in much.items())]
    verb = "takes a burst of" if first.leader.unit == "frames" else "forwards"
    comparisons = listed_all([f"{ratio} as much as {other}" for other, ratio in much.items()])
    return [
        " ".join(
            filter(None, (f"{name} {verb}", text + ":" * bool(text and comparisons), comparisons))
        )
    ]


def _carried(groups: Sequence[_FigureGroup]) -> list[str]:
    """Return a clause if all carry the offered load and no figure is better than another."""
    first = groups[0]
    verdicts = {figure.record.verdict for group in groups for figure in group.figures}
    if not first.relations or first.is_ordered or verdicts != {"offered-load"}:
        return []
    if first.leader.what == OUTAGE:
        return []
    if first.compared == "switch":
        return (
            []
            if _has_different_loads(first)
            else [f"{listed(first.names)} forward all of the offered load"]
        )
    names = [*dict.fromkeys(name for group in groups for name in group.names)]
    return [
        f"{first.leader.record.test.switch} forwards all of the offered load, at {listed(names)}"
    ]


def _figure_of(groups: Sequence[_FigureGroup]) -> str:
    """Return the figure of the best with its limit. For several groups, return their range, or
    nothing if they have relations."""
    leaders = sorted((group.leader for group in groups), key=lambda leader: leader.value)
    if len(leaders) == 1:
        limit = "" if leaders[0].is_less_better else _LIMITS.get(leaders[0].record.verdict, "")
        return _figure_text(leaders[0]) + limit
    if groups[0].relations:
        return ""
    return " to ".join(
        scaled_figure(leader.value, leader.unit) for leader in (leaders[0], leaders[-1])
    )


def _the_same(groups: Sequence[_FigureGroup], others: Sequence[str]) -> list[str]:
    margin = f"{united(_relations(groups, 'same')).margin * 100:g} %"
    if groups[0].is_ordered:
        return [f"{listed(others)} {_is(others)} within {margin} of {_subject(groups[0])}"]
    names = [_subject(groups[0]), *others]
    return [f"{listed(_with_figures(groups, names))} are the same within {margin}"]


def _undecided(groups: Sequence[_FigureGroup], others: Sequence[str]) -> list[str]:
    """Name the differences that are not significant, and the rounds that would decide them."""
    needed = united(_relations(groups, "chance")).needed
    hint = "" if needed is None else f" (about {needed} rounds would decide: --repeat {needed})"
    if groups[0].is_ordered:
        return [f"the difference from {listed(others)} is not significant{hint}"]
    names = [_subject(groups[0]), *others]
    return [
        f"the difference between {listed(_with_figures(groups, names))} is not significant{hint}"
    ]


def _bounded(groups: Sequence[_FigureGroup], others: Sequence[str]) -> list[str]:
    """Name the figures that are only bounds, and why. The true order may be the reverse."""
    figures = _figures(groups, others)
    by_search = all(is_of_search(figure.record) for figure in figures)
    by_traffic = any(figure.record.verdict in ("sender", "receiver") for figure in figures)
    why = "no more was offered" if by_search and not by_traffic else "the traffic generator was"
    why += " the limit" * why.endswith("was")
    clause = "which is only a bound" if len(others) == 1 else "which are only bounds"
    return [f"{_unranked(groups, others)}, {clause}, as {why}"]


def _spoiled(groups: Sequence[_FigureGroup], others: Sequence[str]) -> list[str]:
    """Name the doubts that could explain the difference between figures."""
    figures = [*_figures(groups, others), *(group.leader for group in groups)]
    doubts = dict.fromkeys(
        doubt
        for figure in figures
        for doubt in figure.record.doubts
        if doubt in TABLE and TABLE[doubt].spoils
    )
    why = [*doubts, *["verdict host"] * any(f.record.verdict == "host" for f in figures)]
    named = f" ({listed(why)})" if why else ""
    return [f"{_unranked(groups, others)}: disturbances{named} may explain the difference"]


def _in_error(groups: Sequence[_FigureGroup], others: Sequence[str]) -> list[str]:
    unranked = _unranked(groups, others)
    return [f"{unranked}: the error of the clocks may be as large as the difference"]


def _different_loads(groups: Sequence[_FigureGroup], others: Sequence[str]) -> list[str]:
    """Name the figures that were measured at different loads."""
    first = groups[0]
    loads = "shares of different maximum rates" if _has_different_loads(first) else "different"
    names = listed(_with_figures(groups, [_subject(first), *others]))
    return [f"{names} are not compared, as their loads were {loads}"]


def _zero(groups: Sequence[_FigureGroup], others: Sequence[str]) -> list[str]:
    names = listed(_with_figures(groups, [_subject(groups[0]), *others]))
    return [f"{names} are not compared, as a ratio to 0 is undefined"]


def _few(groups: Sequence[_FigureGroup], others: Sequence[str]) -> list[str]:
    """Name the figures with too few repeats."""
    first = groups[0]
    named = zip(first.names, first.figures, strict=True)
    lacking = [name for name, figure in named if len(figure.values) < MIN_REPEATS]
    once = "searches" if is_of_search(first.leader.record) else "trials"
    reason = f"fewer than {_NUMBERS[MIN_REPEATS]} {once} (--repeat {remarks.SURE})"
    if first.names[0] not in lacking:
        return [f"{listed(others)} {_is(others)} not ranked, with {reason}"]
    among = f" of the {_delay(first.leader)}s" if first.leader.is_less_better else ""
    figures = _with_figures(groups, [_subject(first), *others])
    text = f": {listed(figures)}" if len(groups) == 1 else ""
    return [f"no order{among} is shown with {reason}{text}"]


_SAY: Mapping[Kind, Callable[[Sequence[_FigureGroup], Sequence[str]], list[str]]] = {
    "same": _the_same,
    "chance": _undecided,
    "bound": _bounded,
    "spoiled": _spoiled,
    "error": _in_error,
    "load": _different_loads,
    "zero": _zero,
    "few": _few,
}
"""The functions that describe the relations to the first figure, all except `better`."""


def _relations(groups: Sequence[_FigureGroup], kind: Kind) -> list[Relation]:
    return [relation for group in groups for relation in group.relations if relation.kind == kind]


def _figures(groups: Sequence[_FigureGroup], names: Sequence[str]) -> list[MeasuredFigure]:
    return [
        figure
        for group in groups
        for name, figure in zip(group.names, group.figures, strict=True)
        if name in names
    ]


def _with_figures(groups: Sequence[_FigureGroup], names: Sequence[str]) -> list[str]:
    """Return names, with their figures if there is one group. The first name is the best."""
    first = groups[0]
    if len(groups) > 1:
        return list(names)
    by_name = dict(zip(first.names, first.figures, strict=True)) | {names[0]: first.leader}
    return [f"{name} ({_figure_text(by_name[name], within=True)})" for name in names]


def _unranked(groups: Sequence[_FigureGroup], others: Sequence[str]) -> str:
    """Name the figures that the best cannot be ranked above."""
    first = groups[0]
    better = "below" if first.leader.is_less_better else "above"
    leader, *names = (
        (_subject(first), *others)
        if first.is_ordered
        else _with_figures(groups, [_subject(first), *others])
    )
    return f"{leader} cannot be ranked {better} {listed(names)}"


def _has_different_loads(group: _FigureGroup) -> bool:
    return any(figure.record.test.parsed_rate.share is not None for figure in group.figures)


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


# --- words -----------------------------------------------------------------------------------


def _figure_text(figure: MeasuredFigure, *, within: bool = False) -> str:
    """Return a figure with its interval or its number of repeats. `within` other parentheses, use
    a comma in place of parentheses."""
    if figure.unit == "ns" and figure.what != OUTAGE and (unsure := _unsure(figure)):
        return unsure
    bound = "at least " * figure.is_bound
    repeats = "searches" if is_of_search(figure.record) else "trials"
    text = with_repeats(figure.value, figure.values, figure.interval, figure.unit, repeats)
    if len(figure.values) == 1 and (accuracy := _precision(figure)):
        text = f"{text.removesuffix(')')}, {accuracy})"
    return bound + (text.replace(" (", ", ").rstrip(")") if within else text)


def _unsure(figure: MeasuredFigure) -> str:
    """Return a median latency as a bound if its error is as large. Empty otherwise."""
    latency = latency_ns(figure.record)
    if latency is None or latency.error is None or latency.error.median_ns < figure.value:
        return ""
    return format_median(latency.model_dump()).replace("<=", "at most")


def _precision(figure: MeasuredFigure) -> str:
    """Return the precision of a search. Empty if the figure is not the result of a search."""
    goals = figure.record.search.goals if figure.record.search else ()
    precisions = [precision(goal) for goal in goals if goal.goal == figure.what]
    return f"found to within {precisions[0]}" if any(precisions) else ""


def _begun(sentence: str) -> str:
    """Return a sentence with a capital at its beginning, unless a name is there."""
    first = sentence.partition(" ")[0]
    return sentence[0].upper() + sentence[1:] if first in _CAPITALIZED else sentence


def _delay(figure: MeasuredFigure) -> str:
    return _DELAYS.get(figure.what.partition(" ")[0], "median delay")


def _subject(group: _FigureGroup) -> str:
    switch, name = group.leader.record.test.switch, group.names[0]
    return switch if group.compared == "switch" else f"{switch} with {name}"


def _goal(figure: MeasuredFigure) -> str:
    """Return the goal of a search, which stands before a sentence."""
    search = figure.record.search
    if search is None or not figure.what:
        return ""
    if figure.unit == "ns":
        return "at the highest load"
    return next(goal_name(goal, search) for goal in search.goals if goal.goal == figure.what)
