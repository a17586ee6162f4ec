"""These tests check OVS with DPDK without a host: its commands, and the parsing of its answers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchmark.errors import Unavailable
from switchmark.hosts.recording import RecordingHost
from switchmark.model.counters import PortCounters
from switchmark.model.plan import Node, Run
from switchmark.model.topology import Memory, PortKind, Semantics, Topology, Tuning, Wiring
from switchmark.switches.ovs_dpdk import SWITCH

# As OVS 3.1 printed them after a receiver that was too slow: 6780128 = 475296 + 6304832.
SHOWN = b"""\
netdev@ovs-netdev:
  lookups: hit:6780127 missed:1 lost:0
  flows: 1
  port 0: ovs-netdev (tap)
    RX packets:0 errors:0 dropped:0 overruns:0 frame:0
    TX packets:0 errors:0 dropped:0 aborted:0 carrier:0
    collisions:0
    RX bytes:0  TX bytes:0
  port 1: p0 (dpdkvhostuserclient: configured_rx_queues=1, configured_tx_queues=1, mtu=1500, \
requested_rx_queues=1, requested_tx_queues=1)
    RX packets:6780128 errors:? dropped:0 overruns:? frame:?
    TX packets:0 errors:? dropped:0 aborted:? carrier:?
    collisions:?
    RX bytes:433928192 (413.8 MiB)  TX bytes:0
  port 2: p1 (dpdkvhostuserclient: configured_rx_queues=1, configured_tx_queues=1, mtu=1500, \
requested_rx_queues=1, requested_tx_queues=1)
    RX packets:0 errors:? dropped:0 overruns:? frame:?
    TX packets:475296 errors:? dropped:6304832 aborted:? carrier:?
    collisions:?
    RX bytes:0  TX bytes:30418944 (29.0 MiB)
  port 3: br0 (tap)
    RX packets:0 errors:0 dropped:0 overruns:0 frame:0
    TX packets:0 errors:0 dropped:6780128 aborted:0 carrier:0
    collisions:0
    RX bytes:0  TX bytes:0
"""

WITHOUT_FRONT_ENDS = b"""\
netdev@ovs-netdev:
  lookups: hit:0 missed:0 lost:0
  flows: 0
  port 1: p0 (dpdkvhostuserclient: configured_rx_queues=1, configured_tx_queues=1, mtu=1500, \
requested_rx_queues=1, requested_tx_queues=1)
, could not retrieve stats (Protocol error)  port 2: p1 (dpdkvhostuserclient: \
configured_rx_queues=1, configured_tx_queues=1, mtu=1500, requested_rx_queues=1, \
requested_tx_queues=1)
, could not retrieve stats (Protocol error)  port 3: br0 (tap)
    RX packets:0 errors:0 dropped:0 overruns:0 frame:0
    TX packets:0 errors:0 dropped:0 aborted:0 carrier:0
    collisions:0
    RX bytes:0  TX bytes:0
"""

CYCLES = b"""\
pmd thread numa_id 0 core_id 1:
  packets received: 6780128
  avg. packets per output batch: 32.00
  idle cycles: 14283898559 (84.30%)
  processing cycles: 2659381417 (15.70%)
  avg cycles per packet: 2498.96 (16943279976/6780128)
  avg processing cycles per packet: 392.23 (2659381417/6780128)
pmd thread numa_id 0 core_id 2:
  packets received: 0
  idle cycles: 5 (99.00%)
  processing cycles: 3 (1.00%)
main thread:
  packets received: 0
"""


def wiring(pairs: int = 1, semantics: Semantics = Semantics.LEARNING) -> Wiring:
    t = Topology()
    for i in range(pairs):
        (a,), (b,) = t.function(f"f{2 * i}"), t.function(f"f{2 * i + 1}")
        t.flow(a, b)
    return Wiring(
        prefix="sm0000",
        run_dir="/run/x",
        node=Node("sm0000-sw", "netns"),
        ports=t.ports,
        flows=tuple(t.flows),
        kind=PortKind.VHOST_USER,
        semantics=semantics,
        cores=(1,),
    )


def run_of(w: Wiring, tool: str, word: str = "") -> Run | None:
    """Return the command of that tool with that word."""
    for step in SWITCH.start(w) + SWITCH.join(w):
        if isinstance(step, Run) and step.argv[0] == tool and (not word or word in step.argv):
            return step
    return None


def test_the_settings_stand_before_dpdk_is_initialized() -> None:
    w = replace(wiring(), cores=(1, 3), memory=Memory(node=1))
    step = run_of(w, "ovs-vsctl", "other_config:dpdk-init=true")
    assert step is not None
    assert step.argv[1] == "--timeout=10"
    assert step.argv[-3:] == (
        'other_config:dpdk-extra="--in-memory --single-file-segments --socket-mem=0,800 --no-pci '
        '--file-prefix=sm0000"',
        "other_config:pmd-cpu-mask=0xa",
        "other_config:dpdk-init=true",
    )


@pytest.mark.parametrize(
    ("cores", "others"),
    [((1,), "0,2-1023"), ((0,), "1-1023"), ((3, 2), "0-1,4-1023"), ((0, 1), "2-1023")],
)
def test_other_threads_keep_off_the_cpus_of_the_pmds(cores: tuple[int, ...], others: str) -> None:
    step = run_of(replace(wiring(), cores=cores), "taskset")
    assert step is not None
    assert step.argv[-2:] == (others, "${sm0000-vswitchd-pid}")


def test_receive_queues_stay_with_cpus_in_turn_where_that_is_asked_for() -> None:
    requested = replace(wiring(), tuning=Tuning(fixed_queues=True), cores=(3, 5, 7), queues=2)
    bridge = run_of(requested, "ovs-vsctl", "add-br")
    assert bridge is not None
    assert [word for word in bridge.argv if "affinity" in word] == [
        'other_config:pmd-rxq-affinity="0:3,1:5"',
        'other_config:pmd-rxq-affinity="0:7,1:3"',
    ]
    for other in (replace(requested, tuning=Tuning()), replace(requested, cores=())):
        assert not any("affinity" in str(step) for step in SWITCH.join(other))


def test_what_it_cannot_make_is_refused() -> None:
    w = wiring()
    assert SWITCH.accepts(w) is None
    assert "hint: --memory hugepages" in (
        SWITCH.accepts(replace(w, memory=Memory("no-huge"))) or ""
    )
    fan = wiring(2, Semantics.STATIC)
    fan = replace(fan, flows=(*fan.flows, replace(fan.flows[0], index=2, sink="f2")))
    assert "port f0 must have one peer, not 2" in (SWITCH.accepts(fan) or "")
    assert SWITCH.accepts(replace(fan, semantics=Semantics.LEARNING)) is None
    copied = replace(fan, flows=(fan.flows[0], replace(fan.flows[0], sink="f2")))
    assert "port f0 must" not in (SWITCH.accepts(copied) or "")


def test_every_frame_that_it_read_is_sent_or_dropped() -> None:
    found = SWITCH.counters.parse(wiring(), (SHOWN, CYCLES))
    assert found.ports == {
        "f0": PortCounters(6780128, 0, 0, 0),
        "f1": PortCounters(0, 475296, 0, 6304832),
    }
    assert (found.busy_cycles, found.idle_cycles) == (2659381420, 14283898564)


def test_a_port_without_a_front_end_has_no_counters() -> None:
    found = SWITCH.counters.parse(wiring(), (WITHOUT_FRONT_ENDS, CYCLES))
    assert found.ports == {"f0": PortCounters(), "f1": PortCounters()}


@pytest.mark.parametrize(
    ("output", "cycles"),
    [
        (b"", CYCLES),
        (SHOWN, b""),
        (b"\xff", CYCLES),
        (SHOWN.replace(b": p1 (", b": p7 ("), CYCLES),
        (SHOWN.replace(b"RX packets:6780128", b"RX packets:?!"), CYCLES),
        (SHOWN[:400], CYCLES),
    ],
)
def test_garbled_counters_are_a_value_error(output: bytes, cycles: bytes) -> None:
    with pytest.raises(ValueError):
        SWITCH.counters.parse(wiring(), (output, cycles))


@given(st.binary(max_size=200), st.integers(0, len(SHOWN)), st.integers(0, 50))
def test_any_bytes_are_counters_or_a_value_error(noise: bytes, start: int, cut: int) -> None:
    try:
        found = SWITCH.counters.parse(
            wiring(), (SHOWN[:start] + noise + SHOWN[start + cut :], CYCLES)
        )
    except ValueError:
        return
    assert set(found.ports) == {"f0", "f1"}


def test_its_version_names_dpdks_too() -> None:
    daemon = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"
    schema = {"/usr/share/openvswitch/vswitch.ovsschema": b"{}"}
    printed = b"ovs-vswitchd-dpdk (Open vSwitch) 3.1.0\nDPDK 22.11.11\n"
    version = SWITCH.probe(RecordingHost({(daemon,): printed}, files=schema))
    assert version.text == "3.1.0 (DPDK 22.11.11)"
    with pytest.raises(Unavailable) as refused:
        SWITCH.probe(RecordingHost({(daemon,): b"?"}, files=schema))
    assert refused.value.hint == "apt-get install openvswitch-switch-dpdk"
