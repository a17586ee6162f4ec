"""These tests compare what a run asks of hosts with NICs, of the kernel and by PCI address, with
stored texts: every request, and the steps, or the refusal with its hint."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, Literal, cast

from golden_cases import shortened
from switchmark.environments import inside
from switchmark.errors import SwitchmarkError
from switchmark.hosts.base import Completed
from switchmark.hosts.recording import RecordingHost
from switchmark.lab.running import find_nics, lend_nics
from switchmark.model.plan import Node, Plan
from switchmark.model.test import Test
from switchmark.model.topology import Between, Findings, HandedNic, Port, Semantics
from switchmark.path.resolving import resolve
from switchmark.runs.nics import lend, numa_nodes, spread
from switchmark.runs.pci import UIO, VFIO, Device, bind, find_device, hand_over
from switchmark.runs.script import describe
from unit.test_pci import A, B, Machine

Golden = Callable[[str, str], None]

SHOW = ("ip", "-j", "address")
ROUTES, ROUTES6 = ("ip", "-j", "route"), ("ip", "-j", "-6")
FEATURES = b"""\
Features for eth1:
rx-checksumming: on
tx-checksumming: off
\ttx-checksum-ipv4: off [fixed]
scatter-gather: on
tcp-segmentation-offload: off
generic-segmentation-offload: on
generic-receive-offload: on
tx-udp-segmentation: off
hw-tc-offload: on
"""


def requests_and_end(
    host: RecordingHost, action: Callable[..., object], *arguments: object
) -> Iterator[str]:
    """Yield what an action asks of a host, and how it ends."""
    try:
        found = action(host, *arguments)
    except SwitchmarkError as error:
        ending = [f"{type(error).__name__}: {error.message}", f"hint: {error.hint}"]
    else:
        ending = describe(found, inside) if isinstance(found, tuple) else [repr(found)]
    yield from (f"  {' '.join(argv)}" for argv in host.ran)
    yield from ending


def machines() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield hosts with two NICs by PCI address, of which the first has an interface."""
    yield "as usual", {}
    yield "down", {"link": {"flags": []}}
    yield "without flags", {"link": {"flags": ["PROMISC"]}}
    yield "no module", {"drivers": (), "module": 1}
    yield "a module", {"drivers": ()}
    yield "a disk", {"kind": "0x010802"}
    yield "a default route", {"routes": b'[{"dst": "default", "dev": "eth1"}]'}
    yield "no IOMMU", {"group": False}
    yield "no IOMMU, and allowed", {"group": False, "noiommu": b"Y\n"}
    yield "shared", {"others": b"0000:03:00.2\n"}
    yield "shared with a bridge", {"others": b"0000:00:1c.0\n"}
    for limit in (b"65536", b"unlimited"):
        for bits in (b"0", b"4000", b"3fff"):
            status = b"Name:\tx\nCapEff:\t%b\n" % bits
            yield f"{limit.decode()} with {bits.decode()}", {"status": status, "limit": limit}
    yield "no limit known", {"status": b"", "limit": b""}


def found_and_handed(host: Machine, driver: str, memory: Literal["hugepages", "no-huge"]) -> Plan:
    return hand_over(host, [find_device(host, address) for address in (A, B)], driver, memory)


def test_nics_by_address_are_found_and_handed_over(golden: Golden) -> None:
    text: list[str] = []
    for name, options in machines():
        for driver, memory in ((VFIO, "hugepages"), (VFIO, "no-huge"), (UIO, "hugepages")):
            text += [f"## {name}: {driver}, {memory}"]
            text += requests_and_end(Machine(**options), found_and_handed, driver, memory)
    golden("lending/by-address.txt", shortened("\n".join(text)))


DEVICES: Mapping[str, Device] = {
    "left to programs": Device(A, "8086:10d3", VFIO, (), "7"),
    "left to programs otherwise": Device(A, "8086:10d3", UIO, (), "7"),
    "without a driver": Device(A, "8086:10d3", "", (), "7"),
    "elsewhere": Device(A, "8086:10d3", "e1000e", (), "7"),
    "several interfaces": Device(A, "8086:10d3", "mlx5", ("eth1", "eth1"), "7"),
}


def test_a_nic_in_any_state_is_handed_over_or_refused(golden: Golden) -> None:
    text: list[str] = []
    for name, device in DEVICES.items():
        for driver in (VFIO, UIO):
            text += [f"## {name}: {device}, {driver}"]
            text += requests_and_end(Machine(), hand_over, [device], driver, "hugepages")
    several = [
        Device(f"0000:0{number}:00.0", "8086:10d3", "ixgbe" * (number != 4), (name,), "7")
        for number, name in enumerate(("eth10", "eth2", "wan", "eth1", "eth2np1"), 3)
    ]
    text += ["## several in the order of their interfaces"]
    text += requests_and_end(Machine(), hand_over, several, UIO, "hugepages")
    for has_driver in (True, False):
        text += [f"## bound, with a driver before: {has_driver}"]
        text += describe(bind(A, VFIO, has_driver=has_driver), inside)
    for address in (A, B, "0000:09:00.0"):
        text += [f"## found: {address}"]
        text += requests_and_end(Machine(), find_device, address)
    golden("lending/in-any-state.txt", shortened("\n".join(text)))


def links() -> Iterator[tuple[str, dict[tuple[str, ...], bytes | Completed]]]:
    """Yield interfaces of the kernel in any state, as what its host answers."""

    def link(**members: object) -> dict[tuple[str, ...], bytes | Completed]:
        usual = {"ifname": "eth1", "flags": ["UP"], "address": "aa:bb:cc:00:00:01"}
        return {SHOW: json.dumps([usual | members]).encode(), ("ethtool", "-k"): FEATURES}

    def upper(*names: str, of: str = "eth1") -> dict[tuple[str, ...], bytes | Completed]:
        listing = "\n".join(("queues", *(f"upper_{name}" for name in names)))
        return {("ls", f"/sys/class/net/{of}"): listing.encode()}

    def routes(*ways: Mapping[str, object]) -> bytes:
        return json.dumps(ways).encode()

    yield "as usual", link()
    yield "down", link(flags=["BROADCAST"])
    yield "without flags", {SHOW: b'[{"address": "aa:bb:cc:00:00:01"}]'}
    yield "promiscuous", link(flags=["UP", "PROMISC"])
    yield "not there", {SHOW: Completed(1, b"", b"no such device")}
    there = [{"local": "fe80::1", "scope": "link"}, {"local": "10.0.0.1", "scope": "global"}]
    yield "with addresses", link(addr_info=[*there, {"local": "10.0.0.2", "scope": "global"}])
    yield "with an address of the link", link(addr_info=[there[0], {"local": "x"}])
    yield "in a bridge", link(master="br0")
    yield "below a VLAN", {**link(), **upper("eth1.5")}
    both = {**link(), **upper("bond0", "x"), **upper("bond0.5", "bond0", of="bond0")}
    yield "below a bond", both
    yield "below a way", {**both, ROUTES: routes({"dev": "eth0"}, {"dev": "bond0.5"})}
    yield "on a way", {**link(), ROUTES: routes({"dst": "default", "dev": "eth1"})}
    hops = {"nexthops": [{"dev": "eth7"}, {"dev": "eth1"}]}
    yield "on one of two ways", {**link(), ROUTES6: routes({"dev": "eth0"}, hops)}
    yield "no way at all", {**link(), ROUTES: b"", ROUTES6: b""}
    yield "no routes", {**link(), ROUTES: Completed(2, b"", b"no \xff table")}


def test_nics_of_the_kernel_are_lent_or_refused(golden: Golden) -> None:
    text: list[str] = []
    for name, answers in links():
        for semantics in (None, Semantics.ROUTED, Semantics.LEARNING):
            text += [f"## {name}: {semantics and semantics.value}"]
            text += requests_and_end(
                RecordingHost(answers), lend, "eth1", "02:00:00:00:00:01", semantics
            )
    golden("lending/lent.txt", shortened("\n".join(text)))


def test_what_comes_in_is_spread_over_cpus(golden: Golden) -> None:
    text: list[str] = []
    net = "/sys/class/net/eth1"
    for queues, interrupts, rps in (
        ((), (), ()),
        ((0,), (), (0,)),
        ((10, 2), (), (10, 2)),
        ((10, 2), (), (10,)),
        ((0, 1, 2), (31, 4, 30), ()),
        ((0, 1, 2), (31, 4), (0, 1, 2)),
        ((0, 1), (31, 4), ()),
        ((0, 1), (31, 4), (0, 1)),
        ((0, 1, 2), (31, 4, 30, 100), ()),
    ):
        listed = "\n".join((*(f"rx-{number}" for number in queues), "tx-0", "x"))
        host = RecordingHost(
            {
                ("ls", f"{net}/queues"): listed.encode() + b"\n\xff",
                ("ls", f"{net}/device/msi_irqs"): " ".join(map(str, interrupts)).encode(),
            },
            files={f"{net}/queues/rx-{number}/rps_cpus": b"0" for number in rps},
        )
        for cpus in ((1,), (3, 1), (1, 2, 35)):
            text += [f"## queues {queues}, interrupts {interrupts}, RPS {rps}: CPUs {cpus}"]
            text += requests_and_end(host, spread, "eth1", cpus)
            host.ran.clear()
    golden("lending/spread.txt", shortened("\n".join(text)))


def test_nics_are_on_numa_nodes() -> None:
    nodes = {"eth1": b"1\n", "eth2": b"-1\n", "eth3": b"0\n"}
    files = {f"/sys/class/net/{name}/device/numa_node": node for name, node in nodes.items()}
    files[f"/sys/bus/pci/devices/{A}/numa_node"] = b"2\n"

    def port(nic: str | None, peer: str | None) -> Port:
        return cast(Port, SimpleNamespace(nic=nic, nic_peer=peer))

    host = RecordingHost(files=files)
    ports = [port("eth1", "eth2"), port(None, None), port("eth3", A), port(B, None)]
    assert numa_nodes(host, ports) == {"eth1": 1, "eth3": 0, A: 2}
    assert numa_nodes(host, [port(None, None)]) == {}


PAST_KERNEL = Between(
    cables=(("eth1", "eth7"),),
    handed={("left", "eth1"): HandedNic(A, ""), ("right", "eth7"): HandedNic(B, UIO)},
)
_PCI = {"switch": "testpmd", "engine": "dpdk", "scenario": "p2v", "nic": "a0=03:00.0:03:00.1"}
_REMOTE = {"switch": "ovs-dpdk", "engine": "dpdk", "locality": "remote", "hosts": "left,right"}
PATHS: Mapping[str, tuple[dict[str, Any], Findings]] = {
    "both ends of a cable": (_PCI, Findings()),
    "both ends of a cable by another driver": ({**_PCI, "driver": UIO}, Findings()),
    "without hugepages": ({**_PCI, "memory": "no-huge", "driver": UIO}, Findings()),
    "a cable between hosts": (_REMOTE, Findings(between=PAST_KERNEL)),
}


def host_of(hosts: Mapping[str, Machine], node: Node) -> Machine:
    return hosts[node.host]


def test_the_nics_of_a_path_are_found_and_lent(golden: Golden) -> None:
    text: list[str] = []
    for name, (axes, found) in PATHS.items():
        hosts = {host: Machine() for host in ("local", "left", "right")}
        for host, machine in hosts.items():
            machine.name = host
        path = resolve(Test(**axes), prefix="sm0000", run_dir="/run/x", found=found)
        of = partial(host_of, hosts)
        nics = find_nics(of, path)
        text += [f"## {name}", *(f"{end}: {device}" for end, device in nics.items())]
        try:
            plan = lend_nics(of, path, nics)
            text += describe(plan, inside)
        except SwitchmarkError as error:
            text += [f"{type(error).__name__}: {error.message}", f"hint: {error.hint}"]
    golden("lending/of-a-path.txt", shortened("\n".join(text)))
