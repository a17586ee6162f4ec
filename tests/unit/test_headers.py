"""These tests check that what is wrong with the headers of a frame is said in words."""

from __future__ import annotations

import pytest

from switchmark.lab.gate import differences

MACS = bytes.fromhex("020000000002020000000001")
IP = bytes.fromhex("4500 0060 0000 4000 4011 ae65 c6120001 c6120002".replace(" ", ""))
INSIDE = MACS + bytes.fromhex("0800") + IP + bytes.fromhex("4e204e20004c0000")
TUNNEL = MACS + bytes.fromhex("0800") + IP + bytes.fromhex("c00012b5007000000800000000006400")


def test_differences_in_a_tunnel_are_named() -> None:
    frame = TUNNEL + INSIDE
    other_vni = bytearray(frame)
    other_vni[48] = 5
    (wrong,) = differences(bytes(other_vni), frame)
    assert wrong == "VXLAN header 0800000000000500 instead of 0800000000006400"
    other_ip = bytearray(frame)
    other_ip[len(TUNNEL) + 14 + 19] = 9
    (wrong,) = differences(bytes(other_ip), frame)
    assert wrong == "destination address in the tunnel 198.18.0.9 instead of 198.18.0.2"
    other_port = bytearray(frame)
    other_port[34:36] = b"\xc0\x07"
    assert differences(bytes(other_port), frame) == ["source port 49159 instead of 49152"]


def test_differences_in_a_tunnel_of_ipv6_are_named() -> None:
    end = bytes.fromhex("20010002000000000000000000000001")
    ip6 = bytes.fromhex("86dd 60000000 0070 1140".replace(" ", "")) + end + end
    tunnel = MACS + ip6 + TUNNEL[34:]
    frame = tunnel + MACS + ip6 + INSIDE[34:]
    assert differences(frame, frame) == ["another length than the IP header says"]
    other = bytearray(frame)
    other[21] = 63
    other[len(tunnel) + 14 + 39] = 9
    assert differences(bytes(other), frame) == [
        "hop limit 63 instead of 64",
        "destination address in the tunnel 2001:2::9 instead of 2001:2::1",
    ]


@pytest.mark.parametrize(
    ("offset", "words", "in_ip"),
    [
        (5, "destination MAC 02:00:00:00:00:03 instead of 02:00:00:00:00:02", False),
        (11, "source MAC 02:00:00:00:00:00 instead of 02:00:00:00:00:01", False),
        (15, "TOS 1 instead of 0", True),
        (18, "IP identification 0100 instead of 0000", True),
        (20, "fragment bits 4100 instead of 4000", True),
        (22, "TTL 65 instead of 64", True),
        (29, "source address 198.18.0.0 instead of 198.18.0.1", True),
        (33, "destination address 198.18.0.3 instead of 198.18.0.2", True),
        (35, "source port 20001 instead of 20000", False),
        (37, "destination port 20001 instead of 20000", False),
    ],
)
def test_each_field_of_a_frame_is_named(offset: int, words: str, in_ip: bool) -> None:
    other = bytearray(INSIDE)
    other[offset] ^= 1
    checksum = ["a wrong checksum of the IP header"] * in_ip
    assert differences(bytes(other), INSIDE) == [words, *checksum]


@pytest.mark.parametrize(
    ("offset", "words"),
    [
        (17, "traffic class and flow label 60000001 instead of 60000000"),
        (20, "next header 16 instead of 17"),
        (21, "hop limit 65 instead of 64"),
        (37, "source address 2001:2:: instead of 2001:2::1"),
        (53, "destination address 2001:2:: instead of 2001:2::1"),
        (55, "source port 20001 instead of 20000"),
    ],
)
def test_each_field_of_an_ipv6_frame_is_named(offset: int, words: str) -> None:
    end = bytes.fromhex("20010002000000000000000000000001")
    frame = MACS + bytes.fromhex("86dd6000000000701140") + end + end + INSIDE[34:]
    other = bytearray(frame)
    other[offset] ^= 1
    assert differences(bytes(other), frame) == [words]


def test_a_tag_and_another_protocol_are_named() -> None:
    tagged = MACS + bytes.fromhex("810000050800") + INSIDE[14:]
    assert differences(tagged, tagged) == ["another length than the IP header says"]
    assert differences(INSIDE, tagged) == ["VLAN tag none instead of 5"]
    assert differences(tagged, INSIDE) == ["VLAN tag 5 instead of none"]
    arp = MACS + bytes.fromhex("0806") + INSIDE[14:]
    assert differences(arp, INSIDE) == ["EtherType 0806 instead of 0800"]
