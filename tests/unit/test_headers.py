"""These tests check that what is wrong with the headers of a frame is said in words."""

from __future__ import annotations

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
