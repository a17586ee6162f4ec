"""These tests check the DPDK programs as switches: their command lines, addresses, memory, and
counters."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchmark.errors import Unavailable
from switchmark.hosts.base import Completed
from switchmark.hosts.programs import program_variable
from switchmark.hosts.recording import RecordingHost
from switchmark.model.plan import HOST, Plan, Reserve, Spawn
from switchmark.model.topology import Memory, PortKind, Semantics, Tuning, Wiring
from switchmark.switches import basicfwd, eal_ports, eal_telemetry, l2fwd, testpmd
from switchmark.switches.base import Switch
from wirings import wiring_of

SWITCHES: list[Switch] = [testpmd.SWITCH, basicfwd.SWITCH, l2fwd.SWITCH]
BOTH: list[Switch] = [testpmd.SWITCH, l2fwd.SWITCH]

STATS = {"ipackets": 10, "opackets": 4, "imissed": 1, "ierrors": 2, "rx_nombuf": 3}


@pytest.fixture(autouse=True)
def _bare_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("dpdk-l2fwd", "dpdk-skeleton"):
        monkeypatch.setenv(program_variable(name), name)


wiring = partial(wiring_of, both_ways=True)


def spawned(plan: Plan) -> Spawn:
    (found,) = (step for step in plan if isinstance(step, Spawn))
    return found


def eal_and_own(switch: Switch, w: Wiring) -> tuple[str, str]:
    """Return the command line before and after the `--` that ends EAL's options."""
    argv = spawned(switch.start(w)).argv
    separator = argv.index("--")
    return " ".join(argv[:separator]), " ".join(argv[separator + 1 :])


def answers(*stats: dict[str, Any]) -> tuple[bytes, ...]:
    return ("".join(json.dumps({"/ethdev/stats": stat}) + "\n" for stat in stats).encode(),)


# --- command lines ---------------------------------------------------------------------------


@pytest.mark.parametrize("switch", SWITCHES, ids=lambda s: s.name)
def test_hugepages_are_reserved_where_the_memory_is_taken(switch: Switch) -> None:
    plan = switch.start(wiring(memory=Memory(node=1)))
    assert isinstance(plan[0], Reserve)
    assert plan[0].node == 1
    options, _ = eal_and_own(switch, wiring(memory=Memory(node=1)))
    assert f"--in-memory --single-file-segments --socket-mem 0,{plan[0].megabytes} " in options


def test_the_main_lcore_of_testpmd_alone_forwards_nothing_and_shares_the_first_cpu() -> None:
    options, arguments = eal_and_own(testpmd.SWITCH, wiring(4, cores=(2, 5)))
    assert "--main-lcore 0 --lcores 0@2,1@2,2@5" in options
    assert "--nb-cores=2" in arguments
    assert "--lcores 0@2,1@5" in eal_and_own(l2fwd.SWITCH, wiring(4, cores=(2, 5)))[0]


def test_testpmd_follows_descriptors_bursts_and_buffers() -> None:
    requested = wiring(descriptors=256, tuning=Tuning(64, 65536))
    options, arguments = eal_and_own(testpmd.SWITCH, requested)
    assert "--rxd=256 --txd=256" in arguments
    assert "--burst=64" in arguments
    assert "--total-num-mbufs=65536" in arguments
    assert options != eal_and_own(testpmd.SWITCH, wiring())[0]  # it has more memory


def test_testpmd_refuses_fewer_buffers_than_its_rings_can_hold() -> None:
    needed = 2 * 2 * 4096 + 2 * 512
    requested = wiring(descriptors=4096, tuning=Tuning(buffers=needed))
    assert testpmd.SWITCH.accepts(requested) is None
    refusal = testpmd.SWITCH.accepts(replace(requested, tuning=Tuning(buffers=needed - 1))) or ""
    assert f"hint: --buffers {needed}" in refusal


def test_l2fwd_shares_its_ports_among_the_cores() -> None:
    _, arguments = eal_and_own(l2fwd.SWITCH, wiring(6, cores=(1, 2, 3, 4)))
    assert arguments == "-p 3f -P -q 2 -T 0 --portmap (0,1),(2,3),(4,5) --no-mac-updating"


def test_an_mbuf_fills_a_page_where_there_are_no_hugepages() -> None:
    def megabytes(**axes: Any) -> int:
        options, _ = eal_and_own(basicfwd.SWITCH, wiring(**axes))
        arguments = options.split()
        return int(arguments[arguments.index("-m" if "-m" in arguments else "--socket-mem") + 1])

    assert (
        2 * 8191 * 4096 < (megabytes(memory=Memory("no-huge")) << 20) < 2 * 8191 * 4096 + (68 << 20)
    )
    assert megabytes() < 112
    assert megabytes(ports=32) < 16 * megabytes()


# --- addresses -------------------------------------------------------------------------------


@pytest.mark.parametrize("switch", SWITCHES, ids=lambda s: s.name)
def test_a_wire_changes_nothing(switch: Switch) -> None:
    a = switch.addressing(wiring())["f0-f1"]
    assert (a.sent_src_mac, a.sent_dst_mac) == (a.seen_src_mac, a.seen_dst_mac)


@pytest.mark.parametrize("switch", BOTH, ids=lambda s: s.name)
@pytest.mark.parametrize(
    ("kind", "argument"),
    [(PortKind.VHOST_USER, "56:48:4f:53:54:03"), (PortKind.MEMIF, "02:52:4d:00:00:03")],
)
def test_what_leaves_a_port_has_its_mac_as_source(
    switch: Switch, kind: PortKind, argument: str
) -> None:
    w = wiring(4, kind=kind, semantics=Semantics.STATIC)
    a = switch.addressing(w)["f2-f3"]
    ends = switch.endpoints(w)
    assert a.seen_src_mac == argument
    assert a.seen_dst_mac == ends["f3"].mac
    assert a.sent_src_mac == ends["f2"].mac
    if switch is l2fwd.SWITCH:  # which makes up the MAC of the sink
        assert ends["f3"].mac == "02:00:00:00:00:03"


# --- refusals --------------------------------------------------------------------------------


@pytest.mark.parametrize("switch", SWITCHES, ids=lambda s: s.name)
def test_only_pairs_are_accepted(switch: Switch) -> None:
    assert switch.accepts(wiring(4)) is None
    assert "3 ports are not pairs" in str(switch.accepts(wiring(3)))
    crossed = wiring(4)
    crossed = replace(crossed, flows=(replace(crossed.flows[0], sink="f2"),))
    assert "cannot connect port 0 (f0) to port 2 (f2)" in str(switch.accepts(crossed))
    assert "at most 3" in str(switch.accepts(wiring(34)))


@pytest.mark.parametrize("switch", SWITCHES, ids=lambda s: s.name)
def test_a_mac_that_only_the_nic_knows_is_not_written(switch: Switch) -> None:
    w = with_nics("0000:03:00.0", None, node=HOST)
    assert switch.accepts(w) is None
    rewrites = replace(w, semantics=Semantics.STATIC)
    assert "--semantics patch" in str(switch.accepts(rewrites))


def with_nics(*names: str | None, **options: Any) -> Wiring:
    w = wiring(len(names), **options)
    ports = (replace(p, nic=n, nic_peer=n and "x") for p, n in zip(w.ports, names, strict=True))
    return replace(w, ports=tuple(ports))


def test_dpdk_numbers_nics_by_their_addresses_before_virtual_ports() -> None:
    w = with_nics(None, "0000:10:00.0", "10000:01:00.0", "0000:03:00.1")
    assert eal_ports.device_ids(w) == {"f0": 3, "f1": 1, "f2": 2, "f3": 0}
    (counters,) = testpmd.SWITCH.counters.commands(w)
    assert [question.rpartition(",")[2] for question in counters.argv[3:]] == list("3120")
    assert "--portlist=3,1,2,0" in eal_and_own(testpmd.SWITCH, w)[1]
    assert "--portmap (3,1),(2,0)" in eal_and_own(l2fwd.SWITCH, w)[1]
    assert "neighbours" in str(basicfwd.SWITCH.accepts(w))
    options, _ = eal_and_own(basicfwd.SWITCH, w)
    assert "-a 0000:10:00.0 -a 10000:01:00.0 -a 0000:03:00.1 " in options
    assert "--no-pci" not in options
    assert options.count("--vdev") == 1
    assert basicfwd.SWITCH.accepts(with_nics("0000:03:00.1", "0000:03:00.0")) is None


def test_l2fwd_says_how_many_cores_its_ports_need() -> None:
    assert l2fwd.SWITCH.accepts(wiring(14)) is None
    assert "--switch-cores 2" in str(l2fwd.SWITCH.accepts(wiring(16)))
    assert l2fwd.SWITCH.accepts(wiring(30, cores=(1, 2))) is None


def test_testpmd_refuses_more_rings_than_it_can_print() -> None:
    assert testpmd.SWITCH.accepts(wiring(8, queues=16)) is None
    assert "128 queue pairs" in str(testpmd.SWITCH.accepts(wiring(10, queues=16)))


# --- counters --------------------------------------------------------------------------------


@pytest.mark.parametrize("switch", SWITCHES, ids=lambda s: s.name)
def test_what_was_read_and_not_sent_was_dropped_on_the_way_out(switch: Switch) -> None:
    outputs = answers({**STATS, "ipackets": 100}, {**STATS, "opackets": 60})
    found = switch.counters.parse(wiring(), outputs).ports
    assert (found["f0"].rx, found["f0"].rx_dropped) == (100, 6)
    assert (found["f1"].tx, found["f1"].tx_dropped) == (60, 40)


def test_counters_read_while_frames_move_drop_no_less_than_nothing() -> None:
    outputs = answers({**STATS, "ipackets": 100}, {**STATS, "opackets": 101})
    assert eal_telemetry.parse_eal_counters(wiring(), outputs).ports["f1"].tx_dropped == 0


@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"}{",
        b"\xff\n\xff",
        b"null\nnull\n",
        b"[]\n[]\n",
        b"[" * 100_000 + b"\n" + b"[" * 100_000,
        *answers(STATS),
        *answers(STATS, STATS, STATS),
        *answers(STATS, {}),
        *answers(STATS, {**STATS, "ipackets": None}),
        *answers(STATS, {**STATS, "opackets": "7"}),
        *answers(STATS, {**STATS, "imissed": -1}),
        *answers(STATS, {**STATS, "imissed": True}),
        b'{"/ethdev/stats": null}\n{"/ethdev/stats": null}\n',
    ],
)
def test_garbled_counters_are_a_value_error(output: bytes) -> None:
    with pytest.raises(ValueError):
        eal_telemetry.parse_eal_counters(wiring(), (output,))


@given(st.binary() | st.lists(st.sampled_from([*answers(STATS), b"\n", b"{", b"1"])).map(b"".join))
def test_any_bytes_are_counters_or_a_value_error(output: bytes) -> None:
    try:
        found = eal_telemetry.parse_eal_counters(wiring(), (output,))
    except ValueError:
        return
    assert set(found.ports) == {"f0", "f1"}


# --- probes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("switch", SWITCHES, ids=lambda s: s.name)
def test_the_version_is_that_of_dpdk(switch: Switch) -> None:
    host = RecordingHost({(): Completed(0, b"", b"EAL: RTE Version: 'DPDK 22.11.11'\n")})
    assert switch.probe(host).text == "22.11.11"
    with pytest.raises(Unavailable, match="does not tell its version"):
        switch.probe(RecordingHost())


@pytest.mark.parametrize(
    ("switch", "hint"),
    [
        (testpmd.SWITCH, "apt-get install dpdk-dev"),
        (basicfwd.SWITCH, "make setup"),
        (l2fwd.SWITCH, "make setup"),
    ],
)
def test_a_missing_program_is_named_with_what_brings_it(switch: Switch, hint: str) -> None:
    class Without(RecordingHost):
        def run(self, argv: tuple[str, ...], **options: Any) -> Completed:
            raise Unavailable(f"{argv[0]} is not installed")

    with pytest.raises(Unavailable, match="is not installed") as refused:
        switch.probe(Without())
    assert refused.value.hint == hint
