"""The experiments of the literature: data that can be run, and claims that can be judged."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from switchmark.campaign.load import from_options
from switchmark.errors import UsageError
from switchmark.model.record import Record
from switchmark.papers.experiment import Claim, names, read
from switchmark.report.paper import beside, holds, print_beside

STORED = Path(__file__).parent / "data/records-schema-1.jsonl"
RECORD = Record.model_validate(json.loads(STORED.read_text())["record"])
TABLE2 = read("ara-2021/table2")


def record(engine: str, kpps: int, repeats: int = 1, **changes: object) -> Record:
    trial = RECORD.trials[0].model_copy(update={"rx_frames": kpps * 1000, "elapsed_ns": 10**9})
    test = RECORD.test.model_copy(update={"engine": engine, "search": "fixed"})
    fixed = {"test": test, "trials": (trial,) * repeats, "doubts": (), "verdict": "unknown"}
    return RECORD.model_copy(update={**fixed, **changes})


@pytest.mark.parametrize("name", names())
def test_an_experiment_makes_a_test_for_each_of_its_rows(name: str) -> None:
    experiment = read(name)
    for quick in (False, True):
        tests = from_options(experiment.options(quick), lambda test: []).tests
        for row in experiment.rows:
            matching = [
                test
                for test in tests
                if all(
                    str(getattr(test, axis.replace("-", "_"))) == str(value)
                    for axis, value in row.axes.items()
                )
            ]
            assert len(matching) == 1, row


@pytest.mark.parametrize("name", names())
def test_the_claims_hold_for_the_published_values(name: str) -> None:
    experiment = read(name)
    published = {row.name: row.published for row in experiment.rows}
    for claim in experiment.claims:
        more, less = claim.order
        assert min(published[row] for row in more) > max(published[row] for row in less), claim


def test_an_unknown_experiment_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="hint: switchmark paper ara-2021/table2"):
        read("ara/table2")


def test_table_2_of_ara_is_the_papers_tuple() -> None:
    tests = from_options(TABLE2.options(quick=False), lambda test: []).tests
    assert {
        (t.dimension, t.locality, t.pairs, t.switch, t.frame_size, t.rate, t.burst) for t in tests
    } == {("throughput", "local", 1, "linux-bridge", 64, "1M", 64)}
    assert {(test.touch, test.duration) for test in tests} == {("full", 60)}
    assert [(row.name, row.published) for row in TABLE2.rows] == [
        ("udp", 338),
        ("udp-mmsg", 409),
        ("raw", 360),
        ("raw-mmsg", 440),
    ]


def test_ratios_are_to_the_first_row() -> None:
    rows = beside(TABLE2, [record("raw-mmsg", 1000), record("udp", 500)])
    assert [(row.name, row.measured, row.measured_ratio) for row in rows] == [
        ("udp", 500, 1),
        ("udp-mmsg", None, None),
        ("raw", None, None),
        ("raw-mmsg", 1000, 2),
    ]
    assert rows[3].published_ratio == pytest.approx(440 / 338)


def test_a_claim_holds_does_not_or_cannot_be_told() -> None:
    rows = beside(TABLE2, [record("raw-mmsg", 1000), record("udp", 500), record("raw", 400)])

    def judged(more: str, less: str) -> str:
        return holds(Claim(says="", order=((more,), (less,))), rows)

    assert judged("raw-mmsg", "udp") == "holds"
    assert judged("raw", "udp") == "does not hold"
    assert judged("udp-mmsg", "udp") == "cannot be told"


def test_intervals_that_meet_leave_a_claim_open() -> None:
    rows = beside(TABLE2, [record("raw-mmsg", 500, repeats=3), record("udp", 500, repeats=3)])
    assert holds(Claim(says="", order=(("raw-mmsg",), ("udp",))), rows) == "cannot be told"


def test_ours_stands_beside_the_published() -> None:
    stream = io.StringIO()
    failed = record("raw", 1, status="failed")
    bound = record("raw-mmsg", 845, verdict="sender", doubts=("cores-shared",))
    print_beside(TABLE2, [record("udp", 676), failed, bound], stream)
    lines = stream.getvalue().splitlines()
    assert lines[4].split() == ["udp", "338", "1.00", "676", "1.00"]
    assert lines[5].split() == ["udp-mmsg", "409", "1.21", "not", "run", "-"]
    assert lines[6].split() == ["raw", "360", "1.07", "failed", "-"]
    assert lines[7].split() == ["raw-mmsg", "440", "1.30", "○", ">=", "845", "1.25"]
    assert lines[-5].startswith("cannot be told  raw sockets with batched")
