"""These tests check how frames are steered from function to function, and what cannot be
chained."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from switchmark.functions import TABLE as FUNCTIONS
from switchmark.functions.pcap_bridge import FUNCTION as PCAP_BRIDGE
from switchmark.model.addresses import Addressing, mac_address
from switchmark.model.counters import PortCounters
from switchmark.model.cpus import Cpu
from switchmark.model.plan import HOST, Run, Spawn
from switchmark.model.test import Test
from switchmark.model.topology import Flow, Port, Role, Semantics
from switchmark.path.assembly import build
from switchmark.path.cables import without_switch
from switchmark.path.path import Path
from switchmark.path.placement import CpuUser, place
from switchmark.path.refusals import check
from switchmark.path.resolving import resolve
from switchmark.plugins import Table
from switchmark.switches import TABLE as SWITCHES
from switchmark.switches.ip_forward import IpForward

OF_MACS = {"function_semantics": "mac"}


def laid_out(**axes: Any) -> Path:
    test = Test(**{"scenario": "loopback", "chain": 2, **axes})
    assert check(test) == []
    return resolve(test, prefix="sm0000", run_dir="/run/x")


def reasons(**axes: Any) -> str:
    return "\n".join(map(str, check(Test(**{"scenario": "loopback", **axes}))))


def test_a_flow_crosses_the_switch_between_functions() -> None:
    flow = Flow("a-b", 0, "a", "b", ("f1.0", "f1.1", "f2.0", "f2.1"))
    assert flow.crossings == (("a", "f1.0"), ("f1.1", "f2.0"), ("f2.1", "b"))
    assert Flow("a-b", 0, "a", "b").crossings == (("a", "b"),)


def addressing(layout: Path, flow_id: str) -> Addressing:
    return next(flow.addressing for flow in layout.flows if flow.id == flow_id)


def test_a_switch_sees_each_crossing_as_a_flow() -> None:
    flows = laid_out(direction="bi").wiring.flows
    assert [flow.id for flow in flows] == ["a0-f1", "f1-f2", "f2-b0", "b0-f2", "f2-f1", "f1-a0"]
    assert not any(flow.hops for flow in flows)


def test_a_learning_switch_finds_each_function_by_the_macs_that_the_one_before_writes() -> None:
    layout = laid_out()
    assert layout.steering == "learning by rewritten MACs"
    a = addressing(layout, "a0-b0")
    assert (a.sent_src_mac, a.sent_dst_mac) == (mac_address(0), mac_address(1))
    assert (a.seen_src_mac, a.seen_dst_mac) == (mac_address(4), mac_address(5))
    assert a.sink_ip != a.source_ip
    one, two = layout.parts[1:3]
    # Back to whom the frames there come from, and on to the next: what comes in finds both ways.
    assert list(one.rewrites) == [
        {"src_mac": mac_address(1), "dst_mac": mac_address(0)},
        {"src_mac": mac_address(2), "dst_mac": mac_address(3)},
    ]
    assert list(two.rewrites) == [
        {"src_mac": mac_address(3), "dst_mac": mac_address(2)},
        {"src_mac": mac_address(4), "dst_mac": mac_address(5)},
    ]
    assert laid_out(direction="bi").parts[1].rewrites == one.rewrites


def test_where_nobody_writes_macs_frames_are_for_the_sink_from_the_start() -> None:
    layout = laid_out(switch="ovs", function="pcap-bridge")
    assert layout.steering == "static by in-port"
    assert layout.wiring.semantics is Semantics.STATIC
    a = addressing(layout, "a0-b0")
    assert (a.sent_src_mac, a.sent_dst_mac) == (mac_address(0), mac_address(5))
    assert (a.seen_src_mac, a.seen_dst_mac) == (mac_address(0), mac_address(5))


def test_a_switch_that_writes_macs_writes_them_at_each_crossing() -> None:
    layout = laid_out(switch="testpmd", engine="dpdk", semantics="static", function="l2fwd")
    a = addressing(layout, "a0-b0")
    assert a.sent_dst_mac == layout.crossings["a0", "f1.0"].sent_dst_mac
    assert a.seen_src_mac == layout.crossings["f2.1", "b0"].seen_src_mac
    assert a.sent_dst_mac != a.seen_dst_mac


@pytest.mark.parametrize(
    ("switch", "semantics"),
    [
        ("ovs-dpdk", "static"),
        ("testpmd", "patch"),
        ("testpmd", "static"),
        ("l2fwd", "static"),
        ("ip-forward", "auto"),
    ],
)
@pytest.mark.parametrize("direction", ["uni", "bi"])
def test_a_function_that_is_asked_to_writes_macs(
    switch: str, semantics: str, direction: str
) -> None:
    place = {"environment": "vm"} if switch == "ip-forward" else {"engine": "dpdk"}
    axes = {"switch": switch, "semantics": semantics, "direction": direction, **place}
    layout = laid_out(function="testpmd", **OF_MACS, **axes)
    chain = layout.hosted
    assert [part.id for part in chain] == ["f1", "f2"]
    for part in chain:
        function, hosted = part.function, part.hosted
        rewrites = [macs for macs in part.rewrites if macs]
        assert list(hosted.next_macs.values()) == [macs["dst_mac"] for macs in rewrites]
        # The program writes the MAC of its own port as the source: the one that is expected.
        assert [end.mac for end in hosted.ends] == [macs["src_mac"] for macs in rewrites]
        (program,) = (step for step in function.start(hosted) if isinstance(step, Spawn))
        peers = [f"--eth-peer={i},{macs['dst_mac']}" for i, macs in enumerate(rewrites)]
        assert [word for word in program.argv if "peer" in word] == peers
        assert "--forward-mode=mac" in program.argv
    a = addressing(layout, "a0-b0")
    assert a.sent_dst_mac == layout.crossings["a0", "f1.0"].sent_dst_mac
    assert (a.seen_src_mac, a.seen_dst_mac) == (
        layout.crossings["f2.1", "b0"].seen_src_mac,
        layout.crossings["f2.1", "b0"].seen_dst_mac,
    )


def test_a_function_that_is_not_asked_to_leaves_macs_as_they_are() -> None:
    layout = laid_out(switch="ovs-dpdk", engine="dpdk", function="testpmd")
    for part in layout.hosted:
        assert part.hosted.next_macs == {}
        (program,) = (step for step in part.function.start(part.hosted) if isinstance(step, Spawn))
        assert "--forward-mode=io" in program.argv


def test_the_rings_of_a_machine_are_not_those_that_are_asked_for() -> None:
    axes = {"switch": "ovs-dpdk", "engine": "dpdk", "function": "testpmd", "descriptors": 4096}
    for environment, learns in (("netns", True), ("vm", False)):
        part = laid_out(environment=environment, **axes).hosted[0]
        (program,) = (step for step in part.function.start(part.hosted) if isinstance(step, Spawn))
        assert ("--rxd=4096" in program.argv) == learns


def test_pairs_have_chains_of_their_own() -> None:
    layout = laid_out(switch="direct", pairs=2, chain=1)
    assert [flow.id for flow in layout.wiring.flows] == ["a0-c1f1", "c1f1-b0", "a1-c2f1", "c2f1-b1"]
    assert [flow.split for flow in layout.flows] == [None, None]
    topology = laid_out(pairs=2, chains=2, chain=1)
    assert [flow.hops[0] for flow in topology.flows] == ["c1f1.0", "c2f1.0", "c3f1.0", "c4f1.0"]


def test_chains_differ_in_the_source_mac_of_their_frames() -> None:
    layout = laid_out(switch="ovs", chains=3, chain=1, direction="bi")
    assert layout.steering == "static by in-port and source MAC"
    sent = [flow.addressing.sent_src_mac for flow in layout.flows]
    assert len(set(sent)) == 6
    assert not set(sent) & {end.mac for end in layout.endpoints.values()}
    (rules,) = (
        step.stdin.decode().splitlines()
        for step in build(layout)
        if isinstance(step, Run) and "add-flows" in step.argv and step.stdin
    )
    assert rules[:3] == [
        f"in_port=1,dl_src={mac},actions=output:{port}"
        for mac, port in zip(sent[:3], (2, 4, 6), strict=True)
    ]
    # A function has one way on from each of its ports.
    assert "in_port=3,actions=output:8" in rules
    assert "in_port=2,actions=output:1" in rules


def test_what_is_not_sent_one_way_needs_no_rule() -> None:
    layout = laid_out(switch="ovs", chains=2, chain=1)
    rules = next(
        step.stdin.decode()
        for step in build(layout)
        if isinstance(step, Run) and "add-flows" in step.argv and step.stdin
    )
    assert "in_port=6," not in rules


@pytest.mark.parametrize(
    ("axes", "steering"),
    [
        ({"switch": "direct"}, "static by in-port"),
        ({"switch": "ovs"}, "static by in-port"),
        ({"switch": "ovs", "semantics": "learning"}, "learning by rewritten MACs"),
        ({"switch": "testpmd", "engine": "dpdk"}, "static by in-port"),
        ({"switch": "ip-forward"}, "routed by in-port"),
        ({"switch": "ovs-dpdk", "engine": "dpdk", "function": "l2fwd"}, "static by in-port"),
    ],
)
def test_the_tool_chooses_how_to_steer(axes: dict[str, Any], steering: str) -> None:
    assert laid_out(**axes).steering == steering


def test_a_router_is_crossed_once_a_hop() -> None:
    layout = laid_out(switch="ip-forward", chain=3)
    a = addressing(layout, "a0-b0")
    assert a.routed == 4
    assert (a.sent_src_mac, a.sent_dst_mac) == (mac_address(0), mac_address(0, router=True))
    assert (a.seen_src_mac, a.seen_dst_mac) == (mac_address(7, router=True), mac_address(7))
    # A function addresses its frames to the router's side of the output port.
    one = layout.parts[1]
    assert list(one.rewrites) == [
        {"src_mac": mac_address(port.index), "dst_mac": mac_address(port.index, router=True)}
        for port in one.ports
    ]
    rules = [step.argv for step in build(layout) if isinstance(step, Run) and "rule" in step.argv]
    assert len(rules) == 8
    # Without a chain the destination says where a frame goes.
    plain = resolve(Test(switch="ip-forward"), prefix="sm0000", run_dir="/run/x")
    assert not [step for step in build(plain) if isinstance(step, Run) and "rule" in step.argv]


def test_a_router_that_knows_no_ports_has_no_chain() -> None:
    class Plain(IpForward):
        routes_by_port = False

    with SWITCHES.replaced_by(Table({"ip-forward": Plain()}, {})):
        assert "is routed: it cannot bring frames" in reasons(switch="ip-forward")


def test_a_chain_may_end_in_the_function_that_receives() -> None:
    layout = laid_out(scenario="p2v", chain=3, direction="bi")
    assert [part.id for part in layout.parts] == ["a0", "f1", "f2", "f3"]
    assert [part.function.forwards for part in layout.parts] == [False, True, True, False]
    assert layout.steering == "learning by rewritten MACs"
    assert [flow.id for flow in layout.wiring.flows] == [
        *("a0-f1", "f1-f2", "f2-f3", "f3-f2", "f2-f1", "f1-a0")
    ]
    assert [flow.hops for flow in layout.flows] == [
        ("f1.0", "f1.1", "f2.0", "f2.1"),
        ("f2.1", "f2.0", "f1.1", "f1.0"),
    ]
    assert layout.parts[3].roles == (Role.SENDER, Role.RECEIVER)


def test_a_chain_of_one_function_that_receives_is_that_function() -> None:
    layout = resolve(Test(scenario="p2v", chain=1), prefix="sm0000", run_dir="/run/x")
    assert [part.id for part in layout.parts] == ["a0", "f0"]
    assert layout.steering is None


def test_pairs_may_have_chains_that_end_in_a_function() -> None:
    layout = laid_out(scenario="p2v", pairs=2)
    assert [flow.id for flow in layout.flows] == ["a0-c1f2", "a1-c2f2"]


def test_the_cable_of_a_chain_that_ends_in_a_function_leads_to_that_function() -> None:
    test = Test(scenario="p2v", chain=3, environment="host", cpu_limit="function:50")
    found = without_switch(resolve(test, prefix="sm", run_dir="/run"))
    values = {
        name: (value.scenario, value.chain, value.environment, value.cpu_limit)
        for name, value in found.items()
    }
    assert values == {
        "ends": ("p2v", 1, "host", "function:50"),
        "functions": ("p2v", 3, "host", "function:50"),
    }


def test_without_a_chain_nothing_is_steered() -> None:
    assert resolve(Test(), prefix="sm0000", run_dir="/run/x").steering is None


def test_traffic_stands_for_the_usual_forwarder() -> None:
    stood_for, usual = (laid_out(function=name).parts for name in ("traffic", "forwarder"))
    assert [(part.id, part.function, part.ports) for part in stood_for] == [
        (part.id, part.function, part.ports) for part in usual
    ]


@pytest.mark.parametrize(
    ("axes", "reason"),
    [
        ({"switch": "macvlan"}, "cannot distinguish the two ports of a function"),
        ({"switch": "ip-forward", "function": "linux-bridge"}, "would not be for the router"),
        ({"switch": "ip-forward", "chains": 2}, "ip-forward has one rule per port"),
        ({"switch": "ip-forward", "chain": 2, "function": "l2fwd"}, "is a router, and function"),
        ({"function": "linux-bridge"}, "would learn one MAC at several ports"),
        (
            {"function": "testpmd", "switch": "ovs"},
            "function testpmd takes memif, nic-pci, vhost-user",
        ),
        (
            {"function": "l2fwd", "switch": "ovs-dpdk", "engine": "dpdk", **OF_MACS},
            "function l2fwd cannot write its own MAC",
        ),
        (
            {"function": "pcap-bridge", "switch": "ovs", **OF_MACS},
            "--function forwarder,testpmd",
        ),
        ({"function": "linux-bridge", **OF_MACS}, "would learn one MAC at several ports"),
        (
            {"function": "testpmd", "environment": "vm", **OF_MACS},
            "does not announce its MAC: frames for it would be flooded",
        ),
        (
            {"function": "testpmd", "environment": "vm", "switch": "ip-forward"},
            "--function-semantics mac",
        ),
        ({"scenario": "v2v", **OF_MACS}, "no functions that forward: --function-semantics"),
        ({"switch": "direct", "chains": 2}, "direct is a cable"),
        ({"switch": "tc-redirect", "chains": 2}, "port a0 can send to one other port, not to"),
        ({"switch": "xdp-redirect", "chains": 2}, "xdp-redirect connects ports in pairs"),
        (
            {"switch": "testpmd", "engine": "dpdk", "chains": 2},
            "forwards between the ports 2i and 2i+1",
        ),
        (
            {"switch": "direct", "engine": "dpdk", "function": "l2fwd", "port": "vhost-user"},
            "connects to its ports",
        ),
        ({"engine": "udp-mmsg"}, "cannot forward frames of others"),
        ({"placement": "shared-process"}, "no place for a chain"),
        ({"engine": "dpdk", "switch": "ovs-dpdk", "queues": 2, "flows": 4}, "one queue a port"),
        ({"chains": 2, "flows": 2, "flows_by": "mac"}, "cannot differ in it too"),
        ({"chains": 2, "dimension": "latency", "rate": "1k"}, "follows one chain"),
        ({"switch": "ovs", "function": "pcap-bridge", "engine": "udp", "chains": 2}, "source MACs"),
        (
            {"scenario": "p2v", "chain": 2, "chains": 2},
            "in scenario p2v every chain ends in a separate",
        ),
        ({"scenario": "p2v", "chain": 2, "copies": 2}, "copies reach receivers"),
        ({"scenario": "p2v", "chain": 2, "function": "linux-bridge"}, "one MAC at several ports"),
        ({"scenario": "p2v", "function": "l2fwd"}, "or p2v with --chain 2"),
        ({"scenario": "v2v", "function": "l2fwd"}, "no functions that forward: --function"),
        ({"scenario": "v2v", "chain": 2}, "no functions that forward: --chain means"),
        ({"scenario": "p2p", "chains": 2}, "no functions that forward: --chains"),
        ({"scenario": "v2v", "function": "forwarder"}, "its ends are the traffic program"),
        ({"function": "l3fwd"}, "there is no function named 'l3fwd'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(map(str, value)),
)
def test_refuses_what_cannot_be_chained(axes: dict[str, Any], reason: str) -> None:
    assert reason in reasons(**axes)


def test_a_function_with_kernel_ports_lets_sockets_be_the_ends() -> None:
    assert reasons(switch="ovs", function="pcap-bridge", engine="udp-mmsg") == ""


CPUS = [Cpu(id=id_, node=0, siblings=(), isolated=False) for id_ in range(4)]


def test_a_function_that_never_yields_is_left_alone_while_there_is_a_choice() -> None:
    parts = [
        CpuUser("switch", "switch", polls=True),
        CpuUser("a0", "sender", polls=True, group=0),
        CpuUser("f1", "function", polls=True),
        CpuUser("b0", "receiver", polls=True, group=0),
    ]
    four = place(parts, CPUS)
    assert len({pin.cpus for pin in four.pins.values()}) == 4
    assert four.doubts == ()
    three = place(parts, CPUS[:3])
    assert three.pins["a0"].cpus == three.pins["b0"].cpus
    assert three.doubts == ("cores-shared",)
    two = place(parts, CPUS[:2])
    assert two.pins["switch"].cpus not in [two.pins[part].cpus for part in ("a0", "f1", "b0")]
    assert "cores-overcommitted" in two.doubts
    assert [two.pins[part].yield_ for part in ("a0", "f1", "b0")] == [True, False, True]


def test_a_function_that_sleeps_has_no_seat() -> None:
    parts = [CpuUser("a0", "sender", polls=True), CpuUser("f1", "function", polls=False)]
    placement = place(parts, CPUS[:1])
    assert placement.pins["f1"].cpus == ()
    assert placement.doubts == ()


def test_the_bridge_tells_what_it_lost() -> None:
    layout = laid_out(switch="ovs", function="pcap-bridge")
    part = layout.hosted[0]
    function, hosted = part.function, part.hosted
    assert function is PCAP_BRIDGE
    counts = b'{"in":[9,1],"out":[1,7],"failed":[0,2],"missed":[3,0]}\n'
    assert function.counters.parse(hosted, (counts,)).ports == {
        "f1.0": PortCounters(rx=9, tx=1, rx_dropped=3, tx_dropped=0),
        "f1.1": PortCounters(rx=1, tx=7, rx_dropped=0, tx_dropped=2),
    }
    for garbled in (b"", b"[]", b'{"in":[1]}', b'{"in":["x",1]}', b"\xff"):
        with pytest.raises(ValueError):
            function.counters.parse(hosted, (garbled,))


def test_a_bridge_as_a_function_lost_what_it_did_not_offer_to_the_other_port() -> None:
    part = laid_out(switch="ovs", function="linux-bridge").hosted[0]
    function, hosted = part.function, part.hosted

    def link(name: str, rx: int, tx: int, tx_dropped: int) -> str:
        return (
            f'{{"ifname":"{name}","stats64":{{"rx":{{"packets":{rx},"dropped":0,"errors":0}},'
            f'"tx":{{"packets":{tx},"dropped":{tx_dropped},"errors":0}}}}}}'
        )

    printed = f"[{link('sm0000-e1', 10, 0, 0)},{link('sm0000-e2', 0, 6, 1)}]".encode()
    found = function.counters.parse(hosted, (printed,)).ports
    assert found["f1.1"].tx_dropped == 3
    assert found["f1.0"].tx_dropped == 0
    with pytest.raises(ValueError, match="no link"):
        function.counters.parse(hosted, (b"[]",))


def test_every_function_but_the_ends_forwards() -> None:
    assert [name for name, function in FUNCTIONS.items() if not function.forwards] == ["traffic"]
    for semantics, writing in (("auto", {"forwarder"}), ("mac", {"forwarder", "testpmd"})):
        assert {n for n, value in FUNCTIONS.items() if value.writes_macs(semantics)} == writing


def test_a_port_of_a_function_knows_its_part() -> None:
    ports = laid_out().wiring.ports
    assert [port.id for port in ports] == ["a0", "f1.0", "f1.1", "f2.0", "f2.1", "b0"]
    assert replace(ports[1], node=HOST) == Port("f1.0", 1, "f1")
