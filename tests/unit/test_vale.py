"""These tests check the driver of netmap's switch and its engine, as far as no module is needed."""

from __future__ import annotations

from typing import Any

import pytest

from switchmark.engines import TABLE as ENGINES
from switchmark.engines.base import traffic_program
from switchmark.errors import Unavailable
from switchmark.hosts.base import Completed
from switchmark.hosts.recording import RecordingHost
from switchmark.lab.prepare import place_parts
from switchmark.model.cpus import Cpu
from switchmark.model.plan import Run
from switchmark.model.test import Test
from switchmark.model.topology import PortKind, Semantics
from switchmark.path.assembly import needs_of, switch_needs
from switchmark.path.orders import opening_of
from switchmark.path.path import Path
from switchmark.path.refusals import check
from switchmark.path.resolving import resolve
from switchmark.switches import TABLE as SWITCHES

VALE, NETMAP = SWITCHES["vale"], ENGINES["netmap"]
DEVICE = {"/dev/netmap": b""}
LINKS = b"""[{"ifname": "sm0-p0", "stats64": {"rx": {"packets": 7, "dropped": 0, "errors": 0},
"tx": {"packets": 3, "dropped": 1, "errors": 0}}}]"""


class WithoutProgram(RecordingHost):
    """On this host there is no program."""

    def run(self, argv: tuple[str, ...], **options: Any) -> Completed:
        raise Unavailable(f"the program '{argv[0]}' is not installed")


def listing(*names: str) -> dict[tuple[str, ...], bytes | Completed]:
    engines = ", ".join(f'{{"name": "{name}"}}' for name in names)
    answer = f'{{"version": "0.1.0", "engines": [{engines}]}}'.encode()
    return {(traffic_program(), "engines"): answer}


def laid_out(**axes: Any) -> Path:
    test = Test.model_validate({"switch": "vale", "engine": "netmap", **axes})
    assert check(test) == []
    return resolve(test, prefix="sm0", run_dir="/r")


def opened(layout: Path) -> list[dict[str, Any]]:
    layout = layout.placed(place_parts(layout, [Cpu(0)]))
    players = layout.processes
    return [port for player in players for port in opening_of(layout, player)["ports"]]


def test_an_engine_that_was_not_built_says_what_it_takes() -> None:
    with pytest.raises(Unavailable, match=r"net/netmap_user\.h was missing") as error:
        NETMAP.probe(RecordingHost(listing("null"), files=DEVICE))
    assert "SWITCHMARK_NETMAP=" in (error.value.hint or "")
    with pytest.raises(Unavailable, match="there is no /dev/netmap"):
        NETMAP.probe(RecordingHost(listing("netmap")))
    assert NETMAP.probe(RecordingHost(listing("netmap"), files=DEVICE)).text == "0.1.0"


def test_a_module_that_is_not_loaded_is_the_users() -> None:
    with pytest.raises(Unavailable, match=r"netmap's module is not loaded") as error:
        VALE.probe(RecordingHost())
    assert error.value.hint == "insmod netmap.ko, built from netmap's source for this kernel"
    with pytest.raises(Unavailable, match="vale-ctl is not installed") as error:
        VALE.probe(WithoutProgram(files=DEVICE))
    assert "SWITCHMARK_VALE=" in (error.value.hint or "")
    loaded = {**DEVICE, "/proc/sys/kernel/osrelease": b"6.1.0\n"}
    assert VALE.probe(RecordingHost(files=loaded)).text == "6.1.0"
    note = b"\4\0\0\0\x14\0\0\0\3\0\0\0GNU\0" + bytes(range(20))
    build = {"/sys/module/netmap/notes/.note.gnu.build-id": note}
    probed = VALE.probe(RecordingHost(files={**loaded, **build}))
    assert probed.text == "6.1.0, netmap.ko 000102030405"


@pytest.mark.parametrize("environment", ["netns", "host"])
def test_functions_open_their_ports_in_the_network_of_the_switch(environment: str) -> None:
    layout = laid_out(scenario="v2v", environment=environment)
    assert layout.wiring.kind is PortKind.NETMAP
    for port, part in zip(opened(layout), layout.parts, strict=True):
        assert port["netns"] == "/run/netns/sm0-sw"
        assert port["options"] == {"port": f"valesm0:e{part.ports[0].index}"}
    assert VALE.counters.commands(layout.wiring) == ()
    assert VALE.counters.parse(layout.wiring, ()).ports == {}


@pytest.mark.parametrize("engine", ["netmap", "raw-mmsg"])
def test_functions_open_interfaces_in_their_own_network_and_the_kernel_counts(engine: str) -> None:
    layout = laid_out(port="veth", engine=engine)
    for port, part in zip(opened(layout), layout.parts, strict=True):
        assert "netns" not in port
        assert port["ifname"] == f"sm0-e{part.ports[0].index}"
        assert "port" not in port["options"]
    counted = VALE.counters.parse(layout.wiring, (LINKS,)).ports
    assert {port: (value.rx, value.tx) for port, value in counted.items()} == {"f0": (7, 3)}


def test_a_nic_is_attached_beside_ports_of_functions() -> None:
    layout = laid_out(scenario="p2v", nic="a0=eth1:eth2")
    steps = [step.argv for step in VALE.join(layout.wiring) if isinstance(step, Run)]
    assert steps == [("vale-ctl", "-a", "valesm0:eth1")]
    kinds = {name: end.kind for name, end in layout.endpoints.items()}
    assert kinds == {"a0": PortKind.NIC_KERNEL, "f0": PortKind.NETMAP}


def test_each_host_of_two_has_a_switch_whose_name_netmap_takes() -> None:
    layout = laid_out(scenario="v2v", locality="remote", hosts="left,right")
    names = [switch.host for switch in layout.switches]
    assert names == ["left", "right"]
    options = [port["options"] for port in opened(layout)]
    assert options == [{"port": "valesm0_a:e0"}, {"port": "valesm0_b:e1"}]


def test_as_wires_each_way_has_a_switch_of_its_own() -> None:
    layout = laid_out(scenario="loopback", chain=2)
    assert layout.wiring.semantics is Semantics.PATCH
    names = [port["options"]["port"].partition(":")[0] for port in opened(layout)]
    assert names == [f"valesm0_{number}" for number in (0, 0, 1, 1, 2, 2)]
    test = Test(switch="vale", engine="netmap", scenario="loopback", chain=8)
    assert any("9 wires need one each" in str(refusal) for refusal in check(test))
    learning = test.model_copy(update={"semantics": "learning", "function_semantics": "mac"})
    assert check(learning) == []


@pytest.mark.parametrize("environment", ["netns", "docker"])
def test_as_a_function_it_has_the_device_and_interfaces_alone(environment: str) -> None:
    layout = laid_out(scenario="loopback", function="vale", environment=environment)
    assert layout.wiring.kind is PortKind.VETH
    (part,) = layout.hosted
    assert needs_of(layout, part).devices == ("/dev/netmap",)


def test_a_container_has_the_device_and_interfaces_alone() -> None:
    layout = laid_out(scenario="v2v", environment="docker")
    assert layout.wiring.kind is PortKind.VETH
    assert needs_of(layout, layout.parts[0]).devices == ("/dev/netmap",)
    assert "/dev/netmap" in switch_needs(layout, layout.switches[0]).devices
    test = Test(switch="vale", engine="netmap", scenario="v2v", environment="docker", port="netmap")
    refused = " ".join(map(str, check(test)))
    assert "a container cannot open it" in refused


def test_a_machine_is_refused_with_the_reason() -> None:
    test = Test(switch="vale", engine="netmap", scenario="v2v", environment="vm")
    refused = " ".join(map(str, check(test)))
    assert "ptnet" in refused
    assert "Debian's QEMU" in refused
    assert check(test.model_copy(update={"switch": "linux-bridge"})) != []


def test_frames_longer_than_a_buffer_are_refused() -> None:
    for engine in ("netmap", "raw-mmsg"):
        test = Test(switch="vale", engine=engine, frame_size=2049)
        assert any("2048 bytes" in str(refusal) for refusal in check(test))
        assert check(test.model_copy(update={"frame_size": 2048})) == []


def test_the_network_of_the_host_is_not_the_switchs() -> None:
    refused = " ".join(map(str, check(Test(switch="vale", switch_environment="host"))))
    assert "does not run in environment host" in refused
