"""These tests have trials that are longer than a switch remembers a MAC that sends nothing."""

from __future__ import annotations

from typing import Any

import pytest

from real_frames import Measure, assert_every_frame_is_accounted_for, only
from switchmark.lab import trial as trials
from switchmark.model.place import Place, PlaceKind
from switchmark.model.plan import Plan, Run
from switchmark.model.topology import Wiring
from switchmark.switches.linux_bridge import LinuxBridge

BOTH_WAYS = {"pairs": 2, "flows": 2, "flows_by": "mac", "direction": "bi"}
LONG = {"switch": "linux-bridge", "engine": "mmap", "rate": "5k", "duration": 0.9}


def forget(patch: pytest.MonkeyPatch, *, after_s: float, announce_s: float) -> None:
    """Make the bridge forget so soon, in place of five minutes."""
    start = LinuxBridge.start

    def aged(self: LinuxBridge, wiring: Wiring) -> Plan:
        age = ("type", "bridge", "ageing_time", str(round(100 * after_s)))
        set_age = ("ip", "link", "set", wiring.name("br"), *age)
        return (*start(self, wiring), Run("how long it remembers", set_age, at=wiring.node))

    patch.setattr(LinuxBridge, "start", aged)
    patch.setattr(trials, "_ANNOUNCE_S", announce_s)


@pytest.mark.parametrize(
    "axes",
    [
        BOTH_WAYS,
        {"pairs": 2, "engine": "udp-mmsg"},
        {"scenario": "loopback", "chain": 2, "function": "forwarder", "engine": "xdp"},
        *(
            pytest.param(axes, marks=pytest.mark.further)
            for axes in (
                {"pairs": 2},
                {**BOTH_WAYS, "engine": "raw-mmsg"},
                {"scenario": "loopback", "chain": 2, "function": "forwarder"},
            )
        ),
    ],
    ids=lambda axes: "-".join(map(str, axes.values())),
)
def test_a_trial_longer_than_a_switch_remembers_is_not_flooded(
    measure: Measure, monkeypatch: pytest.MonkeyPatch, axes: dict[str, Any]
) -> None:
    """MACs are announced again meanwhile, and every frame is accounted for as without that. On a
    busy host an announcement may come too late."""
    forget(monkeypatch, after_s=0.4, announce_s=0.1)
    record = measure(**{**LONG, **axes})
    trial = only(record)
    assert trial.evidence.announced > 0
    if "flooded" in trial.doubts and "host-busy" in trial.doubts:
        return
    assert "flooded" not in trial.doubts
    assert_every_frame_is_accounted_for(record)
    inside = trial.evidence.balance[Place(PlaceKind.INSIDE_SWITCH)]
    assert inside.entered - inside.left == trial.lost_at.get(Place(PlaceKind.INSIDE_SWITCH), 0)


def test_what_is_flooded_is_doubted(measure: Measure, monkeypatch: pytest.MonkeyPatch) -> None:
    forget(monkeypatch, after_s=0.4, announce_s=1000.0)
    trial = only(measure(**{**LONG, "duration": 0.8}, pairs=2))
    assert trial.lost == trial.unaccounted == 0
    assert "flooded" in trial.doubts
    doubt = trial.evidence.doubts["flooded"]
    assert doubt["stray"] == trial.stray > 0
    assert doubt["f0"] > 0, "a port where nobody listens"


def test_a_server_answers_for_itself_alone(
    measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests come after the bridge has forgotten their servers: both get each of them. An answer
    by the wrong one would come from the other's MAC, and lead what follows astray."""
    forget(monkeypatch, after_s=0.2, announce_s=1000.0)
    rare = {"rate": "2", "duration": 1.5}
    trial = only(measure(**{**LONG, **rare}, pairs=2, dimension="latency"))
    assert trial.tx_frames + trial.tx_unsent == 6
    assert trial.rx_frames == trial.tx_frames > 2
    assert trial.stray >= trial.tx_frames - 2, "the first of each pair is known"
    assert trial.duplicated == trial.lost == 0
    assert "flooded" in trial.doubts
