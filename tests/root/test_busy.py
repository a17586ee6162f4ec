"""These tests load the switches in user space: how busy they say that they are, and what they take
to start and to stop."""

from __future__ import annotations

import pytest

from real_frames import Measure, only
from switchmark.model.topology import PortKind
from switchmark.switches import TABLE as SWITCHES

USER_SPACE = [name for name, switch in SWITCHES.items() if switch.program]
LOADS = (
    {"rate": "200", "duration": 0.4},
    {"rate": "100k", "duration": 0.4},
    # Many MACs are work for who learns them; the drain, without work, does not count for much.
    {"rate": "max", "duration": 2, "placement": "pinned", "flows": 16384, "flows_by": "mac"},
)


def engine_of(switch: str) -> str:
    past_kernel = PortKind.VHOST_USER in SWITCHES[switch].port_kinds
    return "dpdk" if past_kernel else "raw-mmsg"


@pytest.mark.parametrize("switch", USER_SPACE)
def test_the_busy_share_follows_the_load(measure: Measure, switch: str) -> None:
    """Nearly nothing without a load, nearly all at R+, and more with more. On a crowded host it is
    not the switch that has no more time. A switch that does not tell it tells it at no load."""
    told = []
    for load in LOADS:
        trial = only(measure(switch=switch, engine=engine_of(switch), **load))
        assert trial.evidence.verdict is not None
        told.append(trial.evidence.verdict.switch_busy)
        if told == [None, None]:
            return
    unloaded, loaded, saturated = told
    assert unloaded is not None
    assert loaded is not None
    assert saturated is not None
    assert unloaded < loaded < saturated
    assert unloaded < 0.1
    assert saturated > 0.9 or "host-busy" in trial.doubts


@pytest.mark.parametrize("switch", USER_SPACE)
def test_a_program_takes_time_to_start_and_to_stop(measure: Measure, switch: str) -> None:
    record = measure(switch=switch, engine=engine_of(switch))
    assert record.setup_s is not None
    assert record.teardown_s is not None
    assert record.start_s is not None
    assert record.stop_s is not None
    assert 0 < record.start_s < record.setup_s
    assert 0 < record.stop_s < record.teardown_s


def test_the_kernel_takes_no_time_to_start(measure: Measure) -> None:
    record = measure(switch="linux-bridge")
    assert (record.start_s, record.stop_s) == (None, None)
