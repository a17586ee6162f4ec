"""These tests check that combinations that can never work are refused before anything starts, with
what would work."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from switchmark.model.test import AXES, Test
from switchmark.path import refusals
from switchmark.path.refusals import check, may_share_process
from switchmark.switches import TABLE as SWITCHES


@pytest.mark.parametrize(
    ("axes", "messages"),
    [
        ({"switch": "linux-brige"}, ["no switch named 'linux-brige'", "did you mean linux-bridge"]),
        ({"engine": "dpkd"}, ["no engine named 'dpkd'"]),
        ({"environment": "moon"}, ["no environment named 'moon'"]),
        ({"scenario": "v2x"}, ["no scenario named 'v2x'"]),
        ({"search": "guess"}, ["no search named 'guess'"]),
        ({"function": "firewall"}, ["no function named 'firewall'"]),
        ({"rate": "50%", "search": "max"}, ["search max"]),
        ({"search": "max", "rate": "1M"}, ["search max", "--line-rate"]),
        ({"line_rate": "10Gbps", "rate": "15M"}, ["a link of 10Gbps does not carry a rate of 15M"]),
        (
            {"line_rate": "10Gbps", "search": "back-to-back"},
            ["sends its bursts at the maximum rate"],
        ),
        ({"dimension": "latency"}, ["needs a rate", "--rate 1000"]),
        ({"dimension": "latency", "rate": "10", "direction": "bi"}, ["--direction uni"]),
        ({"dimension": "latency", "rate": "10", "touch": "none"}, ["--touch"]),
        ({"rate": "1", "duration": "0.5"}, ["not one frame"]),
        ({"flows": "10M", "flows_by": "mac"}, ["10000000 flows", "8388608 addresses"]),
        ({"flows": "9M", "flows_by": "ip", "pairs": 2}, ["18000000 flows", "--flows-by port"]),
        ({"flows": "1M", "engine": "udp"}, ["a separate socket", "256 flows"]),
        ({"flow_order": "zipf"}, ["--flow-order zipf has no effect", "--flows 1M"]),
        ({"flows": 9, "flow_order": "random", "engine": "udp"}, ["separate socket, in turn"]),
        (
            {"flows": 10**6, "queues": 3, "engine": "dpdk", "switch": "ovs-dpdk"},
            ["do not share 3 queues evenly", "--flows 999999"],
        ),
        ({"ip_version": 6}, ["a frame of IPv6 has at least 84 bytes", "--frame-size 84"]),
        ({"ip_version": 6, "vlan": 5, "frame_size": 84}, ["at least 88 bytes"]),
        ({"ip_version": 6, "frame_size": 84, "engine": "udp"}, ["nodes have IPv4 alone"]),
        ({"ip_version": 6, "frame_size": 84, "switch": "ip-forward"}, ["only IPv4 routes"]),
        (
            {"ip_version": 6, "frame_size": 84, "switch": "vpp", "semantics": "routed"},
            ["switch vpp has only IPv4 routes"],
        ),
        ({"function_cores": 2}, ["1 flows do not use 2", "--flows 16"]),
        ({"function_cores": 3, "flows": "1M"}, ["do not share 3 cores evenly", "--flows 999999"]),
        (
            {"function_cores": 2, "flows": 8, "engine": "xdp-live"},
            ["does not follow --function-co"],
        ),
        (
            {"function_cores": 2, "flows": 8, "engine": "udp", "direction": "bi"},
            ["all that comes in would be for one core", "--direction uni"],
        ),
        (
            {"function_cores": 2, "flows": 8, "engine": "dpdk", "switch": "l2fwd"},
            ["switch l2fwd has one"],
        ),
        (
            {"function_cores": 2, "flows": 8, "engine": "dpdk", "switch": "linux-bridge"},
            ["one queue of an interface of the kernel", "--engine mmap,xdp"],
        ),
        (
            {"function_cores": 2, "flows": 8, "engine": "xdp", "switch": "macvlan"},
            ["a port of kind macvlan has one pair of queues", "--port veth"],
        ),
        (
            {"function_cores": 2, "flows": 8, "engine": "dpdk", "environment": "vm"},
            ["has one CPU: --function-cores 1"],
        ),
        (
            {
                "function_cores": 2,
                "flows": 8,
                "queues": 3,
                "engine": "dpdk",
                "switch": "testpmd",
            },
            ["3 do not fit", "--queues 2"],
        ),
        ({"arrivals": "poisson"}, ["are those of a rate", "--rate"]),
        ({"arrivals": "even", "search": "max"}, ["are those of a rate"]),
        ({"vlan": 5}, ["at least 68 bytes"]),
        ({"encapsulation": "vlan"}, ["a tagged frame has at least 68 bytes"]),
        ({"encapsulation": "vxlan"}, ["in a VXLAN tunnel has at least 114 bytes", "size 114"]),
        ({"encapsulation": "vxlan", "vlan": 5, "frame_size": 128}, ["no VLAN tag: --vlan 5 has"]),
        ({"encapsulation": "none", "vlan": 5, "frame_size": 128}, ["no VLAN tag", "on vlan"]),
        ({"encapsulation": "vxlan", "engine": "udp", "frame_size": 128}, ["no VXLAN tunnel"]),
        ({"encapsulation": "vlan", "engine": "udp", "frame_size": 128}, ["no VLAN tag"]),
        (
            {"encapsulation": "vxlan", "ip_version": 6, "frame_size": 133},
            ["frame of IPv6 in a VXLAN tunnel has at least 134", "--frame-size 134"],
        ),
        (
            {"encapsulation": "vxlan6", "ip_version": 6, "frame_size": 153},
            ["IPv6 in a VXLAN tunnel of IPv6 has at least 154", "--frame-size 154"],
        ),
        ({"encapsulation": "vxlan6", "engine": "udp", "frame_size": 200}, ["no VXLAN tunnel"]),
        ({"encapsulation": "vxlan6", "vlan": 5, "frame_size": 200}, ["no VLAN tag: --vlan 5"]),
        (
            {"encapsulation": "vxlan6", "switch": "ip-forward", "frame_size": 134},
            ["only IPv4 routes"],
        ),
        ({"vlan": 5, "engine": "udp", "frame_size": 128}, ["no VLAN tag"]),
        ({"engine": "udp", "flows": 300}, ["at most 256 flows"]),
        ({"engine": "udp", "flows": 3, "flows_by": "mac"}, ["by mac", "--flows-by port"]),
        ({"engine": "udp", "environment": "host"}, ["IP stack", "--environment netns"]),
        ({"engine": "xdp-live", "direction": "bi"}, ["only sends"]),
        (
            {"switch": "ip-forward", "switch_environment": "host"},
            ["does not run in environment host"],
        ),
        (
            {"switch": "ovs-dpdk", "switch_environment": "lxc", "nic": "a0=03:00.0:04:00.0"}
            | {"scenario": "p2v", "engine": "dpdk"},
            ["lxc does not give the NIC 0000:03:00.0 to ovs-dpdk", "environment host,netns"],
        ),
        (
            {"switch": "vpp", "engine": "dpdk", "port": "memif", "listen": "functions"},
            ["which side of a memif port listens", "--port vhost-user"],
        ),
        (
            {"switch": "snabb", "engine": "dpdk", "listen": "switch"},
            ["switch snabb does not follow --listen"],
        ),
        ({"placement": "shared-process", "direction": "bi"}, ["shared-process"]),
        ({"switch": "macvlan", "scenario": "p2p"}, ["two physical ports", "v2v"]),
        ({"placement": "best"}, ["no placement 'best'", "0+2-5"]),
        ({"placement": "unpinned:switch"}, ["linux-bridge has no processes to pin"]),
        ({"placement": "unpinned:function", "scenario": "p2p"}, ["p2p has no function that"]),
        ({"placement": "unpinned:sender"}, ["no placement 'unpinned:sender'", "unpinned:switch"]),
        ({"placement": "3-1"}, ["counts backwards"]),
        ({"cpu_limit": "50"}, ["has no processes", "--cpu-limit function:50"]),
        ({"cpu_limit": "function:50", "scenario": "p2p"}, ["has no function"]),
        ({"cpu_limit": "function:9", "placement": "shared-process"}, ["has no CPU limit"]),
        (
            {"search": "back-to-back", "frame_size": "imix"},
            ["frames of one size (RFC 9004, section 6.1)", "--frame-size 64"],
        ),
        ({"search": "recovery", "touch": "none"}, ["no sequence numbers", "--touch header"]),
        (
            {"search": "recovery", "function_cores": 2, "flows": 4},
            ["on several cores does not know it", "--function-cores 1"],
        ),
        (
            {"search": "ndr", "exceed_ratio": "0"},
            ["only search mlr has goals with exceed ratio", "--search mlr"],
        ),
        ({"search": "mlr:csit", "duration_sum": "60"}, ["only search mlr has goals with duration"]),
        ({"noise": "drums"}, ["no noise 'drums'; there are: cpu,"]),
        ({"noise": "cpu:x"}, ["no list of CPUs"]),
        ({"noise": "web:switch"}, ["no CPU is set apart for the switch", "--noise web:0"]),
        (
            {"noise": "web:functions", "placement": "unpinned"},
            ["with placement unpinned no CPU is set apart for the functions"],
        ),
        ({"copies": 2, "switch": "macvlan"}, ["macvlan does not follow --copies"]),
        ({"switch_cores": 2, "switch": "macvlan"}, ["macvlan does not follow --switch-cores"]),
        ({"switch_cores": 1, "switch": "xdp-redirect"}, ["does not follow --switch-cores"]),
        ({"offload": "off"}, ["raw-mmsg does not follow --offload"]),
        ({"offload": "on"}, ["raw-mmsg does not follow --offload"]),
        ({"stamps": "device"}, ["raw-mmsg does not follow --stamps"]),
        (
            {"stamps": "device", "engine": "dpdk", "switch": "testpmd"},
            ["a port of kind vhost-user has no clock", "--stamps software"],
        ),
        (
            {"stamps": "device", "engine": "dpdk", "switch": "testpmd", "port": "memif"},
            ["a port of kind memif has no clock"],
        ),
        (
            {"stamps": "device", "engine": "dpdk", "switch": "linux-bridge", "touch": "none"},
            ["touch none reads none", "--touch header"],
        ),
        ({"copies": 2, "scenario": "loopback"}, ["no copies", "--scenario p2p, p2v, v2p or v2v"]),
        ({"copies": 2, "pairs": 2}, ["--pairs 1"]),
        ({"copies": 2, "direction": "bi"}, ["--direction uni"]),
        ({"copies": 2, "engine": "udp"}, ["engine udp cannot send to", "--engine raw-mmsg"]),
        ({"switch": "null"}, ["cannot join null to netns with engine raw-mmsg"]),
        ({"engine": "null"}, ["null takes null"]),
        ({"nic": "a0=eth1:eth2"}, ["port a0 (eth1:eth2), which", "v2v does not have"]),
        ({"nic": "eth0"}, ["port eth0, which scenario v2v does not have", "--nic a0=SWITCH-NIC:"]),
        ({"nic": "a0", "scenario": "p2v"}, ["is not a physical port"]),
        ({"nic": "a0=x:x", "scenario": "p2v"}, ["named twice"]),
        ({"switch": "direct", "scenario": "p2v", "nic": "a0=x:y"}, ["takes no NIC"]),
    ],
)
def test_it_is_refused_with_the_reason(axes: dict[str, Any], messages: list[str]) -> None:
    reasons = check(Test(**axes))
    assert reasons
    text = "\n".join(map(str, reasons))
    for word in messages:
        assert word in text


@pytest.mark.parametrize("switch", [*SWITCHES])
@pytest.mark.parametrize("axes", [{}, {"scenario": "loopback"}, {"environment": "vm"}])
@pytest.mark.parametrize("engine", ["raw-mmsg", "udp", "dpdk", "null"])
def test_a_change_that_a_refusal_suggests_is_accepted(
    switch: str, axes: dict[str, str], engine: str
) -> None:
    test = Test(switch=switch, engine=engine, **axes)
    reasons = {refusal.why for refusal in check(test)}
    for refusal in check(test):
        for name, value in refusal.changes:
            left = {refusal.why for refusal in check(test.model_copy(update={name: value}))}
            assert left <= reasons - {refusal.why}
            assert f"--{name} " in str(refusal.hint)
            assert value in str(refusal.hint)


def test_a_switch_whose_ports_an_engine_cannot_open_is_suggested_an_engine() -> None:
    (refusal,) = check(Test(switch="testpmd"))
    assert refusal.hint == "--engine memif,dpdk"
    assert check(Test(dimension="latency", switch="testpmd"))[-1].hint == "--engine memif,dpdk"


def test_every_axis_that_a_refusal_is_about_is_one() -> None:
    source = "".join(
        (Path(refusals.__file__).parent / f"{name}.py").read_text()
        for name in ("refusals", "combinations")
    )
    named = re.findall(r"Refusal\(\s*\(([^()]*)\)", source)
    assert len(named) > 30
    axes = {word for names in named for word in re.findall(r'"(\w+)"', names)}
    assert axes - set(AXES) == set()


def test_all_reasons_come_at_once() -> None:
    reasons = check(Test(engine="udp", flows=300, flows_by="mac", vlan=5, environment="host"))
    assert len(reasons) == 4


@pytest.mark.parametrize(
    "axes",
    [
        {},
        {"switch": "direct", "engine": "xdp"},
        {"dimension": "latency", "rate": "1000"},
        {"engine": "raw", "frame_size": "imix", "flows": 4096, "flows_by": "mac"},
        {"flows": 9000, "pairs": 2},
        {
            "flows": "1M",
            "flow_order": "zipf",
            "flows_by": "ip",
            "dimension": "latency",
            "rate": "1k",
        },
        {"flows": "1M", "queues": 4, "engine": "dpdk", "switch": "ovs-dpdk"},
        {"function_cores": 2, "flows": 2, "engine": "xdp"},
        {"function_cores": 16, "flows": "1M", "engine": "mmap", "direction": "bi"},
        {"function_cores": 2, "flows": 2, "queues": 2, "engine": "dpdk", "switch": "testpmd"},
        {"ip_version": "6", "frame_size": 84},
        {"encapsulation": "vlan", "frame_size": 68},
        {"encapsulation": "vlan", "vlan": 5, "frame_size": 68},
        {"encapsulation": "vxlan", "frame_size": 114, "flows": "1M", "flows_by": "ip"},
        {"encapsulation": "vxlan", "frame_size": 114, "switch": "ip-forward"},
        {"encapsulation": "vxlan", "frame_size": 134, "switch": "ip-forward", "ip_version": 6},
        {"encapsulation": "vxlan6", "frame_size": 134, "switch": "ovs"},
        {"encapsulation": "vxlan6", "frame_size": 154, "ip_version": 6, "flows": "1M"},
        {"ip_version": 6, "frame_size": 1518, "switch": "vpp", "engine": "dpdk"},
        {"arrivals": "poisson", "search": "ndr"},
        {"arrivals": "on-off", "line_rate": "1M"},
        {"switch": "null", "engine": "null", "environment": "host", "switch_environment": "host"},
        {"scenario": "p2p", "nic": "a0=x:y,b0=z:w"},
        {"noise": "web:functions"},
        {"noise": "web:functions", "placement": "9+77"},
        {"noise": "web:switch", "switch": "ovs"},
    ],
)
def test_what_can_work_is_not_refused(axes: dict[str, Any]) -> None:
    assert check(Test(**axes)) == []


@pytest.mark.parametrize(
    ("axes", "may"),
    [
        ({}, True),
        ({"dimension": "latency", "rate": "1k"}, True),
        ({"pairs": 3, "scenario": "p2v"}, True),
        ({"environment": "host", "switch_environment": "host"}, True),
        ({"switch": "ovs", "cpu_limit": "switch:50"}, True),
        ({"cpu_limit": "function:50"}, False),
        ({"direction": "bi"}, False),
        ({"scenario": "loopback"}, False),
        ({"copies": 2}, False),
        ({"environment": "vm"}, False),
        ({"environment": "lxc"}, False),
    ],
)
def test_which_ends_may_be_one_process(axes: dict[str, Any], may: bool) -> None:
    test = Test(**axes)
    assert check(test) == []
    assert may_share_process(test) is may


def test_latency_sends_one_frame_at_a_time_unless_asked() -> None:
    assert Test(dimension="latency", rate="10").burst == 1
    assert Test(dimension="latency", rate="10", burst=8).burst == 8
    assert Test().burst == 32
