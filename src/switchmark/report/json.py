"""This module writes a record as the JSON object of `--json`: the one place where its fields get
their names.

Counts are integers; a rate that is a whole number is written as one. Every other report is drawn
from this object, so that all of them say the same.
"""

from __future__ import annotations

import math
from collections.abc import Container
from typing import Any

from pydantic import BaseModel

from switchmark.metrics.cpu import cores_by_role, cost
from switchmark.metrics.latency import cable_latency_ns, latency_ns
from switchmark.metrics.loss import losses
from switchmark.metrics.throughput import (
    confidence,
    fairness,
    is_lower_bound,
    latency_confidence,
    per_flow,
    received,
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
        "nics",
        "per_flow",
    ),
    *("host", "versions"),
)
"""Members of a test's object that no table shows: most of what it holds."""

_DECIMALS = 9


def to_object(record: Record, without: Container[str] = ()) -> Printed:
    """Return the object of one test; what was not measured is null. Members that nobody is going to
    read can be left out."""
    content = {
        "schema": SCHEMA,
        **origin(record),
        "status": record.status,
        "error": record.error,
        "test": _test(record),
        "semantics": record.semantics,
        "steering": record.steering,
        "port": record.port,
        "memory": record.memory,
        "engine_mode": record.engine_mode,
        "verdict": record.verdict,
        "lower_bound": record.status == "ok" and is_lower_bound(record.verdict),
        "doubts": list(record.doubts),
        "evidence": [trial.evidence for trial in record.trials],
        "noise": record.noise,
        "calibration": record.calibration,
        "gate": record.gate,
        "turns": record.turns,
        "discarded": list(record.discarded),
        "tx": sent(record),
        "rx": received(record),
        **losses(record),
        "latency_ns": latency_ns(record),
        "latency_floor_ns": cable_latency_ns(record),
        "cpu": cores_by_role(record),
        "cost": cost(record),
        "repeats": len(record.trials),
        "ci95_pps": confidence(record),
        "ci95_ns": latency_confidence(record),
        "fairness": fairness(record),
        "per_flow": per_flow(record),
        "search": record.search,
        "switch_version": record.switch_version,
        "switch_mode": record.switch_mode,
        "cables": record.cables,
        "nics": {str(end): nic for end, nic in record.nics.items()},
        "placement": record.placement,
        "reused": record.reused,
        "r_plus_pps": record.r_plus_pps,
        "setup_s": record.setup_s,
        "start_s": record.start_s,
        "teardown_s": record.teardown_s,
        "stop_s": record.stop_s,
    }
    return {name: plain(value) for name, value in content.items() if name not in without}


def origin(record: Record) -> Printed:
    """Return the run, the time at which the test began, the host and the versions; null where they
    are not known."""
    known = record.origin
    return {
        "run": known and known.run,
        "time": record.started,
        "host": known and known.host,
        "versions": known and known.versions,
    }


def _test(record: Record) -> Printed:
    """Return every axis, and the rate in frames per second, of a share of R+ as it was found."""
    test = record.test
    rate_pps = test.rate_pps
    if test.parsed_rate.share is not None and record.trials:
        rate_pps = record.trials[0].spec.rate_pps
    values = {AXES[name].json_name or name: value for name, value in test.model_dump().items()}
    return {**values, AXES["rate"].json_number: rate_pps}


def plain(value: Any) -> Any:
    """Return JSON's numbers: whole ones as integers, others to a billionth; no NaN, no infinity."""
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
