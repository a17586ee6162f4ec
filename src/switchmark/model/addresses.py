"""The MACs and IPs of a run, by number; PCI addresses of NICs; the addresses of a flow."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

_INSIDE = IPv4Address("172.16.0.0")
_BENCHMARK_6 = IPv6Address("2001:2::")
_PCI = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[01][0-9a-f]\.[0-7])", re.IGNORECASE)


def pci_address(text: str) -> str | None:
    """Return the PCI address that `text` is, with its domain (`03:00.0` is in 0000); None if it is
    something else."""
    match = _PCI.fullmatch(text)
    return f"{match[1] or '0000'}:{match[2]}".lower() if match else None


def group_mac_address(index: int) -> str:
    """Return the MAC of a group that nobody joins: a learning switch floods what is sent to it."""
    return f"03:53:4d:00:{index >> 8 & 255:02x}:{index & 255:02x}"


def mac_address(
    index: int, *, router: bool = False, unheard: bool = False, split: bool = False
) -> str:
    """Return the locally administered MAC of port `index`, of the router's side of that port, or
    one for its interface that no frame is sent to. `split`: of one chain among several that share a
    port; `index` is then that of the port, times 256, and the number of the chain."""
    kind = "52" if router else "55" if unheard else "56" if split else "53"
    return f"02:{kind}:4d:{index >> 16 & 255:02x}:{index >> 8 & 255:02x}:{index & 255:02x}"


def ip_address(index: int, *, net: int | None = None) -> str:
    """Return an address of RFC 2544's benchmark network: port `index` of one flat 198.18.0.0/16, or
    host `index` of the 198.18.`net`.0/24 that a router gives a port."""
    if net is not None:
        return f"198.18.{net}.{index}"
    return f"198.18.{(index + 1) >> 8}.{(index + 1) & 255}"


def ip6_address(address: str) -> str:
    """Return the address of RFC 5180's benchmark network that stands for an IPv4 address."""
    return str(_BENCHMARK_6 + int(IPv4Address(address)))


def tunnelled(index: int) -> dict[str, str]:
    """Return the addresses of the frames in the tunnel of flow `index`: of two VMs behind its
    ends."""
    low = f"4d:00:{index >> 8 & 255:02x}:{index & 255:02x}"
    return {
        "src_mac": f"02:57:{low}",
        "dst_mac": f"02:58:{low}",
        "src_ip": str(_INSIDE + 2 * index + 1),
        "dst_ip": str(_INSIDE + 2 * index + 2),
    }


@dataclass(frozen=True, slots=True)
class Addressing:
    """The addresses of one flow, as sent and as the receiver sees them. All else of a frame arrives
    as it was sent: the gate holds the switch to that."""

    sent_src_mac: str
    """The source MAC that the sender writes."""
    sent_dst_mac: str
    """The destination MAC that the sender writes; always the neighbour's."""
    seen_src_mac: str
    """The source MAC that arrives; a router has rewritten it."""
    seen_dst_mac: str
    """The destination MAC that arrives; a router has rewritten it."""
    source_ip: str
    """The address of the sender."""
    sink_ip: str
    """The address of the receiver."""
    prefix: int = 16
    """The length of the prefix of the network that `source_ip` is in."""
    gateway: str | None = None
    """The router that socket engines send by; None where the sink is in the same network."""
    routed: int = 0
    """How much lower the TTL arrives than it was sent."""

    @property
    def rewritten(self) -> bool:
        """Say whether MACs are written on the way."""
        sent = (self.sent_src_mac, self.sent_dst_mac)
        return sent != (self.seen_src_mac, self.seen_dst_mac)
