"""These tests read rates, sizes and durations as people write them."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchmark.errors import UsageError
from switchmark.model.units import (
    FRAME_MAX,
    FRAME_MIN,
    VerificationRule,
    format_pps,
    gbps_l1,
    gbps_l2,
    mean_frame_bytes,
    mtu_for,
    parse_cpu_limit,
    parse_duration,
    parse_frame_size,
    parse_line_rate,
    parse_rate,
    parse_verification,
    sizes_of,
)


@pytest.mark.parametrize(
    ("text", "pps"),
    [
        ("1000", 1000),
        ("10M", 10e6),
        ("500kpps", 500e3),
        ("1e6", 1e6),
        ("1_000", 1000),
        ("0.5 Mpps", 5e5),
        ("1G", 1e9),
    ],
)
def test_a_rate_in_frames_is_understood(text: str, pps: float) -> None:
    assert parse_rate(text).per_second(64) == pps


def test_a_rate_in_bits_counts_preamble_and_gap() -> None:
    assert parse_rate("10Gbps").per_second(64) == pytest.approx(14_880_952, abs=1)
    assert parse_rate("10Gbps").per_second(1518) == pytest.approx(812_743, abs=1)


def test_a_share_above_r_plus_is_a_rate() -> None:
    assert parse_rate("200%").share == 2


@pytest.mark.parametrize("text", ["max", "50%", "fast"])
def test_what_is_no_line_rate_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_line_rate(text)


def test_max_and_a_share_have_no_rate_of_their_own() -> None:
    assert parse_rate("max").is_max
    assert parse_rate("50%").share == 0.5
    assert parse_rate("max").per_second(64) is parse_rate("50%").per_second(64) is None


@pytest.mark.parametrize(
    "text",
    ["", "-1", "0", "0.9", "1.1G", "2G", "nan", "inf", "10Mb", "1001%", "0%", "10k%", "0bps", "M",
     "1..2", "1 000", "max!", "0x10"],
)  # fmt: skip
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_rate(text)


@given(st.integers(1, 10**9))
def test_any_whole_rate_is_kept_exactly(pps: int) -> None:
    assert parse_rate(pps).pps == pps == parse_rate(f"{pps}pps").pps


@given(st.integers(FRAME_MIN, FRAME_MAX))
def test_any_frame_size_is_kept(size: int) -> None:
    assert parse_frame_size(size) == parse_frame_size(f" {size} ") == size


@given(st.integers(max_value=FRAME_MIN - 1) | st.integers(FRAME_MAX + 1))
def test_any_other_size_is_refused(size: int) -> None:
    with pytest.raises(UsageError):
        parse_frame_size(size)


@given(st.text(max_size=20))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    for parse in (parse_rate, parse_frame_size, parse_duration):
        with suppress(UsageError):
            parse(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("2", 2), ("0.5", 0.5), ("200ms", 0.2), ("1min", 60), ("2 h", 7200)]
)
def test_a_duration_is_understood(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


def test_the_mean_of_imix_is_that_of_twelve_frames() -> None:
    assert mean_frame_bytes("imix") == pytest.approx((7 * 64 + 4 * 594 + 1518) / 12)


def test_a_genome_is_its_letters() -> None:
    assert parse_frame_size("genome:AAAFG") == "genome:aaafg"
    assert sizes_of("genome:aaafg") == (64, 64, 64, 1280, 1518)
    assert sizes_of("genome:bcdehiz") == (128, 256, 512, 1024, 2112, 9000, 1518)
    assert mean_frame_bytes("genome:ag") == (64 + 1518) / 2
    assert mtu_for("genome:ai") == 9000 - 18
    for wrong in ("genome:", "genome:aj", "genome:" + "a" * 65, "genome"):
        with pytest.raises(UsageError):
            parse_frame_size(wrong)


def test_the_mix_of_csit_has_frames_of_570_bytes() -> None:
    assert parse_frame_size("IMIX:CSIT") == "imix:csit"
    sizes = sizes_of("imix:csit")
    assert [sizes.count(size) for size in (64, 570, 1518)] == [7, 4, 1]
    assert sizes_of("imix")[2] == 594
    assert sorted(sizes_of("imix:vsperf")) == sorted(sizes_of("genome:aaaaaaaddddg"))
    assert sizes_of(128) == (128,)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("majority", VerificationRule(None)),
        ("none", VerificationRule(1)),
        ("tst009", VerificationRule(2)),
        ("tst009:5", VerificationRule(5)),
        ("tst009:3:50%", VerificationRule(3, 0.5)),
    ],
)
def test_a_rule_for_trials_with_loss_is_understood(text: str, rule: VerificationRule) -> None:
    assert parse_verification(text) == rule


@pytest.mark.parametrize("text", ["", "some", "tst009:", "tst009:1", "tst009:3:", "tst009:3:0%"])
def test_another_rule_for_trials_with_loss_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_verification(text)


def test_line_rate_is_ten_gigabits_of_l1() -> None:
    assert gbps_l1(14_880_952.38, 64) == pytest.approx(10)
    assert gbps_l2(1_000_000, 125) == 1


@pytest.mark.parametrize(
    ("pps", "text"),
    [
        *(
            (None, "-"),
            (0, "0 pps"),
            (950, "950 pps"),
            (12_345, "12.3 kpps"),
            (1.234e6, "1.23 Mpps"),
        ),
        *((999.7, "1 kpps"), (1000, "1 kpps"), (999_700, "1 Mpps"), (1234e6, "1234 Mpps")),
    ],
)
def test_a_rate_is_shown_with_three_digits(pps: float | None, text: str) -> None:
    assert format_pps(pps) == text


@pytest.mark.parametrize(
    ("text", "part", "percent"),
    [("50", "switch", 50), (12.5, "switch", 12.5), ("function:25%", "function", 25)],
)
def test_a_cpu_limit_is_understood(text: str | float, part: str, percent: float) -> None:
    limit = parse_cpu_limit(text)
    assert (limit.who, limit.percent) == (part, percent)
    assert parse_cpu_limit(str(limit)) == limit


@pytest.mark.parametrize("text", ["", "0", "0.5", "-1", "host:50", "switch:", "50:switch", "1e3"])
def test_what_is_no_cpu_limit_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="CPU limit"):
        parse_cpu_limit(text)


def test_interfaces_carry_the_longest_frame() -> None:
    assert [mtu_for(size) for size in (64, 1518, "imix", 1519, 9600)] == [
        *(1500, 1500, 1500, 1501, 9582)
    ]
