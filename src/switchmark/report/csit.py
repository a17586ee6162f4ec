"""Results in the format of FD.io CSIT, version 1.5.1 of its model
(resources/model_schema/test_case.schema.yaml in CSIT): a JSON document for each test.

Figures without a member in that format are OpenMetrics lines in `telemetry`, the only list of texts
in the format. CSIT gives latency in microseconds, at 10, 50 and 90 % of PDR.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from statistics import mean, pstdev
from typing import Any

from switchmark.metrics.latency import counts_of, merged, value_at
from switchmark.metrics.throughput import rates_pps
from switchmark.model.latency import Latency
from switchmark.model.record import Record, TrialResult
from switchmark.model.test import AXES
from switchmark.model.units import gbps_l1, mean_frame_bytes
from switchmark.report.json import to_object

VERSION = "1.5.1"

_LOADS = {"pdr_0": 0.0, "pdr_10": 0.1, "pdr_50": 0.5, "pdr_90": 0.9}
_LEAST_PPS = 9000.0
"""The rate per direction that stands for zero load in CSIT, and the lowest load."""

_NEAR = 0.05
"""The relative distance up to which a trial counts as a trial at a load."""

_HIGHEST_US = 100_000_000

Document = dict[str, Any]


def as_csit(record: Record, others: Sequence[Record] = ()) -> Document:
    """Return a test as a document. `others` are tests that may provide its latency at loads."""
    start = _start(record)
    spent_s = sum(_spent_s(trial) for trial in record.trials)
    passed = record.status == "ok"
    result = _result(record, others)
    name = _name(record)
    nic = _word(record.port or "none")
    frame, cores = _word(_frame(record)), f"{record.test.switch_core_count}c"
    suite = _word(f"{record.test.scenario}-{record.test.switch}")
    return {
        "duration": round(spent_s, 6),
        "dut_type": record.test.switch,
        "dut_version": record.switch_version or "unknown",
        "end_time": _written(start + timedelta(seconds=spent_s)),
        "hosts": [_host(record)],
        "telemetry": list(_telemetry(record, start)),
        "message": "" if passed else record.error or record.status,
        "passed": passed,
        "result": result,
        "start_time": _written(start),
        "tags": list(_tags(record)),
        "test_documentation": "",
        "test_id": f"switchmark.{suite}.{name}",
        "test_name_long": f"{nic}-{frame}-{cores}-{suite}",
        "test_name_short": suite,
        "test_type": _type(record),
        "tg_type": "switchmark",
        "tg_version": _versions(record).get("switchmark", "unknown"),
        "version": VERSION,
    }


def file_name(record: Record) -> str:
    """Return the name of a test's file in the folder of its run."""
    return f"{_name(record)}.info.json"


# --- results ---------------------------------------------------------------------------------


def _type(record: Record) -> str:
    searches = ("ndr", "pdr", "mlr", "mlr:csit")
    return "ndrpdr" if record.test.search in searches else "mrr"


def _result(record: Record, others: Sequence[Record]) -> Document:
    """Return the result: `ndrpdr` for a search that found both rates, `mrr` for trials at full
    load, else `unknown`, which has its figures in telemetry only."""
    goals = {goal.goal: goal for goal in record.search.goals} if record.search else {}
    lower = {name: goals[name].rate_pps for name in ("ndr", "pdr") if name in goals}
    if len(lower) == 2 and None not in lower.values():
        result: Document = {"type": "ndrpdr"}
        for name in ("ndr", "pdr"):
            result[name] = {"lower": _rate(record, goals[name].rate_pps)}
            if goals[name].high_pps is not None:
                result[name]["upper"] = _rate(record, goals[name].high_pps)
        latency = _latency_by_load(record, lower["pdr"] or 0.0, others)
        return result | ({"latency_forward": latency} if latency else {})
    if record.trials and record.test.search in ("max", "fixed") and record.test.rate == "max":
        rates = rates_pps(record)
        size = mean_frame_bytes(record.test.frame_size)
        bits = [gbps_l1(rate, size) * 1e9 for rate in rates]
        return {
            "type": "mrr",
            "receive_rate": {"rate": _list(rates, "pps"), "bandwidth": _list(bits, "bps")},
        }
    return {"type": "unknown"}


def _rate(record: Record, pps: float | None) -> Document:
    """Return the rate of one sender as the sum over all senders, as in CSIT."""
    senders = record.test.pairs * (2 if record.test.direction == "bi" else 1)
    total_pps = (pps or 0.0) * senders
    bits = gbps_l1(total_pps, mean_frame_bytes(record.test.frame_size)) * 1e9
    return {
        "rate": {"value": total_pps, "unit": "pps"},
        "bandwidth": {"value": bits, "unit": "bps"},
    }


def _list(values: Sequence[float], unit: str) -> Document:
    return {
        "values": list(values),
        "avg": mean(values),
        "stdev": pstdev(values),
        "unit": unit,
    }


def _latency_by_load(record: Record, pdr_pps: float, others: Sequence[Record]) -> Document | None:
    """Return the latency at CSIT's loads, from trials of tests with the same path; None if a load
    has no trial near it."""
    if record.test.direction != "uni":
        return None
    trials = [
        trial
        for other in others
        if _path(other) == _path(record)
        for trial in other.trials
        if trial.latency and trial.latency.kind == "one-way" and trial.spec.rate_pps
    ]
    by_load: Document = {}
    for name, share in _LOADS.items():
        load_pps = max(share * pdr_pps, _LEAST_PPS)
        near = [
            trial.latency
            for trial in trials
            if abs((trial.spec.rate_pps or 0) - load_pps) <= _NEAR * load_pps and trial.latency
        ]
        numbers = _numbers(merged(near))
        if numbers is None:
            return None
        by_load[name] = numbers
    return by_load


def _path(record: Record) -> Mapping[str, Any]:
    """Return the axes of the set-up and the traffic, without those of load and method."""
    left_out = ("method", "load")
    return {
        name: getattr(record.test, name)
        for name, axis in AXES.items()
        if axis.of not in left_out and name != "dimension"
    } | {"frame_size": record.test.frame_size}


def _numbers(latency: Latency | None) -> Document | None:
    """Return a latency in microseconds with its histogram; None without a histogram."""
    if latency is None or latency.histogram is None:
        return None
    return {
        "min": _us(latency.min),
        "max": max(_us(latency.max), 1),
        "avg": _us(latency.mean),
        "hdrh": _in_us(latency.histogram),
        "unit": "us",
    }


def _us(ns: float) -> int:
    return round(ns / 1e3)


def _in_us(histogram: str) -> str:
    """Return a stored histogram of nanoseconds as a histogram of microseconds, with values of at
    least 1."""
    from hdrh.histogram import HdrHistogram

    counted: dict[int, int] = {}
    for index, times in counts_of(histogram).items():
        middle = (value_at(index) + value_at(index + 1) - 1) / 2
        us = min(max(_us(middle), 1), _HIGHEST_US)
        counted[us] = counted.get(us, 0) + times
    encoded = HdrHistogram(1, _HIGHEST_US, 3)
    for us, times in counted.items():
        encoded.record_value(us, times)
    return str(encoded.encode().decode())


# --- telemetry -------------------------------------------------------------------------------


def _telemetry(record: Record, start: datetime) -> Iterator[str]:
    """Yield OpenMetrics lines: the figures, doubts and limits of a test."""
    content = to_object(record)
    time = f"{start.timestamp():.3f}"

    def line(name: str, value: float | None, **labels: object) -> Iterable[str]:
        if value is not None and math.isfinite(value):
            pairs = ",".join(f'{label}="{_label(str(text))}"' for label, text in labels.items())
            yield f"switchmark_{name}{{{pairs}}} {value + 0!r} {time}"

    verdict = {"verdict": content["verdict"], "lower_bound": content["lower_bound"]}
    texts = ("status", "semantics", "port", "switch_mode")
    yield from line("test", 1, **{name: getattr(record, name) or "" for name in texts})
    for axis, setting in record.test.model_dump(mode="json").items():
        if setting != AXES[axis].default:
            yield from line("axis", 1, axis=axis, setting=json.dumps(setting))
    yield from line("verdict", 1, **verdict)
    for doubt in content["doubts"]:
        yield from line("doubt", 1, doubt=doubt)
    for name in ("tx", "rx"):
        for unit, value in (content[name] or {}).items():
            yield from line(f"{name}_{unit}", value)
    for name in ("lost", "unaccounted"):
        yield from line(f"{name}_frames", content[name])
    for role, cores in content["cpu"].items():
        yield from line("cpu_cores", cores, role=role)
    for end, value in zip(("low", "high"), content["ci95_pps"] or (), strict=False):
        yield from line("rx_pps_ci95", value, end=end)
    for goal in record.search.goals if record.search else ():
        for name, value in goal.model_dump(exclude={"latency_ns"}).items():
            if isinstance(value, int | float):
                yield from line(f"goal_{name}", value, goal=goal.goal)
        latency = goal.latency_ns.model_dump() if goal.latency_ns else {}
        for name, value in latency.items():
            if isinstance(value, int | float):
                labels = {"goal": goal.goal, "kind": latency["kind"]}
                yield from line(f"goal_latency_ns_{name}", value, **labels)
    for number, rate_pps in enumerate(rates_pps(record), 1):
        yield from line("trial_rx_pps", rate_pps, trial=number)
    for number, trial in enumerate(record.trials, 1):
        numbers = _numbers(trial.latency)
        if numbers is not None and trial.latency is not None:
            rate = trial.spec.rate_pps or "max"
            yield from line(
                "latency_samples",
                trial.latency.count,
                trial=number,
                rate_pps=rate,
                kind=trial.latency.kind,
                **{name: numbers[name] for name in ("min", "avg", "max", "unit", "hdrh")},
            )


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _tags(record: Record) -> Iterator[str]:
    """Yield the tags that select tests in CSIT: the type of test, and the set-up."""
    yield _type(record).upper()
    test = record.test
    path = (test.scenario, test.direction, test.switch, test.environment, test.engine)
    for value in (test.dimension, *path):
        yield _word(value).upper()
    yield _frame(record).upper()
    yield f"{test.switch_core_count}C"


# --- names and times -------------------------------------------------------------------------


def _name(record: Record) -> str:
    test = record.test
    parts = (
        _frame(record),
        f"{test.switch_core_count}c",
        test.scenario,
        test.switch,
        _type(record),
    )
    return _word(f"{record.number:04d}-{'-'.join(parts)}")


def _frame(record: Record) -> str:
    size = record.test.frame_size
    return size if isinstance(size, str) else f"{size}b"


def _word(text: str) -> str:
    return re.sub(r"[^a-z0-9_.+-]+", "_", text.lower())


def _versions(record: Record) -> Mapping[str, str]:
    return record.origin.versions if record.origin else {}


def _host(record: Record) -> str:
    """Return a description of the host. Records have neither its address nor its name."""
    facts = record.origin.host if record.origin else {}
    parts = [str(facts[name]) for name in ("cpu_model", "kernel") if facts.get(name)]
    return ", ".join(parts) or "unknown"


def _spent_s(trial: TrialResult) -> float:
    return trial.spec.warmup_s + trial.elapsed_ns / 1e9


def _start(record: Record) -> datetime:
    """Return the start time of a test; the epoch if its record has no start time."""
    if record.started is None:
        return datetime.fromtimestamp(0, UTC)
    return datetime.fromisoformat(record.started).astimezone(UTC)


def _written(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def document(content: Document) -> str:
    """Return a document as the text of its file."""
    return json.dumps(content, indent=2, sort_keys=True) + "\n"
