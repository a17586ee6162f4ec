"""These tests check the experiments of the literature: data that can be run, and claims that can be
judged."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from switchmark.campaign.load import Campaign, parse
from switchmark.errors import UsageError
from switchmark.model.record import Record
from switchmark.papers.experiment import Claim, Experiment, names, read
from switchmark.report.paper import Beside, beside, holds, print_beside

STORED = Path(__file__).parent / "data/records-schema-1.jsonl"
RECORD = Record.model_validate(json.loads(STORED.read_text())["record"])
TABLE2 = read("ara-2021/table2")


def record(engine: str, kpps: int, repeats: int = 1, **changes: object) -> Record:
    trial = RECORD.trials[0].model_copy(update={"rx_frames": kpps * 1000, "elapsed_ns": 10**9})
    test = RECORD.test.model_copy(update={"engine": engine, "search": "fixed"})
    fixed = {"test": test, "trials": (trial,) * repeats, "doubts": (), "verdict": "unknown"}
    return RECORD.model_copy(update={**fixed, **changes})


def campaign(experiment: Experiment, quick: bool = False) -> Campaign:
    options = experiment.options(quick)
    return parse(experiment.text(), options, lambda test: [], source="paper", name="paper")


@pytest.mark.parametrize("name", names())
def test_an_experiment_makes_a_test_for_each_of_its_rows(name: str) -> None:
    experiment = read(name)
    for quick in (False, True):
        tests = campaign(experiment, quick).tests
        for row in experiment.rows:
            assert len([test for test in tests if row.picks(test)]) == 1, row


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
    tests = campaign(TABLE2).tests
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
        return holds(Claim(says="", order=((more,), (less,))), rows, "kpps")

    assert judged("raw-mmsg", "udp") == "holds"
    assert judged("raw", "udp") == "does not hold"
    assert judged("udp-mmsg", "udp") == "cannot be told"


def test_intervals_that_meet_leave_a_claim_open() -> None:
    rows = beside(TABLE2, [record("raw-mmsg", 500, repeats=3), record("udp", 500, repeats=3)])
    assert judged("raw-mmsg", "udp", rows) == "cannot be told"


def judged(more: str, less: str, rows: list[Beside], unit: str = "kpps") -> str:
    return holds(Claim(says="", order=((more,), (less,))), rows, unit)


@pytest.mark.parametrize(
    ("bound", "more", "less", "expected"),
    [
        ("raw-mmsg", "raw-mmsg", "udp", "holds"),
        ("udp", "raw-mmsg", "udp", "cannot be told"),
        ("udp", "udp", "raw-mmsg", "cannot be told"),
        ("raw-mmsg", "udp", "raw-mmsg", "does not hold"),
    ],
)
def test_a_rate_that_is_a_bound_may_be_the_greater_one(
    bound: str, more: str, less: str, expected: str
) -> None:
    """raw-mmsg is measured as the faster one; `bound` may be faster than it was measured."""
    kpps = {"raw-mmsg": 1000, "udp": 500}
    records = [
        record(engine, rate, verdict="sender" if engine == bound else "switch")
        for engine, rate in kpps.items()
    ]
    assert judged(more, less, beside(TABLE2, records)) == expected


def test_a_functional_result_is_in_no_order() -> None:
    overcommitted = record("raw-mmsg", 1000, doubts=("cores-overcommitted",))
    rows = beside(TABLE2, [overcommitted, record("udp", 500)])
    assert judged("raw-mmsg", "udp", rows) == "cannot be told"


def delayed(engine: str, means_us: list[float]) -> Record:
    """Return a record whose trials received alike, and differ in their mean latency."""
    base = record(engine, 1000)
    (trial,), latency = base.trials, RECORD.trials[0].latency
    assert latency is not None
    trials = tuple(
        trial.model_copy(update={"latency": latency.model_copy(update={"mean": mean * 1e3})})
        for mean in means_us
    )
    return base.model_copy(update={"trials": trials})


def test_a_claim_of_latency_is_judged_by_intervals_of_latency() -> None:
    in_us = TABLE2.model_copy(update={"unit": "us"})
    apart = [delayed("udp", [50, 51, 52]), delayed("raw", [20, 21, 22])]
    assert judged("udp", "raw", beside(in_us, apart), "us") == "holds"
    assert judged("raw", "udp", beside(in_us, apart), "us") == "does not hold"
    meeting = [delayed("udp", [20, 31, 40]), delayed("raw", [20, 21, 32])]
    assert judged("udp", "raw", beside(in_us, meeting), "us") == "cannot be told"


def test_a_claim_of_gbps_is_judged_by_intervals_of_gbps() -> None:
    """Frames of 1518 bytes are fewer, and carry more bits."""
    rates = {64: 1000, 1518: 500}
    records = []
    for engine, (size, kpps) in zip(("udp", "raw"), rates.items(), strict=True):
        base = record(engine, kpps, repeats=3)
        test = base.test.model_copy(update={"frame_size": size})
        records.append(base.model_copy(update={"test": test}))
    rows = beside(TABLE2.model_copy(update={"unit": "Gbps L1"}), records)
    assert judged("raw", "udp", rows, "Gbps L1") == "holds"
    assert judged("udp", "raw", beside(TABLE2, records)) == "holds"


def made(**changes: object) -> Experiment:
    content = {"name": "x/y", "source": "s", "summary": "z", "campaign": {}, "quick": {}}
    return Experiment.model_validate({**content, "unit": "kpps", **changes})


def test_an_experiment_without_rows_is_only_run() -> None:
    stream = io.StringIO()
    print_beside(made(campaign={"burst": 1}), [record("udp", 1)], stream)
    assert stream.getvalue() == "x/y: z\ns\n\n"


def test_an_experiment_holds_what_a_campaign_file_holds() -> None:
    experiment = made(
        campaign={
            "engine": ["udp", "raw"],
            "duration": 0.5,
            "tests": [{"burst": [1, 2]}, {"cpu-limit": [75, "function:12.5"]}],
        },
        quick={"duration": 0.25, "engine": ["raw"]},
    )
    slow, fast = campaign(experiment).tests, campaign(experiment, quick=True).tests
    assert {(t.engine, t.burst, t.cpu_limit, t.duration) for t in slow} == {
        ("udp", 1, None, 0.5),
        ("udp", 2, None, 0.5),
        ("udp", 32, "switch:75", 0.5),
        ("udp", 32, "function:12.5", 0.5),
        ("raw", 1, None, 0.5),
        ("raw", 2, None, 0.5),
        ("raw", 32, "switch:75", 0.5),
        ("raw", 32, "function:12.5", 0.5),
    }
    assert {(t.engine, t.duration) for t in fast} == {("raw", 0.25)}
    assert len(fast) == 4


@pytest.mark.parametrize(
    ("axes", "test"),
    [
        ({"cpu-limit": 75}, {"cpu_limit": "switch:75"}),
        ({"cpu-limit": "none"}, {"cpu_limit": None}),
        ({"cpu-limit": None}, {"cpu_limit": None}),
        ({"rate": "1M"}, {"rate": "1000000"}),
        ({"duration": "500ms"}, {"duration": 0.5}),
        ({"frame-size": 64, "burst": 2}, {"frame_size": 64, "burst": 2}),
        ({"loss-ratio": "0.5%"}, {"loss_ratio": 0.005}),
    ],
)
def test_a_row_picks_its_test_however_its_values_are_written(
    axes: dict[str, object], test: dict[str, object]
) -> None:
    (row,) = made(rows=[{"axes": axes, "published": 1}]).rows
    assert row.picks(RECORD.test.model_copy(update=test))
    assert not row.picks(RECORD.test.model_copy(update={**test, **other(test)}))


def other(test: dict[str, object]) -> dict[str, object]:
    """Return another value of one of some axes."""
    axis = next(iter(test))
    others = {"cpu_limit": "switch:9", "rate": "7", "duration": 9.0, "frame_size": 99}
    others["loss_ratio"] = 0.25
    return {axis: others[axis]}


@pytest.mark.parametrize("axes", [{"swich": "a"}, {"burst": 0}, {"rate": "fast"}])
def test_a_row_of_no_test_is_an_error_of_the_file(axes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="which is no value of an axis"):
        made(rows=[{"axes": axes, "published": 1}])


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
    assert lines[-7].startswith("○ cannot be told  raw sockets with batched")
    assert lines[-6].startswith("  cannot be told  batched system calls help UDP")
    assert lines[-1] == "○ rests on figures that are doubted"
