"""The kernel routes IPv4 frames through a flow table of nftables: frames of known connections leave
from the hook `ingress` and bypass most of the router.

The first frames of a connection, and frames that the table does not take, pass the router (`nft`
(8), "Flowtables"). Frames in the table skip the router's hooks, except connection tracking; the TTL
still falls by one. A counter in the router shows how many frames the table did not take (tested
with Linux 6.1, nftables 1.0.6).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from switchmark.hosts.base import Host
from switchmark.hosts.programs import require_programs
from switchmark.model.plan import Plan, Run
from switchmark.model.topology import Wiring
from switchmark.model.version import Version
from switchmark.switches.base import Counters, Counting
from switchmark.switches.changes import Change
from switchmark.switches.kernel_options import require_options
from switchmark.switches.kernel_probes import CABLE, probe_kernel
from switchmark.switches.links import COUNTERS, switch_ifname
from switchmark.switches.routers import FORWARDING, KernelRouter, table_of, through_functions

_OPTIONS = ("CONFIG_NF_TABLES", "CONFIG_NF_FLOW_TABLE", "CONFIG_NFT_FLOW_OFFLOAD")
_HOOK = "{ hook ingress priority 0 ; devices = { %s } ; }"
_CHAIN = "{ type filter hook forward priority 0 ; policy accept ; }"
_FIRST = "{ type filter hook prerouting priority raw ; policy accept ; }"
_RULES = 1000  # one priority per port
_COUNTED = re.compile(rb"\bcounter packets (\d+) ")


def _flow_table(table: str, devices: Sequence[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the commands that create the table, with their reasons."""
    hook = _HOOK % ", ".join(devices)
    offload = ("counter", "ip", "protocol", "{ tcp, udp }", "flow", "add", "@flows")
    return (
        (f"the table {table} of nftables", ("nft", "add", "table", "ip", table)),
        (
            "flows are looked up where frames are received",
            ("nft", "add", "flowtable", "ip", table, "flows", hook),
        ),
        (
            "routed frames pass a chain",
            ("nft", "add", "chain", "ip", table, "routed", _CHAIN),
        ),
        (
            "the chain counts them and adds connections to the flow table",
            ("nft", "add", "rule", "ip", table, "routed", *offload),
        ),
    )


def _zones(wiring: Wiring, table: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the commands that put each pair of ports in its own conntrack zone. Otherwise a frame
    that returns from a function would match the connection of the port where it entered first, and
    would take the slow path at every later port."""
    zones = []
    for port_id, sinks in wiring.ways.items():
        pair = [wiring.port(end) for end in (port_id, *sinks)]
        zone = min(port.index for port in pair) + 1
        zones.append(f"{switch_ifname(wiring, pair[0])} : {zone}")
    by_port = ("ct", "zone", "set", "iif", "map", f"{{ {', '.join(zones)} }}")
    return (
        (
            "received frames pass another chain",
            ("nft", "add", "chain", "ip", table, "first", _FIRST),
        ),
        (
            "that chain gives each pair of ports its own conntrack zone",
            ("nft", "add", "rule", "ip", table, "first", *by_port),
        ),
    )


def _ways_back(wiring: Wiring) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the routing rules for the return path of a connection. The kernel looks that route up
    as if the router itself sent the answer through the port where the frame arrived, and ignores
    the port where the answer will arrive."""
    return tuple(
        (
            f"answers that leave at {far} go to the neighbour behind it",
            (
                *("ip", "rule", "add", "oif", far, "lookup", str(table_of(wiring.port(port_id)))),
                *("priority", str(table_of(wiring.port(sink)) + _RULES)),
            ),
        )
        for port_id, sinks in wiring.ways.items()
        for sink in sinks
        for far in (switch_ifname(wiring, wiring.port(sink)),)
    )


def _commands(wiring: Wiring) -> tuple[Run, ...]:
    routed = ("nft", "list", "chain", "ip", wiring.name("nft"), "routed")
    slow = Run("frames that the flow table did not take", routed, at=wiring.node)
    return (*COUNTERS.commands(wiring), slow)


def _parse(wiring: Wiring, outputs: tuple[bytes, ...]) -> Counters:
    """Return the counters of the ports, and the number of frames on the slow path: `nft` prints
    `counter packets N bytes M`."""
    *links, routed = outputs
    if (counted := _COUNTED.search(routed)) is None:
        raise ValueError("nft printed no counter")
    return replace(COUNTERS.parse(wiring, tuple(links)), slow_path=int(counted[1]))


class NftFlowtable(KernelRouter):
    """The kernel's router with a flow table over all its ports."""

    name = "nft-flowtable"
    counters = Counting(_commands, _parse)

    def probe(self, host: Host) -> Version:
        require_options(host, *_OPTIONS)
        require_programs(host, {"nft": "nftables"})
        tried = (argv for _, argv in _flow_table("sm", ("sm-a", "sm-b")))
        return Version(probe_kernel(host, CABLE, FORWARDING, *tried))

    def remade(self, wiring: Wiring) -> Change | None:
        return None  # frames in the flow table pass whether the router forwards or not

    def start(self, wiring: Wiring) -> Plan:
        table = wiring.name("nft")
        devices = [switch_ifname(wiring, port) for port in wiring.ports]
        first, *others = _flow_table(table, devices)
        if through_functions(wiring):
            others += (*_zones(wiring, table), *_ways_back(wiring))
        remove = ("nft", "delete", "table", "ip", table)
        return (
            *super().start(wiring),
            Run(first[0], first[1], at=wiring.node, undo=remove),
            *(Run(why, argv, at=wiring.node) for why, argv in others),
        )


SWITCH = NftFlowtable()
