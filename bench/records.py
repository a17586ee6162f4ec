"""The comparison records shows how long 10,000 stored records take to be read and added up by SQL;
it has no peer."""

from __future__ import annotations

import copy
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.comparison import Comparison, Session
from bench.pairs import Limit
from bench.report import Row, absolute

_RECORDS = 10_000
_INTERVALS = 150
_STORED = Path(__file__).parents[1] / "tests" / "unit" / "data" / "records-0.1.0.jsonl"

QUERY = (
    "select switch, frame_bytes, count(*), median(rx_pps), sum(lost_frames), avg(cpu_switch_cores)"
    " from tests where status = 'ok' group by all order by all"
)


def lines(count: int, seed: int = 1) -> Iterator[str]:
    """Yield so many lines of records of three trials each, of which one in fifty failed: stored
    ones, with other switches, sizes and counts, as long as those of real runs are."""
    draw = random.Random(seed)
    stored = [json.loads(line) for line in _STORED.read_text().splitlines()]
    ended = [entry for entry in stored if entry["record"]["trials"]]
    failed = next(entry for entry in stored if not entry["record"]["trials"])
    for number in range(1, count + 1):
        entry = copy.deepcopy(failed if number % 50 == 0 else ended[draw.randrange(len(ended))])
        record = entry["record"]
        record["number"] = number
        record["test"]["switch"] = draw.choice(("linux-bridge", "ovs", "vpp", "ovs-dpdk"))
        record["test"]["frame_size"] = draw.choice((64, 256, 1024, 1518))
        if record["trials"]:
            record["trials"] = [_varied(record["trials"][0], draw) for _ in range(3)]
        yield json.dumps(entry, separators=(",", ":"))


def _varied(trial: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    share = draw.uniform(0.9, 1.1)
    frames = {name: int(trial[name] * share) for name in ("tx_frames", "rx_frames")}
    per_interval = round(frames["rx_frames"] / _INTERVALS)
    intervals = [
        max(round(draw.gauss(per_interval, per_interval / 50)), 0) for _ in range(_INTERVALS)
    ]
    return {**trial, **frames, "intervals": intervals}


def _measure(session: Session) -> list[Row]:
    folder = session.bed.logs / "records"
    folder.mkdir(parents=True)
    (folder / "campaign.yaml").write_text("name: records\nswitch: linux-bridge\n")
    session.say(f"writing {_RECORDS} records")
    with (folder / "records.jsonl").open("w") as file:
        file.writelines(f"{line}\n" for line in lines(_RECORDS))
    megabytes = (folder / "records.jsonl").stat().st_size / 1e6
    argv = [sys.executable, "-m", "switchmark", "query", str(folder), QUERY, "--csv"]
    values = []
    for number in range(session.pairs):
        session.say(f"{number + 1}/{session.pairs}")
        begun = time.monotonic()
        completed = subprocess.run(argv, capture_output=True, text=True, check=True)
        values.append(time.monotonic() - begun)
    assert len(completed.stdout.splitlines()) == 1 + 4 * 4
    note = f"{megabytes:.0f} MB; the whole command, which groups by switch and size"
    return [absolute("records", "query", "s", values, Limit("at most", 3.0), (note,))]


RECORDS = Comparison("records", "10,000 records, read and added up by SQL", _measure)
