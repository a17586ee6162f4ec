"""These tests hold the exact steps of every switch between physical ports and through a chain, and
of each variant that differs, one text file for each switch. The other scenarios are in the file of
one switch; a test checks that they add nothing for other switches."""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from folding import FRAMES, Frame, folded, frames, unfolded
from golden_cases import cases_of, text_of_cases
from recorded_roots import RecordedRoot
from switchmark.engines import TABLE as ENGINES
from switchmark.environments import inside
from switchmark.hosts.programs import AGENT, TOOL, TRAFFIC, program_variable
from switchmark.hosts.qemu import QEMU_VARIABLE
from switchmark.hosts.recording import RecordingHost
from switchmark.lab.host_preparation import planned, planned_for
from switchmark.lab.prepare import prepare
from switchmark.lab.running import lend_nics
from switchmark.model.cpus import Pin
from switchmark.model.event import KINDS
from switchmark.model.plan import Plan, Run
from switchmark.model.preparation import TABLE as PREPARATIONS
from switchmark.model.test import Test
from switchmark.model.topology import NOT_PROBED, Between, Findings
from switchmark.noises import TABLE as NOISES
from switchmark.noises.base import Site
from switchmark.path.assembly import build, part_counters
from switchmark.path.placement import Placement
from switchmark.path.refusals import check
from switchmark.path.resolving import resolve
from switchmark.runs.pci import DRIVERS, Device, hand_over
from switchmark.runs.pods import Cluster, pods_plan
from switchmark.runs.script import describe
from switchmark.runs.together import steps_beside
from switchmark.scenarios import TABLE as SCENARIOS
from switchmark.switches import TABLE as SWITCHES
from switchmark.switches.base import Switch

Golden = Callable[[str, str], None]

CONFLISTS = Path(__file__).parents[1] / "unit" / "data" / "cni"
RUN_DIR = "/run/switchmark/smtest"
PROGRAMS, GUEST = "/opt/switch mark/bin", "share/switchmark/guest"
_OURS = re.compile(rf"'{PROGRAMS}/(switchmark-\w+)'(?= (boot|enter|redirect|serve|telemetry))")

# The nodes of p2p that stand where the functions of these scenarios do.
ENDS = {
    "p2v": {"f0": "b0"},
    "v2p": {"f0": "a0"},
    "v2v": {"f0": "a0", "f1": "b0"},
}
SHOWS_ALL = "linux-bridge"  # the switch whose files show every scenario


def _joins(switch: Switch, engine: str) -> bool:
    return bool(set(switch.port_kinds) & ENGINES[engine].port_kinds)


def plain(switch: str, scenario: str) -> Test:
    """Return the test of a switch in a scenario with the usual values of the other axes and an
    engine that fits."""
    engine = next(e for e in ("raw-mmsg", "dpdk", "null") if _joins(SWITCHES[switch], e))
    chain = 2 if scenario == "loopback" else 1
    return Test(switch=switch, scenario=scenario, engine=engine, chain=chain)


def between_physical_ports() -> list[str]:
    """Return the switches that can join two physical ports."""
    return [switch for switch in SWITCHES if not check(plain(switch, "p2p"))]


def plans() -> Iterator[tuple[str, Test]]:
    """Yield the switch and the name of each plan, and its test."""
    says_nothing_more = set(between_physical_ports()) - {SHOWS_ALL}
    for switch in SWITCHES:
        for scenario in SCENARIOS:
            test = plain(switch, scenario)
            if not (check(test) or (scenario in ENDS and switch in says_nothing_more)):
                yield f"{switch}/{scenario}", test
    remote = {"locality": "remote", "hosts": "left,right"}
    for switch in ("direct", "linux-bridge", "ip-forward", "macvlan", "ovs"):
        yield f"{switch}/remote", Test(switch=switch, **remote)
    for switch in ("ovs-dpdk", "vpp"):
        axes = {"engine": "dpdk", "semantics": "learning"}
        yield f"{switch}/remote-pairs", Test(switch=switch, pairs=2, **axes, **remote)
    static = {"semantics": "static", "pairs": 2, "direction": "bi"}
    yield "ovs/remote-static-pairs", Test(switch="ovs", **static, **remote)
    for port in ("vhost-user", "memif"):
        yield f"direct/{port}", Test(switch="direct", engine="dpdk", port=port)
    for switch in ("testpmd", "l2fwd", "ovs-dpdk"):
        yield (
            f"{switch}/static-pairs",
            Test(switch=switch, engine="dpdk", semantics="static", pairs=2, direction="bi"),
        )
    yield (
        "testpmd/memif-no-huge",
        Test(switch="testpmd", engine="dpdk", port="memif", memory="no-huge"),
    )
    for switch in ("direct", "testpmd"):
        yield (
            f"{switch}/engine-memif",
            Test(switch=switch, engine="memif", port="memif", scenario="p2v"),
        )
    yield (
        "testpmd/engine-memif-kill",
        Test(switch="testpmd", engine="memif", event="kill", dimension="outage"),
    )
    for switch in ("snabb", "fastclick"):
        yield f"{switch}/vhost-user", Test(switch=switch, engine="dpdk")
        learning = {"semantics": "learning", "pairs": 2, "memory": "no-huge"}
        yield f"{switch}/learning", Test(switch=switch, engine="dpdk", **learning)
    yield (
        "vpp/learning-copies",
        Test(switch="vpp", engine="dpdk", semantics="learning", scenario="v2v", copies=2),
    )
    yield (
        "vpp/memif-routed",
        Test(switch="vpp", engine="dpdk", port="memif", semantics="routed", queues=2, flows=2),
    )
    yield (
        "vpp/loopback-vpp",
        Test(switch="vpp", engine="dpdk", port="memif", scenario="loopback", function="vpp"),
    )
    yield "bess/vhost-user", Test(switch="bess", engine="dpdk", memory="no-huge")
    for switch in ("testpmd", "fastclick", "vpp", "bess"):
        yield (
            f"{switch}/connects",
            Test(switch=switch, engine="dpdk", port="vhost-user", listen="functions"),
        )
    yield "vale/loopback-vale", Test(switch="vale", scenario="loopback", function="vale")
    yield "sriov/vf-pci", Test(switch="sriov", engine="dpdk", scenario="v2v")
    yield "vale/netmap", Test(switch="vale", engine="netmap", scenario="v2v")
    yield "ip-forward/udp", Test(switch="ip-forward", engine="udp")
    for scenario in ("p2v", "v2v"):
        yield (
            f"ipvlan/{scenario}",
            Test(switch="ipvlan", engine="udp", scenario=scenario),
        )
    yield (
        "nft-flowtable/udp",
        Test(switch="nft-flowtable", engine="udp", scenario="v2v"),
    )
    yield "netkit/bi-pairs", Test(switch="netkit", direction="bi", pairs=2)
    yield "linux-bridge/udp-pairs", Test(engine="udp-mmsg", pairs=2, direction="bi")
    yield "linux-bridge/host", Test(environment="host", switch_environment="host")
    yield "ovs/host", Test(switch="ovs", switch_environment="host")
    yield (
        "ovs-dpdk/host",
        Test(switch="ovs-dpdk", engine="dpdk", environment="host", switch_environment="host"),
    )
    yield "linux-bridge/vm", Test(environment="vm", scenario="p2v")
    yield (
        "linux-bridge/vm-cpu-limit",
        Test(environment="vm", cpu_limit="function:50"),
    )
    for switch in ("testpmd", "ovs-dpdk"):
        yield f"{switch}/vm", Test(switch=switch, environment="vm", frame_size=9000)
        yield (
            f"{switch}/vm-dpdk",
            Test(switch=switch, environment="vm", scenario="v2p", engine="dpdk"),
        )
    yield (
        "ovs/loopback-vm-dpdk",
        Test(switch="ovs", environment="vm", scenario="loopback", engine="dpdk"),
    )
    yield (
        "ovs/loopback-vm",
        Test(switch="ovs", environment="vm", scenario="loopback", function="pcap-bridge"),
    )
    for function in ("l2fwd", "testpmd"):
        yield (
            f"ovs/loopback-vm-{function}",
            Test(switch="ovs", environment="vm", scenario="loopback", function=function),
        )
    of_macs = {"function": "testpmd", "function_semantics": "mac", "chain": 2}
    yield (
        "ovs-dpdk/loopback-testpmd-mac",
        Test(switch="ovs-dpdk", engine="dpdk", scenario="loopback", **of_macs),
    )
    yield "linux-bridge/nics", Test(scenario="p2v", nic="a0=nic0:nic1")
    nics = "a0=03:00.0:04:00.0,b0=03:00.1:04:00.1"
    for switch in ("testpmd", "basicfwd", "l2fwd", "ovs-dpdk", "vpp", "bess", "fastclick", "t4p4s"):
        yield f"{switch}/nic-pci", Test(switch=switch, scenario="p2p", nic=nics)
    for switch in ("testpmd", "ovs-dpdk"):
        yield (
            f"{switch}/nic-pci-p2v",
            Test(switch=switch, scenario="p2v", engine="dpdk", nic="a0=3b:00.0:3b:00.1"),
        )
    # DPDK numbers NICs by address: what it calls 0 and 3, 1 and 2 are pairs here.
    crossed = "a0=03:00.0:04:00.0,b0=03:00.3:04:00.1,a1=03:00.1:04:00.2,b1=03:00.2:04:00.3"
    for switch in ("testpmd", "l2fwd"):
        yield (
            f"{switch}/nic-pci-pairs",
            Test(switch=switch, scenario="p2p", engine="dpdk", pairs=2, nic=crossed),
        )
    yield "linux-bridge/xdp-live", Test(engine="xdp-live", burst=1024)
    yield "linux-bridge/copies", Test(copies=3)
    yield "linux-bridge/p2v-chain", Test(scenario="p2v", chain=3, direction="bi")
    yield (
        "ovs-dpdk/p2v-chain",
        Test(switch="ovs-dpdk", engine="dpdk", scenario="p2v", chain=2, function="l2fwd"),
    )
    yield "linux-bridge/cpu-limit-function", Test(cpu_limit="function:12.5")
    yield (
        "ovs/static-p2p-copies",
        Test(switch="ovs", semantics="static", scenario="p2p", copies=3),
    )
    yield (
        "ovs-dpdk/static-copies",
        Test(switch="ovs-dpdk", engine="dpdk", semantics="static", scenario="p2v", copies=2),
    )
    yield "ovs/cpu-limit-switch", Test(switch="ovs", cpu_limit="50")
    yield "linux-bridge/jumbo", Test(frame_size=9000)
    yield "linux-bridge/shared-process", Test(placement="shared-process")
    yield "linux-bridge/docker-daemon", Test(environment="docker")
    yield "ovs/kernel", Test(switch="ovs")
    yield "ovs/kernel-host", Test(switch="ovs", switch_environment="host")
    yield (
        "ovs/kernel-cores",
        Test(switch="ovs", semantics="static", scenario="p2p", flows=4, switch_cores=4),
    )
    for runtime in ("lxc", "docker", "podman"):
        yield f"linux-bridge/{runtime}", Test(environment=runtime)
        yield (
            f"ovs-dpdk/in-{runtime}",
            Test(switch="ovs-dpdk", engine="dpdk", environment=runtime, switch_environment=runtime),
        )
    yield "linux-bridge/lxc-image", Test(environment="lxc", image="/srv/my image")
    yield "linux-bridge/podman-image", Test(environment="podman", image="mine:1")
    yield "ovs/image", Test(switch="ovs@docker:mine:1")
    yield (
        "vpp/image",
        Test(switch="vpp@podman:mine:1", engine="memif", event="kill", dimension="outage"),
    )
    cores = {"function_cores": 2, "flows": 8}
    yield "linux-bridge/function-cores-xdp", Test(engine="xdp", **cores)
    yield (
        "testpmd/function-cores",
        Test(switch="testpmd", engine="dpdk", scenario="p2v", **cores),
    )
    for network, engine in (("macvlan", "raw-mmsg"), ("ptp", "udp-mmsg")):
        yield (
            f"cni/{network}",
            Test(switch=f"cni:{CONFLISTS}/{network}.conflist", scenario="v2v", engine=engine),
        )
    yield "macvlan/pairs", Test(switch="macvlan", scenario="p2v", pairs=2)
    for switch, engine, function in (
        ("testpmd", "dpdk", "testpmd"),
        ("ovs-dpdk", "dpdk", "l2fwd"),
        ("ovs", "raw-mmsg", "linux-bridge"),
        ("ovs", "raw-mmsg", "pcap-bridge"),
    ):
        yield (
            f"{switch}/loopback-{function}",
            Test(switch=switch, engine=engine, function=function, scenario="loopback", chain=2),
        )
    for switch, engine in (("linux-bridge", "raw-mmsg"), ("ovs-dpdk", "dpdk")):
        yield (
            f"{switch}/loopback-chains",
            Test(switch=switch, engine=engine, scenario="loopback", chains=2, direction="bi"),
        )


def of_the_kernel(*cpus: int) -> dict[str, Any]:
    placement = Placement("pinned", {"switch": Pin(cpus)}, None, ())
    return {"found": Findings("kernel"), "placement": placement}


# The kernel's datapath on the CPUs that flows are spread over ran on no kernel yet: that of the
# tests has no module openvswitch.
FOUND: Mapping[str, dict[str, Any]] = {
    "linux-bridge/docker-daemon": {
        "found": Findings(modes={"docker": "daemon at unix:///var/run/docker.sock, cgroup v2"})
    },
    "ovs/kernel": of_the_kernel(1),
    "ovs/kernel-host": of_the_kernel(1),
    "ovs/kernel-cores": of_the_kernel(1, 2, 3, 4),
}
"""What is found on the hosts of plans that depend on it."""


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put every program at a path that is the same on every host."""
    monkeypatch.setattr(sys, "executable", f"{PROGRAMS}/python")
    for name in (AGENT, TOOL, TRAFFIC):
        monkeypatch.setenv(program_variable(name), f"{PROGRAMS}/{name}")
    for name in ("vpp", "bess", "t4p4s"):
        monkeypatch.setenv(program_variable(name), name)
    monkeypatch.setenv(QEMU_VARIABLE, "qemu-system-x86_64")
    monkeypatch.setenv(program_variable("pcap-bridge"), "switchmark-pcap-bridge")
    for switch in SWITCHES.values():
        monkeypatch.setenv(program_variable(switch.name), switch.program)


def in_words(plan: Plan) -> str:
    """Return a plan as it is printed, with our programs by their names alone (except for control
    groups and mounts), and the guest's files in a folder that is the same on every host."""
    text = "\n".join(describe(plan, inside)) + "\n"
    return _OURS.sub(r"\1", text).replace(f"{sys.prefix}/{GUEST}", "/guest")


def on_file(plan: Plan) -> str:
    """Return a plan as golden files keep it. The steps that most plans share are one line each, and
    nothing of them is lost."""
    whole = in_words(plan)
    short = folded(whole)
    assert unfolded(short) == whole
    return short


def steps(test: Test, **found: Any) -> str:
    """Return all that is done for a test, one step or comment a line."""
    assert check(test) == []
    layout = resolve(test, prefix="smtest", run_dir=RUN_DIR, **found)
    plan = (
        *build(layout),
        *(step for switch in layout.switches for step in switch.counters),
        *part_counters(layout).values(),
        *(step for part in layout.hosted for step in part.function.counters.commands(part.hosted)),
    )
    return on_file(plan)


@cache
def by_switch() -> dict[str, dict[str, Test]]:
    """Return the tests of each switch by the names of their plans."""
    tests: dict[str, dict[str, Test]] = defaultdict(dict)
    for name, test in plans():
        switch, _, plan = name.partition("/")
        assert plan not in tests[switch]
        tests[switch][plan] = test
    return tests


@pytest.mark.parametrize("switch", by_switch())
def test_the_plans_are_those_on_file(switch: str, golden: Golden) -> None:
    told = {
        name: steps(test, **FOUND.get(f"{switch}/{name}", {})).splitlines()
        for name, test in by_switch()[switch].items()
    }
    golden(f"plans/{switch}.txt", text_of_cases(told))


@pytest.mark.parametrize(
    ("name", "test"), list(plans()), ids=lambda v: v if isinstance(v, str) else ""
)
def test_commands_side_by_side_need_nothing_of_each_other(name: str, test: Test) -> None:
    """A command uses nothing that a command with another subject creates, because both may run at
    the same time."""
    left = build(resolve(test, prefix="smtest", run_dir=RUN_DIR))
    while left:
        together = steps_beside(left)
        runs = [step for step in together if isinstance(step, Run)]
        plans = {
            step.argv[3]: step.subject
            for step in runs
            if step.argv[:3] in (("ip", "netns", "add"), ("ip", "link", "add"))
        }
        plans |= {
            step.argv[step.argv.index("peer") + 2]: step.subject
            for step in runs
            if "peer" in step.argv
        }
        for step in runs:
            used = {*step.argv, step.at.name} & plans.keys()
            assert all(plans[word] == step.subject for word in used), f"{name}: {step.why}"
        left = left[len(together) :]


@pytest.mark.parametrize("scenario", ENDS)
@pytest.mark.parametrize("switch", between_physical_ports())
def test_the_plan_between_functions_is_that_between_physical_ports(
    switch: str, scenario: str
) -> None:
    """Line by line, apart from the names of the nodes at the ends."""
    ends = ENDS[scenario]
    renamed = re.sub(
        rf"\bsmtest-({'|'.join(ends)})\b",
        lambda node: f"smtest-{ends[node[1]]}",
        steps(plain(switch, scenario)),
    )
    assert renamed.splitlines() == steps(plain(switch, "p2p")).splitlines()


def with_events() -> list[str]:
    """Return the switches that have events in the plain test between two functions."""
    layouts = {
        switch: resolve(plain(switch, "v2v"), prefix="smtest", run_dir=RUN_DIR)
        for switch in SWITCHES
        if not check(plain(switch, "v2v"))
    }
    return [name for name, path in layouts.items() if path.switch.events(path.wiring)]


def test_the_events_of_switches_have_plans(golden: Golden) -> None:
    """Processes are named by the variables that their start sets."""
    told = {"kinds": [f"{kind}: {words}" for kind, words in KINDS.items()]}
    for switch in with_events():
        test = plain(switch, "v2v").model_copy(update={"event": "kill"})
        layout = resolve(test, prefix="smtest", run_dir=RUN_DIR)
        for kind, change in layout.switch.events(layout.wiring).items():
            steps = (*change.disturb, *change.restore, *layout.switches[0].settled_again)
            lines = describe((*build(layout), *steps), inside)[-len(describe(steps, inside)) :]
            told[f"{kind} of {switch}"] = _OURS.sub(r"\1", "\n".join(lines)).splitlines()
    golden("events.txt", text_of_cases(told))


def test_every_file_is_the_plan_of_a_test() -> None:
    here = Path(__file__).parent
    files = {
        str(file.relative_to(here).with_suffix(""))
        for folder in ("plans", "noises", "nics", "preparations")
        for file in (here / folder).glob("*")
    }
    assert files == {
        *(f"plans/{switch}" for switch in by_switch()),
        *(f"noises/{kind}" for kind in NOISES),
        *(f"nics/{driver}" for driver in DRIVERS),
        *(f"nics/lent-{name}" for name in LENT),
        "preparations/server",
    }


def test_a_host_is_prepared_by_these_steps(golden: Golden, tmp_path: Path) -> None:
    """They come before those of the path, and those that depend on its CPUs last."""
    server = RecordedRoot("server", tmp_path / "server")
    test = Test(prepare="all", placement="1+2")
    path = prepare(
        server, test, Findings(), prefix="smtest", run_dir=RUN_DIR, can=lambda steps: True
    )
    every = (*planned(server, test), *planned_for(server, path))
    assert {each.name for each, _ in every} == {*PREPARATIONS}
    lines = [on_file(tuple(steps)) for _, steps in every if isinstance(steps, list)]
    golden("preparations/server.txt", "".join(lines) + on_file(build(path)))


@pytest.mark.parametrize("kind", NOISES)
def test_a_noise_has_a_plan(kind: str, golden: Golden) -> None:
    site = Site(prefix="smtest", run_dir=RUN_DIR, cpus=(0, 2), workers=2)
    golden(f"noises/{kind}.txt", on_file(NOISES[kind].start(site)))


@pytest.mark.parametrize("driver", DRIVERS)
def test_nics_are_handed_over_by_a_plan(driver: str, golden: Golden) -> None:
    class Ready(RecordingHost):
        def exists(self, path: str) -> bool:
            return True

    names = ("CapEff:\t000001ffffffffff\n", "Max locked memory unlimited\n")
    files = {
        f"/proc/self/{n}": t.encode() for n, t in zip(("status", "limits"), names, strict=True)
    }
    link = json.dumps([{"flags": ["UP"], "address": "aa:bb:cc:00:00:01"}]).encode()
    answers = {
        ("ip", "-j", "address"): link,
        ("ls", "/sys/bus/pci/devices/0000:03:00.0/iommu_group/devices"): b"0000:03:00.0\n",
    }
    devices = (
        Device("0000:03:00.0", "8086:1572", "i40e", ("eth1",), "7"),
        Device("0000:04:00.0", "8086:1572", "", (), "8"),
    )
    plan = hand_over(Ready(answers, files=files), devices, driver, "hugepages")
    golden(f"nics/{driver}.txt", on_file(plan))

    class Unloaded(Ready):
        def exists(self, path: str) -> bool:
            return path != f"/sys/bus/pci/drivers/{driver}"

    first, *rest = hand_over(Unloaded(answers, files=files), devices, driver, "hugepages")
    assert first == Run(f"the driver {driver}; it stays", ("modprobe", driver))
    assert tuple(rest) == plan


def test_the_users_docker_daemon_is_left_as_it_is() -> None:
    test = by_switch()["linux-bridge"]["docker-daemon"]
    assert "dockerd" not in steps(test, **FOUND["linux-bridge/docker-daemon"])


@pytest.mark.parametrize("frame", frames(), ids=lambda frame: frame.short)
def test_a_shared_row_of_steps_is_in_many_plans(frame: Frame) -> None:
    plans_with_it = [
        name
        for file in (FRAMES.parent / "plans").glob("*.txt")
        for name, lines in cases_of(file.read_text()).items()
        if any(frame.unfold(line) is not None for line in lines)
    ]
    assert len(plans_with_it) > 10


def test_a_row_that_differs_in_a_word_is_written_out() -> None:
    row = "# lo up\nip -n x link set lo up\n"
    assert folded(row) == "= lo (x) up\n"
    assert folded(row.replace("set lo", "set l1")) == row.replace("set lo", "set l1")
    assert folded(row.replace(" up\n", " up # 2\n")) == row.replace(" up\n", " up # 2\n")


def test_a_short_form_leaves_nothing_out() -> None:
    with pytest.raises(ValueError, match="has not the fields of its row"):
        Frame.read("= {a} up\n# {a}\nip -n {b} link set {a} up\n")


_NICS = {"scenario": "p2p", "nic": "a0=nic0:nic1,b0=nic2:nic3"}
_BETWEEN = {"locality": "remote", "hosts": "left,right"}
LENT: dict[str, tuple[dict[str, Any], Findings]] = {
    "learning": ({"switch_cores": 2, **_NICS}, NOT_PROBED),
    "routed": ({"switch": "ip-forward", "scenario": "p2v", "nic": "a0=nic0:nic1"}, NOT_PROBED),
    "cable": ({"switch": "ovs", **_BETWEEN}, Findings(between=Between((("eth1", "eth7"),)))),
}
"""Tests with NICs that are interfaces of the kernel."""


@pytest.mark.parametrize("name", LENT)
def test_nics_of_the_kernel_are_lent_by_a_plan(name: str, golden: Golden) -> None:
    class Lending(RecordingHost):
        def exists(self, path: str) -> bool:
            return True

    axes, found = LENT[name]
    link = {"flags": ["UP"], "address": "aa:bb:cc:00:00:01"}
    answers = {
        ("ip", "-j", "address"): json.dumps([link]).encode(),
        ("ip", "-j", "route"): b"[]",
        ("ethtool", "-k"): b"Features:\ntx-checksumming: on\nscatter-gather: off [fixed]\n"
        b"generic-receive-offload: off\ntcp-segmentation-offload: on\n"
        b"generic-segmentation-offload: on\ntx-udp-segmentation: off\n"
        b"\tscatter-gather: on\nrx-checksumming: on\n",
        ("ls", "/sys/class/net/nic0/queues"): b"rx-0 rx-1 tx-0",
        ("ls", "/sys/class/net/nic0/device/msi_irqs"): b"31 30",
        ("ls", "/sys/class/net/nic2/queues"): b"rx-0 tx-0",
    }
    hosts = {name: Lending(answers, name=name) for name in ("local", "left", "right")}
    on_cpus = Placement("pinned", {"switch": Pin((2, 3))}, None, ())
    own: dict[str, Any] = {"prefix": "smtest", "run_dir": RUN_DIR}
    path = resolve(Test(**axes), **own, found=found, placement=on_cpus)
    golden(f"nics/lent-{name}.txt", on_file(lend_nics(lambda node: hosts[node.host], path, {})))


def test_the_pods_of_a_cluster_are_made_by_a_plan(golden: Golden) -> None:
    cluster = Cluster(Path("/etc/k.conf"), context="lab", namespace="bench", node="big")
    golden("pods.txt", on_file(pods_plan(cluster, "smtest")))
