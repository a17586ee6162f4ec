"""These tests compare what `path` decides about a test with stored texts: its parts, processes and
CPUs, the orders for the traffic program, the ways of its frames, its baseline on a cable, what its
nodes need, the background of its trials, and the engine of a test that leaves it open."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import fields
from enum import Enum
from functools import partial
from itertools import product
from pathlib import Path as File
from typing import Any

import pytest

from golden.test_campaigns import shown
from golden_cases import text_of_cases
from recorded import fresh
from switchmark.environments import inside
from switchmark.errors import UsageError
from switchmark.hosts.programs import AGENT, TOOL, TRAFFIC, program_variable
from switchmark.hosts.qemu import QEMU_VARIABLE
from switchmark.model.counters import PathCounters, PortCounters
from switchmark.model.cpus import Cpu, Pin
from switchmark.model.place import PortEnd
from switchmark.model.plan import HOST, Node, Plan, Reserve, Run, Spawn, Wait, Write
from switchmark.model.record import TrialSpec
from switchmark.model.test import Test
from switchmark.model.topology import Between, Findings, HandedNic
from switchmark.model.version import Image, Version
from switchmark.path import assembly, background, cables, orders, ways
from switchmark.path.choosing import AUTO, candidates, with_engines
from switchmark.path.hosts import home_of, hosts_of, mac_of_uplink
from switchmark.path.path import Path, awaits_switch, shares_path
from switchmark.path.placement import POLICIES, CpuUser, Placement, place, unpinned_only
from switchmark.path.resolving import resolve, turned_to, unknown_names
from switchmark.runs.script import describe
from switchmark.switches.base import Counters

Golden = Callable[[str, str], None]

PACED = TrialSpec(rate_pps=1000, duration_s=2, warmup_s=0)
BURST = TrialSpec(rate_pps=None, duration_s=1, warmup_s=0, frames=1001)

DPDK = {"switch": "ovs-dpdk", "engine": "dpdk"}
REMOTE = {"locality": "remote", "hosts": "left,right"}

CASES: Mapping[str, dict[str, Any]] = {
    "usual": {},
    "both ways of two pairs": {"direction": "bi", "pairs": 2, "flows": 3},
    "round trips": {"dimension": "latency", "rate": "1k", "pairs": 2, "vlan": 7},
    "round trips of sockets": {"dimension": "latency", "rate": "1k", "engine": "udp", "flows": 2},
    "a chain": {"scenario": "loopback", "chain": 2, "direction": "bi"},
    "chains": {**DPDK, "scenario": "loopback", "chains": 2, "flows": 4, "flows_by": "mac"},
    "chains of a flow": {"switch": "ovs", "scenario": "loopback", "chains": 2, "chain": 2},
    "chains of flows": {**DPDK, "scenario": "loopback", "chains": 3, "flows": 5, "flows_by": "ip"},
    "a chain of machines": {"switch": "ovs", "environment": "vm", "scenario": "loopback"},
    "a chain of programs": {**DPDK, "scenario": "loopback", "function": "l2fwd", "chain": 2},
    "a chain behind a port": {"scenario": "p2v", "chain": 2, "switch": "ovs"},
    "copies": {"copies": 3, "flows": 2, "flows_by": "ip"},
    "copies of physical ports": {"switch": "ovs", "scenario": "p2p", "copies": 2},
    "a router": {"switch": "ip-forward", "flows": 300, "flows_by": "ip", "direction": "bi"},
    "a router for sockets": {"switch": "ip-forward", "engine": "udp-mmsg", "pairs": 2},
    "answers through a router": {
        "switch": "ip-forward",
        "dimension": "latency",
        "rate": "1k",
        "flows": 3,
        "flows_by": "mac",
    },
    "queues": {
        "switch": "testpmd",
        "engine": "dpdk",
        "queues": 3,
        "flows": 8,
        "frame_size": "imix",
    },
    "cores of functions": {"switch": "testpmd", "engine": "dpdk", "function_cores": 2, "flows": 8},
    "many flows": {"flows": 1_000_000, "flow_order": "random", "flows_by": "ip", "seed": 5},
    "many macs": {**DPDK, "flows": 70_000, "flows_by": "mac", "pairs": 2, "queues": 2},
    "many ports": {"flows": 60_000, "flow_order": "random", "dimension": "latency", "rate": "1k"},
    "a tunnel": {"encapsulation": "vxlan", "frame_size": 200, "flows": 2, "ip_version": "6"},
    "round trips in a tunnel": {
        "encapsulation": "vxlan",
        "frame_size": 200,
        "dimension": "latency",
        "rate": "1k",
        "flows": 3,
        "flows_by": "ip",
    },
    "together on the host": {
        "placement": "shared-process",
        "environment": "host",
        "switch_environment": "host",
    },
    "an image": {"switch": "ovs@docker:mine:1", "event": "restart", "rate": "1k"},
    "a tag of IPv6": {"vlan": 9, "ip_version": "6", "frame_size": 100, "dimension": "latency"},
    "long frames": {"frame_size": 9000, "burst": 256, "arrivals": "poisson", "rate": "10k"},
    "no stamps": {"touch": "none", "stamps": "device"},
    "together": {"placement": "shared-process", "pairs": 2, "direction": "bi"},
    "together round trips": {"placement": "shared-process", "dimension": "latency", "rate": "1k"},
    "a netmap switch": {"switch": "vale", "engine": "netmap", "scenario": "v2v"},
    "memif": {"switch": "vpp", "engine": "memif", "semantics": "learning", "pairs": 2},
    "sockets of functions": {"switch": "vpp", "engine": "dpdk", "listen": "functions"},
    "a machine on DPDK": {
        **DPDK,
        "environment": "vm",
        "scenario": "v2p",
        "cpu_limit": "function:60",
    },
    "containers": {"environment": "docker", "switch_environment": "docker", "cpu_limit": "50"},
    "events": {"event": "restart@1s+kill@0.5s", "switch": "ovs", "duration": 3},
    "an upgrade": {"event": "upgrade:ovs-dpdk@/opt/ovs", **DPDK, "cpu_limit": "switch:40"},
    "cores of the switch": {"switch_cores": 2, "noise": "cpu:switch", "pairs": 2},
    "nics": {"scenario": "p2v", "nic": "a0=nic0:nic1"},
    "nics on DPDK": {**DPDK, "scenario": "p2p", "nic": "a0=03:00.0:04:00.0,b0=03:00.1:04:00.1"},
    "two hosts": {**REMOTE, "pairs": 2},
    "two routers": {**REMOTE, "switch": "ip-forward", "dimension": "latency", "rate": "1k"},
    "two hosts on DPDK": {**REMOTE, **DPDK, "pairs": 2, "semantics": "static", "direction": "bi"},
    "a far host": {"hosts": "left", "environment": "lxc"},
    "a cable": {"switch": "direct", "dimension": "latency", "rate": "1k"},
    "no switch": {"switch": "null", "engine": "null"},
}

HANDED = {("left", "eth1"): HandedNic("0000:03:00.0", "vfio-pci")}
FOUND: Mapping[str, Findings] = {
    "two hosts": Findings(between=Between((("eth1", "eth2"), ("eth3", "eth4")), emulated=", tc")),
    "two routers": Findings(between=Between(foreign=frozenset({"right"}))),
    "two hosts on DPDK": Findings(
        between=Between(
            *((("eth1", "eth2"), ("eth3", "eth4")),),
            one_machine=True,
            programs={"right": "/opt/far/traffic"},
            handed=HANDED,
        )
    ),
    "containers": Findings(modes={"docker": "daemon", "netns": "mine"}),
    "a chain of programs": Findings(
        "a mode",
        programs={
            ("local", "l2fwd"): Version("1.2", program="/opt/l2fwd"),
            ("local", "ovs-dpdk"): Version("3.4", program="/opt/ovs-vswitchd"),
        },
    ),
    "an image": Findings(
        programs={
            ("local", "ovs@docker:mine:1"): Version(
                "7",
                program="/x/ovs-vswitchd",
                image=Image(
                    *("docker", "mine:1", "sha256:1"),
                    env={"PATH": "/p:/q", "A": "${b} c"},
                    programs={"ovs-vswitchd": "/x/ovs-vswitchd", "ovsdb-server": "ovsdb-server"},
                ),
            )
        },
        modes={"docker": "daemon at unix:///var/run/docker.sock, cgroup v2"},
    ),
    "an upgrade": Findings(programs={("local", "ovs-dpdk@/opt/ovs"): Version("9.9", "m")}),
}


@pytest.fixture(autouse=True)
def _programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put every program at a path that is the same on every host."""
    monkeypatch.setattr(sys, "executable", "/opt/bin/python")
    for name in (AGENT, TOOL, TRAFFIC):
        monkeypatch.setenv(program_variable(name), f"/opt/bin/{name}")
    for name in ("vpp", "ovs-dpdk", "testpmd", "l2fwd"):
        monkeypatch.setenv(program_variable(name), f"/opt/bin/{name}")
    monkeypatch.setenv(QEMU_VARIABLE, "qemu-system-x86_64")


def case(name: str) -> Path:
    """Return the path of a case, with its parts on eight CPUs."""
    test, found = Test(**CASES[name]), FOUND.get(name, Findings())
    drawn = partial(resolve, test, prefix="sm", run_dir="/run/sm", found=found, cgroups="/groups")
    cpus = [Cpu(number) for number in range(8)]
    return drawn(placement=place(drawn().cpu_users, cpus, test.placement))


def word(value: Any) -> Any:
    """Return a value as JSON has it; an object by its own members that are not empty or false."""
    if isinstance(value, Enum) or value is None or isinstance(value, (bool, int, float, str)):
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, Mapping):
        return {str(key): word(one) for key, one in value.items()}
    if isinstance(value, (frozenset, set)):
        return sorted(map(word, value))
    if isinstance(value, (list, tuple)):
        return [word(one) for one in value]
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, Node):
        flags = [name for name in ("isolated", "separate_kernel") if getattr(value, name)]
        named = value.environment, f"{value.host}:{value.name}", value.run_dir, value.image or "-"
        return " ".join((*named, *flags, *sorted(value.reaches)))
    if hasattr(value, "__dataclass_fields__"):
        members = {field.name: getattr(value, field.name) for field in fields(value)}
        empty: tuple[object, ...] = (None, "", (), {})
        return {
            name: word(one)
            for name, one in members.items()
            if one is not False and one not in empty
        }
    return type(value).__name__


def line(name: str, value: Any) -> str:
    return f"{name}: {json.dumps(word(value), default=str)}"


def in_words(plan: Plan) -> list[str]:
    return [f"  {row}" for step in describe(plan, inside) for row in step.splitlines()]


def refused(work: Callable[[], Any]) -> Any:
    """Return what a function returns, or its refusal."""
    try:
        return work()
    except UsageError as error:
        return [error.message, error.hint, error.axes]


# --- a path ------------------------------------------------------------------------------------


def of_parts(path: Path) -> Iterator[str]:
    for part in path.parts:
        yield line(
            part.id,
            {
                **{name: getattr(part, name) for name in ("physical", "pair", "clock", "roles")},
                "user": part.cpu_user,
                "engine": part.engine.name,
                "node": part.node,
                "function": part.function.name,
                "kinds": part.kinds,
                "pin": part.pin,
                "switch": part.switch.id,
                "rewrites": part.rewrites,
                "version": part.version,
            },
        )
        yield line("  jobs", [[*map(word, (j.role, j.queue, j.first, j.flows))] for j in part.jobs])
        yield line("  needs", assembly.needs_of(path, part))
    for player in path.processes:
        opened = [(part.id, port.id, queue) for part, port, queue in player.opened]
        yield line(player.name, {"node": player.node, "opened": opened})
        yield line("  waits", awaits_switch(player.parts))
        yield line("  cores", player.hosted.cores)
    for part in path.hosted:
        yield line(f"{part.id} alone", [awaits_switch((part,)), part.hosted.next_macs])


def of_switches(path: Path) -> Iterator[str]:
    for switch in path.switches:
        wiring = switch.wiring
        yield line(switch.id, {"host": switch.host, "alone": switch.alone, "wiring": wiring})
        yield line("  needs", assembly.switch_needs(path, switch))
        yield line("  MACs", [mac_of_uplink(wiring, port) for port in switch.uplinks])
    for name in (
        *("dedicated_core", "is_away", "is_spread", "refusal", "steering", "streams", "together"),
        *("cpu_users", "crossings", "uplinks"),
    ):
        yield line(name, getattr(path, name))
    yield line("environments", [where.name for where in path.drivers.environments])
    yield line("in machines", [part.id for part in path.in_vms])
    yield line("memory of machines", assembly.vm_megabytes(path))
    for flow in path.flows:
        yield line(flow.id, [flow.addressing, path.first_flow(flow)])
        yield line("  copies", [other.id for other in path.copies(flow)])


def of_orders(path: Path) -> Iterator[str]:
    for player in path.processes:
        yield line(f"opening of {player.name}", orders.opening_of(path, player))
    for part in path.played:
        for number, job in enumerate(part.jobs):
            load = orders.load_of(path, part, job, PACED)
            other = orders.load_of(path, part, job, BURST)
            yield line(f"load of {part.id} {number}", load)
            yield line("  burst", {name: v for name, v in other.items() if load[name] != v})
            assert load.keys() == other.keys()
            yield line("  expected", orders.expected_of(path, part, job))


def of_ways(path: Path) -> Iterator[str]:
    for name in ("ways_of", "feeds_of", "between_hosts", "cables_of", "named_ends", "handed_ends"):
        yield line(name, getattr(ways, name)(path))
    yield line("sees_uplinks", ways.sees_uplinks(path))
    trial = fresh().trials[0]
    ports = [PortEnd(port.id, at_switch=True) for port in path.wiring.ports]
    some: tuple[dict[PortEnd, PortCounters], ...] = (
        {},
        {ports[0]: PortCounters(1, 1, 0, 0)},
        {ports[0]: PortCounters(1, None, 0, 0)},
        {ports[-1]: PortCounters(None, 1, 0, 0)},
        {port: PortCounters(1, 1, 0, 0) for port in ports},
    )
    for counted in some:
        changed = trial.model_copy(update={"counters": PathCounters(links=counted)})
        yield line("  uncounted", ways.uncounted_ports(path, changed))


def of_cable(path: Path) -> Iterator[str]:
    yield f"on a cable: {shown(cables.on_cable(path))}"
    for name, test in cables.without_switch(path).items():
        yield f"  {name}: {shown(test)}"
        pins = cables.pins_on_cable(test, path)
        yield line("    pins", {part: [pin.cpus, pin.yield_] for part, pin in pins.pins.items()})


def of_trials(path: Path) -> Iterator[str]:
    for event in assembly.events_of(path):
        yield line(f"event {event.event}", [event.at_s, event.version])
        for name in ("disturb", "restore"):
            yield from (name, *in_words(getattr(event.change, name)))
        yield from ("settled", *in_words(event.settled))
    counted = assembly.part_counters(path)
    yield from ("counters of parts", *in_words(tuple(counted.values())))
    yield line("  at", [node.name for node in counted])
    cpus = [Cpu(number) for number in range(8)]
    noise = refused(lambda: background.noise_of(path, cpus))
    yield from ("noise", *(in_words(noise) if isinstance(noise, tuple) else [line("no", noise)]))
    yield line("captured", refused(lambda: background.check_capture(path)))
    if not path.is_away:
        steps = background.captures(File("/run/sm"), File("/run/sm/logs"), path, "t", 5)
        yield from ("captures", *in_words(steps))
    assert background.captures(File("/r"), File("/l"), path, "t", None) == ()
    steps = assembly.build(path)
    yield line("steps", Counter(type(step).__name__ for step in steps))
    within = [step for step in steps if isinstance(step, Spawn) and step.within]
    yield line("  limited", [[step.name, *step.within] for step in within])
    rps = [step for step in steps if isinstance(step, Write) and step.path.endswith("rps_cpus")]
    yield from ("  spread", *in_words(tuple(rps)))
    yield line("  of the machine", [s.at.host for s in steps if isinstance(s, Reserve)])
    waits = [step for step in assembly.join(path) if isinstance(step, Wait)]
    yield line("  joined", [[step.why, step.check.argv[-1], step.check.at.host] for step in waits])
    images = [one for one in assembly.create_nodes(path) if path.wiring.version.image]
    yield from ("  image", *in_words(tuple(images)))
    made = assembly.start_switches(path)[: len(path.uplinks) * 8]
    yield from ("  cables", *(in_words(made) if path.uplinks else ()))
    undone = [step for step in steps if isinstance(step, Run) and step.undo]
    folders = [step for step in undone if step.argv[0] == "mkdir" and step.at.host != HOST.host]
    yield from ("  folders", *in_words(tuple(folders)))
    for switch in path.switches:
        asked = [(one.argv, one.at.host) for one in (*switch.asks, *switch.counters)]
        yield line(f"  asked at {switch.id}", asked)
        assert switch.parse(()) == Counters()


ROOMS: Mapping[str, Callable[[Path], Iterator[str]]] = {
    "parts": of_parts,
    "switches": of_switches,
    "orders": of_orders,
    "ways": of_ways,
    "cables": of_cable,
    "trials": of_trials,
}


@pytest.mark.parametrize("room", ROOMS)
def test_what_is_decided_about_tests(room: str, golden: Golden) -> None:
    told = {name: [*ROOMS[room](case(name))] for name in CASES}
    golden(f"paths/{room}.txt", text_of_cases(told))


# --- what several tests share ----------------------------------------------------------------

MACHINES: Mapping[str, list[Cpu]] = {
    "one CPU": [Cpu(3)],
    "two": [Cpu(0), Cpu(1)],
    "four": [Cpu(number) for number in range(4)],
    "four threads": [Cpu(number, siblings=((number + 2) % 4,)) for number in range(4)],
    "two nodes": [Cpu(number, node=number // 3) for number in range(6)],
    "nodes of threads": [
        Cpu(number, node=number % 4 // 2, siblings=((number + 4) % 8,)) for number in range(8)
    ],
    "isolated ones": [Cpu(number, isolated=number in (1, 4, 5)) for number in range(6)],
    "others first": [Cpu(7), Cpu(2, node=1), Cpu(5, isolated=True), Cpu(4, siblings=(5,))],
}


def pair(number: int, *, function: bool = False, nics: bool = False) -> list[CpuUser]:
    return [
        CpuUser(
            *(f"{kind[0]}{number}", kind, True, number),
            function=function,
            nics=(f"nic{number}{kind[0]}",) if nics else (),
        )
        for kind in ("receiver", "sender")
    ]


def of_switch(*, polls: bool = False, cores: int = 1, spread: bool = False) -> CpuUser:
    nics = ("nic0s", "nic1r")
    return CpuUser("switch", "switch", polls, cores=cores, spread=spread, nics=nics)


PARTS: Mapping[str, list[CpuUser]] = {
    "a pair": [of_switch(), *pair(0)],
    "two pairs of functions": [of_switch(), *pair(0, function=True), *pair(1, function=True)],
    "a switch that polls": [of_switch(polls=True), *pair(0, nics=True)],
    "a switch that polls on two": [of_switch(polls=True, cores=2), *pair(0), *pair(1, nics=True)],
    "a switch on two": [of_switch(cores=2, spread=True), *pair(0, nics=True)],
    "functions that poll": [
        *(of_switch(polls=True), *pair(0)),
        *(CpuUser(f"f{number}", "function", True, function=True) for number in range(2)),
    ],
    "forwarders": [
        *(of_switch(), *pair(0, nics=True)),
        *(CpuUser(f"w{n}", "forwarder", True, cores=n, function=True) for n in (1, 2)),
        CpuUser("idle", "function", False, function=True),
    ],
}

NODES = {"nic0r": 0, "nic0s": 1, "nic1r": 1}


def in_place(found: Placement) -> str:
    pins = {part: [*pin.cpus, *(["yields"] * pin.yield_)] for part, pin in found.pins.items()}
    told = [f"{part} {pin}" for part, pin in pins.items()]
    alone = [part for part in pins if found.is_alone(part)]
    used = [found.used(range(4)), found.used((0, 1), but=("switch",))]
    return (
        f"{', '.join(told)}; spare {found.orchestrator}, node {found.node}, doubts "
        f"{[*found.doubts]}, free {sorted(found.unpinned)}, alone {alone}, used {used}"
    )


def test_the_placements_of_parts(golden: Golden) -> None:
    told: dict[str, list[str]] = {}
    for machine, parts in product(MACHINES, PARTS):
        lines = told[f"{parts} on {machine}"] = []
        before: dict[str, str] = {}
        for policy in (*POLICIES, "0-2", "1+3", "2,4-5", "", "none", "unpinned:x"):
            for share, nodes in ((False, {}), (True, NODES)):
                on = PARTS[parts], MACHINES[machine], policy
                placed = refused(partial(place, *on, may_share=share, nodes=nodes))
                found = in_place(placed) if isinstance(placed, Placement) else str(placed)
                name = f"{policy}{' with NICs' * share}"
                same = before.setdefault(found, name)
                lines.append(f"{name}: {found if same == name else f'as {same}'}")
    near, far = (place(PARTS[name], MACHINES["two"], "unpinned") for name in (*PARTS,)[1:3])
    told["beside each other"] = [in_place(near.beside(far)), in_place(far.beside(near))]
    told["as it is recorded"] = [str(near.recorded())]
    told["unpinned alone"] = [f"{policy}: {unpinned_only(policy) or 'all'}" for policy in POLICIES]
    golden("paths/placements.txt", text_of_cases(told))


ASKED: tuple[list[dict[str, Any]], ...] = (
    [{}],
    [{"switch": "ovs-dpdk"}, {}],
    [{"switch": "ovs-dpdk"}, {"switch": "ovs-dpdk", "frame_size": 9000}],
    [{"switch": "vpp", "port": "memif"}, {"switch": "vpp"}],
    [{"vlan": 5}, {"frame_size": 9000}],
    [{"environment": "vm"}, {"environment": "vm", "switch": "ovs-dpdk"}],
    [{"switch": "vale"}, {"switch": "ipvlan", "scenario": "v2v"}],
    [{"switch": "nobody"}, {"switch": "null"}, {"engine": "raw-mmsg"}],
    [{"direction": "bi", "dimension": "latency"}, {"touch": "none"}],
    [{"scenario": "loopback", "function": "l2fwd", "switch": "ovs"}],
    [{**REMOTE}, {"hosts": "left"}],
)


def has_engine(lacking: Collection[str], test: Test) -> bool:
    return test.engine not in lacking


def test_the_engines_that_are_chosen(golden: Golden) -> None:
    lines = [f"candidates: {candidates()}"]
    for axes in ASKED:
        tests = [Test(**{"engine": AUTO, **each}) for each in axes]
        for lacking in ((), ("raw-mmsg",), ("dpdk", "memif"), tuple(candidates())):
            chosen = with_engines(tests, partial(has_engine, lacking))
            lines.append(f"without {[*lacking]}: {[shown(test) for test in chosen]}")
    golden("paths/engines.txt", "\n".join([*lines, ""]))


CHANGED: Mapping[str, Any] = {
    "rate": "1k",
    "flows": 9,
    "burst": 64,
    "frame_size": 1500,
    "touch": "none",
    "vlan": 3,
    "stamps": "device",
    "repeat": 7,
    "seed": 4,
    "offload": "on",
    "direction": "bi",
    "pairs": 2,
    "noise": "cpu:0",
    "cpu_limit": "50",
    "event": "kill",
    "dimension": "latency",
}


def test_the_tests_that_share_a_path(golden: Golden) -> None:
    told = {}
    changes = [*CHANGED.items(), ("burst", 65), ("burst", 1024), ("frame_size", 9000)]
    for engine in ("raw-mmsg", "dpdk", "udp", "nothing"):
        base = Test(engine=engine)
        told[engine] = [f"no test: {shares_path(base, None)}"]
        for name, value in changes:
            other = base.model_copy(update={name: value})
            shared = shares_path(base, other), shares_path(other, base)
            told[engine].append(f"{name} {value}: {shared[0]} {shared[1]}")
    golden("paths/shared.txt", text_of_cases(told))


NOISES: tuple[tuple[dict[str, Any], str], ...] = (
    ({"noise": "cpu:2+9+11"}, "pinned"),
    ({"noise": "cpu:1+0"}, "pinned"),
    ({"noise": "memory"}, "pinned"),
    ({"noise": "cpu:switch"}, "pinned"),
    ({"noise": "cpu:functions"}, "pinned"),
    ({"noise": "cpu:functions"}, "unpinned"),
    ({"noise": "cpu:switch", "switch": "testpmd", "engine": "dpdk"}, "pinned"),
)


def test_the_background_of_trials(golden: Golden) -> None:
    cpus, lines = [Cpu(number) for number in range(3, -1, -1)], []
    for axes, policy in NOISES:
        path = resolve(Test(**axes), prefix="sm", run_dir="/run/sm")
        placed = path.placed(place(path.cpu_users, cpus, policy))
        noise = refused(partial(background.noise_of, placed, cpus))
        told = in_words(noise) if isinstance(noise, tuple) else [f"  refused: {noise}"]
        lines += [f"# {axes}, {policy}", *told]
    golden("paths/noises.txt", "\n".join([*lines, ""]))


UNKNOWN: tuple[dict[str, Any], ...] = (
    {"switch": "linux-bridg"},
    {"switch": "zzz", "engine": "raw-mms"},
    {"engine": "auto", "environment": "netn", "function": "forwardr"},
    {"scenario": "v2", "search": "ndrr", "switch_environment": "hos"},
    {"event": "upgrade:ovss@/opt/x", "switch": "ovs"},
    {"event": "upgrade:ovs-dpdk@/opt/x+upgrade:zz@/opt/y", "switch": "ovs"},
    {"noise": "cpuu"},
    {"noise": "cpu:x"},
    {"switch": "cni:/nothing.conflist"},
    {"switch": "ovs@docker:"},
    {"switch": "linux-bridge@podman:x"},
)


def test_the_names_that_are_unknown(golden: Golden) -> None:
    lines = []
    for axes in UNKNOWN:
        lines.append(f"# {axes}")
        lines += [
            f"  {', '.join(one.axes)}: {one.why.splitlines()[0]}; {one.hint}; {one.changes}"
            for one in unknown_names(Test(**axes))
        ]
    golden("paths/unknown.txt", "\n".join([*lines, ""]))


DRAWN: tuple[dict[str, Any], ...] = (
    {"scenario": "loopback", "switch": "ip-forward"},
    {"scenario": "loopback", "switch": "macvlan"},
    {"scenario": "loopback", "switch": "ipvlan", "function": "pcap-bridge"},
    {"scenario": "loopback", "switch": "linux-bridge", "function": "pcap-bridge"},
    {"scenario": "loopback", "switch": "linux-bridge", "function": "l2fwd"},
    {"scenario": "loopback", "switch": "ovs", "semantics": "learning", "function": "testpmd"},
    {"scenario": "loopback", "switch": "vpp", "semantics": "routed", "function": "l2fwd"},
    {"scenario": "loopback", "switch": "vpp", "semantics": "routed", "function": "testpmd"},
    {"scenario": "loopback", "switch": "ip-forward", "function": "testpmd"},
    {"scenario": "loopback", "switch": "null", "engine": "null"},
    *(
        {"scenario": "loopback", "switch": switch, "function": name, "function_semantics": "mac"}
        for name in ("testpmd", "traffic")
        for switch in ("ip-forward", "linux-bridge", "vpp", "ovs")
    ),
    {"scenario": "loopback", "switch": "vxlan"},
    {"scenario": "loopback", "semantics": "static"},
    {"semantics": "static"},
    {"semantics": "nonsense", "switch": "ovs"},
    {"port": "memif"},
    {"port": "nic-pci", **DPDK},
    {"port": "tap", **DPDK},
    {"hosts": "a,b"},
    {"hosts": "local"},
    {"hosts": " x "},
    {"hosts": "-x"},
    {"hosts": "a,b", "locality": "remote", "scenario": "loopback"},
    {"locality": "remote"},
    {"locality": "remote", "hosts": "a,a"},
    {"locality": "remote", "hosts": "a,b,c"},
    {"locality": "remote", "hosts": "a"},
)


def test_the_paths_that_cannot_be_drawn(golden: Golden) -> None:
    """Others of them are refused before they are drawn."""
    lines = []
    for axes in DRAWN:
        found = refused(partial(resolve, Test(**axes), prefix="sm", run_dir="/run/sm"))
        if isinstance(found, Path):
            wiring = found.wiring
            found = [wiring.kind.value, wiring.semantics.value, found.steering, found.refusal]
        hosts = [refused(partial(each, Test(**axes))) for each in (hosts_of, home_of)]
        lines.append(f"{axes}: {found}, hosts {hosts}")
    golden("paths/drawn.txt", "\n".join([*lines, ""]))


def test_a_path_that_is_not_placed_has_no_doubts() -> None:
    path = resolve(Test(), prefix="sm", run_dir="/run/sm")
    assert path.placement == Placement("auto", {}, None, ())
    assert {part.pin for part in path.parts} == {Pin()}


def test_counters_are_read_by_the_driver_of_the_switch() -> None:
    (switch,) = case("usual").switches
    stats = {way: {"packets": 3, "dropped": 1, "errors": 2} for way in ("rx", "tx")}
    links = [{"ifname": name, "stats64": stats} for name in ("sm-p0", "sm-p1", "lo")]
    assert set(switch.parse((json.dumps(links).encode(),)).ports) == {"f0", "f1"}


def test_a_path_for_another_test_of_it() -> None:
    path, test = case("usual"), Test(rate="5k", noise="cpu:1")
    turned = turned_to(path, test)
    assert (turned.test, turned.drivers.noise_cpus) == (test, (1,))
    assert (turned.parts, turned.wiring, turned.found) == (path.parts, path.wiring, path.found)
