"""This test checks what nft-flowtable counts."""

from __future__ import annotations

import json

import pytest

from switchmark.model.topology import PortKind
from switchmark.switches import TABLE
from wirings import wiring_of

SWITCH = TABLE["nft-flowtable"]
ROUTED = b"""table ip smtest-nft {
	chain routed {
		type filter hook forward priority filter; policy accept;
		counter packets 12 bytes 840 ip protocol { tcp, udp } flow add @flows
	}
}
"""


def links(**received: int) -> bytes:
    """Return what `ip -j -s link show` prints of links that sent nothing."""
    none = {"packets": 0, "dropped": 0, "errors": 0}
    return json.dumps(
        [
            {"ifname": name, "stats64": {"rx": {**none, "packets": frames}, "tx": none}}
            for name, frames in received.items()
        ]
    ).encode()


def test_frames_that_took_the_router_are_counted() -> None:
    wiring = wiring_of(kind=PortKind.VETH)
    found = SWITCH.counters.parse(wiring, (links(**{"sm0000-p0": 40}), ROUTED))
    assert found.slow_path == 12
    assert {port: counted.rx for port, counted in found.ports.items()} == {"f0": 40}
    with pytest.raises(ValueError, match="nft printed no counter"):
        SWITCH.counters.parse(wiring, (links(), b"table ip sm0000-nft {\n}\n"))
