"""These tests compare the reported error of a latency with its formula."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from switchmark.metrics.latency import HIGHEST_NS, counts_of, from_counts, latency_of, merged
from switchmark.metrics.uncertainty import apart_ns, error_of
from switchmark.model.evidence import Evidence
from switchmark.model.latency import LatencyFigures, Stamps
from switchmark.model.noise import Jitter, NoiseCertificate
from switchmark.model.record import Record, TrialResult
from switchmark.model.test import Test
from switchmark.report.figures import format_median
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


@pytest.mark.parametrize(("by", "stamps_ns", "clocks_ns"), [("kernel", 0, 100), ("call", 900, 0)])
def test_only_who_notes_arrivals_has_no_width(by: str, stamps_ns: int, clocks_ns: int) -> None:
    error = error_of(FIGURES, [trial(stamps={"a": stamps(by=by, noted=9)})])
    assert error is not None
    assert (error.stamps_ns, error.clocks_ns, error.skew_ns) == (stamps_ns, clocks_ns, 0)
    assert error.median_ns - error.stamps_ns == clocks_ns + error.histogram_ns


def test_stamps_make_a_median_no_lower_than_nothing() -> None:
    error = error_of(FIGURES, [trial(stamps={"a": stamps(p99=10**8)})])
    assert error is not None
    assert error.stamps_ns == FIGURES.p50


def histogram_of(values: Sequence[float]) -> dict[str, Any]:
    from hdrh.histogram import HdrHistogram

    rounded = [max(0, int(value)) for value in values]
    layout = HdrHistogram(1, HIGHEST_NS, 3)
    counts = Counter(layout.get_counts_array_index(value) if value else 0 for value in rounded)
    return {
        "count": len(rounded),
        "min": min(rounded),
        "max": max(rounded),
        "sum": sum(rounded),
        "counts": sorted(map(list, counts.items())),
    }


def looked_for(rng: random.Random, wide: float, width_ns: float) -> tuple[TrialResult, list[float]]:
    """Return a trial of frames that arrived some time between two looks, a share of them between
    looks that were far apart; and their true latencies."""
    true = [rng.lognormvariate(math.log(17_000), 0.2) for _ in range(2000)]
    widths = [width_ns if rng.random() < wide else 500.0 for _ in true]
    measured = [value + rng.random() * width for value, width in zip(true, widths, strict=True)]
    earliest = [value - width for value, width in zip(measured, widths, strict=True)]
    latency = from_counts("one-way", [histogram_of(measured)], [], [histogram_of(earliest)])
    evidence = Evidence(stamps={"a": stamps(p99=int(max(widths)))})
    return STORED.trials[0].model_copy(update={"evidence": evidence, "latency": latency}), true


@pytest.mark.parametrize("seed", range(5))
def test_a_tenth_of_stamps_that_are_wide_say_little_of_the_median(seed: int) -> None:
    rng = random.Random(seed)
    for wide, least, most in ((0.0, 400, 600), (0.1, 500, 2500), (1.0, 10_000, 10**6)):
        results = [looked_for(rng, wide, 313_000.0) for _ in range(3)]
        trials = [result for result, _ in results]
        figures = latency_of(trials)
        assert figures is not None
        assert figures.p50 is not None
        assert figures.error is not None
        assert least <= figures.error.stamps_ns <= most
        true = median(value for _, values in results for value in values)
        # Missing timestamps can only raise the median.
        above = figures.p50 + figures.error.median_ns - figures.error.stamps_ns
        assert figures.p50 - figures.error.median_ns <= true <= above


def test_several_latencies_keep_their_earliest_times_if_all_have_them() -> None:
    rng = random.Random(1)
    first, other = (looked_for(rng, 0.1, 9000.0)[0].latency for _ in range(2))
    assert first is not None
    assert other is not None
    total = merged([first, other])
    assert total is not None
    assert total.earliest is not None
    assert sum(counts_of(total.earliest).values()) == total.count == 4000
    old = other.model_copy(update={"earliest": None})
    without = merged([first, old])
    assert without is not None
    assert without.earliest is None
    # Then the widths of all stamps bound the error, as they do of old records.
    evidence = Evidence(stamps={"a": stamps(p99=9000)})
    trials = [
        STORED.trials[0].model_copy(update={"evidence": evidence, "latency": trial})
        for trial in (first, old)
    ]
    figures = latency_of(trials)
    assert figures is not None
    assert figures.error is not None
    assert figures.error.stamps_ns == 9000


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
    results = [
        STORED.model_copy(update={"trials": (trial(stamps={"a": stamps(p99=ns)}, skew_ns=70),)})
        for ns in (900, 3000)
    ]
    (note,) = (note for note in footnotes(results) if note.startswith("latency: "))
    assert note.startswith("latency: medians are accurate to ± 3.")
    assert "(timestamps 3 us, cycle counters of two CPUs 70 ns, histogram " in note
    assert not any(note.startswith("latency: ") for note in footnotes([STORED]))


@pytest.mark.parametrize(
    ("median_ns", "wrong_ns", "stamps_ns", "text"),
    [
        (17_123, None, 0, "17.1 us"),
        (17_123, 1300, 900, "17.1 us"),
        (17_123, 13_000, 12_000, "17 us"),
        (3_364_000, 440_000, 0, "3.36 ms"),
        (3_364_000, 1_440_000, 0, "3.4 ms"),
        (923, 310, 300, "920 ns"),
        (17_123, 18_000, 17_000, "<= 18.1 us"),
        (17_123, 17_123, 17_123, "<= 17.1 us"),
    ],
)
def test_a_median_has_no_digit_beyond_its_error(
    median_ns: int, wrong_ns: int | None, stamps_ns: int, text: str
) -> None:
    error = {"median_ns": wrong_ns, "stamps_ns": stamps_ns}
    assert format_median({"p50": median_ns, "error": None if wrong_ns is None else error}) == text
