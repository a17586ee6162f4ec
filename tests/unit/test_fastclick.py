"""These tests drive FastClick without a machine: its configuration, its command line, and the
parsing of the answers of its control socket."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchmark.errors import Unavailable
from switchmark.hosts.recording import RecordingHost
from switchmark.model.counters import PortCounters
from switchmark.model.plan import Node, Plan, Reserve, Spawn, Write
from switchmark.model.topology import Memory, PortKind, Semantics, Tuning, Wiring
from switchmark.switches.base import Counters
from switchmark.switches.fastclick import SWITCH
from wirings import wiring_of

GOODBYE = b"200 Goodbye!\r\n"
SPENT = b"2000000000\n"


def answers(**values: int) -> bytes:
    """Return an answer in the form in which version 2.1 wrote to its control socket, with these
    numbers."""
    handlers = [
        f"{end}{port}.{handler}"
        for port in (0, 1)
        for end, handler in (("f", "count"), ("f", "hw_dropped"), ("t", "count"), ("t", "dropped"))
    ]
    text = b"Click::ControlSocket/1.3\r\n"
    for name in (*handlers, "useful_kcycles", "clock.cycles_hz"):
        number = str(values.get(name.replace(".", "_"), 0))
        text += f"200 Read handler '{name}' OK\r\nDATA {len(number)}\r\n{number}".encode()
    return text + GOODBYE + SPENT


# The same of a build without `--enable-cpu-load`, which has no such handler.
NO_LOAD = b"511 No handler named 'useful_kcycles'\r\n"

ABOUT = b"""\
version:
2.1

classes:
DRRSched
FromDPDKDevice
ListenEtherSwitch
TSCClock
EtherSwitch
"""


@pytest.fixture(autouse=True)
def _bare_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWITCHMARK_FASTCLICK", "click")


wiring = partial(wiring_of, node=Node("sm0000-sw", "netns"), program="click")


def configuration(wiring: Wiring) -> list[str]:
    (write,) = (step for step in SWITCH.start(wiring) if isinstance(step, Write))
    assert write.path == "/run/x/switch/sm0000-switch.click"
    return write.content.decode().splitlines()


def argv(plan: Plan) -> tuple[str, ...]:
    (spawned,) = (step for step in plan if isinstance(step, Spawn))
    return spawned.argv


def test_a_bridge_stamps_frames_unless_the_kernel_tells_their_times() -> None:
    (*_, stamped) = configuration(wiring(semantics=Semantics.LEARNING))
    assert stamped == "f1 -> SetTimestamp(PER_BATCH true) -> [1]bridge[1] -> t1;"
    (*_, told) = configuration(wiring(semantics=Semantics.LEARNING, kind=PortKind.VETH))
    assert told == "f1 -> [1]bridge[1] -> t1;"


@pytest.mark.parametrize(
    ("cores", "queues", "threads", "offsets"),
    [(1, 1, 1, [0, 0, 0, 0]), (2, 1, 1, [0, 1, 0, 1]), (8, 2, 2, [0, 2, 4, 6])],
)
def test_ports_are_shared_out_among_threads(
    cores: int, queues: int, threads: int, offsets: list[int]
) -> None:
    several = wiring(4, cores=tuple(range(2, 2 + cores)), queues=queues)
    sources = [line for line in configuration(several) if "FromDPDKDevice" in line]
    expected = [f"MAXTHREADS {threads}, THREADOFFSET {offset})" for offset in offsets]
    assert [line.partition("BURST 32, ")[2].rstrip(";") for line in sources] == expected
    assert all(f"N_QUEUES {queues}" in line for line in sources)
    lcores = ",".join(f"{i}@{cpu}" for i, cpu in enumerate(several.cores))
    assert ("--lcores", lcores) in pairwise(argv(SWITCH.start(several)))


def test_its_mbufs_are_on_its_node_and_hold_a_frame_each() -> None:
    assert "DPDKInfo(NB_SOCKET_MBUF 0, NB_SOCKET_MBUF 65535, MBUF_SIZE 9152);" in configuration(
        wiring(memory=Memory(node=1), mtu=9000)
    )
    (small,) = (step for step in SWITCH.start(wiring()) if isinstance(step, Reserve))
    (large,) = (step for step in SWITCH.start(wiring(mtu=9000)) if isinstance(step, Reserve))
    assert 160 < small.megabytes < 300 < 600 < large.megabytes


def test_bursts_mbufs_and_rings_are_those_that_are_asked_for() -> None:
    usual, tuned = wiring(), wiring(tuning=Tuning(64, 8192), descriptors=512)
    lines = configuration(tuned)
    assert "DPDKInfo(NB_SOCKET_MBUF 8192);" in lines
    assert len([line for line in lines if "BURST 64" in line]) == 2
    assert len([line for line in lines if "NDESC 512" in line]) == 4
    few, many = (
        step.megabytes
        for variant in (tuned, usual)
        for step in SWITCH.start(variant)
        if isinstance(step, Reserve)
    )
    assert few < many
    veth = wiring(kind=PortKind.VETH, tuning=Tuning(64))
    assert "not on a veth" in (SWITCH.accepts(veth) or "")


def test_nics_are_opened_by_the_numbers_that_dpdk_gives_them() -> None:
    plain = wiring()
    a, b = plain.ports
    crossed = replace(
        plain, ports=(replace(a, nic="0000:03:00.1"), replace(b, nic="0000:03:00.0")), mtu=9000
    )
    lines = configuration(crossed)
    assert [line for line in lines if line.startswith("f0 :: FromDPDKDevice(1, ")]
    assert [line for line in lines if line.startswith("f1 ") and "MTU 9000" in line]
    assert ("-a", "0000:03:00.0") in pairwise(argv(SWITCH.start(crossed)))


def test_on_veth_it_is_pinned_without_dpdk() -> None:
    assert argv(SWITCH.start(wiring(kind=PortKind.VETH)))[:2] == ("click", "--affinity=3")


def test_what_it_cannot_make_is_refused() -> None:
    learning = wiring(semantics=Semantics.LEARNING)
    veth = wiring(kind=PortKind.VETH)
    assert SWITCH.accepts(learning) is SWITCH.accepts(veth) is SWITCH.accepts(wiring()) is None
    two = (2, 3)
    assert "one thread for EtherSwitch, not 2" in (
        SWITCH.accepts(replace(learning, cores=two)) or ""
    )
    assert "one thread for a packet socket" in (SWITCH.accepts(replace(veth, cores=two)) or "")
    assert "--queues 1" in (SWITCH.accepts(replace(veth, queues=2)) or "")
    fan = wiring(4)
    fan = replace(fan, flows=(*fan.flows, replace(fan.flows[0], sink="f2")))
    assert "fastclick connects ports in pairs" in (SWITCH.accepts(fan) or "")


@pytest.mark.parametrize(
    ("mode", "semantics", "kind", "missing"),
    [
        ("with EtherSwitch", "patch", "vhost-user", "FromDPDKDevice (configure --enable-dpdk)"),
        ("with FromDPDKDevice", "learning", "memif", "EtherSwitch (configure --enable-ethers"),
        ("with neither", "learning", "veth", "EtherSwitch"),
        ("with neither", "patch", "veth", None),
        ("with FromDPDKDevice EtherSwitch", "learning", "vhost-user", None),
    ],
)
def test_what_it_was_built_without_is_refused(
    mode: str, semantics: str, kind: str, missing: str | None
) -> None:
    requested = wiring(mode=mode, semantics=Semantics(semantics), kind=PortKind(kind))
    refused = SWITCH.accepts(requested)
    assert (refused is None) == (missing is None)
    assert (missing or "") in (refused or "")


def test_counters_and_busy_cycles_are_read_from_its_answers() -> None:
    output = answers(
        f0_count=11,
        f0_hw_dropped=2,
        t1_count=7,
        t1_dropped=4,
        useful_kcycles=5,
        clock_cycles_hz=10500,
    )
    assert SWITCH.counters.parse(wiring(), (output,)) == Counters(
        {
            "f0": PortCounters(rx=11, tx=0, rx_dropped=2, tx_dropped=0),
            "f1": PortCounters(rx=0, tx=7, rx_dropped=0, tx_dropped=4),
        },
        busy_cycles=5000,
        idle_cycles=16000,
    )


def test_busy_cycles_are_those_of_all_threads() -> None:
    one = b"'useful_kcycles' OK\r\nDATA 1\r\n0"
    output = answers(clock_cycles_hz=10000).replace(one, b"'useful_kcycles' OK\r\nDATA 3\r\n5 2")
    counted = SWITCH.counters.parse(wiring(), (output,))
    assert (counted.busy_cycles, counted.idle_cycles) == (7000, 13000)


def test_a_build_that_does_not_count_cycles_has_none() -> None:
    counted = b"200 Read handler 'useful_kcycles' OK\r\nDATA 1\r\n0"
    counters = SWITCH.counters.parse(wiring(), (answers(f0_count=3).replace(counted, NO_LOAD),))
    assert counters.busy_cycles is counters.idle_cycles is None
    assert counters.ports["f0"].rx == 3


def test_what_was_not_run_is_not_idle() -> None:
    """Half of the time another program had its CPU."""
    output = answers(useful_kcycles=9, clock_cycles_hz=10_000)
    for spent, idle in ((b"1000000000\n", 1000), (b"500000000\n", -4000)):
        counted = SWITCH.counters.parse(wiring(), (output.replace(SPENT, spent),))
        assert (counted.busy_cycles, counted.idle_cycles) == (9000, idle)
    unknown = SWITCH.counters.parse(wiring(), (output.replace(SPENT, b"0\n"),))
    assert unknown.busy_cycles is unknown.idle_cycles is None


def test_an_answer_that_breaks_off_is_garbled() -> None:
    whole = answers()
    for length in range(len(whole)):
        with pytest.raises(ValueError):
            SWITCH.counters.parse(wiring(), (whole[:length],))


@given(st.binary())
def test_answers_of_something_else_are_garbled(output: bytes) -> None:
    with pytest.raises(ValueError):
        SWITCH.counters.parse(wiring(), (output,))


def test_the_probe_tells_what_it_was_built_with() -> None:
    version = SWITCH.probe(RecordingHost({("click",): ABOUT}))
    assert (version.text, version.mode) == ("2.1", "with FromDPDKDevice EtherSwitch")
    assert version.verified == "not verified"
    without = ABOUT.replace(b"\nFromDPDKDevice", b"").replace(b"\nEtherSwitch", b"")
    assert SWITCH.probe(RecordingHost({("click",): without})).mode == "with neither"


def test_something_else_of_that_name_is_refused() -> None:
    with pytest.raises(Unavailable, match="is not FastClick") as refused:
        SWITCH.probe(RecordingHost({("click",): b"Usage: click COMMAND"}))
    assert "SWITCHMARK_FASTCLICK=" in (refused.value.hint or "")
