"""These tests check what is known of the hosts of a test: which they are, and which versions its
figures depend on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from switchmark import __version__
from switchmark.errors import Unavailable
from switchmark.hosts.base import Host
from switchmark.hosts.hosts import Hosts
from switchmark.hosts.recording import RecordingHost
from switchmark.lab import probes as lab_probes
from switchmark.lab.probes import Location, Probes
from switchmark.model.test import Test
from switchmark.model.topology import NOTHING, Between, HandedNic
from switchmark.model.version import Image, Version


class Cabled(dict[str, Host]):
    """The hosts by name, and what is between them."""

    joined = NOTHING

    def between(self, names: Sequence[str], switch: str) -> Between:
        return self.joined if names else NOTHING


class Asked(Probes):
    """Probes that answer with what they were asked for, in the modes that are given."""

    def __init__(self, hosts: Cabled, **modes: str) -> None:
        super().__init__(cast(Hosts, hosts))
        self.modes = modes

    def probe(self, kind: str, name: str, probe: Callable[[Host], Version], host: Host) -> Version:
        mode = self.modes.get(f"{kind}_{host.name}") or self.modes.get(kind)
        return Version(f"{name}-1", mode, program=f"/bin/{name}")


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> Cabled:
    monkeypatch.setattr(lab_probes, "identity", lambda host: f"machine of {host.name}")
    monkeypatch.setattr(lab_probes, "followed", lambda *asked: f"as on {asked[0].name}")
    return Cabled({name: RecordingHost(name=name) for name in ("local", "left", "right")})


def located(there: Cabled, modes: dict[str, str] | None = None, /, **axes: Any) -> Location:
    return Asked(there, **(modes or {})).locate(Test(**axes))


def test_figures_depend_on_the_versions_of_all_that_takes_part(hosts: Cabled) -> None:
    modes = {"switch": "kernel", "environment": "crun"}
    assert located(hosts, modes, environment="podman").versions() == {
        "switchmark": __version__,
        "switch linux-bridge": "linux-bridge-1 kernel",
        "engine raw-mmsg": "raw-mmsg-1",
        "environment netns": "netns-1 crun",
        "environment podman": "podman-1 crun",
        "placement": "as on local",
    }


def test_what_else_a_test_uses_has_a_version_too(hosts: Cabled) -> None:
    further = {"noise": "web", "profile": 99, "placement": "pinned"}
    chain = {"switch": "testpmd", "engine": "dpdk", "scenario": "loopback", "function": "l2fwd"}
    found = located(hosts, **chain, **further).versions()
    assert found == {
        "switchmark": __version__,
        "switch testpmd": "testpmd-1",
        "engine dpdk": "dpdk-1",
        "environment netns": "netns-1",
        "noise web": "web-1",
        "profile perf": "perf-1",
        "function l2fwd": "l2fwd-1",
    }


def test_each_host_has_its_versions(hosts: Cabled) -> None:
    remote = {"locality": "remote", "hosts": "left,right", "switch": "ovs"}
    found = located(hosts, {"engine_right": "new"}, **remote).versions()
    assert found == {
        "switchmark": __version__,
        "switch ovs on left": "ovs-1",
        "engine raw-mmsg on left": "raw-mmsg-1",
        "environment netns on left": "netns-1",
        "on left": "machine of left",
        "switch ovs on right": "ovs-1",
        "engine raw-mmsg on right": "raw-mmsg-1 new",
        "environment netns on right": "netns-1",
        "on right": "machine of right",
        "placement": f"as on {located(hosts, **remote).host.name}",
    }


def test_cables_past_the_kernel_are_a_version_of_a_switch_on_dpdk(hosts: Cabled) -> None:
    handed = {
        ("left", "eth1"): HandedNic("0000:03:00.0", ""),
        ("right", "eth7"): HandedNic("0000:05:00.1", "uio_pci_generic"),
    }
    hosts.joined = Between(handed=handed)
    remote = {"locality": "remote", "hosts": "left,right", "engine": "dpdk"}
    versions = located(hosts, switch="ovs-dpdk", **remote).versions()
    assert versions["cable by"] == "vfio-pci of left, uio_pci_generic of right"
    assert "cable by" not in located(hosts, switch="ovs", **remote).versions()


def test_both_hosts_have_the_same_mode_of_a_switch(hosts: Cabled) -> None:
    remote = {"locality": "remote", "hosts": "left,right", "switch": "ovs"}
    modes = {"switch_left": "kernel", "switch_right": "userspace"}
    with pytest.raises(
        Unavailable,
        match="switch ovs is not the same on both hosts: kernel on left and userspace on right",
    ):
        _ = located(hosts, modes, **remote).switch
    assert located(hosts, {"switch": "kernel"}, **remote).switch.mode == "kernel"


def test_what_is_measured_where(hosts: Cabled) -> None:
    remote = {"locality": "remote", "hosts": "left,right"}
    here = located(hosts)
    assert (here.host, here.far, [*here.hosts]) == (hosts["local"], None, ["local"])
    named = located(hosts, hosts="left")
    assert (named.host, named.far, [*named.hosts]) == (hosts["left"], None, ["left"])
    apart = located(hosts, **remote)
    assert (apart.far, [*apart.hosts]) == (hosts["right"], ["left", "right"])
    hosts.joined = Between(one_machine=True)
    assert located(hosts, **remote).far is None
    hosts.joined = Between(foreign=frozenset({"left", "right"}))
    assert located(hosts, **remote).host is hosts["left"]


def test_a_path_knows_the_programs_and_the_modes_of_its_hosts(hosts: Cabled) -> None:
    chain = {"switch": "testpmd", "engine": "dpdk", "scenario": "loopback", "function": "l2fwd"}
    modes = {"switch": "vhost", "environment": "sandbox"}
    found = located(hosts, modes, **chain).findings
    assert (found.mode, found.modes, found.between) == ("vhost", {"netns": "sandbox"}, NOTHING)
    programs = {key: version.program for key, version in found.programs.items()}
    assert programs == {("local", "testpmd"): "/bin/testpmd", ("local", "l2fwd"): "/bin/l2fwd"}


def test_a_probe_asks_a_host_once(hosts: Cabled) -> None:
    asked: list[str] = []

    def probe(host: Host) -> Version:
        asked.append(host.name)
        return Version(host.name)

    found = Probes(cast(Hosts, hosts))
    for name in ("local", "left", "local"):
        assert found.probe("switch", "x", probe, hosts[name]).text == name
    assert found.probe("engine", "x", probe, hosts["local"]).text == "local"
    assert found.probe("engine", "y", probe, hosts["local"]).text == "local"
    assert asked == ["local", "left", "local", "local"]


@pytest.mark.parametrize(("keep_missing", "times"), [(False, 3), (True, 2)])
def test_what_is_missing_is_asked_for_again_unless_it_is_kept(
    keep_missing: bool, times: int, hosts: Cabled
) -> None:
    asked: list[str] = []

    def probe(host: Host) -> Version:
        asked.append(host.name)
        raise Unavailable(f"no x on {host.name}", hint="apt-get install x")

    found = Probes(cast(Hosts, hosts), keep_missing=keep_missing)
    for name in ("local", "left", "local"):
        with pytest.raises(Unavailable, match=f"no x on {name}") as refused:
            found.probe("switch", "x", probe, hosts[name])
        assert refused.value.hint == "apt-get install x"
    assert len(asked) == times


def test_a_build_is_known_by_its_content(hosts: Cabled, tmp_path: Path) -> None:
    program = tmp_path / "testpmd"
    program.write_bytes(b"x")
    program.chmod(0o755)
    cast(RecordingHost, hosts["local"]).files[f"/bin/testpmd@{program}"] = b"one build"
    first = located(hosts, switch=f"testpmd@{program}", engine="dpdk").versions()
    cast(RecordingHost, hosts["local"]).files[f"/bin/testpmd@{program}"] = b"another"
    other = located(hosts, switch=f"testpmd@{program}", engine="dpdk").versions()
    assert {name for name in first if first[name] != other[name]} == {"switch build"}


class Imaged(Asked):
    """Probes of a switch from an image."""

    def probe(self, kind: str, name: str, probe: Callable[[Host], Version], host: Host) -> Version:
        found = super().probe(kind, name, probe, host)
        image = Image("podman", "mine:1", "sha256:1a", ("reg/mine@sha256:2b",))
        return replace(found, image=image) if kind == "switch" else found


def test_the_next_version_of_an_upgrade_and_the_image_of_a_switch_are_versions(
    hosts: Cabled,
) -> None:
    event = {"dimension": "outage", "event": "upgrade:ovs@/opt/ovs"}
    located_there = Imaged(hosts).locate(Test(switch="ovs@podman:mine:1", **event))
    versions = located_there.versions()
    assert versions["switch ovs@podman:mine:1"] == "ovs@podman:mine:1-1"
    assert versions["switch ovs@/opt/ovs"] == "ovs@/opt/ovs-1"
    assert versions["switch image"] == "podman sha256:1a sha256:2b"
    found = located_there.findings
    assert [*found.programs] == [("local", "ovs@podman:mine:1"), ("local", "ovs@/opt/ovs")]
    assert [*found.modes] == ["netns", "podman"]
