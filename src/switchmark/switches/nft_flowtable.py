"""The kernel routes IPv4 frames past most of its router, by a flow table of nftables: once it has
seen a connection, what comes in at a port goes out at another from the hook `ingress`.

Its first frames go through the router, as those do that the table does not take: `nft` (8),
"Flowtables". What is in the table skips the hooks of the router, its connection tracking aside;
the TTL falls by one all the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.machine.host import Host
from switchmark.machine.programs import require_programs
from switchmark.model.plan import Plan, Run
from switchmark.model.topology import Wiring
from switchmark.model.version import Version
from switchmark.switches.kernel_options import require_options
from switchmark.switches.links import CABLE, probe_kernel, switch_ifname
from switchmark.switches.routers import FORWARDING, KernelRouter

_OPTIONS = ("CONFIG_NF_TABLES", "CONFIG_NF_FLOW_TABLE", "CONFIG_NFT_FLOW_OFFLOAD")
_HOOK = "{ hook ingress priority 0 ; devices = { %s } ; }"
_CHAIN = "{ type filter hook forward priority 0 ; policy accept ; }"


def _flow_table(table: str, devices: Sequence[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the commands that make the table, each with why."""
    hook = _HOOK % ", ".join(devices)
    offload = ("ip", "protocol", "{ tcp, udp }", "flow", "add", "@flows")
    return (
        (f"the table {table} of nftables", ("nft", "add", "table", "ip", table)),
        (
            "its flows are looked up where frames come in",
            ("nft", "add", "flowtable", "ip", table, "flows", hook),
        ),
        (
            "what is routed passes a chain",
            ("nft", "add", "chain", "ip", table, "routed", _CHAIN),
        ),
        (
            "which puts connections into the flow table",
            ("nft", "add", "rule", "ip", table, "routed", *offload),
        ),
    )


class NftFlowtable(KernelRouter):
    """The router of the kernel has a flow table over all of its ports."""

    name = "nft-flowtable"

    def probe(self, host: Host) -> Version:
        require_options(host, *_OPTIONS)
        require_programs(host, {"nft": "nftables"})
        tried = (argv for _, argv in _flow_table("sm", ("sm-a", "sm-b")))
        return Version(probe_kernel(host, CABLE, FORWARDING, *tried))

    def start(self, wiring: Wiring) -> Plan:
        table = wiring.name("nft")
        devices = [switch_ifname(wiring, port) for port in wiring.ports]
        first, *others = _flow_table(table, devices)
        remove = ("nft", "delete", "table", "ip", table)
        return (
            *super().start(wiring),
            Run(first[0], first[1], at=wiring.at, undo=remove),
            *(Run(why, argv, at=wiring.at) for why, argv in others),
        )


SWITCH = NftFlowtable()
