"""The named metrics of a record, with their units, descriptions and values by test and by trial.

Reports, plots and claims look up metrics by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fractions import Fraction
from functools import cache, partial
from statistics import median, stdev

from switchmark.errors import UsageError
from switchmark.metrics.cpu import CPUS, cores_by_role, cores_in_all, cost
from switchmark.metrics.distribution import percentile_ns, stdev_ns
from switchmark.metrics.latency import merged
from switchmark.metrics.loss import loss_bound
from switchmark.metrics.outage import Outage, outage_of, recovery_s
from switchmark.metrics.profile import merged as merged_profile
from switchmark.metrics.repeats import FIGURES, Figure
from switchmark.metrics.searched import searches_of
from switchmark.metrics.soak import first_loss_of, latency_drift_of, worst_loss_of
from switchmark.metrics.statistics import median_interval
from switchmark.metrics.throughput import MIN_REPEATS, is_of_search, loss_ratio, rates_pps, sent
from switchmark.model.cost import Shares
from switchmark.model.latency import Latency
from switchmark.model.record import Record, TrialResult
from switchmark.model.units import gbps_l1, gbps_l2, mean_frame_bytes

_PERCENTILE = re.compile(r"latency\.p(\d+(?:\.\d+)?)_us")
_SYMBOL = "profile.symbol."
_SPREAD = 3
"""The least number of values for a standard deviation."""
_ROLES = ("sender", "receiver", "client", "server", "forwarder", "function", "switch")

PATTERNS = {
    "latency.pNN_us": ("us", "any percentile, such as latency.p45_us, latency.p99.9_us"),
    "profile.symbol.NAME": ("1", "as profile.kernel, of one function: profile.symbol.__switch_to"),
}
"""Name patterns for families of metrics: unit and description."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure of a test."""

    name: str
    """The name, as in exports and queries."""
    unit: str
    """The unit; empty for a ratio or a count."""
    description: str
    """The description, for the reference."""
    of: Callable[[Record], float | None]
    """Returns the value of a test, or None if it is unknown. With enough trials for an interval,
    the value is their median."""
    samples: Callable[[Record], list[float]]
    """Returns the values of the trials in order, without trials that lack the figure; empty for a
    figure that only a test has."""

    def interval(self, record: Record) -> tuple[float, float] | None:
        """Return the 95 % confidence interval of the median over the repeats (trials or whole
        searches); None for too few repeats."""
        values = self.repeats(record)
        return median_interval(values) if len(values) >= MIN_REPEATS else None

    def repeats(self, record: Record) -> list[float]:
        """Return the value of each repeat, a trial or a whole search."""
        if not is_of_search(record):
            return self.samples(record)
        by_search = map(self.samples, searches_of(record))
        return [median(of_search) for of_search in by_search if of_search]


def metric(name: str) -> Metric:
    """Return the metric of that name. Raise UsageError with the closest name if there is none."""
    if name in METRICS:
        return METRICS[name]
    if match := _PERCENTILE.fullmatch(name):
        percent = Fraction(match[1])
        if 0 < percent < 100:
            return _percentile(name, match[1])
        raise UsageError(
            f"{name}: a percentile lies between 0 and 100",
            hint="latency.min_us and latency.max_us are the ends; latency.p99.9_us is 99.9 %",
        )
    if name.startswith(_SYMBOL) and (symbol := name.removeprefix(_SYMBOL)):
        return _of_symbol(name, symbol)
    near = get_close_matches(name, [*METRICS, *PATTERNS], n=1, cutoff=0.4)
    raise UsageError(
        f"there is no metric named '{name}'\n  known: {', '.join([*METRICS, *PATTERNS])}",
        hint=f"did you mean {near[0]}?" if near else None,
    )


# --- comparison ------------------------------------------------------------------------------

_COMPARED = {
    "rx.pps": ("rate", 1.0),
    "rx.kpps": ("rate", 1e-3),
    "rx.mpps": ("rate", 1e-6),
    "latency.p50_us": ("latency", 1e-3),
    "latency.p90_us": ("latency-p90", 1e-3),
    "latency.p99_us": ("latency-p99", 1e-3),
    "latency.p99.9_us": ("latency-p999", 1e-3),
    "loss_ratio": ("loss", 1.0),
    "outage.s": ("outage", 1e-9),
}
"""The metrics that correspond to a figure of comparison, with the factor from the figure's unit to
the metric's unit."""


@cache
def figure_of(name: str, *, less: bool = False) -> Figure:
    """Return the figure by which a metric is compared: as a ratio if it is never 0, or as a
    difference with `less`. Raise UsageError for an unknown name."""
    chosen = metric(name)
    if name in _COMPARED and not less:
        return FIGURES[_COMPARED[name][0]]

    def of_trials(record: Record) -> list[float | None]:
        samples = (
            chosen.samples(record.model_copy(update={"trials": (t,)})) for t in record.trials
        )
        return [values[0] if values else None for values in samples]

    has_side = name == "loss_ratio" or name.startswith("latency.")
    if less or name.startswith("profile.") or name.endswith("_load"):
        return Figure(f"{name} less" if less else name, "share", of_trials, not has_side)
    if name.startswith("rx.") and "stdev" not in name:
        return Figure(name, "pps", of_trials)
    return Figure(name, "amount", of_trials, not has_side)


def scale_of(name: str) -> float:
    """Return the factor from the unit of a metric's figure to the metric's unit."""
    return _COMPARED[name][1] if name in _COMPARED else 1.0


# --- rates -----------------------------------------------------------------------------------

_SCALES: dict[str, tuple[str, Callable[[float, Record], float]]] = {
    "pps": ("frames/s", lambda pps, _: pps),
    "kpps": ("kpps", lambda pps, _: pps / 1e3),
    "mpps": ("Mpps", lambda pps, _: pps / 1e6),
    "gbps_l1": ("Gbps L1", lambda pps, r: gbps_l1(pps, mean_frame_bytes(r.test.frame_size))),
    "gbps_l2": ("Gbps L2", lambda pps, r: gbps_l2(pps, mean_frame_bytes(r.test.frame_size))),
}


def _rates() -> Iterable[Metric]:
    for suffix, (unit, scaled) in _SCALES.items():
        yield _of_rates(f"rx.{suffix}", unit, "received, the median of the trials", scaled)
        yield _of_sent(f"tx.{suffix}", unit, "sent by all senders", scaled)
        description = "offered by all senders: sent, or to be sent and without room"
        yield _by_trials(f"offered.{suffix}", unit, description, partial(_offered, scaled))
        if not suffix.startswith("gbps"):
            description = "standard deviation of the received rate"
            within = f"{description}, from interval to interval of a trial"
            yield _of_spread(f"rx.stdev_{suffix}", unit, within, scaled)
            yield Metric(
                f"rx.trials_stdev_{suffix}",
                unit,
                f"{description}, from trial to trial",
                partial(_between_trials, scaled),
                _no_samples,
            )
    description = "received rate per copy, if a switch makes several"
    yield _of_rates(
        "rx.mpps_per_copy", "Mpps", description, lambda pps, r: pps / 1e6 / r.test.copies
    )


def received(record: Record) -> dict[str, float] | None:
    """Return the median received rate of the trials in frames per second and in bits per second of
    L1 and L2, by the suffix of the metric's name."""
    pps = _median(rates_pps(record))
    if pps is None:
        return None
    return {name: _SCALES[name][1](pps, record) for name in ("pps", "gbps_l1", "gbps_l2")}


def _of_rates(
    name: str, unit: str, description: str, scaled: Callable[[float, Record], float]
) -> Metric:
    def samples(record: Record) -> list[float]:
        return [scaled(pps, record) for pps in rates_pps(record)]

    return Metric(name, unit, description, lambda record: _median(samples(record)), samples)


def _of_sent(
    name: str, unit: str, description: str, scaled: Callable[[float, Record], float]
) -> Metric:
    def of(record: Record) -> float | None:
        tx = sent(record)
        return None if tx is None else scaled(float(tx["pps"]), record)

    def samples(record: Record) -> list[float]:
        return [scaled(t.tx_frames * 1e9 / t.elapsed_ns, record) for t in record.trials]

    return _as_its_samples(Metric(name, unit, description, of, samples))


def _offered(scaled: Callable[[float, Record], float], record: Record) -> float:
    frames = sum(trial.tx_frames + trial.tx_unsent for trial in record.trials)
    return scaled(frames * 1e9 / sum(trial.elapsed_ns for trial in record.trials), record)


def _of_spread(
    name: str, unit: str, description: str, scaled: Callable[[float, Record], float]
) -> Metric:
    def samples(record: Record) -> list[float]:
        spreads = (_spread_pps(trial) for trial in record.trials)
        return [scaled(spread, record) for spread in spreads if spread is not None]

    return Metric(name, unit, description, lambda record: _median(samples(record)), samples)


def _spread_pps(trial: TrialResult) -> float | None:
    """Return the standard deviation of the rate over the intervals, without the first and the last
    interval because these may be incomplete."""
    within = trial.intervals[: trial.elapsed_ns // trial.interval_ns][1:-1]
    return stdev(within) * 1e9 / trial.interval_ns if len(within) >= _SPREAD else None


def _between_trials(scaled: Callable[[float, Record], float], record: Record) -> float | None:
    rates = rates_pps(record)
    return scaled(stdev(rates), record) if len(rates) >= _SPREAD else None


# --- latency ---------------------------------------------------------------------------------


def _latencies() -> Iterable[Metric]:
    yield _of_latency("latency.mean_us", "mean latency", lambda latency: latency.mean)
    yield _of_latency("latency.min_us", "smallest latency", lambda latency: latency.min)
    yield _of_latency("latency.max_us", "greatest latency", lambda latency: latency.max)
    yield _of_latency("latency.stdev_us", "standard deviation of the latency", stdev_ns)


def _percentile(name: str, percent: str) -> Metric:
    description = f"latency that {percent} % of the frames do not exceed"
    return _of_latency(name, description, lambda latency: percentile_ns(latency, Fraction(percent)))


def _of_latency(name: str, description: str, read: Callable[[Latency], float | None]) -> Metric:
    def of(record: Record) -> float | None:
        whole = merged([trial.latency for trial in record.trials if trial.latency])
        ns = None if whole is None else read(whole)
        return None if ns is None else ns / 1e3

    def samples(record: Record) -> list[float]:
        values = (read(t.latency) for t in record.trials if t.latency and t.latency.count)
        return [ns / 1e3 for ns in values if ns is not None]

    return _as_its_samples(Metric(name, "us", description, of, samples))


# --- other metrics ---------------------------------------------------------------------------


def _by_trials(
    name: str, unit: str, description: str, of: Callable[[Record], float | None]
) -> Metric:
    """Return a metric that has the same definition for one trial as for all of them."""

    def samples(record: Record) -> list[float]:
        samples = (of(record.model_copy(update={"trials": (t,)})) for t in record.trials)
        return [value for value in samples if value is not None]

    whole = Metric(name, unit, description, lambda r: of(r) if r.trials else None, samples)
    return _as_its_samples(whole)


def _as_its_samples(whole: Metric) -> Metric:
    """Return a metric whose value is the median over the trials, consistent with its interval.

    With too few trials for an interval, the value covers all trials together. The two may differ:
    the standard deviation of all frames of all trials is not the centre of the trials' standard
    deviations.
    """

    def of(record: Record) -> float | None:
        samples = whole.samples(record) if len(record.trials) >= MIN_REPEATS else []
        return median(samples) if len(samples) >= MIN_REPEATS else whole.of(record)

    return replace(whole, of=of)


def _cores() -> Iterable[Metric]:
    description = "cores used by all parts and by the kernel"
    yield _by_trials("cpu.total", "cores", description, lambda record: cores_in_all(record.trials))
    for role in _ROLES:
        description = f"cores that the parts in the role of {role} used"
        yield _by_trials(f"cpu.{role}", "cores", description, partial(_cores_of, role))


def _cores_of(role: str, record: Record) -> float | None:
    return cores_by_role(record).get(role)


def _costs() -> Iterable[Metric]:
    for counter, unit, description in (
        ("cycles", "cycles/frame", "cycles"),
        ("instructions", "instructions/frame", "instructions"),
        ("cache_misses", "misses/frame", "misses of the last cache"),
    ):
        yield _by_trials(
            f"cost.{counter}_per_frame",
            unit,
            f"{description} of all parts for each frame received",
            partial(_per_frame, counter),
        )

    for name, description in (
        ("scheduler_load", "share of the time that the test's CPUs worked, by the scheduler"),
        ("cycles_load", "share of the time that the test's CPUs worked, by reference cycles"),
    ):
        yield _by_trials(f"cost.{name}", "", description, partial(_cost_of, name))


def _cost_of(name: str, record: Record) -> float | None:
    return getattr(cost(record), name, None)


def _per_frame(counter: str, record: Record) -> float | None:
    """Return a count of the processor for all parts per frame received; None if a part has no
    count. For a switch in the kernel, the count covers all CPUs of the test, which includes the
    parts."""
    total = frames = 0
    for trial in record.trials:
        parts = trial.cost.perf.parts if trial.cost else {}
        whole = {CPUS: parts[CPUS]} if CPUS in parts else parts
        counts = [getattr(part, counter) for part in whole.values()]
        if not counts or None in counts:
            return None
        total, frames = total + sum(counts), frames + trial.distinct
    return total / frames if frames else None


def _profiled() -> Iterable[Metric]:
    """Yield the shares of the groups of functions that `machine.profile` distinguishes."""
    for group, subject in {
        "kernel": "all functions of the kernel",
        "user": "all that is not the kernel's",
        "guest": "what virtual machines ran",
        "context_switch": "the scheduler's functions, context switches among them",
        "virtual_queues": "the queues of virtio, vhost, tun, tap and veth",
        "sending": "sending frames by a queueing discipline and a driver",
        "user_copy": "copies from and to user space",
        "locks": "taking and waiting for locks",
        "buffers": "making and freeing frames' memory",
        "softirq": "the kernel's deferred packet work",
        "system_calls": "the ways into and out of the kernel",
        "network": "the rest of the network's functions",
    }.items():
        value = partial(_share_of, group)
        description = f"share of the busy time of the test's CPUs: {subject}"
        yield _by_trials(f"profile.{group}", "", description, value)


def _shares(record: Record) -> Shares | None:
    profile = merged_profile([trial.cost.profile for trial in record.trials if trial.cost])
    return profile.whole if profile else None


def _share_of(group: str, record: Record) -> float | None:
    whole = _shares(record)
    if whole is None or not whole.samples:
        return None
    if group == "kernel":
        return 1 - whole.groups.get("user", 0.0) - whole.groups.get("guest", 0.0)
    return whole.groups.get(group, 0.0)


def _of_symbol(name: str, symbol: str) -> Metric:
    def of(record: Record) -> float | None:
        whole = _shares(record)
        return whole.symbols.get(symbol, 0.0) if whole and whole.samples else None

    description = f"share of the busy time of the test's CPUs: {symbol} (0 is below 0.1 %)"
    return _by_trials(name, "", description, of)


def _outages() -> Iterable[Metric]:
    for name, description, read in (
        ("s", "outage after an event", lambda outage: outage.s),
        ("by_loss_s", "outage: lost frames over the rate", lambda outage: outage.by_loss_s),
        ("by_time_s", "outage: time without arrivals", lambda outage: outage.by_time_s),
        ("began_s", "beginning of the outage, from the event", lambda outage: outage.began_s),
        ("ended_s", "end of the outage, from the event", lambda outage: outage.ended_s),
    ):
        yield _of_outage(f"outage.{name}", description, partial(_outage_value, read))
    description = "time from an event until p99 is again within 10 % of its value before"
    yield _of_outage("outage.recovery_s", description, recovery_s)


def _outage_value(read: Callable[[Outage], float | None], trial: TrialResult) -> float | None:
    outage = outage_of(trial)
    return None if outage is None else read(outage)


def _of_outage(
    name: str, description: str, of_trial: Callable[[TrialResult], float | None]
) -> Metric:
    def samples(record: Record) -> list[float]:
        return [value for value in map(of_trial, record.trials) if value is not None]

    return Metric(name, "s", description, lambda record: _median(samples(record)), samples)


def _recoveries(record: Record) -> list[float]:
    """Return the recovery time of each repeat of search `recovery` that has one."""
    found = record.search.repeats if record.search else ()
    return [goal.recovery_s for one in found for goal in one.goals if goal.recovery_s is not None]


def _losses(record: Record) -> float | None:
    return loss_ratio(record.trials)


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def _no_samples(record: Record) -> list[float]:
    del record
    return []


METRICS: dict[str, Metric] = {
    defined.name: defined
    for defined in (
        *_rates(),
        _by_trials("loss_ratio", "", "share of lost frames in those sent", _losses),
        Metric(
            "loss_bound",
            "",
            "95 % upper bound of the loss ratio that all trials together show",
            loss_bound,
            _no_samples,
        ),
        *_latencies(),
        *_cores(),
        *_costs(),
        *_profiled(),
        *_outages(),
        Metric(
            "series.first_loss_s",
            "s",
            "due time of the first lost frame, from the start of its trial (interval)",
            first_loss_of,
            _no_samples,
        ),
        Metric(
            "series.worst_loss_ratio",
            "",
            "highest loss ratio of an interval (interval)",
            worst_loss_of,
            _no_samples,
        ),
        Metric(
            "series.p999_drift_us_per_hour",
            "us/h",
            "drift of the 99.9th percentile of the latency in the first trial (interval)",
            latency_drift_of,
            _no_samples,
        ),
        Metric(
            "recovery.s",
            "s",
            "time from the end of an overload to the last loss (search recovery)",
            lambda record: _median(_recoveries(record)),
            _recoveries,
        ),
    )
}
"""All metrics with a fixed name."""
