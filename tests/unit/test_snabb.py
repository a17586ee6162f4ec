"""These tests drive Snabb without a host: its memory, its refusals, and the parsing of its
files."""

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
from switchmark.model.plan import Node, Reserve
from switchmark.model.test import Test
from switchmark.model.topology import Memory, Semantics, Wiring
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


def megabytes(wiring: Wiring) -> list[int]:
    return [step.megabytes for step in SWITCH.start(wiring) if isinstance(step, Reserve)]


def test_its_frames_are_in_hugepages_that_are_reserved_or_in_none() -> None:
    assert megabytes(wiring()) == [34]  # 3000 frames, 186 to a page: 2046 fit into two links
    assert megabytes(wiring(semantics=Semantics.LEARNING)) == [76]  # 7000, for four of them
    assert megabytes(wiring(18)) == [334]
    assert megabytes(wiring(memory=Memory("no-huge"))) == []


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
