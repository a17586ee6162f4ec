"""This module compares the headers of a test frame, as an engine saw them, with those it was to
have."""

from __future__ import annotations

import struct
from ipaddress import IPv6Address

_VXLAN = (4789).to_bytes(2)


def differences(seen: bytes, expected: bytes) -> list[str]:
    """Return what of a frame's headers is not as expected, in words, up to the ports; lengths and
    checksums of its own are right or wrong by themselves."""
    one, other = _fields(seen), _fields(expected)
    wrong = [
        f"{name} {one.get(name, 'none')} instead of {other.get(name, 'none')}"
        for name in dict.fromkeys((*other, *one))
        if one.get(name) != other.get(name)
    ]
    at = seen.find(b"\x08\x00\x45", 12, 19) + 2
    words = struct.unpack(">10H", seen[at : at + 20]) if at > 1 else ()
    if sum(words) % 0xFFFF:
        wrong.append("a wrong checksum of the IP header")
    return wrong or ["another length than the IP header says"]


def _fields(head: bytes) -> dict[str, str]:
    at = 12
    fields = {"destination MAC": head[:6].hex(":"), "source MAC": head[6:12].hex(":")}
    if head[12:14] == b"\x81\x00":
        fields["VLAN tag"] = str(int.from_bytes(head[14:16]))
        at += 4
    ip = head[at + 2 :]
    if head[at : at + 2] == b"\x86\xdd":
        return fields | {
            "EtherType": "86dd",
            "traffic class and flow label": ip[:4].hex(),
            "next header": str(ip[6]),
            "hop limit": str(ip[7]),
            "source address": str(IPv6Address(ip[8:24])),
            "destination address": str(IPv6Address(ip[24:40])),
            **_ports(ip[40:]),
        }
    return fields | {
        "EtherType": head[at : at + 2].hex(),
        "TOS": str(ip[1]),
        "IP identification": ip[4:6].hex(),
        "fragment bits": ip[6:8].hex(),
        "TTL": str(ip[8]),
        "source address": ".".join(map(str, ip[12:16])),
        "destination address": ".".join(map(str, ip[16:20])),
        **_ports(ip[20:]),
    }


def _ports(udp: bytes) -> dict[str, str]:
    ports = {
        "source port": str(int.from_bytes(udp[:2])),
        "destination port": str(int.from_bytes(udp[2:4])),
    }
    if udp[2:4] == _VXLAN:
        ports["UDP checksum"] = udp[6:8].hex()
        ports["VXLAN header"] = udp[8:16].hex()
        ports |= {f"{name} in the tunnel": value for name, value in _fields(udp[16:]).items()}
    return ports
