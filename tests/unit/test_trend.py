"""These tests find changes in series of nights, take the baseline out of them, and judge trends."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from tools.simulate_trend import POWERS, SHAPES, alarms, nights_until_shown

from recorded import fresh, stored_run
from switchmark.cli.app import app
from switchmark.errors import UsageError
from switchmark.metrics.trend import FEWEST, State, changes, last_good
from switchmark.model.cable import Calibration, NoCalibration
from switchmark.model.record import Origin, Record, TrialSpec
from switchmark.model.test import Test
from switchmark.report.conditions import parse_conditions
from switchmark.report.trend import Trend, as_object, trend_of
from switchmark.report.trend_page import page_of_trend
from switchmark.report.trend_text import trend_junit, trend_lines, trend_markdown
from synthetic import SyntheticSwitch

FIRST = datetime(2026, 9, 1, 2, tzinfo=UTC)
TEST = Test(switch="linux-bridge", search="max")
BASELINE = Calibration(switch="direct", rate_pps=(1.9e6, 2e6, 2.1e6), sent_pps=2e6)


def night(
    day: int, rate: float, cable: float | None = 2e6, test: Test = TEST, **changes: Any
) -> Record:
    """Return the record of a test in a night, with three trials near a rate."""
    switch = SyntheticSwitch(capacity_pps=rate, sender_pps=9e9, noise=0.001, seed=day)
    spec = TrialSpec(rate_pps=None, duration_s=1, warmup_s=0)
    baseline = BASELINE.model_copy(update={"rate_pps": (cable, cable, cable)}) if cable else None
    content: dict[str, Any] = {
        "test": test,
        "started": (FIRST + timedelta(days=day)).isoformat(),
        "calibration": baseline,
        "trials": tuple(switch(spec) for _ in range(3)),
    }
    return fresh(1, **{**content, **changes})


def history(
    rates: Sequence[float], cables: Sequence[float | None] = (), **changes: Any
) -> list[tuple[str, list[Record]]]:
    """Return a run for each night."""
    cables = cables or [2e6] * len(rates)
    return [
        (f"night-{number}", [night(number, rate, cable, **changes)])
        for number, (rate, cable) in enumerate(zip(rates, cables, strict=True))
    ]


def sixty(
    slower: float = 0.0, since: int = 40, noise: float = 0.01
) -> tuple[list[float], list[float]]:
    """Return the rates of a switch and of its cable in 60 nights, on a host that drifts by 10 % and
    has two states 15 % apart."""
    draw = random.Random(5)
    rates, cables = [], []
    for number in range(60):
        host = (1 - 0.1 * number / 60) * (0.85 if number // 7 % 2 else 1.0)
        cables.append(2e6 * host * (1 + draw.gauss(0, noise / 3)))
        own = 1 - slower * (number >= since)
        rates.append(1e6 * host * own * (1 + draw.gauss(0, noise / 2)))
    return rates, cables


def trend(*fail_on: str, **options: Any) -> Trend:
    rates, cables = sixty(**options)
    return trend_of(history(rates, cables), parse_conditions(fail_on))


# --- changes in a series ---------------------------------------------------------------------


def steps(before: int, after: int, by: float, noise: float = 0.01, seed: int = 1) -> list[float]:
    draw = random.Random(seed)
    values = [draw.gauss(0, noise) for _ in range(before + after)]
    return [value + by * (index >= before) for index, value in enumerate(values)]


def test_a_step_is_found_with_its_night_and_its_size() -> None:
    (change,) = changes(steps(30, 20, -0.05))
    assert change.kind == "step"
    assert change.start == 30
    assert 30 < change.found <= 33
    assert change.p <= 1 / 200
    assert change.amount == pytest.approx(-0.05, abs=0.015)


def test_a_slow_slide_is_a_drift() -> None:
    draw = random.Random(3)
    first = [
        changes([-0.001 * index + draw.gauss(0, 0.01) for index in range(80)])[0] for _ in range(10)
    ]
    assert sum(change.kind == "drift" for change in first) >= 8
    assert all(change.amount < 0 for change in first)


def test_one_bad_night_is_no_change() -> None:
    values = steps(50, 0, 0.0)
    values[30] -= 0.5
    assert changes(values) == []


def test_bad_nights_do_not_hide_a_change() -> None:
    values = steps(40, 10, -0.03)
    for index in range(3, 50, 7):
        values[index] -= 0.2
    (change,) = changes(values)
    assert abs(change.start - 40) <= 2


def test_later_nights_do_not_alter_what_was_found() -> None:
    values = steps(30, 30, -0.03) + steps(20, 10, 0.04, seed=2)
    whole = changes(values)
    assert len(whole) >= 2
    for end in range(0, len(values), 3):
        before = [(change.start, change.found, change.p) for change in changes(values[:end])]
        assert before == [(c.start, c.found, c.p) for c in whole if c.found < end]


def test_the_fewest_nights_that_show_a_change() -> None:
    def shown(nights: int) -> bool:
        splits = range(2, nights - 1)
        return any(changes(steps(nights - k, k, -0.5, noise=0.001)) for k in splits)

    assert [shown(FEWEST - 1), shown(FEWEST)] == [False, True]
    assert changes(steps(30, 3, -0.5, noise=0.001))[0].start == 30


def test_nights_without_any_noise() -> None:
    assert changes([1.0] * 40) == []
    assert [change.start for change in changes([1.0] * 20 + [0.9] * 10)] == [20]


def test_correlated_nights_count_as_fewer() -> None:
    """A host whose states last for some nights, and no baseline: without the correction there are
    three times as many alarms."""
    count = 0
    for seed in range(6):
        draw, values = np.random.default_rng(seed), [0.0]
        for _ in range(200):
            values.append(0.4 * values[-1] + draw.normal(0, 0.01))
        count += len(changes(values))
    assert count <= 12


# --- what `make simulate-trend` promises, in short -------------------------------------------


def test_there_is_at_most_one_false_alarm_a_year() -> None:
    assert sum(alarms(shape, 0) for shape in range(len(SHAPES))) <= len(SHAPES)


@pytest.mark.parametrize("case", [c for c in POWERS if (c.trials, c.slower) == (5, 0.02)])
def test_two_percent_are_shown_within_five_nights(case: Any) -> None:
    until = [nights_until_shown(case, number) for number in range(20)]
    assert sum(nights <= 5 for nights in until) >= 18


# --- the baseline ----------------------------------------------------------------------------


def test_the_host_is_taken_out_by_the_baseline() -> None:
    assert [series.changes for series in trend().series] == [[]]
    rates, cables = sixty()
    raw = trend_of(history(rates, cables), use_cable=False)
    assert len(raw.series[0].changes) >= 2


def test_a_change_of_the_switch_is_found_on_a_host_that_changes() -> None:
    (series,) = trend(slower=0.02).series
    (change,) = series.changes
    assert abs(change.start - 40) <= 1
    assert change.found < 45
    assert series.is_worse
    assert series.worse_by == pytest.approx(0.02, abs=0.006)


def test_direct_in_the_same_run_is_the_baseline() -> None:
    rates, cables = sixty()
    runs = history(rates)  # the calibrations do not show what the host does
    direct = TEST.model_copy(update={"switch": "direct"})
    for number, (cable, (_, records)) in enumerate(zip(cables, runs, strict=True)):
        records.append(night(number, cable, None, direct))
    bridge, host = trend_of(runs, parse_conditions(["slower:1%"])).series
    assert bridge.changes == []
    assert host.is_cable
    assert host.changes
    assert host.is_worse
    assert trend_of(runs, parse_conditions(["slower:1%"])).failures == []


def test_nights_without_a_baseline_are_left_out_or_none_is_used() -> None:
    rates, cables = sixty(slower=0.02)
    some = [None if number % 10 == 3 else cable for number, cable in enumerate(cables)]
    (series,) = trend_of(history(rates, some)).series
    assert series.uses_cable
    assert (series.left_out, len(series.nights)) == (6, 54)
    few = [cable if number % 10 == 3 else None for number, cable in enumerate(cables)]
    (series,) = trend_of(history(rates, few)).series
    assert not series.uses_cable
    assert (series.left_out, len(series.nights)) == (0, 60)
    failed = history(rates[:12], calibration=NoCalibration(error="it failed"))
    assert not trend_of(failed).series[0].uses_cable


# --- what fails ------------------------------------------------------------------------------


def test_a_condition_fails_at_its_amount() -> None:
    assert [failure.condition for failure in trend("slower:1%", slower=0.03).failures] == [
        "slower:1%"
    ]
    assert trend("slower:8%", slower=0.03).failures == []
    assert trend("slower:1%").failures == []
    assert trend("slower:1%", slower=-0.03).failures == []  # faster


def test_a_reason_names_the_run_and_the_probability() -> None:
    (failure,) = trend("slower:1%", slower=0.03).failures
    found = re.fullmatch(
        r"(.*) % worse than the last good state since run night-(.*) \(p (.*)\)", failure.reason
    )
    assert found is not None, failure.reason
    assert float(found[1]) == pytest.approx(3, abs=0.7)
    assert abs(int(found[2]) - 40) <= 1
    assert float(found[3]) <= 1 / 200


def test_latency_is_worse_if_it_rises() -> None:
    assert last_good([state(1.0), state(1.1)], more_is_better=False) == 0
    assert last_good([state(1.0), state(0.9)], more_is_better=False) == 1


def state(level: float, start: int = 0, error: float = 0.01) -> State:
    return State(start, start + 10, level, error)


def test_the_last_good_state_is_one_that_is_not_worse() -> None:
    levels = [1.0, 0.9, 0.95, 0.99, 0.8]
    divided = [state(level, 10 * index) for index, level in enumerate(levels)]
    assert last_good(divided, more_is_better=True) == 3  # 0.99 is 1.0 within the error
    assert last_good(divided[:3], more_is_better=True) == 0
    assert last_good(divided[:3], more_is_better=True, accepted=15) == 2
    assert last_good(divided[:2], more_is_better=True, accepted=15) == 1


def test_an_accepted_change_does_not_fail() -> None:
    rates, cables = sixty(slower=0.03)
    runs, conditions = history(rates, cables), parse_conditions(["slower:1%"])
    assert trend_of(runs, conditions).failures
    assert trend_of(runs, conditions, accepted="night-45").failures == []
    assert trend_of(runs, conditions, accepted="night-30").failures
    with pytest.raises(UsageError, match="no run is named 'night-99'"):
        trend_of(runs, conditions, accepted="night-99")


def test_undecided_is_no_condition_of_a_trend() -> None:
    with pytest.raises(UsageError, match="--fail-on undecided is for compare"):
        trend("undecided")


def test_tests_that_failed_have_no_night() -> None:
    runs = history([1e6] * 12)
    runs[3] = ("night-3", [night(3, 1e6, status="failed", error="it broke")])
    assert len(trend_of(runs).series[0].nights) == 11


def test_runs_are_in_the_order_of_time() -> None:
    runs = history([1e6 + number for number in range(12)])
    random.Random(1).shuffle(runs)
    (series,) = trend_of(runs).series
    assert [one.run for one in series.nights] == [f"night-{number}" for number in range(12)]


# --- what is written -------------------------------------------------------------------------


def test_the_lines_of_a_trend() -> None:
    text = "\n".join(trend_lines(trend("slower:1%", slower=0.03)))
    assert re.search(r"linux-bridge +rate +60 +\S+ kpps +\S+ kpps +1\n", text)
    assert re.search(r"change of -[23]\S* % \(worse\) since run night-(39|40|41): ", text)
    assert "levels do not contain the changes of each night's baseline" in text
    assert "passed: 0, failed: 1; conditions: slower:1%" in text


def test_a_change_names_what_changed_with_it() -> None:
    rates, cables = sixty(slower=0.05)
    runs = history(rates, cables)
    (since,) = (change.start for change in trend_of(runs).series[0].changes)
    for number, (name, records) in enumerate(runs):
        host = {"kernel": "6.1" if number < since else "6.2", "cpu_model": "one"}
        origin = Origin(run=name, host=host, versions={"switchmark": "1"})
        records[0] = records[0].model_copy(
            update={"origin": origin, "switch_version": "1.0" if number < since else "1.1"}
        )
    found = trend_of(runs)
    (line,) = [line for line in trend_lines(found) if "(worse)" in line]
    assert line.endswith("; switch linux-bridge: 1.0 to 1.1; kernel: 6.1 to 6.2")
    (change,) = as_object(found.series[0], ())["changes"]
    assert change["differences"]["kernel"] == ["6.1", "6.2"]


def test_a_short_series_is_said_to_be_short() -> None:
    found = trend_of(history([1e6] * 5), parse_conditions(["slower:1%"]))
    text = "\n".join(trend_lines(found))
    assert "too few runs to show any change: 5 of at least 12" in text
    assert "passed: 0, failed: 0, too short: 1" in text
    case = ElementTree.fromstring(trend_junit(found)).find(".//testcase/skipped")
    assert case is not None


def test_runs_whose_figures_may_be_wrong_are_counted_by_their_doubts() -> None:
    runs = history([1e6] * 14)
    assert "may be wrong" not in "\n".join(trend_lines(trend_of(runs)))
    every = [("host-busy", "not-isolated", "started-late"), ("host-busy",), ("not-isolated",)]
    for (_, records), doubts in zip(runs, every, strict=False):
        records[0] = records[0].model_copy(update={"doubts": doubts})
    found = trend_of(runs)
    note = "linux-bridge: the figures of 2 of 14 runs may be wrong (host-busy 2, started-late 1)"
    assert note in list(trend_lines(found))
    assert note in trend_markdown(found).replace("\\", "")
    assert note in page_of_trend(found)


def test_junit_has_a_failure_with_the_reason() -> None:
    root = ElementTree.fromstring(trend_junit(trend("slower:1%", slower=0.03)))
    assert (root.get("tests"), root.get("failures"), root.get("skipped")) == ("1", "1", "0")
    failure = root.find(".//failure")
    assert failure is not None
    assert failure.get("type") == "slower:1%"
    assert "% worse than the last good state since run" in failure.get("message", "")
    passed = ElementTree.fromstring(trend_junit(trend("slower:8%", slower=0.03)))
    assert passed.find(".//failure") is None


def test_markdown_escapes_names_of_runs() -> None:
    rates, cables = sixty(slower=0.03)
    runs = [(f"{name}|<b>", records) for name, records in history(rates, cables)]
    text = trend_markdown(trend_of(runs, parse_conditions(["slower:1%"])))
    assert "<b>" not in text.replace(r"\<b\>", "")
    rows = [line for line in text.splitlines() if line.startswith("| linux")]
    assert len(rows) == 1
    assert "failed: slower:1%" in rows[0]


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("place", ["time", "run", "version"])
def test_the_page_has_the_chart_and_the_reason(place: Any) -> None:
    rates, cables = sixty(slower=0.03)
    runs = [(f"{name}<script>", records) for name, records in history(rates, cables)]
    text = page_of_trend(trend_of(runs, parse_conditions(["slower:1%"]), place=place))
    assert "<script>'" not in text
    assert "night-40<script>" not in text
    assert "slower:1%: " in text
    assert "adjusted by the baseline" in text
    assert text.count("<figure") == 2


def test_json_has_the_nights_and_the_changes() -> None:
    found = trend("slower:1%", slower=0.03)
    content = json.loads(json.dumps(as_object(found.series[0], found.failures)))
    assert len(content["nights"]) == 60
    first = content["nights"][0]
    assert first["adjusted"] == pytest.approx(
        first["figure"] / first["baseline"] * np.median([n["baseline"] for n in content["nights"]])
    )
    (change,) = content["changes"]
    assert change["change"] == pytest.approx(-0.03, abs=0.007)
    assert not math.isnan(content["worse_by"])
    assert content["failures"][0]["condition"] == "slower:1%"


# --- the command -----------------------------------------------------------------------------


def folder(parent: Path, runs: Sequence[tuple[str, list[Record]]]) -> Path:
    for name, records in runs:
        made = stored_run(parent / "tmp", records)
        made.rename(parent / name)
    (parent / "tmp").rmdir()
    return parent


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rates = [1e6 * (1 + 0.002 * (number % 3)) for number in range(16)] + [0.9e6] * 4
    return folder(tmp_path_factory.mktemp("nights"), history(rates))


def run(*arguments: object) -> int:
    return app(["trend", *map(str, arguments)], prog_name="switchmark", standalone_mode=False) or 0


def test_the_command_reads_a_folder_of_runs(
    nights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / name for name in ("a.html", "b.xml", "c.md")]
    status = run(
        nights,
        "--fail-on",
        "slower:2%",
        "-o",
        files[0],
        "--junit",
        files[1],
        "--markdown",
        files[2],
    )
    assert status == 1
    assert "change of -10 % (worse) since run night-16" in capsys.readouterr().out
    assert all(file.stat().st_size > 300 for file in files)
    assert run(nights, "--fail-on", "slower:20%") == 0
    assert run(*sorted(nights.iterdir()), "--fail-on", "slower:2%") == 1
    assert run(nights, "--fail-on", "slower:2%", "--accept", "night-17") == 0
    capsys.readouterr()
    assert run(nights, "--json") == 0
    assert json.loads(capsys.readouterr().out)["last_good"] == "night-15"


def test_the_command_refuses_what_is_no_run(nights: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no run folder and contains no run"):
        run(tmp_path)
    with pytest.raises(UsageError, match=r"-o writes .html or .md"):
        run(nights, "-o", tmp_path / "x.pdf")


def test_compare_takes_the_last_good_state(
    nights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The four last nights are 10 % slower, so the run is compared with night 15."""
    (new,) = folder(tmp_path, [("new", [night(20, 0.9e6)])]).iterdir()

    def compare(*arguments: object) -> int:
        words = ["compare", *map(str, arguments)]
        return app(words, prog_name="switchmark", standalone_mode=False) or 0

    assert compare("--good", nights, new, "--fail-on", "slower:5%", "--json") == 1
    (pair,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert pair["before"]["runs"] == ["night-15"]
    assert pair["ratio"] == pytest.approx(0.9, abs=0.01)
    (same,) = folder(tmp_path / "other", [("same", [night(20, 1e6)])]).iterdir()
    assert compare("--good", nights, same, "--fail-on", "slower:5%") == 0
    with pytest.raises(UsageError, match="--good compares one run with a trend"):
        compare("--good", nights, new, same)
    latency = night(20, 1e6, test=TEST.model_copy(update={"burst": 7}))
    (apart,) = folder(tmp_path / "apart", [("apart", [latency])]).iterdir()
    with pytest.raises(UsageError, match="have no test in common"):
        compare("--good", nights, apart)
