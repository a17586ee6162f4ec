"""These tests plan searches for settings and summarise the results: pure, with real drivers."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest

from switchmark.campaign import tuning
from switchmark.campaign.load import Campaign, from_options
from switchmark.campaign.store import RunFolder
from switchmark.campaign.tuning import (
    REPEATS,
    TUNED,
    asked_for,
    expected_tuning_s,
    folders_of,
    is_tuning,
    keep_asked,
    to_compare,
    to_try,
    with_default_settings,
    with_settings_of_its_own,
)
from switchmark.errors import UsageError
from switchmark.metrics.family import Results
from switchmark.metrics.throughput import rates_pps
from switchmark.model.record import Record
from switchmark.model.test import AXES, Test
from switchmark.path.refusals import check
from switchmark.report.tuning import command_of, tuning_lines
from switchmark.switches import TABLE as SWITCHES

STORED = Path(__file__).parent / "data/records-schema-1.jsonl"
RECORD = Record.model_validate(json.loads(STORED.read_text())["record"])
SETTINGS = [name for name, axis in AXES.items() if axis.tries]


def campaign_of(switch: str = "testpmd", engine: str = "dpdk", **axes: str) -> Campaign:
    return from_options({"switch": switch, "engine": engine, **axes}, check)


def settings(test: Test) -> dict[str, object]:
    return {name: getattr(test, name) for name in SETTINGS}


def others(campaign: Campaign, count: int) -> list[Test]:
    """Return the settings that are tried in addition to the default of the only test."""
    (test,) = campaign.tests
    return with_settings_of_its_own(test, to_try(campaign, count, check).tests)


def measured(test: Test, pps: int, repeat: int = 1) -> Record:
    """Return a record of trials that received so many frames a second."""
    trial = RECORD.trials[0]
    frames = round(pps * trial.elapsed_ns / 1e9)
    spread = [frames + frames * (i % 3 - 1) // 100 for i in range(repeat)]
    trials = tuple(
        trial.model_copy(update={"rx_frames": count, "duplicated": 0, "intervals": ()})
        for count in spread
    )
    fine = {"status": "ok", "error": None, "verdict": "switch", "doubts": ()}
    return RECORD.model_copy(update={"test": test, "trials": trials, **fine})


# --- what is tried ---------------------------------------------------------------------------


def test_settings_are_distinct_valid_and_none_is_the_default() -> None:
    tried = others(campaign_of(), 40)
    assert len(tried) == len(set(tried)) == 40
    for test in tried:
        assert check(test) == []
        assert settings(test) != settings(Test())
        assert {name for name in AXES if getattr(test, name) != getattr(tried[0], name)} <= {
            *SETTINGS
        }


def test_settings_are_the_same_each_time_and_others_with_another_seed() -> None:
    assert others(campaign_of(), 10) == others(campaign_of(), 10)
    drawn = [settings(test) for test in others(campaign_of(), 10)]
    assert drawn != [settings(test) for test in others(campaign_of(seed="2"), 10)]
    assert drawn[:5] == [settings(test) for test in others(campaign_of(), 5)]


def test_settings_are_drawn_alike_for_all_switches() -> None:
    """Switches that follow the same axes get the same settings; a switch that follows some of them
    gets the settings of these axes."""
    all_settings, some = (
        SWITCHES[name].resources & set(SETTINGS) for name in ("testpmd", "ovs-dpdk")
    )
    assert all_settings > some == {"queues", "descriptors"}

    def drawn(switch: str) -> list[Test]:
        test = Test(switch=switch, engine="dpdk", flows=64)
        return list(islice(tuning._with_settings(test, lambda test: []), 30))

    testpmd, fastclick, ovs = map(drawn, ("testpmd", "fastclick", "ovs-dpdk"))
    assert [settings(test) for test in testpmd] == [settings(test) for test in fastclick]
    of_some = [tuple(getattr(test, name) for name in sorted(some)) for test in testpmd]
    usual = tuple(getattr(Test(), name) for name in sorted(some))
    combinations = [tuple(getattr(test, name) for name in sorted(some)) for test in ovs]
    assert [setting for setting in dict.fromkeys(of_some) if setting != usual] == combinations[
        : len(set(of_some)) - 1
    ]


def test_every_value_of_every_setting_is_tried_before_long() -> None:
    test = Test(switch="testpmd", engine="dpdk", flows=64)
    tried = list(islice(tuning._with_settings(test, check), 60))
    followed = SWITCHES["testpmd"].resources & set(SETTINGS)
    assert len(followed) > 3
    for name in followed:
        axis = AXES[name]
        assert {getattr(test, name) for test in tried} == {axis.default, *axis.tries}


def test_what_there_is_is_tried_where_it_is_less_than_asked_for() -> None:
    (other,) = others(campaign_of("basicfwd"), 20)
    assert other.memory == "no-huge"


@pytest.mark.parametrize("switch", ["linux-bridge", "xdp-redirect", "ip-forward"])
@pytest.mark.parametrize("engine", ["dpdk", "raw-mmsg"])
def test_a_switch_of_the_kernel_has_nothing_to_tune(switch: str, engine: str) -> None:
    campaign = campaign_of(switch, engine)
    assert list(to_try(campaign, 5, check).tests) == [
        test.model_copy(update={"repeat": 1}) for test in campaign.tests
    ]


def test_a_setting_that_was_asked_for_stays() -> None:
    tried = others(campaign_of(memory="no-huge", switch_burst="64"), 20)
    assert {(test.memory, test.switch_burst) for test in tried} == {("no-huge", 64)}


def test_more_cpus_are_no_setting() -> None:
    assert {test.switch_cores for test in others(campaign_of(), 40)} == {"auto"}


def test_queues_are_tried_where_there_are_flows_for_them() -> None:
    assert {test.queues for test in others(campaign_of(), 40)} == {1}
    assert {test.queues for test in others(campaign_of(flows="64"), 40)} == {1, 2, 4}


def test_each_test_is_tried_once_and_the_default_too() -> None:
    campaign = campaign_of("testpmd,l2fwd", frame_size="64,1500", repeat="7", search="max")
    tried = to_try(campaign, 3, check).tests
    assert {test.repeat for test in tried} == {1}
    for test in campaign.tests:
        assert len(with_default_settings(test, tried)) == 1
        found = with_settings_of_its_own(test, tried)
        assert len(found) == (3 if test.switch == "testpmd" else 1)
        assert {(test.switch, test.frame_size) for test in found} == {
            (test.switch, test.frame_size)
        }


@pytest.mark.parametrize(
    ("axes", "says"),
    [
        ({"search": "ndr"}, "search ndr is another figure"),
        ({"search": "back-to-back"}, "search back-to-back is another figure"),
        ({"rate": "1M"}, "a rate of 1M is another figure"),
        ({"rate": "50%"}, "a rate of 50% is another figure"),
        ({"dimension": "latency", "rate": "1000"}, "dimension latency has none"),
        ({"memory": "hugepages,no-huge"}, "--tune chooses --memory"),
    ],
)
def test_what_makes_no_sense_is_refused(axes: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says) as refused:
        to_try(campaign_of(**axes), 3, check)
    assert refused.value.hint


# --- what is compared ------------------------------------------------------------------------


def test_the_best_is_measured_anew_beside_the_default() -> None:
    campaign = campaign_of("testpmd,linux-bridge", repeat="3")
    tried = to_try(campaign, 3, check)
    rates = {test: 1000 + 10 * number for number, test in enumerate(tried.tests)}
    records = [measured(test, pps) for test, pps in rates.items()]
    best = max(others(campaign_of(repeat="3"), 3), key=lambda test: rates[test])
    compared = to_compare(campaign, records, lambda record: rates_pps(record)[0])
    by_switch = {
        name: [test for test in compared.tests if test.switch == name]
        for name in ("testpmd", "linux-bridge")
    }
    assert {test.repeat for test in compared.tests} == {REPEATS}
    default, tuned = by_switch["testpmd"]
    assert settings(default) == settings(Test())
    assert settings(tuned) == settings(best)
    assert len(by_switch["linux-bridge"]) == 1
    assert expected_tuning_s(campaign, tried) > sum(
        test.duration * test.repeat for test in (*tried.tests, *compared.tests)
    )


def test_what_could_not_be_measured_is_not_the_best() -> None:
    campaign = campaign_of()
    tried = to_try(campaign, 2, check)
    failed = [
        measured(test, 9).model_copy(update={"status": "failed", "error": "no"})
        for test in tried.tests
    ]
    (only,) = to_compare(campaign, failed, lambda record: 1.0).tests
    assert settings(only) == settings(Test())
    assert only.repeat == max(REPEATS, campaign.tests[0].repeat)


def test_more_repeats_that_were_asked_for_are_made() -> None:
    campaign = campaign_of(repeat="9", until_certain="1%")
    (test,) = to_compare(campaign, [], lambda record: 1.0).tests
    assert (test.repeat, test.until_certain) == (9, 0.01)


def test_a_run_folder_knows_what_was_asked_for(tmp_path: Path) -> None:
    campaign = campaign_of("testpmd,basicfwd", repeat="4")
    with RunFolder.create(tmp_path, to_try(campaign, 2, check), {}) as run:
        assert not is_tuning(run.path)
        keep_asked(run.path, campaign)
        assert is_tuning(run.path)
        assert asked_for(run.path).tests == campaign.tests
        assert folders_of(run.path) == [run.path]
        beside = to_compare(campaign, [], lambda record: 1.0)
        with RunFolder.create(run.path, beside, {}, TUNED) as compared:
            compared.resumed_by = run.path
            assert compared.resume_command == f"switchmark resume {run.path}"
            assert folders_of(run.path) == [run.path, compared.path]


# --- what is said ----------------------------------------------------------------------------


def lines(default_pps: int, tuned_pps: int | None, tried: int = 8) -> list[str]:
    test = Test(switch="testpmd", engine="dpdk", search="max", repeat=5)
    tuned = test.model_copy(update={"switch_burst": 64, "memory": "no-huge"})
    default = measured(test, default_pps, 5)
    beside = None if tuned_pps is None else measured(tuned, tuned_pps, 5)
    results = Results.of(filter(None, (default, beside)))
    return tuning_lines(default, beside, tried, ("switch",), results)


def test_a_difference_is_told_with_both_intervals_and_the_command() -> None:
    text, command = lines(1_000_000, 1_200_000)
    assert text.startswith(
        "testpmd: default 1 Mpps (0.99..1.01 of 5), tuned 1.2 Mpps (1.19..1.21 of 5): "
    )
    assert "faster by" in text
    assert "best of 8 settings" in text
    assert command.strip() == (
        "switchmark run --switch testpmd --engine dpdk --memory no-huge --switch-burst 64 "
        "--search max --repeat 5"
    )


def test_no_difference_is_told_as_none() -> None:
    assert "undecided: " in lines(1_000_000, 1_000_100)[0]
    assert "slower by" in lines(1_000_000, 800_000)[0]


def test_a_switch_without_settings_is_told_as_such() -> None:
    (text,) = lines(1_000_000, None, tried=0)
    assert text.endswith("; has nothing to tune")
    (text,) = lines(1_000_000, None, tried=4)
    assert text.endswith("; none of 4 settings could be measured")


def test_a_command_makes_the_same_test_again() -> None:
    test = Test(switch="vpp", frame_size="imix", until_certain="0.5%", cpu_limit="50", vlan=5)
    arguments = command_of(test).split()[2:]
    options = {
        word[2:].replace("-", "_"): value
        for word, value in zip(arguments[::2], arguments[1::2], strict=True)
    }
    (again,) = from_options(options, lambda test: []).tests
    assert again == test
