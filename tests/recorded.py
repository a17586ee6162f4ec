"""Makes run folders with stored records of every version of the program, for tests of their
readers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from switchmark.campaign.load import from_options
from switchmark.campaign.store import RunFolder
from switchmark.metrics.latency import from_counts
from switchmark.model.event import EventResult
from switchmark.model.evidence import Evidence
from switchmark.model.record import FlowCounts, Record, TrialResult, TrialSpec
from switchmark.model.series import Gap, TimeSeries
from switchmark.model.test import Test
from synthetic import SyntheticSwitch

DATA = Path(__file__).parent / "unit" / "data"
RECORDINGS = Path(__file__).parent / "replay" / "recordings"
"""The recorded runs: `NAME.jsonl` has the answers of the host, `NAME.records.jsonl` the records."""
FACTS = {"kernel": "6.1", "cpu_model": "a_cpu", "cores_usable": 2, "virtual": False}


def stored_lines() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the stored lines of records with a name for each."""
    for path in sorted(DATA.glob("records-*.jsonl")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            yield f"{path.stem}:{number}", json.loads(line)


def fresh(number: int = 1, **changes: Any) -> Record:
    """Return a record of this version with three trials of a noisy switch."""
    switch = SyntheticSwitch(noise=0.01, seed=number)
    spec = TrialSpec(rate_pps=None, duration_s=1, warmup_s=0)
    content: dict[str, Any] = {
        "key": f"k{number}",
        "number": number,
        "status": "ok",
        "error": None,
        "test": Test(search="max", frame_size=64 * number),
        "started": "2026-11-22T01:02:03+0100",
        "switch_version": "6.1.0",
        "trials": tuple(switch(spec) for _ in range(3)),
    }
    return Record(**{**content, **changes})


def latency_trial(rate_pps: float, latencies_ns: Sequence[int]) -> TrialResult:
    """Return a trial at a rate with these latencies of its frames, which may be below 1024 ns."""
    from hdrh.histogram import HdrHistogram

    counts: dict[int, int] = {}
    index_of = HdrHistogram(1, 100_000_000_000, 3)
    for latency_ns in latencies_ns:
        index = index_of._counts_index_for(latency_ns)
        counts[index] = counts.get(index, 0) + 1
    fields = {
        "count": len(latencies_ns),
        "min": min(latencies_ns),
        "max": max(latencies_ns),
        "sum": sum(latencies_ns),
        "counts": sorted(counts.items()),
    }
    trial = SyntheticSwitch()(TrialSpec(rate_pps=rate_pps, duration_s=1, warmup_s=0))
    return trial.model_copy(update={"latency": from_counts("one-way", [fields])})


def stored_run(parent: Path, records: Sequence[Record], tests: int | None = None) -> Path:
    """Make a run folder with these records, of a campaign with a number of tests."""
    sizes = [64 * (number + 1) for number in range(tests or len(records))]
    campaign = from_options({"frame_size": ",".join(map(str, sizes))}, lambda test: [])
    with RunFolder.create(parent, campaign, FACTS) as folder:
        for record in records:
            for trial in record.trials:
                folder.append_trial(record.key, record.number, trial)
            folder.append_record(record, {"switchmark": "0.1.0", "switch x": "1"})
    return folder.path


def stored_lines_run(parent: Path) -> Path:
    """Make a run folder with all stored lines unchanged, except for new numbers."""
    return lines_run(parent, [line for _, line in stored_lines()])


def recorded_lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a recorded run, with new keys."""
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    for number, line in enumerate(lines, 1):
        line["record"]["key"] = f"k{number}"
    return lines


def lines_run(parent: Path, lines: Sequence[dict[str, Any]]) -> Path:
    """Make a run folder with these lines of records, with new numbers, and with their trials."""
    path = stored_run(parent, [], tests=len(lines))
    with (path / "records.jsonl").open("w") as records, (path / "trials.jsonl").open("w") as trials:
        for number, line in enumerate(lines, 1):
            record = line["record"]
            record["number"] = number
            records.write(json.dumps(line) + "\n")
            for trial in record["trials"]:
                entry = {"schema": 1, "key": record.get("key"), "number": number, "trial": trial}
                trials.write(json.dumps(entry) + "\n")
    return path


MS = 1_000_000


def gap(before_ms: float, after_ms: float | None, lost: int = 0) -> Gap:
    """Return a gap of the flow; frames arrive 0.1 ms after they were due."""
    return Gap(
        flow="f0-f1",
        first=0,
        lost=lost,
        before_due_ns=round(before_ms * MS) - 100_000,
        before_ns=round(before_ms * MS),
        after_due_ns=None if after_ms is None else round(after_ms * MS) - 100_000,
        after_ns=None if after_ms is None else round(after_ms * MS),
    )


def interrupted_trial(
    gaps: tuple[Gap, ...] = (),
    silences: tuple[Gap, ...] = (),
    *,
    lost: int = 0,
    unsent: int = 0,
    p99_ms: tuple[float | None, ...] = (0.1,) * 11,
) -> TrialResult:
    """Return a trial of 1 s at 1000 frames per second, with a kill at 300 ms."""
    event = EventResult(
        kind="kill",
        due_ns=300 * MS,
        began_ns=300 * MS,
        disturbed_ns=305 * MS,
        restored_ns=450 * MS,
        settled_ns=460 * MS,
    )
    p99_ns = tuple(None if value is None else round(value * MS) for value in p99_ms)
    series = TimeSeries(
        interval_ns=100 * MS,
        offered=(100,) * 10 + (0,),
        lost=(0,) * 3 + (lost,) + (0,) * 7,
        received=(100,) * 11,
        duplicated=(0,) * 11,
        reordered=(0,) * 11,
        p50_ns=p99_ns,
        p99_ns=p99_ns,
        p999_ns=p99_ns,
        max_ns=(100_000,) * 11,
        gaps=gaps,
        silences=silences,
    )
    sent = 1000 - unsent
    return TrialResult(
        spec=TrialSpec(rate_pps=1000, duration_s=1, warmup_s=0),
        elapsed_ns=1000 * MS,
        tx_frames=sent,
        tx_unsent=unsent,
        rx_frames=sent - lost,
        rx_bytes=0,
        lost=lost,
        lost_at={},
        per_flow=(FlowCounts(flow="f0-f1", tx=sent, rx=sent - lost, lost=lost),),
        series=series,
        evidence=Evidence(events=(event,)),
    )
