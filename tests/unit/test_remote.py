"""These tests hold what a test between two hosts is: what it refuses, who is on which host, and how
its frames are balanced."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from switchmark.campaign.experiments import planned
from switchmark.environments import inside
from switchmark.errors import Unavailable, UsageError
from switchmark.hosts.host_file import VARIABLE
from switchmark.hosts.hosts import Hosts, planned_between
from switchmark.hosts.recording import RecordingHost
from switchmark.lab.probes import Probes
from switchmark.lab.running import find_nics, lend_nics
from switchmark.metrics.balance import balanced
from switchmark.model.counters import PathCounters, PortCounters
from switchmark.model.evidence import Balance
from switchmark.model.place import Place, PlaceKind, PortEnd
from switchmark.model.plan import Node, Reserve, Wait
from switchmark.model.record import TrialResult, TrialSpec
from switchmark.model.test import Test
from switchmark.model.topology import NOTHING, Between, Findings, HandedNic
from switchmark.model.version import Version
from switchmark.papers.library import read
from switchmark.path.assembly import build
from switchmark.path.path import Path as ResolvedPath
from switchmark.path.refusals import check
from switchmark.path.resolving import resolve
from switchmark.path.ways import between_hosts, cables_of, handed_ends, named_ends, ways_of
from switchmark.runs.own_run import OwnRun
from switchmark.runs.script import describe

BOOT_ID = "/proc/sys/kernel/random/boot_id"


def remote(**axes: Any) -> Test:
    return Test.model_validate({"locality": "remote", "hosts": "left,right", **axes})


def drawn(between: Between = NOTHING, **axes: Any) -> ResolvedPath:
    folder = "/run/switchmark/smtest"
    return resolve(remote(**axes), prefix="smtest", run_dir=folder, found=Findings(between=between))


# --- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("axes", "why"),
    [
        ({"hosts": None}, "locality remote is between two hosts"),
        ({"hosts": "left"}, "hosts 'left': locality remote is between two hosts"),
        ({"hosts": "left,left"}, "hosts 'left,left': locality remote is between two hosts"),
        ({"hosts": "left,-x"}, "'-x' is no name of a host"),
        ({"locality": "local"}, "both ends of a local test are on one host"),
        ({"switch": "l2fwd", "engine": "dpdk"}, "takes no interface of the kernel as its way"),
        ({"scenario": "loopback"}, "through no functions"),
        ({"scenario": "p2v", "chain": 2}, "through no functions"),
        ({"environment": "vm"}, "environment vm is of this host"),
        ({"placement": "shared-process"}, "they are on two hosts"),
        ({"switch_cores": 2}, "the kernel's work stays where it is"),
        ({"scenario": "p2p", "nic": "a0=x:y"}, "--nic is of one host"),
        ({"noise": "cpu"}, "--noise is of one host"),
        ({"profile": 99}, "--profile is of one host"),
        ({"cpu_limit": "function:50"}, "--cpu-limit is of one host"),
        ({"copies": 2}, "--copies is of one host"),
    ],
)
def test_refuses_what_cannot_be_between_two_hosts(axes: Mapping[str, Any], why: str) -> None:
    refusals = check(remote(**axes))
    assert any(why in refusal.why for refusal in refusals), refusals


@pytest.mark.parametrize("switch", ["linux-bridge", "ip-forward", "macvlan", "ovs", "direct"])
@pytest.mark.parametrize("pairs", [1, 8])
@pytest.mark.parametrize("direction", ["uni", "bi"])
def test_switches_of_the_kernel_go_between_two_hosts(
    switch: str, pairs: int, direction: str
) -> None:
    assert check(remote(switch=switch, pairs=pairs, direction=direction)) == []


def test_a_router_wants_a_real_cable_for_each_pair() -> None:
    layout = drawn(Between(cables=(("eth1", "eth2"),)), switch="ip-forward", pairs=2)
    refusal = layout.refusal
    assert refusal is not None
    assert "a cable for each pair: for 2 pairs there is 1" in refusal
    path = drawn(switch="ip-forward", pairs=2)
    assert path.refusal is None


# --- who is where ----------------------------------------------------------------------------


def test_senders_are_on_the_first_host_and_receivers_on_the_second() -> None:
    layout = drawn(pairs=2, direction="bi")
    hosts = {part.id: part.node.host for part in layout.parts}
    assert hosts == {"f0": "left", "f1": "right", "f2": "left", "f3": "right"}


@pytest.mark.parametrize("scenario", ["v2v", "p2p", "p2v", "v2p"])
@pytest.mark.parametrize("switch", ["linux-bridge", "ovs", "vxlan"])
def test_every_step_knows_its_host(scenario: str, switch: str) -> None:
    layout = drawn(scenario=scenario, switch=switch)
    steps = build(layout)
    places = [step.check.at.host if isinstance(step, Wait) else step.at.host for step in steps]
    assert {"left", "right"} <= set(places) <= {"left", "right", "local"}
    # On this host nothing is done but to join the networks of both.
    joining = [step.why for step, place in zip(steps, places, strict=True) if place == "local"]
    assert joining == [
        "a process in the network of left",
        "a process in the network of right",
        "cable u0 from left to right",
    ]


def test_a_plan_tells_the_host_of_each_step() -> None:
    lines = describe(build(drawn()), inside)
    reasons = [line for line in lines if line.startswith("# ")]
    assert sum(line.endswith("(on left)") for line in reasons) > 10
    assert sum(line.endswith("(on right)") for line in reasons) > 10


def test_names_of_both_hosts_differ_and_fit() -> None:
    layout = drawn(switch="ip-forward", pairs=8)
    names = [
        name
        for wiring in (switch.wiring for switch in layout.switches)
        for port in wiring.ports
        for name in (port.nic or wiring.name(f"p{port.index}"), wiring.name(f"e{port.index}"))
    ]
    names += [part.node.name for part in layout.parts]
    assert all(len(name) <= 15 for name in names)
    assert len({switch.wiring.prefix for switch in layout.switches}) == 2


def test_a_learning_switch_has_one_cable_and_another_one_a_pair() -> None:
    assert list(cables_of(drawn(pairs=3)) or ()) == ["u0"]
    cables = cables_of(drawn(switch="ip-forward", pairs=3)) or {}
    assert list(cables) == ["u0", "u1", "u2"]
    assert cables["u0"] == "left smtest-a-up0, right smtest-b-up0: emulated, a veth pair"


def test_nics_of_the_host_file_are_the_cable() -> None:
    layout = drawn(Between(cables=(("eth1", "eth7"),)))
    assert cables_of(layout) == {"u0": "left eth1, right eth7"}
    lines = describe(build(layout), inside)
    lend = "ip link set eth1 netns smtest-a-sw"
    assert f"{lend}  # undo: ip -n smtest-a-sw link set eth1 netns 1" in lines
    assert not any("veth peer name smtest-b-up0" in line for line in lines)


PAST_KERNEL = {
    ("left", "eth1"): HandedNic("0000:03:00.0", ""),
    ("right", "eth7"): HandedNic("0000:05:00.1", "uio_pci_generic"),
}


def test_a_switch_on_dpdk_opens_the_cable_past_the_kernel_if_its_address_is_known() -> None:
    between = Between(cables=(("eth1", "eth7"),), handed=PAST_KERNEL)
    path = drawn(between, switch="ovs-dpdk", engine="dpdk")
    assert path.refusal is None
    assert cables_of(path) == {"u0": "left 0000:03:00.0, right 0000:05:00.1"}
    lines = "\n".join(describe(build(path), inside))
    assert "options:dpdk-devargs=0000:03:00.0" in lines
    assert "options:dpdk-devargs=0000:05:00.1" in lines
    assert "-a 0000:05:00.1 --file-prefix" in lines
    assert "net_af_packet" not in lines
    assert "eth1" not in lines
    # No interface is lent: the devices are handed over on their hosts, each by its own driver.
    assert named_ends(path) == ()
    assert [(node.host, str(end), *rest) for node, end, *rest in handed_ends(path)] == [
        ("left", "left:u0@switch", "0000:03:00.0", ""),
        ("right", "right:u0@switch", "0000:05:00.1", "uio_pci_generic"),
    ]


def test_one_host_may_open_its_end_past_the_kernel_alone() -> None:
    handed = {("right", "eth7"): PAST_KERNEL["right", "eth7"]}
    path = drawn(
        Between(cables=(("eth1", "eth7"),), handed=handed), switch="ovs-dpdk", engine="dpdk"
    )
    lines = "\n".join(describe(build(path), inside))
    assert "net_af_packet1,iface=eth1" in lines
    assert "options:dpdk-devargs=0000:05:00.1" in lines
    assert [(node.host, name) for node, name, _ in named_ends(path)] == [("left", "eth1")]


@pytest.mark.parametrize("switch", ["linux-bridge", "ovs", "direct"])
def test_a_switch_of_the_kernel_and_the_baseline_keep_the_interface(switch: str) -> None:
    path = drawn(Between(cables=(("eth1", "eth7"),), handed=PAST_KERNEL), switch=switch)
    assert cables_of(path) == {"u0": "left eth1, right eth7"}
    assert handed_ends(path) == ()


def test_devices_of_cables_are_handed_over_on_their_hosts() -> None:
    pci = "/sys/bus/pci/devices"

    def host(name: str, address: str, *modules: str) -> RecordingHost:
        ids = {"class": b"0x020000\n", "vendor": b"0x8086\n", "device": b"0x1572\n"}
        files = {f"{pci}/{address}/{word}": content for word, content in ids.items()}
        files |= {f"{pci}/{address}": b"", **{f"/sys/bus/pci/drivers/{m}": b"" for m in modules}}
        return RecordingHost(name=name, files=files)

    hosts = {
        "left": host("left", "0000:03:00.0", "uio_pci_generic"),
        "right": host("right", "0000:05:00.1", "uio_pci_generic"),
        "local": RecordingHost(),
    }
    handed = {
        ("left", "eth1"): HandedNic("0000:03:00.0", "uio_pci_generic"),
        ("right", "eth7"): PAST_KERNEL["right", "eth7"],
    }
    between = Between(cables=(("eth1", "eth7"),), handed=handed)
    path = drawn(between, switch="ovs-dpdk", engine="dpdk")

    def host_of(node: Node) -> RecordingHost:
        return hosts[node.host]

    nics = find_nics(host_of, path)
    assert {str(end): nic.address for end, nic in nics.items()} == {
        "left:u0@switch": "0000:03:00.0",
        "right:u0@switch": "0000:05:00.1",
    }
    lines = describe(lend_nics(host_of, path, nics), inside)
    taken = [line for line in lines if "takes 0000" in line and line.startswith("#")]
    assert [line for line in taken if "uio_pci_generic takes" in line] == [
        "# uio_pci_generic takes 0000:03:00.0 (on left)",
        "# uio_pci_generic takes 0000:05:00.1 (on right)",
    ]


def test_a_nic_that_switches_carries_all_pairs_over_its_cable() -> None:
    between = Between(cables=(("pf0", "pf1"),))
    versions = {
        ("left", "sriov"): Version("6.1.0", "pf0, 7 VFs"),
        ("right", "sriov"): Version("6.1.0", "pf1, 4 VFs"),
    }

    def between_hosts_(pairs: int, between: Between = between) -> ResolvedPath:
        return resolve(
            remote(switch="sriov", pairs=pairs),
            prefix="smtest",
            run_dir="/run/switchmark/smtest",
            found=Findings("pf0, 7 VFs", between=between, programs=versions),
        )

    path = between_hosts_(3)
    assert check(remote(switch="sriov", pairs=8)) == []
    assert path.refusal is None
    assert cables_of(path) == {"u0": "left pf0, right pf1"}
    lines = describe(build(path), inside)
    counts = [line for line in lines if "sriov_numvfs" in line and "printf" in line]
    assert len(counts) == 2
    assert "pf0" in counts[0]
    assert "pf1" in counts[1]
    assert all("3" in line for line in counts)
    assert "pf1 has 4 virtual functions; the test needs 5" in (between_hosts_(5).refusal or "")
    other = between_hosts_(1, Between(cables=(("eth0", "eth0"),)))
    assert "its cable does not lead to the other host" in (other.refusal or "")


def test_hosts_of_one_machine_reserve_its_pages_together() -> None:
    layout = drawn(Between(one_machine=True), switch="ovs-dpdk", engine="dpdk")
    steps = build(layout)
    pages = [step for step in steps if isinstance(step, Reserve)]
    assert len(pages) >= 2
    assert {step.at.host for step in pages} == {"local"}


# --- the hosts -------------------------------------------------------------------------------

HOST_FILE = """\
[hosts.left]
address = "root@left.example"
nics.one = {name = "eth1", cable = "x"}
nics.two = {name = "eth2", cable = "y"}
nics.own = {name = "eth9"}

[hosts.right]
address = "root@right.example"
nics.two = {name = "ens2", cable = "y"}
nics.one = {name = "ens1", cable = "x"}
"""


def test_nics_of_one_cable_are_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "host.toml").write_text(HOST_FILE)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "host.toml"))
    assert planned_between(("left", "right")).cables == (("eth1", "ens1"), ("eth2", "ens2"))
    assert planned_between(("right", "left")).cables == (("ens2", "eth2"), ("ens1", "eth1"))


def test_the_nic_with_the_name_of_the_switch_is_its_first_cable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "host.toml"
    file.write_text(HOST_FILE.replace("nics.two", "nics.sriov"))
    monkeypatch.setenv(VARIABLE, str(file))
    assert planned_between(("left", "right"), "sriov").cables[0] == ("eth2", "ens2")
    assert planned_between(("left", "right"), "ovs").cables[0] == ("eth1", "ens1")


def test_the_host_file_says_which_nics_are_opened_past_the_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "host.toml"
    monkeypatch.setenv(VARIABLE, str(file))
    ends = HOST_FILE.replace('cable = "x"}', 'cable = "x", pci = "03:00.0"}')
    file.write_text(ends)
    assert planned_between(("left", "right")).handed == {
        ("left", "eth1"): HandedNic("0000:03:00.0", ""),
        ("right", "ens1"): HandedNic("0000:03:00.0", ""),
    }
    for wrong, why in (
        ('pci = "eth0"', "is no PCI address"),
        ('driver = "vfio-pci"', "has a driver, but no pci"),
        ('pci = "03:00.0", driver = "ixgbe"', "vfio-pci"),
    ):
        file.write_text(HOST_FILE.replace('cable = "x"}', f'cable = "x", {wrong}}}'))
        with pytest.raises(UsageError, match=why):
            planned_between(("left", "right"))


def booted(name: str, boot: bytes) -> RecordingHost:
    return RecordingHost(name=name, files={BOOT_ID: boot})


def test_no_cable_is_made_to_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "/dev/null")
    here = Path(BOOT_ID).read_bytes()
    near, far = booted("left", here), booted("right", b"another boot\n")
    with pytest.raises(Unavailable, match="nothing is known to join the hosts left and right"):
        Hosts(OwnRun, {"left": near, "right": far}).between(("left", "right"))
    hosts = Hosts(OwnRun, {"left": near, "right": booted("right", here)})
    assert hosts.between(("left", "right")) == Between(
        one_machine=True, doubts=("hosts-share-machine",)
    )


def test_a_test_is_measured_on_its_host_and_between_two_machines_on_that_of_the_sender(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "host.toml").write_text(HOST_FILE)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "host.toml"))
    here = Path(BOOT_ID).read_bytes()

    def hosts_of(test: Test, *boots: bytes) -> tuple[str, str, str | None]:
        near, far = (booted(*pair) for pair in zip(("left", "right"), boots, strict=True))
        location = Probes(Hosts(OwnRun, {"left": near, "right": far})).locate(test)
        return location.home, location.host.name, location.far.name if location.far else None

    there, elsewhere = b"another boot\n", b"a third boot\n"
    assert hosts_of(Test(), there, there) == ("local", "local", None)
    assert hosts_of(Test(hosts="right"), there, there) == ("right", "right", None)
    assert hosts_of(remote(), here, here) == ("local", "local", None)
    assert hosts_of(remote(), there, there) == ("local", "left", None)
    assert hosts_of(remote(), there, elsewhere) == ("local", "left", "right")


def test_two_hosts_are_asked_once_what_is_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "/dev/null")
    commands: list[tuple[str, ...]] = []

    class Counted(Hosts):
        def between(self, names: Sequence[str], switch: str = "") -> Between:
            commands.append(tuple(names))
            return super().between(names, switch)

    here = Path(BOOT_ID).read_bytes()
    hosts = {name: booted(name, here) for name in ("left", "right")}
    location = Probes(Counted(OwnRun, hosts)).locate(remote())
    assert (location.host.name, location.far, location.between.one_machine) == ("local", None, True)
    assert commands == [("left", "right")]


def test_a_path_on_another_host_is_away() -> None:
    assert drawn().is_away
    for hosts, away in (("left", True), ("local", False), (None, False)):
        path = resolve(Test(hosts=hosts), prefix="smtest", run_dir="/run/switchmark/smtest")
        assert path.is_away == away


# --- papers ----------------------------------------------------------------------------------


def test_points_between_hosts_wait_for_hosts() -> None:
    experiment = read("ara-2021/fig4d")
    reasons = {point.point.untold for point in planned(experiment, check, {}) if not point.test}
    assert "waiting: two hosts are needed (--hosts A,B)" in reasons


def test_hosts_of_the_command_line_are_those_of_remote_points() -> None:
    points = planned(read("ara-2021/fig4d"), check, {"hosts": "left,right"})
    tests = [point.test for point in points if point.test is not None]
    assert {(test.locality, test.hosts) for test in tests} == {
        ("local", None),
        ("remote", "left,right"),
    }


# --- frames ----------------------------------------------------------------------------------

UP, DOWN = "left:u0", "right:u0"


def lossy(**counted: tuple[int, int]) -> TrialResult:
    """Return a trial of 100 frames whose ports at both switches counted these, rx and tx."""
    names = {"up": UP, "down": DOWN}
    ends = {
        PortEnd(names.get(port, port), at_switch=True): PortCounters(rx, tx, 0, 0)
        for port, (rx, tx) in counted.items()
    }
    ends[PortEnd("f0")] = PortCounters(0, 100, 0, 0)
    received = counted["f1"][1]
    ends[PortEnd("f1")] = PortCounters(received, 0, 0, 0)
    spec = TrialSpec(rate_pps=1000.0, duration_s=0.1, warmup_s=0.0)
    return TrialResult.model_validate(
        {
            "spec": spec,
            "elapsed_ns": 10**8,
            "tx_frames": 100,
            "tx_unsent": 0,
            "rx_frames": received,
            "rx_bytes": 64 * received,
            "lost": 100 - received,
            "lost_at": {},
            **dict.fromkeys(
                ("late", "duplicated", "reordered", "corrupted", "foreign", "stray"), 0
            ),
            "interval_ns": 10**8,
            "intervals": (received,),
            "latency": None,
            "parts": (),
            "per_flow": [
                {
                    "flow": "f0-f1",
                    "tx": 100,
                    "rx": received,
                    "lost": 100 - received,
                    **dict.fromkeys(("duplicated", "reordered", "corrupted"), 0),
                }
            ],
            "counters": PathCounters(ends),
        }
    )


@pytest.mark.parametrize(
    ("counted", "place"),
    [
        ({"f0": (100, 0), "up": (0, 90), "down": (90, 0), "f1": (0, 90)}, "inside switch left"),
        ({"f0": (100, 0), "up": (0, 100), "down": (90, 0), "f1": (0, 90)}, "cable u0"),
        ({"f0": (100, 0), "up": (0, 100), "down": (100, 0), "f1": (0, 90)}, "inside switch right"),
    ],
)
def test_what_is_lost_is_placed_on_a_host_or_between(
    counted: Mapping[str, tuple[int, int]], place: str
) -> None:
    layout = drawn()
    ports = [port.id for port in layout.wiring.ports]
    found = balanced(
        lossy(**counted), ports=ports, through=True, ways=ways_of(layout), **between_hosts(layout)
    )
    assert {str(section): frames for section, frames in found.lost_at.items()} == {place: 10}
    assert found.unaccounted == 0
    assert found.evidence.balance[Place.parse("cable u0")] == Balance(
        counted["up"][1], counted["down"][0]
    )


def test_the_way_of_a_flow_leads_through_both_switches() -> None:
    there, *_ = ways_of(drawn(dimension="latency", rate="1000"))
    assert sorted(there.entered) == sorted(("f0", DOWN, "f1", UP))
    assert sorted(there.left) == sorted((UP, "f1", DOWN, "f0"))


def test_frames_that_went_past_the_second_switch_are_found() -> None:
    layout = drawn()
    trial = lossy(f0=(100, 0), up=(0, 100), down=(3, 0), f1=(0, 100))
    ports = [port.id for port in layout.wiring.ports]
    found = balanced(trial, ports=ports, through=True, ways=ways_of(layout))
    assert [str(place) for place in found.evidence.past] == ["right:u0@switch in"]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("cable u0", Place(PlaceKind.CABLE, "u0")),
        ("inside switch left", Place(PlaceKind.INSIDE_SWITCH, "left")),
        ("left:u0@switch out", Place.out(PortEnd(UP, at_switch=True))),
    ],
)
def test_places_of_hosts_are_written_and_read(text: str, place: Place) -> None:
    assert Place.parse(text) == place
    assert str(place) == text


def test_no_other_part_has_a_name_like_an_uplink() -> None:
    parts = {part.id for part in drawn(pairs=2).parts}
    assert all(re.fullmatch(r"[a-z0-9]+", part) for part in parts)
    assert Place.out(PortEnd(UP, at_switch=True)).of_uplink
    assert not Place.parse("f0@switch out").of_uplink
