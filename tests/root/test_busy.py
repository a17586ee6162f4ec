"""These tests load the switches in user space, and check the busy share that they report and the
time that they take to start and to stop."""

from __future__ import annotations

import pytest

from real_frames import DISTURBED, Measure, only
from switchmark.model.record import Record, TrialResult
from switchmark.model.topology import PortKind, Semantics
from switchmark.switches import TABLE as SWITCHES
from truths import preferred

USER_SPACE = [name for name, switch in SWITCHES.items() if switch.program]
WITHOUT_A_SHARE = ("testpmd", "basicfwd", "l2fwd")
"""Like ovs, these do not report their busy share."""
FLOWS = {"flows": 16384, "flows_by": "mac"}
LOADS = (
    {"rate": "200", "duration": 0.3},
    {"rate": "100k", "duration": 0.3},
    # Long frames, which the switch copies and the sender does not, and many MACs are work for it:
    # of 64 bytes, two ends on one CPU send less than it takes. The drain does not count for much.
    {"rate": "max", "duration": 0.6, "frame_size": "1500"},
)


def engine_of(switch: str) -> str:
    past_kernel = PortKind.VHOST_USER in SWITCHES[switch].port_kinds
    return "dpdk" if past_kernel else "raw-mmsg"


def semantics_of(switch: str) -> str:
    semantics = SWITCHES[switch].semantics
    return Semantics.LEARNING if Semantics.LEARNING in semantics else semantics[0]


@pytest.mark.alone
@pytest.mark.parametrize(
    "switch",
    [
        pytest.param(name, marks=(pytest.mark.further,) if name in WITHOUT_A_SHARE else ())
        for name in USER_SPACE
    ],
)
def test_the_busy_share_follows_the_load(measure: Measure, switch: str) -> None:
    """More with more load; without other programs, nearly nothing at 200 pps and nearly all at R+.
    A switch that does not report its busy share does not report it at any load."""
    axes = {"switch": switch, "engine": engine_of(switch), "semantics": semantics_of(switch)}
    with preferred():
        records = measure.in_sequence(*({**axes, **FLOWS, **load} for load in LOADS))
    assert [record.reused for record in records] == [False, True, True], "loads share a path"
    assert_it_took_time_to_start_and_to_stop(records[0], records[-1])
    trials = [only(record) for record in records]
    flows = trials[-1].per_flow
    assert len(flows) == 16384
    assert sum(flow.tx for flow in flows) == trials[-1].tx_frames
    assert sum(flow.rx for flow in flows) == trials[-1].rx_frames
    shares = [busy_in(trial) for trial in trials]
    if shares[0] is None:
        assert shares == [None] * len(LOADS)
        return
    # Cycles in which a preempted switch had no CPU count as busy.
    unloaded, loaded, saturated = (share or 0.0 for share in shares)
    if not any("host-busy" in trial.doubts for trial in trials):
        assert unloaded < loaded < saturated
    if not any(DISTURBED & {*trial.doubts} for trial in trials):
        assert unloaded < 0.1
        assert saturated > 0.9


def busy_in(trial: TrialResult) -> float | None:
    assert trial.evidence.verdict is not None
    return trial.evidence.verdict.switch_busy


def assert_it_took_time_to_start_and_to_stop(first: Record, last: Record) -> None:
    """Check the times of a program: the first test on a path starts it, the last one stops it."""
    assert first.setup_s is not None
    assert first.start_s is not None
    assert 0 < first.start_s < first.setup_s
    assert last.teardown_s is not None
    assert last.stop_s is not None
    assert 0 < last.stop_s < last.teardown_s


def test_the_kernel_takes_no_time_to_start(measure: Measure) -> None:
    record = measure(switch="linux-bridge")
    assert (record.start_s, record.stop_s) == (None, None)
