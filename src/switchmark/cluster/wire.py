"""The JSON of requests to testbeds and of their answers, for networks and pipes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from switchmark.model.record import Record, TrialResult
from switchmark.model.test import Test
from switchmark.model.visit import Visit

Content = dict[str, Any]


def as_request(visit: Visit, options: Content) -> Content:
    """Return the request for a visit, with the lab's options."""
    return {
        "do": "visit",
        "options": options,
        "test": visit.test.model_dump(mode="json"),
        "then": None if visit.then is None else visit.then.model_dump(mode="json"),
        "number": visit.number,
        "key": visit.key,
        "stored": [trial.model_dump(mode="json") for trial in visit.stored],
        "r_plus_pps": visit.r_plus_pps,
        "limit": visit.limit,
    }


def as_visit(request: Content, on_trial: Callable[[TrialResult], None]) -> Visit:
    """Return the visit that a request describes."""
    following = request["then"]
    return Visit(
        Test.model_validate(request["test"]),
        number=request["number"],
        key=request["key"],
        stored=tuple(TrialResult.model_validate(trial) for trial in request["stored"]),
        on_trial=on_trial,
        then=None if following is None else Test.model_validate(following),
        r_plus_pps=request["r_plus_pps"],
        limit=request["limit"],
    )


def as_record(reply: Content, testbed: str) -> Record | None:
    """Return the record in an answer; None if the visit was not enough for a record. Trials without
    a testbed get this one."""
    if reply["record"] is None:
        return None
    record = Record.model_validate(reply["record"])
    trials = tuple(_with_testbed(trial, testbed) for trial in record.trials)
    error = record.error and f"testbed {testbed}: {record.error}"
    return record.model_copy(update={"trials": trials, "error": error})


def as_trials(reply: Content, testbed: str) -> list[TrialResult]:
    """Return the new trials in an answer."""
    return [_with_testbed(TrialResult.model_validate(trial), testbed) for trial in reply["trials"]]


def _with_testbed(trial: TrialResult, testbed: str) -> TrialResult:
    if trial.evidence.testbed:
        return trial
    evidence = trial.evidence.model_copy(update={"testbed": testbed})
    return trial.model_copy(update={"evidence": evidence})
