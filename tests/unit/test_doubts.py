"""How the doubts of trials, and verdict `host`, may have falsified a record's figure."""

from __future__ import annotations

import pytest

from switchmark.metrics.doubts import SPOILS, TABLE, severity_of, spoiled
from switchmark.model.record import Record, TrialResult, TrialSpec, Verdict
from switchmark.model.test import Test
from switchmark.report.brief import brief_notes


def trial(*doubts: str, verdict: Verdict = "switch") -> TrialResult:
    return TrialResult(
        spec=TrialSpec(rate_pps=None, duration_s=1, warmup_s=0),
        elapsed_ns=10**9,
        tx_frames=1,
        tx_unsent=0,
        rx_frames=1,
        rx_bytes=64,
        lost=0,
        lost_at={},
        verdict=verdict,
        doubts=doubts,
    )


def record(
    *trials: TrialResult, verdict: Verdict = "switch", dimension: str = "throughput"
) -> Record:
    test = Test.model_validate({"dimension": dimension})
    return Record(
        key="k", number=0, status="ok", error=None, test=test, verdict=verdict, trials=trials
    )


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((), set()),
        (("short", "cores-shared", "not-isolated"), set()),
        (("host-busy",), {"lowers"}),
        (("past-switch",), {"raises"}),
        (("frequency-changed",), {"lowers", "raises"}),
        (("flooded", "path-unseen"), {"lowers", "raises"}),
        (("of-a-later-version",), set()),
    ],
)
def test_a_doubt_of_all_trials_spoils_on_its_side(
    names: tuple[str, ...], expected: set[str]
) -> None:
    assert spoiled(record(*[trial(*names)] * 5)) == expected


@pytest.mark.parametrize(
    ("disturbed", "of", "spoils"),
    [(1, 1, True), (1, 3, True), (1, 4, True), (1, 5, False), (2, 5, True), (1, 10, False),
     (2, 10, False), (3, 10, True), (4, 20, False), (5, 20, True)],
)  # fmt: skip
def test_a_quarter_of_the_trials_spoils_their_median(disturbed: int, of: int, spoils: bool) -> None:
    trials = [trial("cpu-stolen")] * disturbed + [trial()] * (of - disturbed)
    assert spoiled(record(*trials)) == ({"lowers"} if spoils else set())


def test_other_doubts_on_one_side_add_up_and_those_of_both_sides_do_not() -> None:
    alike = [trial("host-busy"), trial("cpu-stolen"), *[trial()] * 4]
    assert spoiled(record(*alike)) == {"lowers"}
    unlike = [trial("host-busy"), trial("past-switch"), *[trial()] * 4]
    assert spoiled(record(*unlike)) == set()


def test_the_host_as_the_limit_spoils_like_a_busy_host() -> None:
    assert spoiled(record(trial(verdict="host"), *[trial()] * 3)) == {"lowers"}
    assert spoiled(record(trial(verdict="host"), *[trial()] * 9)) == set()
    # A search is limited by trials that are not among those of its figure.
    assert spoiled(record(*[trial()] * 3, verdict="host")) == {"lowers"}


def test_clocks_that_differ_spoil_latencies_alone() -> None:
    doubted = [trial("clock")] * 3
    assert spoiled(record(*doubted)) == set()
    assert spoiled(record(*doubted), latency=True) == {"lowers", "raises"}
    assert spoiled(record(*doubted, dimension="latency")) == {"lowers", "raises"}
    assert spoiled(record(*doubted, dimension="latency"), latency=False) == set()


def test_no_trials_are_not_spoiled() -> None:
    assert spoiled(record()) == set()


def test_every_passing_disturbance_spoils() -> None:
    """A doubt that justifies another attempt does not explain a difference; and all words are in
    the table."""
    assert {doubt.spoils for doubt in TABLE.values()} == set(SPOILS)
    assert all(doubt.spoils for doubt in TABLE.values() if doubt.passing)


def test_a_doubt_that_may_falsify_a_figure_is_a_caution_at_least() -> None:
    by_severity = {
        severity: {name for name, doubt in TABLE.items() if doubt.severity == severity}
        for severity in ("information", "caution", "invalid")
    }
    assert {"cores-shared", "not-isolated", "short"} <= by_severity["information"]
    assert {"cpu-stolen", "host-busy", "clock"} <= by_severity["caution"]
    assert by_severity["invalid"] == {
        *("cores-overcommitted", "emulated", "not-equivalent", "nothing-arrived", "past-switch")
    }
    assert not any(TABLE[name].spoils for name in by_severity["information"])


@pytest.mark.parametrize(
    ("doubts", "expected"),
    [
        ((), "information"),
        (("not-isolated", "short"), "information"),
        (("not-isolated", "unheard-of"), "caution"),
        (("not-isolated", "cpu-stolen"), "caution"),
        (("cpu-stolen", "past-switch", "short"), "invalid"),
    ],
)
def test_a_test_is_marked_by_its_most_severe_doubt(doubts: tuple[str, ...], expected: str) -> None:
    assert severity_of(doubts) == expected


def test_one_sentence_has_the_most_severe_doubts_and_a_cure() -> None:
    named = (("cpu-stolen", "past-switch"), ("cpu-stolen", "emulated"), ("emulated",))
    records = [
        record(trial(*doubts)).model_copy(update={"doubts": doubts, "number": number})
        for number, doubts in enumerate(named, 1)
    ]
    assert brief_notes(records) == [
        "✗ the figures show the speed of the emulator (emulated, 2 of 3 tests; also past-switch): "
        "do not use these figures. Fix: use a host with KVM. --explain says more."
    ]
    (alone,) = brief_notes([record(trial()).model_copy(update={"doubts": ("short",)})])
    assert alone == (
        "Note: start-up and shutdown effects weigh heavily (short, this test). Fix: use "
        "--duration 1 or more. --explain says more."
    )
    assert brief_notes([record(trial())]) == []
    failed = record().model_copy(update={"status": "failed", "error": "no link", "number": 4})
    assert brief_notes([failed]) == ["test 4 failed: no link"]
