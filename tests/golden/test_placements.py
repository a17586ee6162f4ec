"""These tests compare how the path of a test gets its CPUs and its memory with a stored text: what
the placement is told of one host or two, and which steps are tried."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import pytest

from golden_cases import shortened
from switchmark.hosts.recording import RecordingHost
from switchmark.lab import prepare as preparing
from switchmark.lab.prepare import followed, prepare
from switchmark.model.cpus import Cpu
from switchmark.model.plan import Plan, Reserve
from switchmark.model.test import Test
from switchmark.model.topology import Between, Findings
from switchmark.path import placement
from switchmark.path.path import Path
from switchmark.path.placement import CpuUser, Placement

Golden = Callable[[str, str], None]

NODES = {
    **{f"/sys/class/net/eth{n}/device/numa_node": b"%d\n" % (n % 2) for n in range(4)},
    "/sys/bus/pci/devices/0000:03:00.0/numa_node": b"1\n",
}
CPUS = {"near": (0, 1, 2, 3), "far": (8, 9, 10, 11)}

_REMOTE = {"locality": "remote", "hosts": "near,far"}
_POLLING = {"switch": "testpmd", "engine": "dpdk"}
BETWEEN = Findings(between=Between((("eth0", "eth1"),), doubts=("emulated",)))
CASES: Mapping[str, tuple[dict[str, Any], Findings, bool]] = {
    "a switch of the kernel": ({}, Findings(), False),
    "a switch that polls": (_POLLING, Findings(), False),
    "memory for a switch that polls": ({**_POLLING, "memory": "hugepages"}, Findings(), False),
    "NICs": ({"scenario": "p2p", "nic": "a0=eth0:eth1,b0=eth2:eth3"}, Findings(), False),
    "a NIC by its address": (
        {**_POLLING, "scenario": "p2v", "nic": "a0=03:00.0:04:00.0"},
        Findings(),
        False,
    ),
    "a placement by hand": ({"placement": "1+2"}, Findings(), False),
    "one process": ({"placement": "shared-process"}, Findings(), False),
    "two hosts of one machine": (_REMOTE, Findings(), False),
    "two machines": (_REMOTE, BETWEEN, True),
    "two machines, unpinned": ({**_REMOTE, "placement": "unpinned"}, BETWEEN, True),
    "two machines that poll": (
        {**_REMOTE, "switch": "ovs-dpdk", "engine": "dpdk", "pairs": 2},
        BETWEEN,
        True,
    ),
    "a limit": ({"cpu_limit": "function:50"}, Findings(), False),
}


class Telling:
    """A host for each name, whose CPUs and control groups are told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.text: list[str] = []
        self.hosts = {name: RecordingHost(name=name, files=NODES) for name in CPUS}
        monkeypatch.setattr(preparing, "read_cpus", self.cpus)
        monkeypatch.setattr(preparing, "cpu_root", lambda host: f"/groups/of/{host.name}")
        monkeypatch.setattr(preparing, "place", self.place)
        self.can = True

    def cpus(self, host: RecordingHost) -> tuple[Cpu, ...]:
        return tuple(Cpu(cpu, node=cpu % 2) for cpu in CPUS[host.name])

    def place(
        self,
        users: Sequence[CpuUser],
        cpus: Sequence[Cpu],
        policy: str,
        *,
        may_share: bool = False,
        nodes: Mapping[str, int] = {},
    ) -> Placement:
        ids = [cpu.id for cpu in cpus]
        self.text.append(
            f"place {[user.id for user in users]} on {ids} by {policy}, shared: {may_share}, "
            f"nodes {dict(nodes)}"
        )
        return placement.place(users, cpus, policy, may_share=may_share, nodes=nodes)

    def tries(self, plan: Plan) -> bool:
        tried: Collection[str] = [f"{step.why} ({step.megabytes} MB)" for step in reserves(plan)]
        self.text.append(f"tries {tried}")
        return self.can


def reserves(plan: Plan) -> list[Reserve]:
    assert all(isinstance(step, Reserve) for step in plan)
    return [step for step in plan if isinstance(step, Reserve)]


def described(path: Path) -> list[str]:
    pins = {name: pin.cpus for name, pin in path.placement.pins.items()}
    wiring = path.wiring
    return [
        f"{path.placement.policy}: {pins}, doubts {path.placement.doubts}",
        f"memory {wiring.memory.kind} of node {wiring.memory.node}, {wiring.prefix} in "
        f"{wiring.run_dir}, found {path.found.mode}",
    ]


def test_a_path_has_cpus_and_memory(golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Telling(monkeypatch)
    for name, (axes, found, apart) in CASES.items():
        for can in (True, False):
            site.can = can
            test, far = Test(**axes), site.hosts["far"] if apart else None
            site.text.append(f"## {name}, hugepages: {can}")
            path = prepare(
                *(site.hosts["near"], test, found),
                prefix="sm0000",
                run_dir="/run/x",
                can=site.tries,
                far=far,
            )
            site.text += described(path)
            if path.test.limits:
                site.text.append(f"groups in {path.cgroups}")
        site.text.append(f"followed: {followed(site.hosts['near'], test, 'fast', far)}")
    golden("placements.txt", shortened("\n".join([*site.text, ""])))
