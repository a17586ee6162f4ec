"""This module gives a search what it works with, knows which of its trials are there already, and
writes what it found into a record."""

from __future__ import annotations

from switchmark.lab.judging import JudgedTrials
from switchmark.lab.running import RunningPath
from switchmark.metrics.throughput import is_drifting, is_uncertain, of_latency
from switchmark.metrics.verdict import verdict
from switchmark.model.record import Record, TrialResult, TrialSpec
from switchmark.model.test import Test
from switchmark.model.units import parse_shares
from switchmark.path.ways import cables_of
from switchmark.searches.base import Estimate, LoadBounds


class Paused(Exception):
    """The search wants more trials than this visit may have."""


def next_stored(stored: list[TrialResult], spec: TrialSpec) -> TrialResult | None:
    """Return the first of some stored trials that was asked for in the same way, or None.

    It and those before it are taken off the list: they were asked for when the R+ was another one.
    Such trials stay in the run folder, and what was measured after them stands behind them.
    """
    while stored:
        trial = stored.pop(0)
        if trial.spec == spec:
            return trial
    return None


def bounds_of(test: Test, streams: int, r_plus_pps: float | None) -> LoadBounds:
    """Return the loads that a test's search may ask for, of each of so many senders. `r_plus_pps`
    is what a rate in percent is a share of: the rate of all receivers, to whom each frame goes in
    as many copies as the test asks for."""
    rate_pps = test.rate_pps
    if test.parsed_rate.share is not None and r_plus_pps is not None:
        rate_pps = test.parsed_rate.share * r_plus_pps / (streams * test.copies)
        if test.line_pps is not None:
            rate_pps = min(rate_pps, test.line_pps)
    return LoadBounds(
        rate_pps,
        test.duration,
        test.warmup,
        test.repeat,
        test.finals,
        loss_ratio=test.loss_ratio,
        precision=test.precision,
        loads=parse_shares(test.loads),
        until_certain=test.until_certain,
        senders=streams,
        line_pps=test.line_pps,
        latency=of_latency(test),
        judge=verdict,
    )


def recorded(
    record: Record, estimate: Estimate, running: RunningPath, judged: JudgedTrials
) -> Record:
    """Return the record with what was found, and of which path."""
    test, path = record.test, running.path
    modes = dict.fromkeys(
        part.engine_mode for trial in estimate.trials for part in trial.parts if part.engine_mode
    )
    return record.model_copy(
        update={
            "semantics": path.wiring.semantics,
            "steering": path.steering,
            "port": ", ".join(sorted({end.kind for _, end in path.ends})),
            "memory": path.wiring.memory.kind
            if any(part.engine.own_memory for part in path.parts)
            else None,
            "engine_mode": " | ".join(modes) or None,
            "cables": cables_of(path),
            "nics": {end: str(nic) for end, nic in running.nics.items()},
            "verdict": estimate.verdict or verdict(estimate.trials),
            "doubts": tuple(
                dict.fromkeys(
                    [doubt for trial in estimate.trials for doubt in trial.doubts]
                    + ["uncertain"] * is_uncertain(test, estimate.trials)
                    + ["drifting"] * is_drifting(test, estimate.trials)
                )
            ),
            "gate": running.gate,
            "discarded": tuple(judged.discarded),
            "placement": running.placement.recorded(),
            "trials": estimate.trials,
            "search": estimate.summary,
        }
    )
