"""What is particular to the kernel's own switches, on real paths: who takes what XDP sends, what a
tunnel adds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from real_frames import Measure, assert_every_frame_is_accounted_for
from switchmark.lab import path
from switchmark.layout.layout import Layout
from switchmark.machine.executor import Executor
from switchmark.model.counters import PathCounters
from switchmark.switches.links import link_counters


@pytest.mark.parametrize(
    "axes",
    [
        {"engine": "xdp", "direction": "bi"},
        {"engine": "xdp-live", "burst": 256},
        {"engine": "udp", "dimension": "latency", "rate": "1000"},
        {"frame_size": 9000},
        {"scenario": "loopback", "chain": 2, "direction": "bi"},
    ],
    ids=lambda axes: "-".join(map(str, axes.values())),
)
def test_xdp_redirects_what_sockets_and_xdp_send(measure: Measure, axes: dict[str, Any]) -> None:
    """In the driver of a veth pair, whose other end then must poll; nothing is lost in between."""
    record = measure(switch="xdp-redirect", **axes)
    assert_every_frame_is_accounted_for(record)
    assert record.switch_mode == "native"


def test_every_frame_crosses_the_tunnel(measure: Measure, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted on the cable that it goes over, where its headers make each frame longer."""
    sent: list[dict[str, int]] = []
    counters = path._counters

    def with_cable(executor: Executor, layout: Layout) -> PathCounters:
        (links,) = link_counters(layout.wiring)
        told = {link["ifname"]: link["stats64"]["tx"] for link in json.loads(executor.run(links))}
        sent.append(told[layout.wiring.name("u0")])
        return counters(executor, layout)

    monkeypatch.setattr(path, "_counters", with_cable)
    trial = assert_every_frame_is_accounted_for(measure(switch="vxlan", frame_size=1000))
    before, after = sent[-2:]
    frames = after["packets"] - before["packets"]
    assert trial.tx_frames <= frames <= trial.tx_frames + 20  # announcements cross it too
    assert after["bytes"] - before["bytes"] == pytest.approx(frames * (996 + 50), rel=0.02)
