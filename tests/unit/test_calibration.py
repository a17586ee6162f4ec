"""What is measured without a switch for a test, and on whose seats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from switchmark.campaign.calibration import Calibrations
from switchmark.campaign.layout import Layout, lay_out
from switchmark.errors import TrialFailed
from switchmark.machine.cpus import Cpu
from switchmark.machine.placement import Placement, place
from switchmark.model.record import PartReport, TrialResult
from switchmark.model.spec import Test, TrialSpec

PARTS = tuple(
    PartReport(part=part, roles=(role,), cpu=0, cores=1, user_cores=0.1, polls=100)
    for part, role in (("f0", "sender"), ("f1", "receiver"))
)


class Bench:
    """Notes what it is asked to measure, but for senders into nothing."""

    def __init__(self, cache: Path) -> None:
        self.asked: list[tuple[Test, Placement]] = []
        self.fails = ""
        self.doubts: tuple[str, ...] = ()
        self.kept = Calibrations("auto", self._measure, cache / "calibration.json")

    def _measure(self, test: Test, placement: Placement, spec: TrialSpec) -> TrialResult:
        if test.switch == self.fails:
            raise TrialFailed("no cable today")
        if test.switch == "direct":
            self.asked.append((test, placement))
        return self.trial(spec, 100 * len(self.asked))

    def trial(self, spec: TrialSpec, frames: int) -> TrialResult:
        counts = {"tx_frames": frames, "tx_unsent": 0, "rx_frames": frames, "rx_bytes": 0}
        return TrialResult(
            spec=spec,
            elapsed_ns=10**9,
            lost=0,
            lost_at={},
            parts=PARTS,
            doubts=self.doubts,
            **counts,
        )

    def of(self, **axes: Any) -> dict[str, Any] | None:
        test, layout, placement = drawn(**axes)
        before = len(self.asked)
        lacks = self.kept.lacks(test, layout, placement, {})
        found = self.kept.of(test, layout, placement, {})
        assert lacks == (len(self.asked) > before or bool(self.fails))
        return found


def drawn(**axes: Any) -> tuple[Test, Layout, Placement]:
    test = Test(**axes)
    layout = lay_out(test, prefix="sm0000", run_dir="/run/x")
    return test, layout, place(layout.tenants(), [Cpu(0), Cpu(1)])


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.mark.parametrize("content", ["[]", "7", "null", '{"a": 1}', '{"a": []}', "{", ""])
def test_a_cache_of_something_else_counts_as_none(content: str, tmp_path: Path) -> None:
    (tmp_path / "calibration.json").write_text(content)
    found = Bench(tmp_path).of()
    assert found is not None
    assert found["switch"] == "direct"


def test_a_chain_has_its_ends_and_its_functions_on_cables(bench: Bench) -> None:
    found = bench.of(scenario="loopback", chain=2, cpu_limit="function:50")
    (ends, seats), (functions, _) = bench.asked
    assert (ends.switch, ends.scenario, ends.cpu_limit) == ("direct", "p2p", None)
    assert set(seats.seats) == {"switch", "a0", "b0"}
    assert (functions.scenario, functions.chain, functions.cpu_limit) == (
        *("loopback", 2, "function:50"),
    )
    assert found is not None
    assert (found["rate_pps"][1], found["functions"]["rate_pps"][1]) == (100, 200)
    # Its ends are those of a longer chain too, where they sit at the same CPUs.
    bench.of(scenario="loopback", chain=2)
    assert [test.scenario for test, _ in bench.asked] == ["p2p", "loopback", "loopback"]


def test_chains_beside_each_other_have_cables_beside_each_other(bench: Bench) -> None:
    bench.of(scenario="loopback", chains=2)
    (ends, _), (functions, placement) = bench.asked
    assert (ends.flows, ends.flows_by) == (2, "mac")
    assert (functions.pairs, functions.chains) == (2, 1)
    seats = placement.seats
    assert seats["a1"].cpus == seats["a0"].cpus
    assert seats["a1"].yield_
    assert "c2f1" in seats


def test_copies_have_a_sender_each_at_the_seat_of_the_one(bench: Bench) -> None:
    found = bench.of(copies=2)
    (ends, _), (apart, placement) = bench.asked
    assert [(test.copies, test.pairs) for test in (ends, apart)] == [(1, 1), (1, 2)]
    seats = {part: seat.cpus for part, seat in placement.seats.items()}
    assert seats["f2"] == seats["f0"]
    assert found is not None
    assert found["apart"]["rate_pps"][1] == 200


def test_a_limit_of_the_switch_is_not_that_of_a_cable(bench: Bench) -> None:
    assert bench.of(switch="ovs", cpu_limit="switch:30") is not None
    assert bench.asked[0][0].cpu_limit is None


def test_what_fails_is_told_and_not_tried_again(bench: Bench) -> None:
    bench.fails = "direct"
    assert bench.of() == {"error": "no cable today"}
    assert not bench.kept.lacks(*drawn(), {})


@pytest.mark.parametrize(("doubts", "asked"), [((), 1), (("host-busy",), 6)])
def test_what_a_busy_host_did_is_not_kept_for_others(
    tmp_path: Path, doubts: tuple[str, ...], asked: int
) -> None:
    one, other = Bench(tmp_path), Bench(tmp_path)
    one.doubts = other.doubts = doubts
    one.of()
    one.of()
    other.kept = Calibrations("auto", other._measure, tmp_path / "calibration.json")
    other.of()
    assert len(one.asked) + len(other.asked) == asked


def test_latency_has_no_calibration(bench: Bench) -> None:
    assert bench.of(dimension="latency", rate="1k") is None


SATURATING = TrialSpec(rate_pps=None, duration_s=1, warmup_s=0)


@pytest.mark.parametrize(
    ("axes", "spec", "frames", "rate_pps"),
    [
        ({"switch": "direct"}, SATURATING, 150, 150),
        ({"switch": "direct"}, SATURATING, 50, 100),
        ({"switch": "direct"}, SATURATING.model_copy(update={"rate_pps": 150.0}), 150, 100),
        ({"switch": "direct", "burst": 8}, SATURATING, 150, 100),
        ({}, SATURATING, 150, 100),
    ],
    ids=("better", "worse", "a rate was asked for", "other axes", "a switch"),
)
def test_a_better_trial_on_the_cable_takes_its_place(
    bench: Bench, axes: dict[str, Any], spec: TrialSpec, frames: int, rate_pps: int
) -> None:
    bench.of()
    bench.kept.learn(*drawn(**axes), {}, bench.trial(spec, frames))
    found = bench.of()
    assert found is not None
    assert found["rate_pps"][1] == found["sent_pps"] == rate_pps
    assert found["null_pps"] == 100
