"""The MACs and IPs of a run by number, the PCI addresses of NICs, and the addresses of a flow."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

_INSIDE = IPv4Address("172.16.0.0")
_BENCHMARK_6 = IPv6Address("2001:2::")
_PCI = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[01][0-9a-f]\.[0-7])", re.IGNORECASE)


def pci_address(text: str) -> str | None:
    """Return `text` as a PCI address with its domain (0000 for `03:00.0`); None if it is not an
    address."""
    match = _PCI.fullmatch(text)
    return f"{match[1] or '0000'}:{match[2]}".lower() if match else None


def group_mac_address(index: int) -> str:
    """Return the MAC of a group without members: a learning switch floods frames for it."""
    return f"03:53:4d:00:{index >> 8 & 255:02x}:{index & 255:02x}"


def mac_address(
    index: int, *, router: bool = False, unheard: bool = False, split: bool = False
) -> str:
    """Return the locally administered MAC of port `index`.

    `router` selects the router's side of the port, `unheard` an interface that no frame is sent to,
    and `split` a chain among several that share a port: `index` is then the port's index times 256,
    plus the number of the chain."""
    kind = "52" if router else "55" if unheard else "56" if split else "53"
    return f"02:{kind}:4d:{index >> 16 & 255:02x}:{index >> 8 & 255:02x}:{index & 255:02x}"


def ip_address(index: int, *, net: int | None = None) -> str:
    """Return an address of RFC 2544's benchmark network: port `index` in a flat 198.18.0.0/16, or
    host `index` in the 198.18.`net`.0/24 of a routed port."""
    if net is not None:
        return f"198.18.{net}.{index}"
    return f"198.18.{(index + 1) >> 8}.{(index + 1) & 255}"


def ip6_address(address: str) -> str:
    """Return the address in RFC 5180's benchmark network for an IPv4 address."""
    return str(_BENCHMARK_6 + int(IPv4Address(address)))


def tunnelled(index: int) -> dict[str, str]:
    """Return the inner addresses of the tunnel of flow `index`: those of two VMs behind its
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
    """The addresses of a flow, as sent and as received.

    The rest of a frame must arrive unchanged, which the gate checks."""

    sent_src_mac: str
    """The source MAC from the sender."""
    sent_dst_mac: str
    """The destination MAC from the sender, which is always the neighbour's."""
    seen_src_mac: str
    """The source MAC at the receiver, which a router has rewritten."""
    seen_dst_mac: str
    """The destination MAC at the receiver, which a router has rewritten."""
    source_ip: str
    """The IP address of the sender."""
    sink_ip: str
    """The IP address of the receiver."""
    prefix: int = 16
    """The prefix length of the network of `source_ip`."""
    gateway: str | None = None
    """The router for socket engines; None if the receiver is in the same network."""
    routed: int = 0
    """How much the switch decrements the TTL."""

    @property
    def rewritten(self) -> bool:
        """Say whether MACs are rewritten on the way."""
        sent = (self.sent_src_mac, self.sent_dst_mac)
        return sent != (self.seen_src_mac, self.seen_dst_mac)
