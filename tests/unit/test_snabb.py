"""These tests drive Snabb without a host: its script, and the parsing of its files."""

from __future__ import annotations

import struct
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchmark.errors import Unavailable
from switchmark.hosts.recording import RecordingHost
from switchmark.model.counters import PortCounters
from switchmark.model.plan import HOST, Node, Plan, Reserve, Run, Spawn, Write
from switchmark.model.test import Test
from switchmark.model.topology import Memory, PortKind, Semantics, Wiring
from switchmark.path.assembly import switch_needs
from switchmark.path.resolving import resolve
from switchmark.switches.base import Counters
from switchmark.switches.snabb import SWITCH
from wirings import wiring_of

# As a build of 2022.07 printed it.
VERSION = b"""\
snabb 2022.07 (396-gf32729274-dirty)
Copyright (C) 2012-2017 Snabb authors; see revision control logs for details.
License: <https://www.apache.org/licenses/LICENSE-2.0>

Snabb is open source software.  For more information on Snabb, see
https://github.com/snabbco/snabb.
"""

# As it kept them in front of a receiver that was too slow, rxpackets, txpackets and txdrop of
# each link: 3170411 frames had left, 415 were on their way, 90422 had found the link full.
KEPT = struct.pack("<6Q", 3170411, 3170826, 90422, 0, 0, 0)


@pytest.fixture(autouse=True)
def _bare_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWITCHMARK_SNABB", "snabb")


wiring = partial(wiring_of, node=Node("sm0000-sw", "netns"), program="snabb")


def script(plan: Plan) -> str:
    (write,) = (step for step in plan if isinstance(step, Write))
    assert write.path == "/run/x/switch/sm0000-snabb/switch.lua"
    return write.content.decode()


def megabytes(wiring: Wiring) -> list[int]:
    return [step.megabytes for step in SWITCH.start(wiring) if isinstance(step, Reserve)]


def test_it_connects_to_functions_that_listen() -> None:
    ends = SWITCH.endpoints(wiring())
    assert [end.path for end in ends.values()] == ["/run/x/ports/p0.sock", "/run/x/ports/p1.sock"]
    assert all(end.server and not end.backend for end in ends.values())
    assert len({end.mac for end in ends.values()}) == 2
    lines = script(SWITCH.start(wiring())).splitlines()
    assert 'config.app(c, "p1", VhostUser, {socket_path = "/run/x/ports/p1.sock"})' in lines


def test_a_function_that_lost_its_switch_may_stop_rings_that_the_next_one_has_not() -> None:
    """virtio-user asks for the base of each ring first, and a device without rings has none."""
    text = script(SWITCH.start(wiring()))
    assert "function device:get_vring_base (ring) return base(self, ring) or 0 end" in text


def test_a_patch_is_a_link_each_way() -> None:
    text = script(SWITCH.start(wiring(4)))
    links = [line for line in text.splitlines() if line.startswith("config.link")]
    assert links == [
        f'config.link(c, "p{a}.tx -> p{b}.rx")' for a, b in ((0, 1), (1, 0), (2, 3), (3, 2))
    ]
    assert "bridge" not in text


def test_a_bridge_has_every_port() -> None:
    text = script(SWITCH.start(wiring(semantics=Semantics.LEARNING)))
    assert 'local ports = {"p0", "p1"}' in text
    assert 'config.app(c, "bridge", require("apps.bridge.learning").bridge, {ports' in text
    for i in (0, 1):
        assert f'config.link(c, "p{i}.tx -> bridge.p{i}")' in text
        assert f'config.link(c, "bridge.p{i} -> p{i}.rx")' in text


def test_interfaces_are_read_by_packet_sockets_and_need_no_virtio() -> None:
    text = script(SWITCH.start(wiring(kind=PortKind.VETH)))
    assert 'config.app(c, "p0", require("apps.socket.raw").RawSocket, "sm0000-p0")' in text
    assert "VhostUser" not in text
    assert "process_qemu_timer" not in text


def test_it_polls_on_the_cpu_that_it_is_given() -> None:
    assert 'require("lib.numa").bind_to_cpu(3, true)\n' in script(SWITCH.start(wiring()))
    assert "bind_to_cpu" not in script(SWITCH.start(wiring(cores=())))
    assert "engine.busywait = true\n" in script(SWITCH.start(wiring()))


def test_its_frames_are_in_hugepages_that_are_reserved_or_in_none() -> None:
    assert "populate, hugetlb" in script(SWITCH.start(wiring()))
    assert megabytes(wiring()) == [34]  # 3000 frames, 186 to a page: 2046 fit into two links
    assert megabytes(wiring(semantics=Semantics.LEARNING)) == [76]  # 7000, for four of them
    assert megabytes(wiring(18)) == [334]
    assert megabytes(wiring(memory=Memory("no-huge"))) == []
    assert "hugetlb" not in script(SWITCH.start(wiring(memory=Memory("no-huge")))).replace(
        "allocate_hugetlb_chunk", ""
    )


def test_what_it_writes_is_in_a_folder_that_goes() -> None:
    plan = SWITCH.start(wiring())
    (spawned,) = (step for step in plan if isinstance(step, Spawn))
    assert spawned.argv == ("snabb", "snsh", "/run/x/switch/sm0000-snabb/switch.lua")
    assert spawned.env == {"SNABB_SHM_ROOT": "/run/x/switch/sm0000-snabb"}
    (mkdir,) = (step for step in plan if isinstance(step, Run) and step.argv[0] == "mkdir")
    assert mkdir.undo == ("rm", "-rf", "/run/x/switch/sm0000-snabb")
    (swept,) = (step for step in plan if isinstance(step, Run) and step.argv[0] == "rm")
    assert swept.undo == swept.argv == ("rm", "-f", "/run/x/ports/p0.sock", "/run/x/ports/p1.sock")
    assert "function VhostUser:update_features (features) return features end" in script(plan)


def test_a_build_of_ones_own_is_in_its_container(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWITCHMARK_SNABB", "/opt/snabb/src/snabb")
    inside = Test(switch="snabb", engine="dpdk", switch_environment="lxc", environment="lxc")
    layout = resolve(inside, prefix="sm0000", run_dir="/run/x")
    assert "/opt/snabb/src" in switch_needs(layout, layout.switches[0]).programs


def test_ports_that_are_no_pairs_are_for_the_bridge() -> None:
    fan = wiring(4)
    fan = replace(fan, flows=(*fan.flows, replace(fan.flows[0], sink="f2")))
    refused = SWITCH.accepts(fan)
    assert refused is not None
    assert "snabb connects ports in pairs: port f0 sends to 2" in refused
    assert refused.endswith("hint: --semantics learning")
    assert SWITCH.accepts(replace(fan, semantics=Semantics.LEARNING)) is None
    assert SWITCH.accepts(wiring(4)) is None


def test_counters_are_read_on_the_host_by_a_link_of_the_script() -> None:
    (step,) = SWITCH.counters.commands(wiring())
    folder = "/run/x/switch/sm0000-snabb/running/links"
    assert 'syscall.unlink("/run/x/switch/sm0000-snabb/running")' in script(SWITCH.start(wiring()))
    assert step.at == HOST
    assert step.argv[:2] == ("cat", f"{folder}/p0.tx -> p1.rx/rxpackets.counter")
    assert len(step.argv) == 1 + 6


def test_what_a_full_link_dropped_is_lost_where_it_leads() -> None:
    counted = SWITCH.counters.parse(wiring(), (KEPT,))
    assert counted == Counters(
        {
            "f0": PortCounters(rx=3170826 + 90422, tx=0, rx_dropped=None, tx_dropped=0),
            "f1": PortCounters(rx=0, tx=3170411, rx_dropped=None, tx_dropped=90422),
        }
    )


def test_what_the_bridge_had_no_room_for_is_lost_where_it_came_in() -> None:
    learning = wiring(semantics=Semantics.LEARNING)
    content = struct.pack("<12Q", *(7, 8, 2, 0, 0, 0), *(0, 0, 0, 5, 6, 1))
    counted = SWITCH.counters.parse(learning, (content,))
    assert counted.ports["f0"] == PortCounters(rx=10, tx=0, rx_dropped=2, tx_dropped=0)
    assert counted.ports["f1"] == PortCounters(rx=0, tx=5, rx_dropped=0, tx_dropped=1)


@given(st.binary().filter(lambda output: len(output) != 48))
def test_counters_of_another_length_are_garbled(output: bytes) -> None:
    with pytest.raises(ValueError, match="the counters of 2 links"):
        SWITCH.counters.parse(wiring(), (output,))


def test_the_version_is_that_of_the_build_and_nothing_is_left_of_asking() -> None:
    host = RecordingHost({("mktemp",): b"/tmp/tmp.x\n", ("snabb", "--version"): VERSION})
    version = SWITCH.probe(host)
    assert version.text == "2022.07 (396-gf32729274-dirty)"
    assert version.verified == "not verified"
    assert ("rm", "-rf", "/tmp/tmp.x") in host.ran


def test_something_else_of_that_name_is_refused() -> None:
    host = RecordingHost({("snabb", "--version"): b"snabb: not found"})
    with pytest.raises(Unavailable, match="does not tell its version") as refused:
        SWITCH.probe(host)
    assert "SWITCHMARK_SNABB=" in (refused.value.hint or "")
