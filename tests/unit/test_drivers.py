"""These tests check drivers without a host: the parsing of tools' output, and the errors for
missing tools."""

from __future__ import annotations

import json
from typing import Any

import pytest

from switchmark.engines import TABLE as ENGINES
from switchmark.errors import Unavailable, UsageError
from switchmark.hosts.base import Completed
from switchmark.hosts.recording import RecordingHost
from switchmark.model.cpus import Pin
from switchmark.model.plan import Plan, Run, Write
from switchmark.model.test import Test
from switchmark.model.topology import Findings, Semantics
from switchmark.path.placement import Placement
from switchmark.path.resolving import resolve
from switchmark.runs.nics import lend, spread
from switchmark.switches import TABLE as SWITCHES
from switchmark.switches.links import parse_link_counters

LINKS = [
    {
        "ifname": "sm0000-p0",
        "stats64": {
            "rx": {"packets": 10, "dropped": 3, "errors": 1},
            "tx": {"packets": 20, "dropped": 5, "errors": 0},
        },
    },
    {
        "ifname": "sm0000-p1",
        "stats64": {
            "rx": {"packets": 1, "dropped": 0, "errors": 0},
            "tx": {"packets": 2, "dropped": 0, "errors": 0},
        },
    },
]

SOCKETS = b"""\
Netid State  Recv-Q Send-Q Local Address:Port Peer Address:PortProcess
p_raw UNCONN 0 0 *:sm0000-p0 *  skmem:(r0,rb212992,t0,tb212992,f0,w0,d37)
p_raw UNCONN 0 0 *:sm0000-p1 *  skmem:(r0,rb212992,t0,tb212992,f0,w0,d0)
p_dgr UNCONN 0 0 *:eth0 *  skmem:(r0,rb212992,t0,tb212992,f0,w0,d9)
"""


class WithoutTool(RecordingHost):
    """On this host one program is missing."""

    def run(self, argv: tuple[str, ...], **options: Any) -> Completed:
        raise Unavailable(f"{argv[0]} is not installed")


def test_every_switch_says_what_is_missing() -> None:
    for switch in SWITCHES.values():
        if switch.name != "null":
            with pytest.raises(Unavailable):
                switch.probe(WithoutTool())


def test_a_missing_switch_is_named_with_what_installs_it() -> None:
    with pytest.raises(Unavailable, match="ovs-vswitchd is not installed") as refused:
        SWITCHES["ovs"].probe(WithoutTool())
    assert refused.value.hint == "apt-get install openvswitch-switch"


@pytest.mark.parametrize(
    ("files", "mode"),
    [({}, "userspace"), ({"/sys/module/openvswitch": b""}, "kernel")],
)
def test_the_datapath_is_the_kernels_where_its_module_is(
    files: dict[str, bytes], mode: str
) -> None:
    schema = {"/usr/share/openvswitch/vswitch.ovsschema": b"{}"}
    host = RecordingHost(
        {("ovs-vswitchd",): b"ovs-vswitchd (Open vSwitch) 3.1.0\nDPDK 22.11"},
        files={**schema, **files},
    )
    version = SWITCHES["ovs"].probe(host)
    assert (version.text, version.mode) == ("3.1.0", mode)


def test_link_counters_are_read_by_interface() -> None:
    found = parse_link_counters(json.dumps(LINKS).encode())
    assert found["sm0000-p0"].rx == 10
    assert found["sm0000-p0"].tx == 20
    assert found["sm0000-p0"].rx_dropped == 4
    assert found["sm0000-p0"].tx_dropped == 5


def test_drops_at_the_sockets_of_a_userspace_datapath_are_the_ports() -> None:
    w = resolve(Test(switch="ovs"), prefix="sm0000", run_dir="/run").wiring
    outputs = (json.dumps(LINKS).encode(), SOCKETS)
    found = SWITCHES["ovs"].counters.parse(w, outputs)
    assert found.ports["f0"].rx_dropped == 37
    assert found.ports["f1"].rx_dropped == 0


def test_a_veths_drop_is_counted_once() -> None:
    """The kernel counts it at both ends; here it is the sending end's."""
    w = resolve(Test(), prefix="sm0000", run_dir="/run").wiring
    found = SWITCHES["linux-bridge"].counters.parse(w, (json.dumps(LINKS).encode(),))
    assert found.ports["f0"].rx_dropped is None
    assert found.ports["f0"].tx_dropped == 5


@pytest.mark.parametrize("output", [b"{}", b"[{}]", b'[{"ifname": "x"}]', b"\xff"])
def test_garbled_link_counters_are_a_value_error(output: bytes) -> None:
    with pytest.raises(ValueError):
        parse_link_counters(output)


def test_an_engine_that_was_not_built_is_unavailable_with_what_builds_it() -> None:
    class Built(RecordingHost):
        def run(self, argv: tuple[str, ...], **options: Any) -> Completed:
            return Completed(0, b'{"version": "1", "engines": [{"name": "raw"}]}', b"")

    assert ENGINES["raw"].probe(Built()).text == "1"
    with pytest.raises(Unavailable, match="has no engine xdp"):
        ENGINES["xdp"].probe(Built())
    with pytest.raises(Unavailable) as refused:
        ENGINES["raw"].probe(WithoutTool())
    assert refused.value.hint == "make setup"


def test_an_engine_whose_module_cannot_be_loaded_is_unavailable_with_the_reason() -> None:
    files = {"switchmark-engine-dpdk.25.so": "no librte_eal.so.25", "switchmark-engine-a.so": "no"}
    unloaded = [
        {"name": name, "file": file, "why": why}
        for name, (file, why) in zip(("dpdk", "a"), files.items(), strict=True)
    ]

    class Built(RecordingHost):
        def run(self, argv: tuple[str, ...], **options: Any) -> Completed:
            listed = {"version": "1", "engines": [], "unloaded": unloaded}
            return Completed(0, json.dumps(listed).encode(), b"")

    with pytest.raises(Unavailable) as refused:
        ENGINES["dpdk"].probe(Built())
    assert refused.value.message == (
        "engine dpdk cannot be loaded\n  switchmark-engine-dpdk.25.so: no librte_eal.so.25"
    )
    assert (refused.value.hint or "").startswith("apt-get install librte-meta-all")


def test_an_engine_is_unavailable_with_the_reason_where_no_module_can_be_looked_for() -> None:
    class Built(RecordingHost):
        def run(self, argv: tuple[str, ...], **options: Any) -> Completed:
            listed = {"version": "1", "engines": [], "unloaded": [], "unsearched": "no /proc"}
            return Completed(0, json.dumps(listed).encode(), b"")

    with pytest.raises(Unavailable, match="next to it: no /proc"):
        ENGINES["dpdk"].probe(Built())


def nic_host(link: dict[str, Any], routes: bytes = b"[]") -> RecordingHost:
    return RecordingHost(
        {
            ("ip", "-j", "address"): json.dumps([link]).encode(),
            ("ip", "-j", "route"): routes,
            ("ip", "-j", "-6"): b"[]",
            ("ethtool", "-k"): b"Features:\ntx-checksumming: on\nscatter-gather: on [fixed]\n"
            b"\ttx-checksum-ipv4: on\ngeneric-segmentation-offload: off\n",
        }
    )


def test_a_lent_nic_gets_back_its_mac_features_and_state() -> None:
    plan = lend(
        nic_host({"ifname": "eth1", "flags": ["UP"], "address": "aa:bb:cc:00:00:01"}),
        "eth1",
        "02:00:00:00:00:09",
    )
    undos = [step.undo for step in plan if isinstance(step, Run)]
    assert ("ip", "link", "set", "eth1", "up") in undos
    assert ("ip", "link", "set", "eth1", "address", "aa:bb:cc:00:00:01") in undos
    assert ("ethtool", "-K", "eth1", "tx", "on", "gso", "off") in undos


def test_default_routes_of_both_protocols_are_looked_at() -> None:
    host = nic_host({"ifname": "eth1", "flags": [], "address": "aa:bb:cc:00:00:01"})
    lend(host, "eth1", "02:00:00:00:00:09")
    asked = [" ".join(argv) for argv in host.ran if "route" in argv]
    assert asked == ["ip -j route show default", "ip -j -6 route show default"]


@pytest.mark.parametrize(
    ("flags", "semantics", "has_rule"),
    [
        ([], Semantics.LEARNING, True),
        ([], Semantics.PATCH, True),
        ([], Semantics.ROUTED, False),
        ([], None, False),
        (["PROMISC"], Semantics.LEARNING, False),
    ],
)
def test_a_nic_of_a_switch_that_does_not_route_takes_frames_for_all_macs(
    flags: list[str], semantics: Semantics | None, has_rule: bool
) -> None:
    """Others see those for its own MAC alone: VALE, whose wires are NICs, saw none."""
    link = {"ifname": "eth1", "flags": flags, "address": "aa:bb:cc:00:00:01"}
    plan = lend(nic_host(link), "eth1", "02:00:00:00:00:09", semantics)
    switch_on, off = (("ip", "link", "set", "eth1", "promisc", state) for state in ("on", "off"))
    undos = [step.undo for step in plan if isinstance(step, Run) and step.argv == switch_on]
    assert undos == [off] * has_rule


@pytest.mark.parametrize(
    ("link", "routes", "message"),
    [
        ({}, b'[{"dst": "default", "dev": "eth1"}]', "default route"),
        ({"addr_info": [{"local": "10.0.0.1", "scope": "global"}]}, b"[]", "10.0.0.1"),
        ({"master": "br0"}, b"[]", "belongs to br0"),
    ],
)
def test_a_nic_in_use_is_refused(link: dict[str, Any], routes: bytes, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        lend(nic_host({"address": "aa:bb:cc:00:00:01", **link}, routes), "eth1", "02::")


def test_a_nic_whose_routes_cannot_be_read_is_not_lent() -> None:
    host = nic_host({"address": "aa:bb:cc:00:00:01"})
    host.answers["ip", "-j", "route"] = Completed(1, b"", b"RTNETLINK refused")
    with pytest.raises(Unavailable) as refused:
        lend(host, "eth1", "02::")
    assert refused.value.message == "ip -j route show default failed: RTNETLINK refused"


def test_a_nic_that_is_not_there_is_refused() -> None:
    host = RecordingHost({("ip", "-j", "address"): Completed(1, b"", b"no such device")})
    with pytest.raises(UsageError) as refused:
        lend(host, "eth9", "02::")
    assert (refused.value.message, refused.value.hint) == ("there is no NIC named eth9", "ip link")


def test_a_nic_with_a_device_on_top_of_it_is_in_use() -> None:
    host = nic_host({"address": "aa:bb:cc:00:00:01"})
    host.answers["ls", "/sys/class/net/eth1"] = b"mtu upper_bond0 upper_eth1.7"
    host.answers["ls", "/sys/class/net/bond0"] = b"lower_eth1 upper_bond0.8"
    with pytest.raises(UsageError) as refused:
        lend(host, "eth1", "02::")
    assert refused.value.message == "the NIC eth1 is in use: bond0, eth1.7, bond0.8 is on top of it"
    assert refused.value.hint == "ip -d link show dev bond0"
    host.answers["ip", "-j", "-6"] = b'[{"dst": "default", "nexthops": [{"dev": "bond0.8"}]}]'
    with pytest.raises(UsageError, match="eth1 carries the default route by bond0.8: a run would"):
        lend(host, "eth1", "02::")


class OneNic(RecordingHost):
    """A host with a NIC that has some receive queues and interrupts, and with RPS or without."""

    def __init__(self, queues: int, interrupts: tuple[int, ...], *, rps: bool) -> None:
        paths = [f"/sys/class/net/eth1/queues/rx-{queue}/rps_cpus" for queue in range(queues)]
        super().__init__(files=dict.fromkeys(paths if rps else (), b"0"))
        self.listed = {
            "/sys/class/net/eth1/queues": ["tx-0", *(f"rx-{queue}" for queue in range(queues))],
            "/sys/class/net/eth1/device/msi_irqs": [str(number) for number in interrupts],
        }

    def run(self, argv: tuple[str, ...], **options: Any) -> Completed:
        assert argv[0] == "ls"
        return Completed(0, "\n".join(self.listed[argv[1]]).encode(), b"")


def written_files(plan: Plan) -> dict[str, bytes]:
    assert all(isinstance(step, Write) for step in plan)
    return {step.path: step.content for step in plan if isinstance(step, Write)}


def test_a_nic_with_queues_enough_interrupts_each_cpu_in_turn() -> None:
    host = OneNic(4, (9, 101, 102, 103, 104), rps=True)
    found = written_files(spread(host, "eth1", (2, 3)))
    assert {path.split("/")[3]: cpu for path, cpu in found.items()} == {
        **dict.fromkeys(("9", "102", "104"), b"2"),
        **dict.fromkeys(("101", "103"), b"3"),
    }


def test_a_nic_with_one_queue_is_spread_behind_it() -> None:
    found = written_files(spread(OneNic(1, (9,), rps=True), "eth1", (0, 2)))
    assert found == {"/sys/class/net/eth1/queues/rx-0/rps_cpus": b"00000005"}


def test_a_nic_that_cannot_be_spread_is_refused_with_what_it_has() -> None:
    host = OneNic(1, (9,), rps=False)
    with pytest.raises(Unavailable, match="1 receive queues, 1 interrupts, and this kernel no RPS"):
        spread(host, "eth1", (0, 1))
    assert written_files(spread(host, "eth1", (1,))) == {"/proc/irq/9/smp_affinity_list": b"1"}


@pytest.mark.parametrize(("mode", "refused"), [("kernel", False), ("userspace", True)])
def test_several_cpus_of_ovs_need_the_kernels_datapath(mode: str, refused: bool) -> None:
    placement = Placement("pinned", {"switch": Pin((1, 2))}, None, ())
    test = Test(switch="ovs", flows=4, switch_cores=2)
    path = resolve(test, prefix="sm0000", run_dir="/run", found=Findings(mode), placement=placement)
    assert path.is_spread == (not refused)
    assert ("on one thread" in (path.refusal or "")) == refused
    one = Placement("pinned", {"switch": Pin((1,))}, None, ())
    alone = test.model_copy(update={"switch_cores": 1})
    path = resolve(alone, prefix="sm0000", run_dir="/run", found=Findings(mode), placement=one)
    assert path.refusal is None
