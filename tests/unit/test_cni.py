"""These tests check the driver of CNI networks: its reading of a list, its calls of plugins, the
addresses that it finds, and its refusals."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from switchmark.errors import Unavailable
from switchmark.hosts.base import Completed
from switchmark.hosts.recording import RecordingHost
from switchmark.model.plan import Run
from switchmark.model.test import Test
from switchmark.model.topology import PortKind, Semantics
from switchmark.model.version import name_parts, plain_name
from switchmark.path.assembly import build
from switchmark.path.path import Path as Resolved
from switchmark.path.refusals import check
from switchmark.path.resolving import answered, resolve
from switchmark.switches import TABLE as SWITCHES
from switchmark.switches.cni import _CALL
from switchmark.switches.conflists import parse_conflist

DATA = Path(__file__).parent / "data" / "cni"
ROUTER, NEAR_0, NEAR_1 = "aa:00:00:00:00:01", "aa:00:00:00:00:02", "aa:00:00:00:00:03"
POD_0, POD_1 = "ee:00:00:00:00:02", "ee:00:00:00:00:03"


def switch(name: str) -> str:
    return f"cni:{DATA}/{name}.conflist"


def path_of(name: str, **axes: Any) -> Resolved:
    test = Test(**{"switch": name, "scenario": "v2v", "engine": "raw-mmsg", **axes})
    assert check(test) == []
    return resolve(test, prefix="sm0000", run_dir="/run/x")


def link(index: int, name: str, mac: str, *ips: str, **more: Any) -> Mapping[str, Any]:
    addresses = [
        {"family": "inet", "local": ip, "prefixlen": int(prefix)}
        for ip, _, prefix in (text.partition("/") for text in ips)
    ]
    return {"ifindex": index, "ifname": name, "address": mac, "addr_info": addresses, **more}


def printed(*objects: Mapping[str, Any]) -> bytes:
    return json.dumps(objects).encode()


NODE_OF_BRIDGE = printed(
    link(2, "cni0", ROUTER, "10.10.0.1/16"),
    link(3, "veth0", NEAR_0, master="cni0", link_index=2),
    link(4, "veth1", NEAR_1, master="cni0", link_index=2),
)
# The plugin ptp gives both near ends the address of the gateway.
NODE_OF_PTP = printed(
    link(3, "veth0", NEAR_0, "10.30.0.1/32", link_index=2),
    link(4, "veth1", NEAR_1, "10.30.0.1/32", link_index=2),
)


def pods_of(ips: tuple[str, str], routes: bytes, below: tuple[int, int] = (3, 4)) -> list[bytes]:
    outputs = []
    for mac, ip, index in zip((POD_0, POD_1), ips, below, strict=True):
        # `ip address show dev` prints an empty object for each other interface.
        outputs += [printed({}, link(2, "eth0", mac, ip, link_index=index)), routes]
    return outputs


FLAT = pods_of(
    ("10.10.0.2/16", "10.10.0.3/16"),
    printed({"dst": "default", "gateway": "10.10.0.1"}, {"dst": "10.10.0.0/16"}),
)
ROUTED = pods_of(
    ("10.30.0.2/24", "10.30.0.3/24"),
    printed(
        {"dst": "default", "gateway": "10.30.0.1"},
        {"dst": "10.30.0.0/24", "gateway": "10.30.0.1"},
        {"dst": "10.30.0.1", "scope": "link"},
    ),
)


# --- the name and the file -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("ovs", ("ovs", "", "")),
        ("ovs@3.1", ("ovs", "@", "3.1")),
        ("ovs@/opt/a:b", ("ovs", "@", "/opt/a:b")),
        ("cni:/etc/x@y.conflist", ("cni", ":", "/etc/x@y.conflist")),
        ("cni:", ("cni", ":", "")),
        ("", ("", "", "")),
    ],
)
def test_a_name_has_a_version_or_a_file(name: str, parts: tuple[str, str, str]) -> None:
    assert name_parts(name) == parts
    assert plain_name(name) == parts[0]


def test_a_file_describes_the_switch() -> None:
    found = {name: SWITCHES[switch(name)] for name in ("bridge", "macvlan", "ptp")}
    assert {name: (each.semantics, each.port_kinds) for name, each in found.items()} == {
        "bridge": ((Semantics.LEARNING,), (PortKind.VETH,)),
        "macvlan": ((Semantics.STATIC,), (PortKind.MACVLAN,)),
        "ptp": ((Semantics.ROUTED,), (PortKind.VETH,)),
    }
    assert found["ptp"].name == switch("ptp")
    assert SWITCHES["cni"].semantics == (Semantics.LEARNING,)  # as before
    assert switch("ptp") in SWITCHES


@pytest.mark.parametrize(
    ("name", "why", "hint"),
    [
        ("cni:/no/such", "/no/such cannot be read: No such file or directory", None),
        ("cni:x.conflist", "give its absolute path", "--switch cni:$PWD/x.conflist"),
        ("cni:", "give its absolute path", "--switch cni:/PATH"),
        ("cni@/x", "is not a separate program", "--switch cni:/PATH"),
        ("linux-bridge:/x", "no file describes switch linux-bridge", "--switch linux-bridge"),
        (f"cni:{DATA}", "cannot be read: it is a directory", None),
    ],
)
def test_a_wrong_name_is_refused(name: str, why: str, hint: str | None) -> None:
    (refusal,) = check(Test(switch=name))
    assert f"'{name}'" in refusal.why
    assert why in refusal.why
    assert refusal.hint == hint
    assert name not in SWITCHES


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "it is not JSON: "),
        ("[]", "it is not a JSON object"),
        ('{"name": "n", "plugins": []}', "'plugins' is not a list of plugins"),
        ('{"name": "n", "plugins": [{"type": "a"}, {}]}', "plugin 1 has no 'type'"),
        ('{"name": "n", "plugins": [{"type": "../a"}]}', "plugin 0 has no 'type'"),
        ('{"plugins": [{"type": "a"}]}', "it has no 'name'"),
        ('{"name": "n"}', "plugin 0 has no 'type'"),
    ],
)
def test_a_file_that_is_no_list_is_refused(tmp_path: Path, content: str, why: str) -> None:
    file = tmp_path / "x.conflist"
    file.write_text(content)
    (refusal,) = check(Test(switch=f"cni:{file}"))
    assert f"{file} is no network configuration list of CNI: {why}" in refusal.why


def test_a_single_plugin_is_a_list_of_one() -> None:
    network = parse_conflist(b'{"name": "n", "type": "bridge", "ipam": {"type": "static"}}')
    assert network.types == ("bridge",)
    assert network.programs == ("bridge", "static")
    assert network.plugins[0]["cniVersion"] == "0.2.0"


def test_a_list_says_what_it_needs() -> None:
    lan = parse_conflist((DATA / "macvlan.conflist").read_bytes())
    assert lan.programs == ("macvlan", "tuning", "host-local")
    assert lan.masters == ("eth1",)
    assert lan.folders == ("/run/leases",)
    assert lan.mtu is None
    flat = parse_conflist((DATA / "bridge.conflist").read_bytes())
    assert (flat.masters, flat.folders, flat.mtu) == ((), (), 9000)
    unnamed = parse_conflist(b'{"name": "n", "type": "ipvlan"}')
    assert unnamed.masters == ("eth0",)


# --- the plan --------------------------------------------------------------------------------


def test_a_plugin_may_refuse_to_remove_a_pod() -> None:
    """Nothing is left: the network namespace that it works in is removed anyway."""
    steps = [step for step in build(path_of(switch("bridge"))) if isinstance(step, Run)]
    calls = [step for step in steps if step.argv[:2] == ("unshare", "--mount")]
    assert len(calls) == 2 * 3
    assert all(step.undo_refusable for step in calls)


class Plugin:
    """A plugin that writes what it gets to a file, and prints a result with its name."""

    def __init__(self, folder: Path, name: str, status: int = 0) -> None:
        self.program, self.got, self.folder = folder / name, folder / f"{name}.got", folder
        printed = json.dumps({"by": name} if not status else {"code": 7, "msg": "I will not"})
        lines = (
            f"{{ cat; echo; env | grep ^CNI_ | sort; }} >{self.got}",
            f"[ $CNI_COMMAND = DEL ] || echo '{printed}'" if not status else f"echo '{printed}'",
            f"exit {status}",
        )
        self.program.write_text("\n".join(("#!/bin/sh", *lines)) + "\n")
        self.program.chmod(0o755)
        (folder / "call.sh").write_text(_CALL)

    def call(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            (
                *("sh", f"{self.folder}/call.sh", command, "sm0000-f0", self.program),
                *("/run/netns/x", self.folder),
            ),
            input='{"name":"n"}',
            capture_output=True,
            text=True,
        )

    @property
    def config(self) -> Any:
        return json.loads(self.got.read_text().partition("\n")[0])

    @property
    def variables(self) -> dict[str, str]:
        lines = self.got.read_text().splitlines()[1:]
        return dict(line.split("=", 1) for line in lines)


def test_later_plugins_and_the_end_get_the_last_result(tmp_path: Path) -> None:
    first, second = Plugin(tmp_path, "first"), Plugin(tmp_path, "second")
    assert first.call("ADD").returncode == 0
    assert first.config == {"name": "n"}
    assert second.call("ADD").returncode == 0
    assert second.config == {"name": "n", "prevResult": {"by": "first"}}
    for plugin in (second, first):
        assert plugin.call("DEL").returncode == 0
        assert plugin.config == {"name": "n", "prevResult": {"by": "second"}}
    assert first.variables == {
        "CNI_COMMAND": "DEL",
        "CNI_CONTAINERID": "sm0000-f0",
        "CNI_NETNS": "/run/netns/x",
        "CNI_IFNAME": "eth0",
        "CNI_PATH": str(tmp_path),
        "CNI_ARGS": "IgnoreUnknown=1",
    }


def test_a_plugin_that_fails_is_quoted_and_gives_no_result(tmp_path: Path) -> None:
    first, second = Plugin(tmp_path, "first"), Plugin(tmp_path, "second", status=1)
    first.call("ADD")
    failed = second.call("ADD")
    assert failed.returncode == 1
    assert json.loads(failed.stderr) == {"code": 7, "msg": "I will not"}
    first.call("DEL")
    assert first.config["prevResult"] == {"by": "first"}


# --- addresses -------------------------------------------------------------------------------


def test_pods_on_a_bridge_send_to_each_others_macs() -> None:
    path = answered(path_of(switch("bridge"), direction="bi"), (NODE_OF_BRIDGE, *FLAT))
    there, back = (flow.addressing for flow in path.flows)
    assert (there.sent_src_mac, there.sent_dst_mac) == (POD_0, POD_1)
    assert (there.source_ip, there.sink_ip, there.prefix) == ("10.10.0.2", "10.10.0.3", 16)
    assert (there.gateway, there.routed, there.rewritten) == (None, 0, False)
    assert (back.source_ip, back.sink_ip) == ("10.10.0.3", "10.10.0.2")
    assert [end.mac for end in path.endpoints.values()] == [POD_0, POD_1]
    assert [end.switch_ifname for end in path.endpoints.values()] == ["veth0", "veth1"]


def test_pods_behind_routers_send_to_the_near_end_of_their_cable() -> None:
    path = answered(path_of(switch("ptp")), (NODE_OF_PTP, *ROUTED))
    (flow,) = path.flows
    a = flow.addressing
    assert (a.sent_src_mac, a.sent_dst_mac) == (POD_0, NEAR_0)
    assert (a.seen_src_mac, a.seen_dst_mac) == (NEAR_1, POD_1)
    assert (a.gateway, a.routed) == ("10.30.0.1", 1)


def neighbours(path: Resolved) -> set[tuple[str, str, str, str]]:
    return {
        (step.at.name, step.argv[3], step.argv[5], step.argv[7])
        for step in path.switches[0].join
        if isinstance(step, Run) and step.argv[:3] == ("ip", "neighbour", "replace")
    }


def test_neighbours_are_known_on_all_sides_before_a_trial() -> None:
    flat = answered(path_of(switch("bridge")), (NODE_OF_BRIDGE, *FLAT))
    assert neighbours(flat) == {
        ("sm0000-f0", "10.10.0.3", POD_1, "eth0"),
        ("sm0000-f1", "10.10.0.2", POD_0, "eth0"),
    }
    routed = answered(path_of(switch("ptp")), (NODE_OF_PTP, *ROUTED))
    assert neighbours(routed) == {
        ("sm0000-f0", "10.30.0.1", NEAR_0, "eth0"),
        ("sm0000-f1", "10.30.0.1", NEAR_1, "eth0"),
        ("sm0000-sw", "10.30.0.2", POD_0, "veth0"),
        ("sm0000-sw", "10.30.0.3", POD_1, "veth1"),
    }


def test_a_router_without_the_gateways_address_is_the_near_end() -> None:
    """It answers by proxy ARP, as the router of Calico does."""
    node = printed(link(3, "veth0", NEAR_0, link_index=2), link(4, "veth1", NEAR_1, link_index=2))
    (flow,) = answered(path_of(switch("ptp")), (node, *ROUTED)).flows
    assert flow.addressing.sent_dst_mac == NEAR_0
    with pytest.raises(ValueError, match=r"no interface here can be the router 10\.30\.0\.1"):
        answered(path_of(switch("ptp")), (printed(), *ROUTED))


@pytest.mark.parametrize(
    ("node", "pods", "why"),
    [
        (b"}{", FLAT, "Expecting value"),
        (b"{}", FLAT, "no list of objects"),
        (NODE_OF_BRIDGE, [printed({"ifindex": 2}), *FLAT[1:]], "something without 'ifname'"),
        (
            NODE_OF_BRIDGE,
            [printed(link(2, "eth0", POD_0)), *FLAT[1:]],
            "the pod at port f0 has no IPv4 address",
        ),
        (NODE_OF_BRIDGE, [FLAT[0], b"[]", *FLAT[2:]], r"with 10\.10\.0\.2/16 has no route to"),
    ],
)
def test_answers_that_are_garbled_are_a_value_error(
    node: bytes, pods: list[bytes], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        answered(path_of(switch("bridge")), (node, *pods))


# --- counters --------------------------------------------------------------------------------


def counted(*names: str) -> bytes:
    stats = {"packets": 7, "dropped": 2, "errors": 0}
    return json.dumps(
        [{"ifname": name, "stats64": {"rx": stats, "tx": stats}} for name in names]
    ).encode()


def test_the_near_ends_count() -> None:
    path = answered(path_of(switch("bridge")), (NODE_OF_BRIDGE, *FLAT))
    ports = path.switches[0].parse((counted("cni0", "veth0", "veth1"),)).ports
    assert set(ports) == {"f0", "f1"}
    assert (ports["f0"].rx, ports["f0"].tx_dropped, ports["f0"].rx_dropped) == (7, 2, None)
    with pytest.raises(ValueError, match="no link 'veth1'"):
        path.switches[0].parse((counted("veth0"),))


def test_children_of_one_interface_have_no_counters() -> None:
    node = printed(link(5, "eth1", ROUTER))
    routes = printed({"dst": "10.20.0.0/24"})
    pods = pods_of(("10.20.0.50/24", "10.20.0.51/24"), routes, below=(5, 5))
    path = answered(path_of(switch("macvlan")), (node, *pods))
    assert path.switches[0].parse((counted("eth1"),)).ports == {}
    assert not any(end.switch_ifname for end in path.endpoints.values())


# --- refusals and the probe ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("axes", "why"),
    [
        ({"scenario": "p2p"}, "a physical port is none"),
        ({"scenario": "p2v"}, "a physical port is none"),
        ({"frame_size": 9000}, "have an MTU of 1500 bytes, and these frames need 8982"),
        ({"environment": "host"}, "the pods of cni are network namespaces"),
        ({"switch_environment": "docker"}, "run in a network namespace of this host"),
        ({"engine": "xdp-live"}, "leaves the interfaces of pods as the plugins make them"),
    ],
)
def test_what_cannot_work_is_refused(axes: dict[str, Any], why: str) -> None:
    test = {"switch": "cni", "scenario": "v2v", "engine": "raw-mmsg", **axes}
    assert any(why in refusal.why for refusal in check(Test(**test))), check(Test(**test))


def test_ipvlan_needs_the_ip_stacks_of_pods(tmp_path: Path) -> None:
    file = tmp_path / "x.conf"
    file.write_text('{"name": "n", "type": "ipvlan", "master": "eth0"}')
    axes = {"switch": f"cni:{file}", "scenario": "v2v"}
    assert check(Test(**axes, engine="udp-mmsg")) == []
    assert check(Test(**axes, engine="raw-mmsg"))


class Pluggable(RecordingHost):
    """This host has some plugins, of a version that they do not know."""

    def __init__(self, *paths: str) -> None:
        super().__init__(files={"/proc/sys/kernel/osrelease": b"6.1\n"})
        self.paths = paths

    def exists(self, path: str) -> bool:
        return path in self.paths

    def answer(self, argv: tuple[str, ...]) -> Completed:
        return Completed(0, b"1.1.1+ds1-3\n" if "dpkg-query" in argv[2] else b"", b"")


def test_the_folder_that_has_all_plugins_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CNI_PATH", raising=False)
    both = ("/usr/lib/cni/bridge", "/usr/lib/cni/host-local")
    version = SWITCHES["cni"].probe(Pluggable("/opt/cni/bin/bridge", *both))
    assert version.beside == {"plugins": "/usr/lib/cni"}
    assert version.text.startswith("plugins 1.1.1+ds1-3, bridge ")
    monkeypatch.setenv("CNI_PATH", "/srv/plugins:/none")
    mine = ("/srv/plugins/bridge", "/srv/plugins/host-local")
    assert SWITCHES["cni"].probe(Pluggable(*both, *mine)).beside == {"plugins": "/srv/plugins"}


@pytest.mark.parametrize(
    ("paths", "why"),
    [
        ((), "no CNI plugin bridge, host-local is in /opt/cni/bin, /usr/lib/cni, /usr/libexec/cni"),
        (("/usr/lib/cni/bridge",), "/usr/lib/cni has no CNI plugin host-local"),
    ],
)
def test_a_missing_plugin_is_named_with_its_package(
    monkeypatch: pytest.MonkeyPatch, paths: tuple[str, ...], why: str
) -> None:
    monkeypatch.delenv("CNI_PATH", raising=False)
    with pytest.raises(Unavailable) as refused:
        SWITCHES["cni"].probe(Pluggable(*paths))
    assert refused.value.message == why
    assert refused.value.hint == "apt-get install containernetworking-plugins"
