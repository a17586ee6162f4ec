"""The requirements of clauses as predicates over records, by name, with parameters.

A predicate gets the measured records that a clause is about, at least one, and yields a sentence
for each way in which they deviate. A condition says whether a clause applies to records at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from switchmark.metrics.cpu import cores_by_role
from switchmark.metrics.outage import outages
from switchmark.metrics.searched import is_bound
from switchmark.metrics.throughput import is_lower_bound
from switchmark.model.axis import field_name, key_of
from switchmark.model.cable import Calibration
from switchmark.model.event import EventResult
from switchmark.model.record import Record, TrialResult
from switchmark.model.search import Goal
from switchmark.model.test import AXES
from switchmark.model.topology import PortKind, Semantics
from switchmark.model.units import parse_verification, sizes_of

Records = Sequence[Record]
Deviations = Iterable[str]
Predicate = Callable[..., Deviations]
"""(records, **parameters) -> how they deviate."""

_FINEST = 1e-9
"""Two rates that differ by less, relative to each other, are the same rate."""

_LOADS_ROUNDED = 1e-5
"""The rounding of loads by the library of MLRsearch, relative to the load."""

_ABOUT = 1.01
"""The rounding of the last step of a search, relative to its precision."""

_UNSENT = 0.01
"""The share of unsent frames from which on senders are behind their rate."""

_OF_A_NIC = ("maker", "driver", "firmware", "slot")
_UNKNOWN = object()

# --- axes of the tests -------------------------------------------------------------------------


def axis_at_least(records: Records, axis: str, least: float) -> Deviations:
    """Every test has at least this value on an axis."""
    yield from _values_other_than(records, axis, lambda value: value >= least, f"{least:g}", "<")


def axis_between(records: Records, axis: str, least: float, most: float) -> Deviations:
    """Every test has a value on an axis between these two."""
    yield from _values_other_than(
        records, axis, lambda value: least <= value <= most, f"{least:g} to {most:g}", "outside"
    )


def trial_waits(records: Records, warmup: float, residual: float, settle: float) -> Deviations:
    """Every trial has these times before and after it, in seconds."""
    for axis, least in (("warmup", warmup), ("residual", residual), ("settle", settle)):
        yield from axis_at_least(records, axis, least)


def axis_among(records: Records, axis: str, values: Sequence[Any]) -> Deviations:
    """Every test has one of these values on an axis."""
    wanted = ", ".join(map(str, values))
    yield from _values_other_than(records, axis, lambda value: value in values, wanted, "not")


def axis_given(records: Records, axis: str) -> Deviations:
    """Every test sets an axis."""
    if any(getattr(record.test, field_name(axis)) is None for record in records):
        yield f"{_label(axis)} is not set"


def axis_unset(records: Records, axis: str) -> Deviations:
    """No test sets an axis."""
    for value in _values(records, axis):
        if value is not None:
            yield f"{_label(axis)} is {value}"


def axis_covers(records: Records, axis: str, values: Sequence[Any]) -> Deviations:
    """Some test has each of these values on an axis."""
    missing = [value for value in values if value not in _values(records, axis)]
    if missing:
        yield f"no test with {_label(axis)} {', '.join(map(str, missing))}"


def sizes_at_least(records: Records, least: int) -> Deviations:
    """The tests have at least so many frame sizes."""
    sizes = _values(records, "frame-size")
    if len(sizes) < least:
        yield f"{len(sizes)} frame sizes ({', '.join(map(str, sizes))}), not {least}"


def one_size(records: Records) -> Deviations:
    """Every test has frames of one size."""
    for size in _values(records, "frame-size"):
        if isinstance(size, str):
            yield f"frames of several sizes ({size})"


def mix_covers(records: Records, sizes: Sequence[int]) -> Deviations:
    """Every mix of frame sizes has all of these sizes."""
    for mix in _values(records, "frame-size"):
        missing = [size for size in sizes if size not in sizes_of(mix)]
        if isinstance(mix, str) and missing:
            yield f"{mix} has no frames of {', '.join(map(str, missing))} bytes"


def same_setup(records: Records) -> Deviations:
    """All tests have one version and one configuration of the switch."""
    for name in ("switch_version", "switch_mode"):
        values = {getattr(record, name) for record in records}
        if len(values) > 1:
            yield f"{len(values)} values of {name.replace('_', ' ')}"
    for axis in AXES.values():
        if axis.of == "switch" and len(_values(records, axis.name)) > 1:
            yield f"{axis.label} differs: {', '.join(map(str, _values(records, axis.name)))}"


# --- what a record tells -----------------------------------------------------------------------


def recorded(records: Records, members: Sequence[str]) -> Deviations:
    """Every record has these members."""
    for name in members:
        lacking = [record for record in records if getattr(record, name) in (None, "", ())]
        if lacking:
            yield f"{name.replace('_', ' ')} is unknown{_in(lacking)}"


def gate_passed(records: Records) -> Deviations:
    """The switch forwarded every frame of the functional trial as it should."""
    lacking = [record for record in records if record.gate is None or not record.gate.passed]
    if lacking:
        yield f"no functional trial passed{_in(lacking)}"


def headers_compared(records: Records) -> Deviations:
    """The headers of frames were compared with those that were sent."""
    lacking = [record for record in records if record.gate is None or not record.gate.headers]
    if lacking:
        whys = {record.gate.unseen for record in lacking if record.gate and record.gate.unseen}
        yield f"no headers were compared{_in(lacking)}{_because(whys)}"


def lengths_match(records: Records) -> Deviations:
    """The received bytes are the received frames times the frame size."""
    wrong = [
        record
        for record in records
        if isinstance(record.test.frame_size, int) and record.test.tunnel is None
        for trial in record.trials
        if trial.rx_bytes != trial.rx_frames * record.test.frame_size
    ]
    if wrong:
        yield f"frames arrived with another length{_in(wrong)}"


def stamps_known(records: Records) -> Deviations:
    """The records say what took the times of arrival."""
    lacking = [
        record for record in records if not any(trial.evidence.stamps for trial in record.trials)
    ]
    if lacking:
        yield f"the source of arrival times is unknown{_in(lacking)}"


def not_flooded(records: Records) -> Deviations:
    """No frame reached a receiver that it was not addressed to."""
    flooded = [record for record in records if any(trial.stray for trial in record.trials)]
    if flooded:
        yield f"frames were flooded{_in(flooded)}"


def started_together(records: Records, share: float) -> Deviations:
    """All senders and receivers began within this share of the duration."""
    late = [
        record
        for record in records
        for trial in record.trials
        if max(trial.evidence.started_late_ns.values(), default=0)
        > share * trial.spec.duration_s * 1e9
    ]
    if late:
        yield f"a part began late{_in(late)}"


def switch_cores_known(records: Records) -> Deviations:
    """The records have the CPU use of the switch."""
    lacking = [record for record in records if cores_by_role(record).get("switch") is None]
    if lacking:
        yield f"the CPU use of the switch is unknown{_in(lacking)}"


def placed(records: Records) -> Deviations:
    """The records have the CPUs of each part."""
    lacking = [record for record in records if not (record.placement and record.placement.seats)]
    if lacking:
        yield f"the CPUs of the parts are unknown{_in(lacking)}"


def host_reports(records: Records, facts: Sequence[str]) -> Deviations:
    """The run has these facts about the host, and their values are known."""
    for name in facts:
        if any(_fact(record, name) in (None, "", [], {}) for record in records):
            yield f"{name} of the host is unknown"


def host_knows(records: Records, facts: Sequence[str]) -> Deviations:
    """The run read these facts about the host. Empty facts are answers, too."""
    for name in facts:
        if any(_fact(record, name, _UNKNOWN) is _UNKNOWN for record in records):
            yield f"{name} of the host was not read"


def nics_known(records: Records) -> Deviations:
    """The run has the maker, the driver, the firmware and the slot of each NIC."""
    for record in records:
        nics = _fact(record, "nics") or []
        lacking = {name for nic in nics for name in _OF_A_NIC if not nic.get(name)}
        if lacking or not nics:
            yield f"{', '.join(sorted(lacking)) or 'the list'} of the NICs is unknown"
            return


def undoubted(records: Records) -> Deviations:
    """No record has a doubt other than these."""
    doubts = sorted({doubt for record in records for doubt in record.doubts})
    if doubts:
        yield f"doubts: {', '.join(doubts)}"


def calibrated(records: Records) -> Deviations:
    """The traffic program was measured on a cable, without the switch."""
    lacking = [record for record in records if not isinstance(record.calibration, Calibration)]
    if lacking:
        yield f"no baseline without the switch{_in(lacking)}"


def trials_at_least(records: Records, least: int) -> Deviations:
    """Every figure comes from at least so many trials."""
    few = [record for record in records if len(record.trials) < least]
    if few:
        yield f"{min(len(record.trials) for record in few)} trials, not {least}{_in(few)}"


# --- goals of searches -------------------------------------------------------------------------


def goal_has(records: Records, goal: str, members: Sequence[str]) -> Deviations:
    """The goal of that name has these members."""
    for name in members:
        lacking = [
            record
            for record in records
            if not any(_has(found, name) for found in _goals(record, goal))
        ]
        if lacking:
            yield f"{name.replace('_', ' ')} was not found{_in(lacking)}"


def goals_have(records: Records, members: Sequence[str]) -> Deviations:
    """Every goal of a search, at least one, has these members."""
    for name in members:
        lacking = [
            record for record in records if not all(_has(one, name) for one in _all_goals(record))
        ]
        if lacking:
            yield f"{name.replace('_', ' ')} is not in the record{_in(lacking)}"


def goals_within(
    records: Records,
    member: str,
    least: float | None = None,
    above: float | None = None,
    below: float | None = None,
) -> Deviations:
    """A member of every goal is at least, above or below a number."""
    for record in records:
        for one in _all_goals(record):
            value = getattr(one, member)
            if (
                value is None
                or (least is not None and value < least)
                or (above is not None and value <= above)
                or (below is not None and value >= below)
            ):
                yield f"{member.replace('_', ' ')} of {one.goal} is {value}{_in([record])}"


def goals_share(records: Records, member: str) -> Deviations:
    """A member is the same in all goals of a search."""
    for record in records:
        if len(values := {getattr(one, member) for one in _all_goals(record)}) > 1:
            shown = ", ".join(sorted(map(str, values)))
            yield f"{member.replace('_', ' ')} differs: {shown}{_in([record])}"


def goals_ordered(records: Records, smaller: str, larger: str) -> Deviations:
    """One member of every goal is at most another."""
    for record in records:
        for one in _all_goals(record):
            low, high = getattr(one, smaller), getattr(one, larger)
            if low is None or high is None or low > high * (1 + _FINEST):
                yield (
                    f"{smaller.replace('_', ' ')} of {one.goal} is {low}, and "
                    f"{larger.replace('_', ' ')} is {high}{_in([record])}"
                )


def regular_within_width(records: Records) -> Deviations:
    """The bounds of a regular goal are no further apart than its width."""
    for record in records:
        for one in _all_goals(record):
            if one.regular and one.low_pps and one.high_pps and one.width is not None:
                apart = (one.high_pps - one.low_pps) / one.high_pps
                if apart > one.width * (1 + _LOADS_ROUNDED):
                    yield f"the bounds of {one.goal} are {apart:.3%} apart{_in([record])}"
            elif one.regular:
                yield f"{one.goal} is called regular without both bounds{_in([record])}"


def all_regular(records: Records) -> Deviations:
    """Every goal has a regular result."""
    for record in records:
        for one in _all_goals(record):
            if not one.regular:
                yield f"the result of {one.goal} is irregular{_in([record])}"


def rates_below_link(records: Records) -> Deviations:
    """No rate found is above that of the link or of the test."""
    for record in records:
        limits = [limit for limit in (record.test.line_pps, record.test.rate_pps) if limit]
        for one in _all_goals(record):
            if limits and (one.rate_pps or 0) > min(limits) * (1 + _LOADS_ROUNDED):
                yield f"{one.goal} is above the highest load{_in([record])}"


def goal_lossless(records: Records, goal: str) -> Deviations:
    """The goal allows no loss, and a rate met it."""
    for record in records:
        for found in _goals(record, goal):
            if found.rate_pps is None:
                yield f"no rate without loss{_in([record])}"
            elif found.loss_ratio > 0:
                yield f"the goal allows a loss of {found.loss_ratio:.3%}{_in([record])}"


def decided_by_one(records: Records) -> Deviations:
    """Each trial decides on its rate: none is repeated because of its loss."""
    for rule in _values(records, "verification"):
        if parse_verification(rule).trials != 1:
            yield f"a trial with loss is repeated (verification {rule})"


def one_lossless_is_enough(records: Records) -> Deviations:
    """One trial without loss decides, of one or several."""
    for rule in _values(records, "verification"):
        if parse_verification(rule).trials is None:
            yield f"two of three trials decide (verification {rule})"


def loss_verified(records: Records) -> Deviations:
    """A trial with loss is repeated, and one trial without loss is enough (TST 009)."""
    for rule in _values(records, "verification"):
        if (parse_verification(rule).trials or 0) < 2:
            yield f"trials with loss are not verified (verification {rule})"


def high_loss_set(records: Records) -> Deviations:
    """The rule for trials with loss has a loss above which no trial is repeated."""
    for rule in _values(records, "verification"):
        if parse_verification(rule).high_loss >= 1:
            yield f"no loss is too high to repeat a trial (verification {rule})"


def bounds_within_precision(records: Records, goal: str) -> Deviations:
    """The bounds of a goal are no further apart than the precision of the search."""
    for record in records:
        for found in _goals(record, goal):
            if not found.low_pps or not found.high_pps:
                yield f"the search has no two bounds{_in([record])}"
            elif (apart := 1 - found.low_pps / found.high_pps) > record.test.precision * _ABOUT:
                yield f"the bounds are {apart:.3%} apart{_in([record])}"


def not_a_bound(records: Records, goal: str) -> Deviations:
    """The switch was the limit, not the traffic program."""
    bounds = [
        record
        for record in records
        if any(
            is_bound(found) and is_lower_bound(found.verdict or "")
            for found in _goals(record, goal)
        )
    ]
    if bounds:
        yield f"only a lower bound, as the traffic program was the limit{_in(bounds)}"


def loss_steps(records: Records, step_percent: float = 10) -> Deviations:
    """The loads go down from 100 % of the maximum rate in steps of at most so many percent."""
    for record in records:
        rates = [found.rate_pps or 0.0 for found in _loads(record)]
        steps = [(high - low) / rates[0] * 100 for high, low in pairwise(rates)] if rates else []
        if any(step <= 0 or step > step_percent * (1 + _FINEST) for step in steps):
            yield f"a step of {max(steps, key=abs):.3g} % of the maximum rate{_in([record])}"
        if not steps:
            yield f"fewer than two loads{_in([record])}"


def loss_starts_at_maximum(records: Records) -> Deviations:
    """The highest load is the rate of the link, or that of the sender where no link is given."""
    for record in records:
        rates = [found.rate_pps or 0.0 for found in _loads(record)]
        limit = record.test.rate_pps or record.test.line_pps
        if record.test.rate != "max":
            yield f"the highest load is the rate of the test, {record.test.rate}{_in([record])}"
        elif limit and rates and rates[0] < limit * (1 - _FINEST):
            yield f"the highest load is {rates[0] / limit:.1%} of the link's rate{_in([record])}"


def loss_ends_lossless(records: Records) -> Deviations:
    """The two lowest loads lost nothing."""
    for record in records:
        last = [found.loss_ratio for found in _loads(record)][-2:]
        if len(last) < 2 or any(last):
            yield f"no two successive loads without loss{_in([record])}"


def bursts_at_least(records: Records, least: int) -> Deviations:
    """The mean is over at least so many bursts."""
    for record in records:
        for found in _goals(record, "back-to-back"):
            if (found.bursts or 0) < least:
                yield f"{found.bursts or 'an unknown number of'} bursts, not {least}{_in([record])}"


def bursts_kept(records: Records) -> Deviations:
    """The length of every burst is in the record."""
    for record in records:
        for found in _goals(record, "back-to-back"):
            if not found.bursts or len(found.burst_each) != found.bursts:
                yield f"{len(found.burst_each)} of {found.bursts} bursts kept{_in([record])}"


def burst_below_limit(records: Records, share: float = 0.9) -> Deviations:
    """The longest burst is well below the longest one that the search would have tried."""
    for record in records:
        for found in _goals(record, "back-to-back"):
            if found.burst_limit is None or found.burst_max is None:
                yield f"the search limit is unknown{_in([record])}"
            elif found.burst_max > share * found.burst_limit:
                yield f"the search ended at its limit, {found.burst_limit} frames{_in([record])}"


def burst_can_overflow(records: Records) -> Deviations:
    """The rate without loss is below the rate of the burst, so that buffers can overflow."""
    for record in records:
        for found in _goals(record, "back-to-back"):
            if found.throughput_pps and found.rate_pps:
                if found.throughput_pps >= found.rate_pps * (1 - _FINEST):
                    yield f"no burst can overflow a buffer: nothing is lost{_in([record])}"
            else:
                yield f"the rate without loss is unknown{_in([record])}"


def buffer_depletes(records: Records) -> Deviations:
    """The wait after a burst is longer than the buffer lasts."""
    for record in records:
        for found in _goals(record, "back-to-back"):
            if (found.buffer_s or 0) > record.test.residual:
                yield (
                    f"a buffer of {found.buffer_s:.3g} s, and a wait of "
                    f"{record.test.residual:g} s{_in([record])}"
                )


# --- outages -----------------------------------------------------------------------------------


def outage_known(records: Records) -> Deviations:
    """Every trial has the outage after its event, by lost frames and by times of arrival."""
    lacking = [record for record in records if len(outages(record)) < len(record.trials)]
    if lacking:
        yield f"no outage was measured{_in(lacking)}"


def outage_over(records: Records) -> Deviations:
    """Frames arrived again after every event."""
    lasting = [record for record in records if not all(one.is_over for one in outages(record))]
    if lasting:
        yield f"no frame arrived after the event{_in(lasting)}"


def rate_at_least(records: Records, share: float) -> Deviations:
    """Every test has a rate of at least this share of R+, and its senders sent it."""
    slow = []
    behind = [record for record in records if any(map(_is_behind, record.trials))]
    if behind:
        yield f"senders fell behind the rate{_in(behind)}"
    for record in records:
        found = record.test.parsed_rate.share
        sent_pps = record.trials[0].spec.rate_pps if record.trials else None
        if found is None and sent_pps and record.r_plus_pps:
            found = sent_pps / record.r_plus_pps
        if found is None or found < share:
            slow.append(record)
    if slow:
        rates = ", ".join(dict.fromkeys(record.test.rate for record in slow))
        yield f"the rate is {rates}, not {share:.0%} of R+{_in(slow)}"


def events_cover(records: Records, kinds: Sequence[str]) -> Deviations:
    """Some test has an event of each of these kinds."""
    found = {event.kind for record in records for event in record.test.events}
    if missing := [kind for kind in kinds if kind not in found]:
        yield f"no event {', '.join(missing)}"


def events_after(records: Records, seconds: float) -> Deviations:
    """Every event began so many seconds after the start of its trial, or later."""
    first_ns = min((event.began_ns for _, event in _events(records)), default=None)
    if first_ns is None:
        yield "no event took place"
    elif first_ns < seconds * 1e9:
        yield f"an event after {first_ns / 1e9:.3g} s"


def events_proven(records: Records) -> Deviations:
    """Every event has the observations that prove it, such as the process that ended."""
    lacking = [record for record, event in _events(records) if not event.proof]
    if lacking or not _events(records):
        yield f"no event is proven{_in(lacking or records)}"


PREDICATES: Mapping[str, Predicate] = {
    key_of(predicate.__name__): predicate
    for predicate in (
        *(axis_at_least, axis_between, trial_waits, axis_among, axis_given),
        *(axis_unset, axis_covers),
        *(sizes_at_least, one_size, mix_covers, same_setup),
        *(recorded, gate_passed, headers_compared, lengths_match, stamps_known, undoubted),
        *(not_flooded, started_together, switch_cores_known, placed),
        *(host_reports, host_knows, nics_known),
        *(calibrated, trials_at_least, goal_has, goal_lossless, not_a_bound),
        *(decided_by_one, one_lossless_is_enough, loss_verified, high_loss_set),
        *(bounds_within_precision,),
        *(goals_have, goals_within, goals_share, goals_ordered),
        *(regular_within_width, all_regular, rates_below_link),
        *(loss_steps, loss_starts_at_maximum, loss_ends_lossless),
        *(bursts_at_least, bursts_kept, burst_below_limit, burst_can_overflow, buffer_depletes),
        *(outage_known, outage_over, rate_at_least, events_cover, events_after, events_proven),
    )
}
"""The predicates by their name in the files."""


OF_GOALS = frozenset(
    key_of(predicate.__name__)
    for predicate in (
        *(goal_has, goal_lossless, goals_have, goals_within, goals_share, goals_ordered),
        *(regular_within_width, all_regular),
    )
)
"""The predicates that need goals only, which the files of other programs have too."""


# --- conditions --------------------------------------------------------------------------------


def _is_routed(record: Record) -> bool:
    return record.semantics == Semantics.ROUTED


def _learns(record: Record) -> bool:
    return record.semantics == Semantics.LEARNING


def _has_medium(record: Record) -> bool:
    return record.test.line_rate is not None or record.test.nic is not None


def _has_nic(record: Record) -> bool:
    return record.test.nic is not None


def _has_mix(record: Record) -> bool:
    return isinstance(record.test.frame_size, str)


def _tells_firmware(record: Record) -> bool:
    return _fact(record, "bios", _UNKNOWN) is not None


def _manages_power(record: Record) -> bool:
    return _fact(record, "power", _UNKNOWN) is not None


def _has_vm(record: Record) -> bool:
    return "vm" in (record.test.environment, record.test.switch_environment)


def _has_port(*kinds: PortKind) -> Callable[[Record], bool]:
    return lambda record: bool(set((record.port or "").split(", ")) & set(kinds))


def _uses_xdp(record: Record) -> bool:
    return "xdp" in f"{record.test.engine} {record.test.driver} {record.engine_mode}"


CONDITIONS: Mapping[str, Callable[[Record], bool]] = {
    "routed": _is_routed,
    "learning": _learns,
    "medium": _has_medium,
    "nic": _has_nic,
    "mix": _has_mix,
    "firmware": _tells_firmware,
    "power": _manages_power,
    "vm": _has_vm,
    "veth": _has_port(PortKind.VETH),
    "user-space": _has_port(PortKind.VHOST_USER, PortKind.MEMIF),
    "vf": _has_port(PortKind.VF, PortKind.VF_PCI),
    "xdp": _uses_xdp,
}
"""The conditions under which some clauses apply. They hold for a record without the fact, so that a
clause stays open."""


# --- the records -------------------------------------------------------------------------------


def _label(axis: str) -> str:
    return AXES[field_name(axis)].label


def _values(records: Records, axis: str) -> list[Any]:
    """Return the distinct values of an axis, in order of the records."""
    return list(dict.fromkeys(getattr(record.test, field_name(axis)) for record in records))


def _values_other_than(
    records: Records, axis: str, fits: Callable[[Any], bool], wanted: str, word: str
) -> Iterator[str]:
    wrong = [value for value in _values(records, axis) if value is None or not fits(value)]
    if wrong:
        shown = ", ".join("none" if value is None else str(value) for value in wrong)
        yield f"{_label(axis)} {shown} {word} {wanted}"


def _is_behind(trial: TrialResult) -> bool:
    """Return whether senders did not send a hundredth of the frames or more."""
    return trial.tx_unsent > _UNSENT * (trial.tx_frames + trial.tx_unsent)


def _events(records: Records) -> list[tuple[Record, EventResult]]:
    """Return the events of all trials, with their records."""
    return [
        (record, event)
        for record in records
        for trial in record.trials
        for event in trial.evidence.events
    ]


def _goals(record: Record, name: str) -> list[Goal]:
    """Return the goals of that name, or a goal without any figure for a record without one."""
    goals = record.search.goals if record.search else ()
    return [goal for goal in goals if goal.goal == name] or [_NO_GOAL]


_NO_GOAL = Goal(goal="none", loss_ratio=0.0, rate_pps=None)


def _all_goals(record: Record) -> Sequence[Goal]:
    """Return all goals, or a goal without any figure for a record without one."""
    return (record.search.goals if record.search else ()) or (_NO_GOAL,)


def _loads(record: Record) -> list[Goal]:
    """Return the goals of search `frame-loss`, the highest load first."""
    goals = record.search.goals if record.search else ()
    return sorted(goals, key=lambda goal: goal.rate_pps or 0.0, reverse=True)


def _fact(record: Record, name: str, missing: object = None) -> Any:
    """Return a fact about the host, such as `bios.version`."""
    found: Any = record.origin.facts if record.origin else {}
    for part in name.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return missing
        found = found[part]
    return found


def _has(goal: Goal, member: str) -> bool:
    return getattr(goal, member) not in (None, ())


def _in(records: Sequence[Record]) -> str:
    """Return the frame sizes of some records, for the end of a sentence."""
    sizes = list(dict.fromkeys(str(record.test.frame_size) for record in records))
    return f" (frames of {', '.join(sizes)})"


def _because(whys: Iterable[str]) -> str:
    return f": {'; '.join(sorted(whys))}" if whys else ""
