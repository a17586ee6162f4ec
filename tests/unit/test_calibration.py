"""These tests check what is measured without a switch for a test, and on whose CPUs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from switchmark.cli.arguments import Measuring
from switchmark.cli.running import checked_options
from switchmark.errors import TrialFailed, UsageError
from switchmark.lab.cable import Basis
from switchmark.lab.calibration import Calibrations, Mode
from switchmark.model.cable import Calibration, NoCalibration
from switchmark.model.cpus import Cpu
from switchmark.model.record import PartReport, TrialResult, TrialSpec
from switchmark.model.test import Test
from switchmark.path.placement import Placement, place
from switchmark.path.resolving import resolve

PARTS = tuple(
    PartReport(part=part, roles=(role,), cpu=0, cores=1, user_cores=0.1, polls=100)
    for part, role in (("f0", "sender"), ("f1", "receiver"))
)

BOOT, CPU = "c0ffee", "Some CPU @ 2.00GHz"


class Bench:
    """A bench that records its measurements, except those of senders into a null sink. Each cable
    carries 100 more than the one before it in its second trial, 10 less in the first and 10 more in
    the third; the next have the `doubts` that are listed, in turn."""

    def __init__(self, cache: Path, *doubts: tuple[str, ...], now: float = 0) -> None:
        self.asked: list[tuple[Test, Placement]] = []
        self.fails = ""
        self.doubts = list(doubts)
        self.now = now
        self.path = cache / "calibration.json"
        self.begin()

    def begin(self, mode: Mode = "auto") -> None:
        """Begin another run."""
        self.kept = Calibrations(mode, self._measure, self.path, lambda: self.now)

    def _measure(
        self,
        test: Test,
        placement: Placement,
        spec: TrialSpec,
        enough: Callable[[Sequence[TrialResult]], bool],
    ) -> Sequence[TrialResult]:
        if test.switch == self.fails:
            raise TrialFailed("no cable today")
        if test.switch != "direct":
            return [self.trial(spec, 100)]
        self.asked.append((test, placement))
        trials: list[TrialResult] = []
        while not trials or not enough(trials):
            doubts = self.doubts.pop(0) if self.doubts else ()
            frames = 100 * len(self.asked) + (-10, 0, 10, 30, 50)[len(trials)]
            trials.append(self.trial(spec, frames, doubts))
        return trials

    def trial(self, spec: TrialSpec, frames: int, doubts: tuple[str, ...] = ()) -> TrialResult:
        counts = {"tx_frames": frames, "tx_unsent": 0, "rx_frames": frames, "rx_bytes": 0}
        return TrialResult(
            spec=spec,
            elapsed_ns=10**9,
            lost=0,
            lost_at={},
            parts=PARTS,
            doubts=doubts,
            **counts,
        )

    def of(self, **axes: Any) -> Calibration | NoCalibration | None:
        those = drawn(**axes)
        before = len(self.asked)
        lacks = self.kept.lacks(those)
        found = self.kept.of(those)
        assert lacks == (len(self.asked) > before or bool(self.fails))
        return found


def drawn(**axes: Any) -> Basis:
    test = Test(**axes)
    layout = resolve(test, prefix="sm0000", run_dir="/run/x")
    placement = place(layout.cpu_users, [Cpu(0), Cpu(1)])
    return Basis(layout.placed(replace(placement, policy=test.placement)), {}, BOOT, CPU)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.mark.parametrize("content", ["[]", "7", "null", '{"a": 1}', '{"a": []}', "{", ""])
def test_a_cache_of_something_else_counts_as_none(content: str, tmp_path: Path) -> None:
    (tmp_path / "calibration.json").write_text(content)
    found = Bench(tmp_path).of()
    assert isinstance(found, Calibration)
    assert found.switch == "direct"


def test_a_chain_has_its_ends_and_its_functions_on_cables(bench: Bench) -> None:
    found = bench.of(scenario="loopback", chain=2, cpu_limit="function:50")
    (ends, seats), (functions, _) = bench.asked
    assert (ends.switch, ends.scenario, ends.cpu_limit) == ("direct", "p2p", None)
    assert set(seats.pins) == {"switch", "a0", "b0"}
    assert (functions.scenario, functions.chain, functions.cpu_limit) == (
        *("loopback", 2, "function:50"),
    )
    assert isinstance(found, Calibration)
    assert found.functions is not None
    assert (found.rate_pps[1], found.functions.rate_pps[1]) == (100, 200)
    # Its ends are those of a longer chain too, where they sit at the same CPUs.
    bench.of(scenario="loopback", chain=2)
    assert [test.scenario for test, _ in bench.asked] == ["p2p", "loopback", "loopback"]


def test_chains_beside_each_other_have_cables_beside_each_other(bench: Bench) -> None:
    bench.of(scenario="loopback", chains=2)
    (ends, _), (functions, placement) = bench.asked
    assert (ends.flows, ends.flows_by) == (2, "mac")
    assert (functions.pairs, functions.chains) == (2, 1)
    seats = placement.pins
    assert seats["a1"].cpus == seats["a0"].cpus
    assert seats["a1"].yield_
    assert "c2f1" in seats


@pytest.mark.parametrize(
    "axes", [{"switch": "ovs", "placement": "unpinned:switch"}, {"placement": "unpinned:function"}]
)
def test_the_cable_of_a_test_that_pins_some_has_their_cpus(
    bench: Bench, axes: dict[str, Any]
) -> None:
    bench.of(**axes)
    assert [cable.placement for cable, _ in bench.asked] == ["pinned"]


def test_copies_have_a_sender_each_at_the_seat_of_the_one(bench: Bench) -> None:
    found = bench.of(copies=2)
    (ends, _), (apart, placement) = bench.asked
    assert [(test.copies, test.pairs) for test in (ends, apart)] == [(1, 1), (1, 2)]
    seats = {part: pin.cpus for part, pin in placement.pins.items()}
    assert seats["f2"] == seats["f0"]
    assert isinstance(found, Calibration)
    assert found.apart is not None
    assert found.apart.rate_pps[1] == 200


def test_a_limit_of_the_switch_is_not_that_of_a_cable(bench: Bench) -> None:
    assert bench.of(switch="ovs", cpu_limit="switch:30") is not None
    assert bench.asked[0][0].cpu_limit is None


def test_what_fails_is_told_and_not_tried_again(bench: Bench) -> None:
    bench.fails = "direct"
    assert bench.of() == NoCalibration(error="no cable today")
    assert not bench.kept.lacks(drawn())


BUSY = ("host-busy",)


def rate(found: Calibration | NoCalibration | None) -> int:
    assert isinstance(found, Calibration)
    return int(found.rate_pps[1])


def test_it_is_the_median_of_trials_that_nothing_disturbed(tmp_path: Path) -> None:
    bench = Bench(tmp_path, BUSY, ("cpu-stolen",), (), ("short",), ())
    found = bench.of()  # 90 and 100 were disturbed; 110, 130 and 150 were not
    assert isinstance(found, Calibration)
    assert (rate(found), found.trials, found.doubts) == (130, 3, ("short",))
    bench.begin()
    assert rate(bench.of()) == 130
    assert len(bench.asked) == 1


def test_what_a_busy_host_did_is_not_kept_for_others(tmp_path: Path) -> None:
    bench = Bench(tmp_path, *[BUSY] * 10)
    assert rate(bench.of()) == rate(bench.of()) == 110
    assert len(bench.asked) == 1
    bench.begin()
    bench.of()
    assert len(bench.asked) == 2


@pytest.mark.parametrize(("later_s", "measurements"), [(0, 1), (3599, 1), (3600, 2), (-1, 2)])
@pytest.mark.parametrize("now", [0, 1_790_000_000])
def test_what_is_not_of_late_is_measured_anew(
    bench: Bench, later_s: int, measurements: int, now: int
) -> None:
    bench.now = now
    bench.of()
    bench.now += later_s
    bench.begin()
    bench.of()
    assert len(bench.asked) == measurements


def test_again_forgets_what_was_kept(bench: Bench) -> None:
    bench.of()
    bench.begin("again")
    assert rate(bench.of()) == 200


@pytest.mark.parametrize(
    "form",
    [
        lambda entry: entry | {"recent": None},
        lambda entry: entry["recent"][0],
        lambda entry: entry | {"recent": [{}]},
        lambda entry: entry | {"recent": [{"at": 0}]},
        lambda entry: entry | {"recent": [{"at": 0, "rate_pps": [1]}]},
        lambda entry: {"recent": entry["recent"]},
    ],
    ids=("no trials", "an earlier form", "no time", "no rate", "half a rate", "no null_pps"),
)
def test_a_cache_of_another_form_counts_as_none(
    bench: Bench, form: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    bench.of()
    cache = {key: form(entry) for key, entry in json.loads(bench.path.read_text()).items()}
    bench.path.write_text(json.dumps(cache))
    bench.begin()
    assert rate(bench.of()) == 200


@pytest.mark.parametrize(
    ("axes", "keys"),
    [
        ({}, ["14e7820d4d01e401"]),
        (
            {"switch": "ovs", "scenario": "loopback", "chain": 2},
            ["193310ffa680f531", "beb6a12702b855ab"],
        ),
    ],
)
def test_keys_of_calibrations_stay_valid(
    bench: Bench, axes: dict[str, Any], keys: list[str]
) -> None:
    """A calibration that an earlier version stored is found."""
    those = drawn(**axes)
    versions = {"switchmark": "1", "switch ovs": "2", "engine udp": "1", "placement": "pinned"}
    bench.kept.of(replace(those, versions=versions))
    cache = json.loads(bench.path.read_text())
    assert list(cache) == keys
    assert cache[keys[0]]["null_pps"] == 100
    figures = ("rate_pps", "sent_pps", "empty_polls", "sender_ns", "receiver_ns", "doubts")
    assert list(cache[keys[0]]["recent"][0]) == ["at", *figures]


@pytest.mark.parametrize("changed", [{"boot": "decaf"}, {"cpu": "Another"}])
def test_another_boot_or_processor_of_its_host_is_calibrated_anew(
    bench: Bench, changed: Any
) -> None:
    bench.of()
    assert rate(bench.kept.of(replace(drawn(), **changed))) == 200
    bench.begin()
    assert rate(bench.of()) == 100, "what is known of one host is kept beside the other's"
    assert rate(bench.kept.of(replace(drawn(), **changed))) == 200


def test_two_processes_keep_what_each_measured(tmp_path: Path) -> None:
    one, other = Bench(tmp_path), Bench(tmp_path)
    one.of()
    other.of(burst=8)
    for axes in ({}, {"burst": 8}):
        later = Bench(tmp_path)
        later.of(**axes)
        assert later.asked == []
    old = Bench(tmp_path, now=3601)
    old.of(burst=16)
    assert len(json.loads(old.path.read_text())) == 1, "what is older than an hour goes"


def test_latency_has_no_calibration(bench: Bench) -> None:
    assert bench.of(dimension="latency", rate="1k") is None


SATURATING = TrialSpec(rate_pps=None, duration_s=1, warmup_s=0)


def test_a_single_good_moment_does_not_raise_it(bench: Bench) -> None:
    """A maximum over many runs would only ever rise."""
    assert rate(bench.of()) == 100  # of 90, 100, 110
    for frames in (500, 80, 70):
        bench.kept.learn(drawn(switch="direct"), bench.trial(SATURATING, frames))
    found = bench.of()
    assert isinstance(found, Calibration)
    assert (rate(found), found.sent_pps, found.trials, found.null_pps) == (90, 90, 6, 100)


def test_it_follows_the_last_trials(bench: Bench) -> None:
    bench.of()
    for _ in range(8):
        bench.kept.learn(drawn(switch="direct"), bench.trial(SATURATING, 50))
    found = bench.of()
    assert isinstance(found, Calibration)
    assert (rate(found), found.trials) == (50, 9)
    bench.begin()
    assert bench.of() == found


@pytest.mark.parametrize(
    ("axes", "spec", "doubts"),
    [
        ({"switch": "direct"}, SATURATING, BUSY),
        ({"switch": "direct"}, SATURATING.model_copy(update={"rate_pps": 150.0}), ()),
        ({"switch": "direct", "burst": 8}, SATURATING, ()),
        ({}, SATURATING, ()),
    ],
    ids=("disturbed", "a rate was asked for", "other axes", "a switch"),
)
def test_a_trial_of_something_else_is_not_counted(
    bench: Bench, axes: dict[str, Any], spec: TrialSpec, doubts: tuple[str, ...]
) -> None:
    before = bench.of()
    bench.kept.learn(drawn(**axes), bench.trial(spec, 150, doubts))
    assert bench.of() == before


@pytest.mark.parametrize(
    ("option", "choices"), [("calibrate", "auto, never, again"), ("gate", "refuse, doubt, off")]
)
def test_an_unknown_choice_is_refused_with_those_there_are(option: str, choices: str) -> None:
    measuring: Any = partial(replace, Measuring())
    for choice in choices.split(", "):
        _, options = checked_options(measuring(**{option: choice}))
        assert options[option] == choice
    with pytest.raises(UsageError) as refused:
        checked_options(measuring(**{option: "seldom"}))
    assert refused.value.message == f"--{option} takes {choices}, not 'seldom'"
