"""The JSON object of a test, as printed by `--json`: the names and values of its members.

Counts are integers, and a rate without a fraction is written as an integer. All other reports use
these members, so that they agree. The table of `report.rows` gives them flat names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping
from dataclasses import asdict
from functools import partial
from operator import attrgetter
from typing import Any

from pydantic import BaseModel

from switchmark.metrics.cpu import cores_by_role, cost
from switchmark.metrics.latency import cable_latency_ns, latency_ns
from switchmark.metrics.loss import COUNTS, lost_at, total
from switchmark.metrics.named import received
from switchmark.metrics.outage import outage_of, outages_by_flow
from switchmark.metrics.throughput import (
    confidence,
    fairness,
    is_lower_bound,
    latency_confidence,
    per_flow,
    sent,
)
from switchmark.model.objects import Printed
from switchmark.model.record import SCHEMA, Record
from switchmark.model.test import AXES

DETAILS = (
    *(
        "evidence",
        "noise",
        "calibration",
        "gate",
        "turns",
        "discarded",
        "placement",
        "prepared",
        "refused",
        "nics",
        "per_flow",
    ),
    *("host", "versions"),
)
"""Members of a test's object that tables omit. They make up most of the object."""

_DECIMALS = 9


def to_object(record: Record, without: Container[str] = ()) -> Printed:
    """Return the object of a test, with null for missing values and without the members in
    `without`."""
    return {name: plain(read(record)) for name, read in MEMBERS.items() if name not in without}


def origin(record: Record) -> Printed:
    """Return the run, the start time of the test, the host and the versions; null if unknown."""
    found = record.origin
    return {
        "run": found and found.run,
        "time": record.started,
        "host": found and found.host,
        "versions": found and found.versions,
    }


def asked_pps(record: Record) -> float | None:
    """Return the requested rate in frames per second per sender; None for the maximum rate. A share
    of R+ is converted to the resulting rate."""
    if record.test.parsed_rate.share is not None and record.trials:
        return record.trials[0].spec.rate_pps
    return record.test.rate_pps


def is_bound(record: Record) -> bool:
    """Return whether the traffic program limited the rate of a test, so the switch may be
    faster."""
    return record.status == "ok" and is_lower_bound(record.verdict)


def _test(record: Record) -> Printed:
    """Return all axes, and the rate in frames per second."""
    content = record.test.model_dump()
    values = {AXES[name].json_name or name: value for name, value in content.items()}
    return {**values, AXES["rate"].json_number: asked_pps(record)}


def _received(record: Record) -> Printed | None:
    """Return the received frames including duplicates, and the rate of distinct frames in frames
    and in bits per second."""
    rates = received(record)
    return rates and {"frames": total(record, "rx_frames"), **rates}


def _outages(record: Record) -> list[Printed]:
    """Return the outage of each trial with an event, and those of its flows."""
    return [
        {**asdict(outage), "flows": [asdict(flow) for flow in outages_by_flow(trial)]}
        for trial in record.trials
        if (outage := outage_of(trial)) is not None
    ]


def plain(value: Any) -> Any:
    """Return a value as JSON: whole numbers as integers, other numbers rounded to a billionth, and
    null for NaN or infinity."""
    if isinstance(value, BaseModel):
        return plain(value.model_dump(mode="json"))
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return int(value) if value.is_integer() else round(value, _DECIMALS)
    return value


MEMBERS: Mapping[str, Callable[[Record], Any]] = {
    "schema": lambda record: SCHEMA,
    "run": lambda record: origin(record)["run"],
    "time": lambda record: origin(record)["time"],
    "host": lambda record: origin(record)["host"],
    "versions": lambda record: origin(record)["versions"],
    "status": attrgetter("status"),
    "error": attrgetter("error"),
    "test": _test,
    "semantics": attrgetter("semantics"),
    "steering": attrgetter("steering"),
    "port": attrgetter("port"),
    "memory": attrgetter("memory"),
    "engine_mode": attrgetter("engine_mode"),
    "verdict": attrgetter("verdict"),
    "lower_bound": is_bound,
    "doubts": attrgetter("doubts"),
    "evidence": lambda record: [trial.evidence for trial in record.trials],
    "noise": attrgetter("noise"),
    "calibration": attrgetter("calibration"),
    "gate": attrgetter("gate"),
    "turns": attrgetter("turns"),
    "discarded": attrgetter("discarded"),
    "tx": sent,
    "rx": _received,
    **{name: partial(total, name=name) for name in COUNTS[:1]},
    "lost_at": lost_at,
    **{name: partial(total, name=name) for name in COUNTS[1:]},
    "latency_ns": latency_ns,
    "latency_floor_ns": cable_latency_ns,
    "cpu": cores_by_role,
    "cost": cost,
    "repeats": lambda record: len(record.trials),
    "ci95_pps": confidence,
    "ci95_ns": latency_confidence,
    "fairness": fairness,
    "per_flow": per_flow,
    "search": attrgetter("search"),
    "outages": _outages,
    "switch_version": attrgetter("switch_version"),
    "switch_mode": attrgetter("switch_mode"),
    "cables": attrgetter("cables"),
    "nics": lambda record: {str(end): nic for end, nic in record.nics.items()},
    "placement": attrgetter("placement"),
    "prepared": attrgetter("prepared"),
    "refused": attrgetter("refused"),
    "reused": attrgetter("reused"),
    "r_plus_pps": attrgetter("r_plus_pps"),
    "setup_s": attrgetter("setup_s"),
    "start_s": attrgetter("start_s"),
    "teardown_s": attrgetter("teardown_s"),
    "stop_s": attrgetter("stop_s"),
}
"""The members of the object in order, with functions that return their values. `plain` converts
these."""
