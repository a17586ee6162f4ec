"""These tests check what nft-flowtable counts, and how it tells connections of a chain apart."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from switchmark.model.plan import Run
from switchmark.model.topology import PortKind, Topology, Wiring
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


def commands_of(wiring: Wiring, program: str) -> list[str]:
    steps = (step for step in SWITCH.start(wiring) if isinstance(step, Run))
    return [" ".join(step.argv) for step in steps if step.argv[0] == program]


def chain_of() -> Wiring:
    """Return the wiring of a sender, a function that forwards, and a receiver, both ways."""
    topology = Topology()
    a, (b, c), d = topology.function("a"), topology.function("f", ports=2), topology.function("b")
    for one, other in ((a[0], b), (c, d[0])):
        topology.flow(one, other)
        topology.flow(other, one)
    flows = tuple(topology.flows)
    return replace(wiring_of(kind=PortKind.VETH), ports=topology.ports, flows=flows)


def test_frames_that_took_the_router_are_counted() -> None:
    wiring = wiring_of(kind=PortKind.VETH)
    names = [" ".join(run.argv) for run in SWITCH.counters.commands(wiring)]
    assert names == ["ip -j -s link show", "nft list chain ip sm0000-nft routed"]
    found = SWITCH.counters.parse(wiring, (links(**{"sm0000-p0": 40}), ROUTED))
    assert found.slow_path == 12
    assert {port: counted.rx for port, counted in found.ports.items()} == {"f0": 40}
    with pytest.raises(ValueError, match="nft printed no counter"):
        SWITCH.counters.parse(wiring, (links(), b"table ip sm0000-nft {\n}\n"))


def test_where_frames_come_back_each_pair_of_ports_has_connections_of_its_own() -> None:
    zones = [argv for argv in commands_of(chain_of(), "nft") if " ct zone " in argv]
    pairs = "{ sm0000-p0 : 1, sm0000-p1 : 1, sm0000-p2 : 3, sm0000-p3 : 3 }"
    assert zones == [f"nft add rule ip sm0000-nft first ct zone set iif map {pairs}"]
    assert " ct zone " not in " ".join(commands_of(wiring_of(kind=PortKind.VETH), "nft"))


def test_where_frames_come_back_an_answer_leaves_for_the_neighbour_behind_its_port() -> None:
    rules = [argv for argv in commands_of(chain_of(), "ip") if " oif " in argv]
    routes = [argv for argv in commands_of(chain_of(), "ip") if argv.startswith("ip route")]
    for rule in rules:
        table, port = rule.split()[6], rule.split()[4]
        assert any(f" dev {port} table {table}" in route for route in routes)
    assert len(rules) == len(routes) == 4
