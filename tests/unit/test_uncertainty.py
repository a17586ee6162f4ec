"""These tests hold what is told of the error of a latency against its formula."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from switchmark.metrics.uncertainty import apart_ns, error_of
from switchmark.model.evidence import Evidence
from switchmark.model.latency import LatencyFigures, Stamps
from switchmark.model.noise import Jitter, NoiseCertificate
from switchmark.model.record import Record, TrialResult
from switchmark.model.spec import Test
from switchmark.report.notes import footnotes

FILE = Path(__file__).parent / "data/records-schema-1.jsonl"
STORED = Record.model_validate(json.loads(FILE.read_text())["record"])
FIGURES = LatencyFigures(kind="one-way", count=100, min=1, mean=5e6, p50=5_000_000, max=10**7)


def stamps(**members: Any) -> Stamps:
    return Stamps(**{"by": "poll", "noted": 0, "p50": 500, "p99": 900, "max": 7000, **members})


def trial(**evidence: Any) -> TrialResult:
    return STORED.trials[0].model_copy(update={"evidence": Evidence(**evidence)})


def test_an_error_is_the_sum_of_its_bounds() -> None:
    trials = [
        trial(stamps={"a": stamps(), "b": stamps(p99=1200)}, skew_ns=30),
        trial(stamps={"a": stamps(p99=None, max=1100)}, skew_ns=40),
    ]
    error = error_of(FIGURES.model_copy(update={"unsure_ns": 5000}), trials)
    assert error is not None
    # 5,000,000 lies in [2^22, 2^23): its bucket is 2^12 ns wide.
    assert (error.stamps_ns, error.skew_ns, error.clocks_ns) == (1200, 40, 5000)
    assert error.histogram_ns == 4095 <= 5_000_000 / 1024
    assert error.median_ns == 1200 + 40 + 5000 + 4095


@pytest.mark.parametrize(("by", "noted", "ns"), [("kernel", 9, 100), ("call", 9, 900)])
def test_only_who_notes_arrivals_has_no_width(by: str, noted: int, ns: int) -> None:
    error = error_of(FIGURES, [trial(stamps={"a": stamps(by=by, noted=noted)})])
    assert error is not None
    assert (error.stamps_ns, error.skew_ns) == (ns, 0)


def test_small_medians_are_told_exactly() -> None:
    figures = FIGURES.model_copy(update={"p50": 2047})
    error = error_of(figures, [trial(stamps={"a": stamps()})])
    assert error is not None
    assert error.histogram_ns == 0


def test_nothing_is_told_of_what_nothing_is_known() -> None:
    assert error_of(FIGURES, [trial()]) is None
    none = FIGURES.model_copy(update={"p50": None})
    assert error_of(none, [trial(stamps={"a": stamps()})]) is None


def test_counters_are_apart_by_the_greatest_difference_and_what_is_left_open() -> None:
    def noise(**skews: tuple[int | None, int | None]) -> NoiseCertificate:
        jitter = {
            cpu.strip("c"): Jitter(skew_ns=skew, skew_within_ns=within)
            for cpu, (skew, within) in skews.items()
        }
        return NoiseCertificate(jitter=jitter)

    one_way, there_and_back = Test(), Test(dimension="latency")
    certificate = noise(c0=(None, None), c1=(-20, 7), c2=(30, 5), c3=(0, 1))
    assert apart_ns(certificate, one_way) == 20 + 30 + 7 + 5
    assert apart_ns(noise(c1=(5, 9)), one_way) == 5 + 9
    assert apart_ns(certificate, there_and_back) is None
    several = there_and_back.model_copy(update={"function_cores": 2})
    assert apart_ns(certificate, several) == 62
    assert apart_ns(noise(c0=(None, None)), one_way) is None
    assert apart_ns(None, one_way) is None


def test_a_table_says_by_how_much_its_medians_may_be_wrong() -> None:
    told = [
        STORED.model_copy(update={"trials": (trial(stamps={"a": stamps(p99=ns)}, skew_ns=70),)})
        for ns in (900, 3000)
    ]
    (note,) = (note for note in footnotes(told) if note.startswith("latency: "))
    assert note.startswith("latency: medians are right to ± 3.")
    assert "(stamps 3 us, counters of two CPUs 70 ns, histogram " in note
    assert not any(note.startswith("latency: ") for note in footnotes([STORED]))
