"""This module says which tables the records of runs make for SQL: each view has columns, each with
the expression that it is read by and what it is.

The figures are those of `--json`: counts are added up here, and what takes more than that is
computed by the functions of `metrics`, which `report.query` makes known to DuckDB.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from switchmark.model.record import FlowCounts, Record, TrialResult, TrialSpec
from switchmark.model.search import Goal
from switchmark.model.test import AXES
from switchmark.model.units import mean_frame_bytes
from switchmark.report.schema import members_told
from switchmark.report.structure import HOST, structure


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a view has a name, the expression of SQL that it is read by, and words: its own,
    or those of a member of a model, whose source is read when they are asked for."""

    name: str
    sql: str
    words: str | tuple[type, str]

    @property
    def told(self) -> str:
        """Return the words."""
        if isinstance(self.words, str):
            return self.words
        model, member = self.words
        return members_told(model)[member]


@dataclass(frozen=True, slots=True)
class View:
    """A view is a table to ask: what a row is, the expression that rows are read from, and the
    columns."""

    row: str
    source: str
    columns: tuple[Column, ...]

    @property
    def sql(self) -> str:
        columns = ", ".join(f'{each.sql} as "{each.name}"' for each in self.columns)
        return f"select {columns} from {self.source}"


# --- tests -----------------------------------------------------------------------------------

_OUTCOME = ("status", "error", "semantics", "steering", "port", "memory", "engine_mode")
"""Members of a record that are columns. An axis of that name is `asked_` so: it may be `auto`."""

_ROLES = ("sender", "receiver", "client", "server", "forwarder", "function", "switch")
_LATENCY = "count min mean p50 p90 p99 p999 p9999 p99999 p999999 max".split()
_LOSSES = ("late", "duplicated", "reordered", "corrupted", "foreign", "stray")


def _of_run() -> Iterable[Column]:
    yield Column("run", "run", "the run: its folder's name, or path where two have one name")
    yield Column("number", "r.number", "the test's number in its run")
    yield Column("time", "r.started", "when the test began")


def _origin() -> Iterable[Column]:
    for name in HOST:
        yield Column(f"host_{name}", f"host_{name}", f"of the host, {name}")
    yield Column("switchmark_version", "versions['switchmark']", "the version of switchmark")
    yield Column("switch_version", "r.switch_version", "the version of the switch")
    yield Column("switch_mode", "r.switch_mode", "a variant of it that matters")
    yield Column("versions", "versions", "all versions that the figures depend on")


def _axes() -> Iterable[Column]:
    for name, axis in AXES.items():
        column = f"asked_{name}" if name in _OUTCOME else axis.json_name or name
        value = f'r.test."{name}"'
        if name == "frame_size":
            yield Column("frame_size", _usual(name, value), "frame size: bytes, or imix")
            value, column = f"try_cast({_usual(name, value)} as BIGINT)", "frame_bytes"
            yield Column(column, value, "frame size in bytes with the FCS; null of imix")
            continue
        yield Column(column, _usual(name, value), axis.help)
        if name == "rate":
            asked = "asked_pps(r.test.rate, r.test.line_rate, r.test.frame_size)"
            share = "r.test.rate like '%\\%' escape '\\' and len(r.trials) > 0"
            number = f"case when {share} then r.trials[1].spec.rate_pps else {asked} end"
            yield Column(axis.json_number, number, "rate in frames a second, per sender")


def _usual(name: str, value: str) -> str:
    """Return a value, or the axis' usual one where a record is from before the axis."""
    field = AXES[name].field
    if field.default_factory is not None:  # it depends on what is sent
        factory: Any = field.default_factory
        of_latency = factory({"dimension": "latency"})
        usual = f"if(r.test.dimension = 'latency', {of_latency}, {factory({})})"
    elif field.default is None:
        return value
    elif isinstance(field.default, str):
        usual = f"'{field.default}'"
    else:
        usual = f"'{field.default}'" if structure(field.annotation) == "VARCHAR" else field.default
    return f"coalesce({value}, {usual})"


def _outcome() -> Iterable[Column]:
    for name in _OUTCOME:
        yield Column(name, f"r.{name}", (Record, name))
    yield Column("placement_policy", "r.placement.policy", "the placement that was followed")
    yield Column("cpus", "r.placement.seats", "the CPUs of each part")
    yield Column("verdict", "coalesce(r.verdict, 'unknown')", (Record, "verdict"))
    bound = "r.status = 'ok' and r.verdict in ('sender', 'receiver')"
    yield Column("lower_bound", bound, "the rate bounds the traffic program")
    yield Column("doubts", "coalesce(r.doubts, [])", (Record, "doubts"))


def _frames() -> Iterable[Column]:
    yield Column("repeats", "len(coalesce(r.trials, []))", "trials that make the figure")
    yield Column("tx_frames", _total("tx_frames"), "frames sent")
    yield Column("tx_unsent_frames", _total("tx_unsent"), "frames for which there was no room")
    sent = f"{_total('tx_frames')} / ({_total('elapsed_ns')} / 1e9)"
    yield Column("tx_pps", sent, "frames sent a second")
    yield Column("rx_frames", _total("rx_frames"), "frames received, duplicates too")
    yield Column(
        "rx_pps", "list_median(rates)", "distinct frames received a second; R+ of a search"
    )
    size = f"if(r.test.frame_size = 'imix', {mean_frame_bytes('imix')}, r.test.frame_size::DOUBLE)"
    size = f"coalesce({size}, {AXES['frame_size'].default})"
    layer_2 = f"list_median(rates) * {size} * 8 / 1e9"
    layer_1 = f"list_median(rates) * ({size} + 20) * 8 / 1e9"
    yield Column("rx_gbps_l1", layer_1, "10^9 bit/s received, of the wire")
    yield Column("rx_gbps_l2", layer_2, "10^9 bit/s received, of frames")
    yield Column(
        "ci95_low_pps", "ci95[1]", "the 95 % interval of rx_pps; null below twelve repeats"
    )
    yield Column("ci95_high_pps", "ci95[2]", "its other end")
    yield Column("lost_frames", _total("lost"), "frames that did not arrive")
    lost = f"{_total('lost')} / nullif({_sum('t.tx_frames * coalesce(t.copies, 1)')}, 0)"
    yield Column("lost_ratio", lost, "lost frames of those sent")
    yield Column("lost_at", "figure(record, 'lost_at')", "the places of lost frames")
    unaccounted = "(figure(record, 'unaccounted'))::BIGINT"
    yield Column("unaccounted_frames", unaccounted, "lost frames without a place")
    for name in _LOSSES:
        yield Column(f"{name}_frames", _total(name), (TrialResult, name))
    yield Column("fairness", "(figure(record, 'fairness'))::DOUBLE", "Jain's index over the flows")


def _latency() -> Iterable[Column]:
    yield Column("latency_kind", "latency.kind", "rtt, or one-way by one clock")
    for name in _LATENCY:
        column = "latency_samples" if name == "count" else f"latency_{name}_ns"
        yield Column(column, f"latency.{name}", _words_of_latency(name))
    pdv = "latency.p999 - latency.min"
    yield Column("latency_pdv_ns", pdv, "packet delay variation (RFC 5481)")
    for name in ("p50", "p99"):
        column, value = f"latency_ipdv_{name}_ns", f"latency.ipdv.{name}"
        yield Column(column, value, "of frames sent in turn (RFC 5481)")
    yield Column("latency_ci95_low_ns", "latency_ci95[1]", "the 95 % interval of the median")
    yield Column("latency_ci95_high_ns", "latency_ci95[2]", "its other end")
    for name in ("p50", "p99"):
        value = f"(r.floor->>'$.{name}')::BIGINT"
        yield Column(f"latency_floor_{name}_ns", value, "of a cable instead of the switch")


def _words_of_latency(name: str) -> str:
    words = {"count": "frames whose latency is known", "min": "the smallest", "mean": "the mean"}
    digits = name[1:]
    percent = f"{digits[:2]}.{digits[2:]}".rstrip(".")
    return words.get(name) or ("the greatest" if name == "max" else f"the {percent}th percentile")


def _cost() -> Iterable[Column]:
    for role in _ROLES:
        yield Column(f"cpu_{role}_cores", _cores(role), f"cores that the {role} used")
    for name in ("softirq_cores", "switch_busy_cores", "total_cores", "mpps_per_core"):
        value = f"(figure(record, 'cost')->>'$.{name}')::DOUBLE"
        yield Column(name if name.endswith("core") else f"cpu_{name}", value, _COST[name])


def _cores(role: str) -> str:
    """Return the cores of a role over all trials; null where those of a part are not known."""
    of_role = f"list_filter(t.parts, lambda p: array_to_string(p.roles, '+') = '{role}')"
    each = f"list_transform({of_role}, lambda p: p.cores * t.elapsed_ns)"
    used = f"flatten(list_transform(r.trials, lambda t: {each}))"
    known = f"len({used}) > 0 and list_count({used}) = len({used})"
    return f"if({known}, list_sum({used}) / {_total('elapsed_ns')}, null)"


_COST = {
    "softirq_cores": "cores of the kernel's packet work on the whole host",
    "switch_busy_cores": "cores of the switch by its own cycle counter",
    "total_cores": "cores of all parts, and of the kernel beside them",
    "mpps_per_core": "10^6 frames received a second, for each core",
}


def _searched() -> Iterable[Column]:
    for goal in ("ndr", "pdr"):
        one = f"list_filter(r.search.goals, lambda g: g.goal = '{goal}')[1]"
        words = f"{goal.upper()}, frames a second per sender"
        yield Column(f"{goal}_pps", f"{one}.rate_pps", words)
        words = "the highest rate that met it: with the next column the precision of a search"
        yield Column(f"{goal}_low_pps", f"{one}.low_pps", words)
        yield Column(f"{goal}_high_pps", f"{one}.high_pps", "the lowest above that did not")
    r_plus = "coalesce(r.r_plus_pps, r.search.r_plus_pps)"
    yield Column("r_plus_pps", r_plus, "the R+ that loads are shares of")
    yield Column("search_trials", "r.search.trials", "trials that the search took")
    searches = "if(r.search is null, null, greatest(len(coalesce(r.search.results, [])), 1))"
    yield Column("searches", searches, "how often the test was searched")


def _set_up() -> Iterable[Column]:
    yield Column("nics", "r.nics", "NICs that were named by PCI address, as they were found")
    yield Column("reused", "coalesce(r.reused, false)", "the path was up already")
    for name in ("setup_s", "start_s", "teardown_s", "stop_s"):
        yield Column(name, f"r.{name}", (Record, name))
    yield Column("key", "r.key", "the hash of what the result belongs to")


def _sum(expression: str) -> str:
    each = f"list_transform(r.trials, lambda t: {expression})"
    return f"if(len(r.trials) > 0, list_sum({each}), null)::BIGINT"


def _total(name: str) -> str:
    return _sum(f"coalesce(t.{name}, 0)")


# --- what is less than a test ----------------------------------------------------------------

_FULL = "t.spec.rate_pps is null and t.spec.frames is null"
_IN_PHASE = f"- if({_FULL}, coalesce(t.evidence.after_end, 0), 0)"
_WHOLE = f"(t.rx_frames - coalesce(t.duplicated, 0) {_IN_PHASE}) * 1e9 / t.elapsed_ns"
_INTERVALS = "t.intervals::VARCHAR, t.elapsed_ns, coalesce(t.interval_ns, 100000000)"
_RATE = f"coalesce(if(r.test.search = 'max', steady_pps({_INTERVALS}), null), {_WHOLE})"


def _of_trial(*, finished: bool) -> Iterable[Column]:
    yield Column("repeat", "coalesce(t.spec.repeat, 1)", (TrialSpec, "repeat"))
    yield Column("asked_pps", "t.spec.rate_pps", "rate that was asked for; null for max")
    yield Column("duration_s", "t.spec.duration_s", "seconds that were asked for")
    yield Column("warmup_s", "t.spec.warmup_s", "seconds of traffic before them")
    yield Column("elapsed_ns", "t.elapsed_ns", (TrialResult, "elapsed_ns"))
    for name in ("tx_frames", "tx_unsent", "rx_frames", "rx_bytes", "lost", *_LOSSES):
        column = name if name.startswith(("tx_f", "rx_")) else f"{name}_frames"
        yield Column(column, f"coalesce(t.{name}, 0)", (TrialResult, name))
    if not finished:
        yield Column("rx_pps", "rate", "distinct frames received a second; R+ of a search")
    yield Column("whole_pps", _WHOLE, "the same of the whole trial")
    yield Column("lost_at", "t.lost_at", (TrialResult, "lost_at"))
    yield Column("interval_ns", "coalesce(t.interval_ns, 100000000)", (TrialResult, "interval_ns"))
    intervals = "coalesce(t.intervals, '[]')::BIGINT[]"
    yield Column("intervals", intervals, (TrialResult, "intervals"))
    for name in _LATENCY:
        column = "latency_samples" if name == "count" else f"latency_{name}_ns"
        yield Column(column, f"t.latency.{name}", _words_of_latency(name))
    yield Column(
        "latency_histogram", "t.latency.histogram", "HdrHistogram's V2 compressed encoding"
    )
    yield Column("parts", "coalesce(t.parts, [])", (TrialResult, "parts"))
    yield Column("verdict", "coalesce(t.verdict, 'unknown')", (TrialResult, "verdict"))
    yield Column("doubts", "coalesce(t.doubts, [])", (TrialResult, "doubts"))


def _of_flow() -> Iterable[Column]:
    for name in ("flow", "tx", "rx", "lost", "duplicated", "reordered", "corrupted"):
        column = name if name == "flow" else f"{name}_frames"
        value = f"f.{name}" if name == "flow" else f"coalesce(f.{name}, 0)"
        yield Column(column, value, (FlowCounts, name))
    yield Column("rx_pps", "f.rx * 1e9 / t.elapsed_ns", "distinct frames received a second")
    for name in _LATENCY:
        column = "latency_samples" if name == "count" else f"latency_{name}_ns"
        yield Column(column, f"f.latency.{name}", _words_of_latency(name))


def _of_goal() -> Iterable[Column]:
    for name in Goal.model_fields:
        if name != "latency_ns":
            yield Column(name, f"g.{name}", (Goal, name))
    for name in _LATENCY:
        column = "latency_samples" if name == "count" else f"latency_{name}_ns"
        yield Column(column, f"g.latency_ns.{name}", _words_of_latency(name))


# --- the views -------------------------------------------------------------------------------

_SAMPLED = "list_filter(r.trials, lambda t: t.latency.count > 0)"
_P50 = "list_transform(r.trials, lambda t: t.latency.p50::DOUBLE)"


def _by_repeat(values: str) -> str:
    """Return a list of values of trials as one of repeats: of a search the median of each."""
    number = "coalesce(r.trials[i].spec.repeat, 1)"
    own = f"list_filter({values}, lambda v, i: {number} = repeat)"
    numbers = (
        "list_sort(list_distinct(list_transform(r.trials, lambda t: coalesce(t.spec.repeat, 1))))"
    )
    searched = "r.search is not null and r.search.trials > len(coalesce(r.trials, []))"
    each = f"list_transform({numbers}, lambda repeat: list_median({own}))"
    return f"if({searched}, {each}, {values})"


_LATENCIES = "to_json(list_transform(r.trials, lambda t: t.latency))"
_MEDIANS = f"list_filter({_by_repeat(_P50)}, lambda p: p is not null)"
_TRIALS = (
    "(select run, r, unnest(r.trials) as t, generate_subscripts(r.trials, 1) as n"
    " from stored.records)"
)


def _tests() -> str:
    """Return what tests are read from: records, with the figures that several columns share."""
    usual = {name: "DOUBLE" if name == "mean" else "BIGINT" for name in _LATENCY}
    structure = {"kind": "VARCHAR", **usual, "ipdv": {"p50": "BIGINT", "p99": "BIGINT"}}
    one = f"{_SAMPLED}[1].latency"
    members = [f"{name}: {one}.{name}" for name in structure if name != "ipdv"]
    members.append(f"ipdv: {{p50: {one}.ipdv.p50, p99: {one}.ipdv.p99}}")
    several = f"from_json(latency_of({_LATENCIES}), '{json.dumps(structure)}')"
    latency = (
        f"case len({_SAMPLED}) when 1 then {{{', '.join(members)}}}"
        f" else if(len({_SAMPLED}) > 1, {several}, null) end"
    )
    rates = f"list_transform(coalesce(r.trials, []), lambda t: {_RATE})"
    ci95 = f"median_interval({_by_repeat('rates')}) as ci95"
    return (
        f"(select *, {ci95}, median_interval({_MEDIANS}) as latency_ci95,"
        f" {latency} as latency from (select *, {rates} as rates from stored.records))"
    )


def _views() -> Iterable[tuple[str, View]]:
    run = Column("run", "run", "the run: its folder's name, or path where two have one name")
    test = (run, Column("number", "r.number", "the test's number in its run"))
    trial = (*test, Column("trial", "n", "the trial's number in its test"))
    parts = (_of_run, _outcome, _axes, _frames, _latency, _cost, _searched, _set_up, _origin)
    columns = tuple(column for part in parts for column in part())
    yield "tests", View("a finished test", _tests(), columns)
    rates = f"(select *, {_RATE} as rate from {_TRIALS})"
    columns = (*trial, *_of_trial(finished=False))
    yield "trials", View("a trial that makes a figure", rates, columns)
    flows = f"(select *, unnest(t.per_flow) as f from {_TRIALS})"
    yield "flows", View("a flow of such a trial", flows, (*trial, *_of_flow()))
    goals = "(select run, r, unnest(r.search.goals) as g from stored.records)"
    yield "goals", View("what a search found", goals, (*test, *_of_goal()))
    once = "[{trials: r.search.trials, r_plus_pps: r.search.r_plus_pps, goals: r.search.goals}]"
    each = f"if(len(coalesce(r.search.results, [])) > 0, r.search.results, {once})"
    repeats = (
        f"(select run, r, s, n, unnest(s.goals) as g from (select run, r, unnest({each}) as s,"
        f" generate_subscripts({each}, 1) as n from stored.records where r.search is not null))"
    )
    repeat = Column("repeat", "n", "the repeat of the search, from 1")
    columns = (*test, repeat, *_of_goal())
    yield "searches", View("what each repeat of a search found", repeats, columns)
    number = Column("number", "number", "its test's number in its run")
    columns = (run, number, *_of_trial(finished=True))
    yield "all_trials", View("a finished trial, a search's too", "stored.trials", columns)
    whole = (
        Column("record", "record", "all of it, as it is stored"),
        Column("versions", "versions", "all versions that the figures depend on"),
    )
    yield "records", View("a finished test as JSON", "stored.records", (*test, *whole))


VIEWS: Mapping[str, View] = dict(_views())
"""By name."""
