"""These tests hold what VPP is configured with and typed into, and how its answers are parsed.

`show interface`, `runtime` and `hardware-interfaces` are what 26.10 printed, with other names of
interfaces; `stat.txt`, and the counters that tests write themselves, have their form."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchmark.errors import Unavailable
from switchmark.hosts.base import Completed
from switchmark.hosts.recording import RecordingHost
from switchmark.model.cpus import all_but
from switchmark.model.plan import Plan, Reserve, Run, Wait, Write
from switchmark.model.topology import Endpoint, PortKind, Semantics, Tuning, Wiring
from switchmark.switches.vpp import SWITCH
from wirings import wiring_of

DATA = Path(__file__).parent / "data" / "vpp-26.10"
VERSION = b"vpp v26.10-rc0~374-gb575ec2c56d built by root on vm at 2026-11-22T03:00:46\n"


def output_of(question: str) -> bytes:
    return (DATA / f"{question}.txt").read_bytes()


INTERFACES = output_of("show-interface")
NO_ERRORS = output_of("show-errors")
USED = output_of("stat")
RUNTIME = output_of("show-runtime")
SUMMARY = b"""\
Thread 0 vpp_main (lcore 0)
Time .2, 10.000000 sec internal node vector rate 0.00 loops/sec 407793.16
  vector rates in 0.0000e0, out 0.0000e0, drop 0.0000e0, punt 0.0000e0
---------------
Thread 1 vpp_wk_0 (lcore 1)
Time .2, 10.000000 sec internal node vector rate 0.00 loops/sec 100000.00
  vector rates in 0.0000e0, out 0.0000e0, drop 0.0000e0, punt 0.0000e0
"""
HARDWARE = output_of("show-hardware-interfaces").decode()


def link(name: str, rx: int, tx: int) -> dict[str, Any]:
    counts = {"packets": 0, "dropped": 0, "errors": 0}
    return {
        "ifname": name,
        "stats64": {"rx": {**counts, "packets": rx}, "tx": {**counts, "packets": tx}},
    }


LINKS = json.dumps([link("sm0000-p0", 10, 2), link("sm0000-p1", 2, 5)]).encode()
OF_SOCKETS = (INTERFACES, NO_ERRORS, USED, RUNTIME, SUMMARY, LINKS)

wiring = partial(wiring_of, program="vpp")


def file_lines(plan: Plan, name: str) -> list[str]:
    (file,) = (step for step in plan if isinstance(step, Write) and step.path.endswith(name))
    assert "/sm0000-vpp/" in file.path
    return file.content.decode().splitlines()


def typed(requested: Wiring) -> list[str]:
    return file_lines(SWITCH.start(requested), "ports.cli")


def configured(requested: Wiring) -> str:
    return "\n".join(file_lines(SWITCH.start(requested), "startup.conf"))


# --- what it is told -------------------------------------------------------------------------


def test_a_router_is_a_hop_and_a_patch_is_none() -> None:
    assert SWITCH.addressing(wiring(semantics=Semantics.ROUTED))["f0-f1"].routed == 1
    assert SWITCH.addressing(wiring())["f0-f1"].routed == 0


def test_memif_and_packet_sockets_have_the_queues_that_were_asked_for() -> None:
    second = typed(wiring(kind=PortKind.MEMIF, queues=2, descriptors=512))[1]
    assert second.endswith(" rx-queues 2 tx-queues 2 ring-size 512")
    first = typed(wiring(kind=PortKind.VETH, queues=2))[0]
    assert first.endswith(" num-rx-queues 2 num-tx-queues 2")


def test_as_a_function_it_takes_interfaces() -> None:
    ends = {f"f{i}": Endpoint(PortKind.VETH, "x", ifname=f"sm0000-e{i + 4}") for i in (0, 1)}
    requested = wiring(kind=PortKind.VETH, function_ends=ends)
    assert typed(requested)[0].startswith("create host-interface name sm0000-e4 ")
    assert "set interface state host-sm0000-e5 up" in typed(requested)


def test_each_core_has_a_worker_and_the_main_thread_none_of_them() -> None:
    assert "cpu { main-core 0 corelist-workers 3 }" in configured(wiring())
    assert "cpu { main-core 2 corelist-workers 0,1,3 }" in configured(wiring(cores=(1, 0, 3)))
    assert "cpu {" not in configured(wiring(cores=()))
    for cores, others in (((3,), "0-2,4-1023"), ((), "0-1023")):
        (pinned,) = (
            step.argv
            for step in SWITCH.start(wiring(cores=cores))
            if isinstance(step, Run) and step.argv[0] == "taskset"
        )
        assert pinned[3] == others == all_but(cores)


def test_workers_on_every_cpu_are_refused_before_anything_is_made() -> None:
    cpus = tuple(range(max(2, (os.cpu_count() or 1))))
    first = SWITCH.start(wiring_of(cores=cpus, program="/opt/vpp"))[0]
    assert isinstance(first, Run)
    refused = subprocess.run(first.argv, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert f"there is no CPU {len(cpus)}: use --switch-cores {len(cpus) - 1}" in refused.stderr
    # CPU 0, if it is free, belongs to the main thread.
    fewer = SWITCH.start(wiring_of(cores=(1, 2), program="/opt/vpp"))[0]
    assert isinstance(fewer, Run)
    assert subprocess.run(fewer.argv, check=False).returncode == 0
    assert SWITCH.start(wiring_of(cores=(0,), program="/opt/vpp"))[0].why != first.why


def test_buffers_are_as_many_as_are_asked_for() -> None:
    requested = wiring(tuning=Tuning(buffers=65536))
    assert "buffers { buffers-per-numa 65536 page-size" in configured(requested)
    (reserved,) = (step for step in SWITCH.start(requested) if isinstance(step, Reserve))
    assert reserved.megabytes == 160


def test_nics_have_the_queues_and_rings_that_were_asked_for_and_buffers_for_them() -> None:
    plain = wiring()
    first, second = plain.ports
    ports = (replace(first, nic="0000:03:00.0", nic_peer="0000:04:00.0"), second)
    requested = replace(plain, ports=ports, queues=2, descriptors=512)
    text = configured(requested)
    assert (
        "dpdk { dev 0000:03:00.0 { name nic0 num-rx-queues 2 num-tx-queues 2 num-rx-desc 512 "
        "num-tx-desc 512 } }" in text
    )
    assert "buffers-per-numa 18432" in text


def test_a_link_that_is_down_is_told_from_one_that_is_up() -> None:
    found = [
        re.search(step.check.pattern or "$", HARDWARE, re.MULTILINE) is not None
        for step in SWITCH.settled(wiring())
        if isinstance(step, Wait)
    ]
    assert found == [False, True]


def test_no_process_replaces_another_on_vhost_user_ports() -> None:
    """The links of the next process stayed down: it waits for notifications of the functions."""
    assert set(SWITCH.events(wiring())) == {"pause"}
    for kind in (PortKind.MEMIF, PortKind.VETH):
        assert set(SWITCH.events(wiring(kind=kind))) == {"pause", "restart", "kill"}


def test_what_it_cannot_do_is_refused() -> None:
    assert SWITCH.accepts(wiring()) is None
    crossed = wiring(4)
    flows = (*crossed.flows, replace(crossed.flows[0], id="more", sink="f2"))
    assert "--semantics learning" in str(SWITCH.accepts(replace(crossed, flows=flows)))
    learning = replace(crossed, flows=flows, semantics=Semantics.LEARNING)
    assert SWITCH.accepts(learning) is None
    assert "at most 255 ports" in str(SWITCH.accepts(wiring(256, semantics=Semantics.ROUTED)))


# --- what it says ----------------------------------------------------------------------------


def test_a_packet_sockets_losses_are_what_the_kernel_saw_more() -> None:
    found = SWITCH.counters.parse(wiring(kind=PortKind.VETH), OF_SOCKETS)
    first, second = found.ports["f0"], found.ports["f1"]
    assert (first.rx, first.rx_dropped, first.tx, first.tx_dropped) == (6, 4, 2, 0)
    assert (second.rx, second.rx_dropped, second.tx, second.tx_dropped) == (2, 0, 5, 1)


def test_idle_are_the_loops_that_found_nothing() -> None:
    found = SWITCH.counters.parse(wiring(kind=PortKind.VETH), OF_SOCKETS)
    assert found.idle_cycles == 103689
    assert found.busy_cycles == 158000 - 103689
    unpolled = RUNTIME.replace(b"polling ", b"interrupt wait ")
    commands = (*OF_SOCKETS[:3], unpolled, *OF_SOCKETS[4:])
    assert SWITCH.counters.parse(wiring(kind=PortKind.VETH), commands).busy_cycles is None


@pytest.mark.parametrize("garbled", range(len(OF_SOCKETS)))
def test_garbled_counters_are_a_value_error(garbled: int) -> None:
    if garbled == 1:
        return  # no error is a table without lines
    outputs = [b"}{" if i == garbled else text for i, text in enumerate(OF_SOCKETS)]
    with pytest.raises(ValueError):
        SWITCH.counters.parse(wiring(kind=PortKind.VETH), tuple(outputs))


@given(st.tuples(*(st.binary() | st.just(text) for text in OF_SOCKETS)))
def test_any_bytes_are_counters_or_a_value_error(outputs: tuple[bytes, ...]) -> None:
    try:
        found = SWITCH.counters.parse(wiring(kind=PortKind.VETH), outputs)
    except ValueError:
        return
    assert set(found.ports) == {"f0", "f1"}


def test_the_version_is_its_own_and_what_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SWITCHMARK_VPP", "/srv/vpp/bin/vpp")
    version = SWITCH.probe(RecordingHost({("/srv/vpp/bin/vpp",): VERSION}))
    assert (version.text, version.verified) == ("26.10-rc0~374-gb575ec2c56d", "not verified")
    (command, *_) = SWITCH.counters.commands(wiring(program="/srv/vpp/bin/vpp"))
    assert command.argv[0] == "/srv/vpp/bin/vppctl"
    with pytest.raises(Unavailable) as refused:
        SWITCH.probe(RecordingHost({("/srv/vpp/bin/vpp",): Completed(1, b"", b"")}))
    assert "SWITCHMARK_VPP" in str(refused.value.hint)
