"""Books, verdicts and doubts from the counts of a trial; noise from the kernel's files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from switchmark.hosts.recording import RecordingHost
from switchmark.lab.judging import JudgedTrials
from switchmark.metrics.balance import balanced
from switchmark.metrics.doubts import TABLE, passing
from switchmark.metrics.latency import PERCENTILES
from switchmark.metrics.throughput import is_drifting, is_uncertain
from switchmark.metrics.verdict import judge, rate_interval, verdict
from switchmark.model.cable import CableRate, Calibration
from switchmark.model.counters import PathCounters
from switchmark.model.cpus import Cpu
from switchmark.model.evidence import Balance
from switchmark.model.latency import Latency
from switchmark.model.noise import Jitter, NoiseCertificate
from switchmark.model.place import Place, PlaceKind
from switchmark.model.record import FlowCounts, GateResult, PartReport, TrialResult, TrialSpec
from switchmark.model.test import Test
from switchmark.model.topology import Findings
from switchmark.observe.noise import Snapshot
from switchmark.path.placement import place
from switchmark.path.resolving import resolve
from switchmark.path.ways import ways_of

PORTS = ("f0", "f1")
MAX = TrialSpec(rate_pps=None, duration_s=1, warmup_s=0)
PACED = TrialSpec(rate_pps=1000, duration_s=1, warmup_s=0)

DIRECT = Calibration(
    switch="direct",
    rate_pps=(980_000, 1_000_000, 1_020_000),
    sent_pps=1_000_000,
    sender_ns=(100, 1000),
    receiver_ns=(100, 500),
)


def trial(pps: int = 1_000_000, *, lost: int = 0, **changes: Any) -> TrialResult:
    """Return a second at `pps` sent, evenly received but for what is lost; nobody is idle or
    blocked."""
    parts = (
        PartReport(part="f0", roles=("sender",), cpu=0, cores=1, user_cores=0.1, polls=1000),
        PartReport(
            part="f1", roles=("receiver",), cpu=1, cores=1, user_cores=0.1, polls=1000,
            empty_polls=500, idle=0.1,
        ),
    )  # fmt: skip
    interval = (pps - lost) // 10
    return TrialResult.model_validate(
        {
            "spec": MAX,
            "elapsed_ns": 10**9,
            "tx_frames": pps,
            "tx_unsent": 0,
            "rx_frames": pps - lost,
            "rx_bytes": 0,
            "lost": lost,
            "lost_at": {},
            "intervals": tuple(interval + (i % 2) for i in range(10)),
            "parts": parts,
            **changes,
        }
    )


def parts(sender: dict[str, Any], receiver: dict[str, Any]) -> tuple[PartReport, ...]:
    one, two = trial().parts
    return one.model_copy(update=sender), two.model_copy(update=receiver)


def port(rx: int, tx: int) -> dict[str, Any]:
    return {"rx": rx, "tx": tx, "rx_dropped": 0, "tx_dropped": 0}


def placed(found: TrialResult) -> dict[str, int]:
    """Return its lost frames by place, as a record has them."""
    return {str(place): frames for place, frames in found.lost_at.items()}


UNCOUNTED = dict.fromkeys(port(0, 0))
"""The counters of a port at which the switch does not count."""

PASSED = {"f0@switch": port(10**6, 0), "f1@switch": port(0, 10**6)}


@pytest.mark.parametrize(
    ("found", "dedicated_core", "expected"),
    [
        (trial(1000, spec=PACED), False, "offered-load"),
        (trial(1000, spec=PACED, lost=100, lost_at={"f0@switch in": 100}), True, "switch"),
        (trial(1000, spec=PACED, lost=100, lost_at={"function f2": 90}), True, "function"),
        (trial(1000, spec=PACED, lost=100, lost_at={"ring f1": 90}), True, "receiver"),
        (trial(800_000), False, "switch"),
        (trial(950_000), False, "sender"),
        (trial(800_000, doubts=("host-busy",)), False, "host"),
        (trial(800_000, evidence={"window": {"stolen": 0.2}}), False, "host"),
        (trial(900_000, lost=400_000, lost_at={"inside switch": 400_000}), True, "switch"),
        (trial(900_000, lost=400_000), True, "unknown"),
        (trial(900_000), True, "sender"),
        (trial(400_000), True, "sender"),
        # One that waits long for room looks seldom: it is not blocked often.
        (trial(400_000, parts=parts({"blocked": 100}, {})), True, "switch"),
        (trial(600_000, parts=parts({"blocked": 100}, {})), True, "sender"),
        (trial(900_000, parts=parts({"blocked": 500}, {})), True, "switch"),
        (trial(900_000, parts=parts({}, {"empty_polls": 10})), True, "receiver"),
        (trial(200_000, parts=parts({"user_cores": 0.9}, {})), False, "sender"),
        # Of 4 us more than on the cable 2.4 are its own code's, then 1.4: the rest is the switch's.
        (trial(200_000, parts=parts({"user_cores": 0.5}, {})), False, "sender"),
        (trial(200_000, parts=parts({"user_cores": 0.3}, {})), False, "switch"),
        # 30 ms of CPU time are too little to be divided between the kernel and the program.
        (trial(12_000, parts=parts({"cores": 0.03, "user_cores": 0.03}, {})), False, "switch"),
        # One that waits for room, or for frames, takes long for each too, without being the limit.
        (trial(200_000, parts=parts({"user_cores": 0.9, "blocked": 300}, {})), False, "switch"),
        (
            trial(
                900_000,
                lost=800_000,
                lost_at={"f1@switch out": 450_000, "inside switch": 350_000},
                doubts=("host-busy",),
                parts=parts({}, {"user_cores": 0.9, "idle": 0.3}),
            ),
            True,
            "host",
        ),
        (
            trial(
                900_000,
                lost=700_000,
                lost_at={"inside switch": 700_000},
                parts=parts({"user_cores": 0.9}, {}),
            ),
            True,
            "switch",
        ),
        (
            trial(
                900_000,
                lost=800_000,
                lost_at={"ring f1": 800_000},
                doubts=("host-busy",),
                parts=parts({}, {"user_cores": 0.9}),
            ),
            False,
            "receiver",
        ),
        (
            trial(
                900_000,
                lost=900_000,
                lost_at={"ring f1": 800_000},
                doubts=("host-busy",),
                parts=parts({}, {"user_cores": 0.9}),
            ),
            False,
            "receiver",
        ),
        (
            trial(
                900_000,
                lost=800_000,
                lost_at={"ring f1": 800_000},
                doubts=("cores-shared",),
                parts=parts({}, {"empty_polls": 900}),
            ),
            True,
            "host",
        ),
    ],
)
def test_who_was_the_limit(found: TrialResult, dedicated_core: bool, expected: str) -> None:
    limit, evidence = judge(found, DIRECT, dedicated_core=dedicated_core)
    assert limit == expected, evidence.rule


@pytest.mark.parametrize(
    ("lost", "together", "expected"),
    [(0, False, "receiver"), (0, True, "sender"), (40_000, True, "sender")],
)
def test_a_receiver_that_takes_turns_with_its_sender_is_never_idle(
    lost: int, together: bool, expected: str
) -> None:
    busy = parts({}, {"empty_polls": 0})
    found = trial(lost=lost, lost_at={"ring f1": lost}, parts=busy)
    limit, evidence = judge(found, DIRECT, dedicated_core=True, together=together)
    assert limit == expected, evidence.rule


CHAIN = (*parts({}, {}), PartReport(part="f2", roles=("forwarder",), cpu=0, cores=1))
FUNCTIONS = DIRECT.model_copy(update={"functions": CableRate(rate_pps=(590_000, 600_000, 610_000))})


@pytest.mark.parametrize(
    ("pps", "calibration", "dedicated_core", "expected"),
    [
        (950_000, FUNCTIONS, False, "sender"),
        (570_000, FUNCTIONS, False, "function"),
        (500_000, FUNCTIONS, False, "switch"),
        (500_000, DIRECT, False, "unknown"),
        (950_000, FUNCTIONS, True, "sender"),
        (570_000, FUNCTIONS, True, "function"),
        (500_000, FUNCTIONS, True, "switch"),
    ],
)
def test_who_was_the_limit_of_a_chain(
    pps: int, calibration: Calibration, dedicated_core: bool, expected: str
) -> None:
    limit, evidence = judge(trial(pps, parts=CHAIN), calibration, dedicated_core=dedicated_core)
    assert limit == expected, evidence.rule


@pytest.mark.parametrize(
    ("doubts", "user_cores", "expected"),
    [
        (("cores-shared",), 0.9, "receiver"),
        ((), 0.9, "function"),
        (("cores-shared",), 0.1, "function"),
    ],
)
def test_a_busy_receiver_takes_the_time_of_a_function_on_its_core(
    doubts: tuple[str, ...], user_cores: float, expected: str
) -> None:
    slow = parts({}, {"user_cores": user_cores, "idle": 0.0})
    found = trial(
        200_000,
        lost=180_000,
        lost_at={"ring f1": 60_000, "function f2": 120_000},
        doubts=doubts,
        parts=(*slow, CHAIN[2]),
    )
    limit, evidence = judge(found, FUNCTIONS, dedicated_core=False)
    assert limit == expected, evidence.rule


def test_functions_on_cables_are_slower_than_their_ends_by_themselves() -> None:
    assert (
        judge(trial(500_000, parts=CHAIN), DIRECT, dedicated_core=False, cable=True)[0]
        == "function"
    )
    assert (
        judge(trial(950_000, parts=CHAIN), DIRECT, dedicated_core=False, cable=True)[0] == "sender"
    )


@pytest.mark.parametrize(
    ("sent", "doubts", "expected"),
    [
        (950_000, (), "sender"),
        (700_000, (), "switch"),
        # Where receivers share cores the ends of one copy do not bound those of two from below.
        (700_000, ("cores-shared",), "unknown"),
        (400_000, ("cores-shared",), "switch"),
    ],
)
def test_who_was_the_limit_of_copies(sent: int, doubts: tuple[str, ...], expected: str) -> None:
    apart = CableRate(rate_pps=(990_000, 1_000_000, 1_010_000))
    calibration = DIRECT.model_copy(update={"apart": apart})
    found = trial(
        sent,
        copies=2,
        rx_frames=2 * sent,
        intervals=tuple(2 * sent // 10 + (i % 2) for i in range(10)),
        doubts=doubts,
    )
    limit, evidence = judge(found, calibration, dedicated_core=False)
    assert limit == expected, evidence.rule


@pytest.mark.parametrize(
    ("cycles", "share"),
    [
        ({"busy_cycles": 10, "idle_cycles": 0}, 1.0),
        ({"busy_cycles": 0, "idle_cycles": 10}, 0.0),
        ({"busy_cycles": 1, "idle_cycles": 3}, 0.25),
        ({"busy_cycles": 10, "idle_cycles": None}, None),
        ({"busy_cycles": 0, "idle_cycles": 0}, None),
        ({}, None),
    ],
)
def test_a_switch_is_as_busy_as_its_cycles_say(
    cycles: dict[str, int | None], share: float | None
) -> None:
    _, evidence = judge(trial(counters={"switch": cycles}), None, dedicated_core=True)
    assert evidence.switch_busy == share


def test_nobody_is_blamed_without_a_calibration() -> None:
    assert judge(trial(800_000), None, dedicated_core=False)[0] == "unknown"


def test_intervals_that_overlap_direct_do_not_charge_the_switch() -> None:
    shaky = trial(850_000, intervals=(85_000, *(20_000, 150_000) * 4, 85_000))
    assert rate_interval(shaky)[2] > DIRECT.rate_pps[0]
    assert judge(shaky, DIRECT, dedicated_core=False)[0] == "sender"


def test_trials_that_disagree_have_no_verdict() -> None:
    def verdict_of(*names: str) -> str:
        return verdict([trial(verdict=name) for name in names])

    assert verdict_of("switch", "switch") == "switch"
    assert verdict_of("offered-load", "switch") == "switch"
    assert verdict_of("sender", "switch") == verdict_of() == "unknown"


def test_losses_at_a_function_are_its_own_whoever_counts_them() -> None:
    chain = (*trial().parts, PartReport(part="f2", roles=("forwarder",), cpu=0, cores=1))
    lost_at = {"ring f2.0": 30, "f2.0@switch out": 30, "function f2": 20, "ring f1": 20}
    found = trial(1000, spec=PACED, lost=100, lost_at=lost_at, parts=chain)
    limit, evidence = judge(found, None, dedicated_core=True)
    assert (limit, evidence.lost_by) == ("function", {"function": 80, "receiver": 20})


def test_what_a_function_did_not_pass_on_is_placed_there() -> None:
    counters = {
        "f0@switch": port(100, 0),
        "f2.0@switch": port(0, 100),
        "f2.1@switch": port(70, 0),
        "f1@switch": port(0, 70),
    }
    found = balanced(
        trial(100, lost=30, lost_at={"function f2": 10}, counters=counters),
        ports=("f0", "f1", "f2.0", "f2.1"),
        through=False,
        functions={"f2": ["f2.0", "f2.1"]},
    )
    assert placed(found) == {"function f2": 30}


def test_a_frame_lost_before_it_is_copied_is_lost_in_every_copy() -> None:
    counters = {
        "f0": port(0, 100),
        "f0@switch": port(90, 0),
        "f1@switch": port(0, 90),
        "f2@switch": port(0, 85),
        "f1": port(90, 0),
        "f2": port(85, 0),
    }
    copied = trial(100, lost=0, rx_frames=175, copies=2, counters=counters)
    copied = copied.model_copy(update={"lost": 25})
    found = balanced(copied, ports=("f0", "f1", "f2"), through=True)
    assert placed(found) == {"f0 out": 20, "inside switch": 5}
    assert found.unaccounted == 0


def test_frames_that_no_counter_calls_lost_are_placed_by_the_difference() -> None:
    counters = {
        "f0": port(0, 100),
        "f0@switch": port(95, 0),
        "f1@switch": port(0, 80),
        "f1": port(77, 0),
    }
    found = balanced(trial(100, lost=25, counters=counters), ports=PORTS, through=True)
    assert placed(found) == {"f0 out": 5, "inside switch": 15, "f1 in": 3}
    assert found.unaccounted == 2
    assert found.evidence.balance[Place(PlaceKind.INSIDE_SWITCH)] == Balance(95, 80)


@pytest.mark.parametrize(
    ("through", "queue", "chain"),
    [(True, "f1@switch out", {}), (False, "f2.0@switch out", {"f2": ["f2.0", "f2.1"]})],
)
def test_frames_of_before_took_the_place_of_others_inside(
    through: bool, queue: str, chain: dict[str, list[str]]
) -> None:
    """A queue held 20 of the warm-up. Of the phase 15 stay there, and 5 it has no room for."""
    counters = {"f0@switch": port(100, 0), "f1@switch": port(0, 100)}
    if chain:
        counters |= {"f2.0@switch": port(0, 100), "f2.1@switch": port(100, 0)}
    found = balanced(
        trial(100, lost=20, lost_at={queue: 5}, counters=counters, evidence={"left_over": 20}),
        ports=(*PORTS, *(port for ports in chain.values() for port in ports)),
        through=through,
        functions=chain,
    )
    assert placed(found) == {queue: 5, "inside switch": 15}
    assert found.unaccounted == 0


def test_what_announces_a_mac_again_makes_up_for_no_lost_frame() -> None:
    """Of two copies of each of 100 frames 3 are lost in the switch and 1 behind it; a receiver has
    announced its MAC 5 times."""
    counters = {"f0@switch": port(100, 5), "f1@switch": port(5, 99), "f2@switch": port(0, 98)}
    found = trial(100, copies=2, counters=counters, evidence={"announced": 5}).model_copy(
        update={"lost": 4, "rx_frames": 196}
    )
    found = balanced(found, ports=("f0", "f1", "f2"), through=True)
    assert placed(found) == {"inside switch": 3, "from switch": 1}
    assert found.unaccounted == 0


def test_what_is_placed_already_is_not_placed_twice() -> None:
    counters = {"f0@switch": port(100, 0), "f1@switch": port(0, 80)}
    lost_at = {"f1@switch out": 20, "ring f1": 5}
    found = balanced(
        trial(100, lost=25, lost_at=lost_at, counters=counters), ports=PORTS, through=True
    )
    assert placed(found) == lost_at


def test_foreign_frames_never_make_more_lost_than_were_lost() -> None:
    counters = {"f0@switch": port(500, 0), "f1@switch": port(0, 90)}
    found = balanced(trial(100, lost=10, counters=counters), ports=PORTS, through=True)
    assert placed(found) == {"inside switch": 10}


def arrived(**flows: int) -> tuple[FlowCounts, ...]:
    names = {name.replace("_", "-"): frames for name, frames in flows.items()}
    return tuple(FlowCounts(flow=f, tx=100, rx=n, lost=100 - n) for f, n in names.items())


def ends(**ports: tuple[int, int]) -> dict[str, Any]:
    """Return the counters of the switch, `f2_0` for port f2.0: frames in and out."""
    return {f"{name.replace('_', '.')}@switch": port(*counts) for name, counts in ports.items()}


CHAINED = {"scenario": "loopback", "chain": 1, "function": "forwarder"}


@pytest.mark.parametrize(
    ("axes", "frames", "counted", "past"),
    [
        ({}, arrived(f0_f1=90), ends(f0=(90, 0), f1=(0, 90)), {}),
        # Additional frames at a port came from elsewhere and do not matter.
        ({}, arrived(f0_f1=90), ends(f0=(95, 1), f1=(0, 99)), {}),
        ({}, arrived(f0_f1=90), ends(f0=(90, 0), f1=(0, 80)), {"f1@switch out": (90, 80)}),
        (
            {"dimension": "latency"},
            arrived(f0_f1=90),
            ends(f0=(90, 90), f1=(0, 90)),
            {"f1@switch in": (90, 0)},
        ),
        (
            {"direction": "bi"},
            arrived(f0_f1=90, f1_f0=70),
            ends(f0=(90, 0), f1=(0, 90)),
            {"f1@switch in": (70, 0), "f0@switch out": (70, 0)},
        ),
        (
            {"flows": 2},
            (*arrived(**{"f0_f1#0": 40}), *arrived(**{"f0_f1#1": 50})),
            ends(f0=(90, 0), f1=(0, 50)),
            {"f1@switch out": (90, 50)},
        ),
        (
            {"copies": 2},
            arrived(f0_f1=90, f0_f2=80),
            ends(f0=(90, 0), f1=(0, 90), f2=(0, 0)),
            {"f2@switch out": (80, 0)},
        ),
        (
            CHAINED,
            arrived(a0_b0=90),
            ends(a0=(90, 0), f1_0=(0, 90), f1_1=(20, 0), b0=(0, 90)),
            {"f1.1@switch in": (90, 20)},
        ),
        # If frames are not assigned to flows, the sum over all ports is compared with all frames.
        ({"touch": "none"}, (), ends(f0=(100, 0), f1=(0, 100)), {}),
        ({"touch": "none"}, (), ends(f0=(0, 0), f1=(0, 100)), {"to switch": (100, 0)}),
        ({"touch": "none", "copies": 2}, (), ends(f0=(100, 0), f1=(0, 100), f2=(0, 100)), {}),
        # A process that opens a port of the switch is inside the switch.
        ({"switch": "direct"}, arrived(f0_f1=90), {"f0": port(0, 0), "f1": port(0, 0)}, {}),
        ({"switch": "direct", "engine": "dpdk"}, arrived(f0_f1=90), {}, {}),
        ({"switch": "macvlan"}, arrived(f0_f1=90), {"f0": port(0, 0), "f1": port(0, 0)}, {}),
        ({"switch": "testpmd", "engine": "dpdk"}, arrived(f0_f1=90), ends(f0=(90, 0), f1=(0, 9)),
         {"f1@switch out": (90, 9)}),
    ],
)  # fmt: skip
def test_what_arrived_was_counted_at_each_port_of_its_way(
    axes: dict[str, Any],
    frames: tuple[FlowCounts, ...],
    counted: dict[str, Any],
    past: dict[str, tuple[int, int]],
) -> None:
    drawn = resolve(Test(**axes), prefix="sm0000", run_dir="/run/x")
    copies = drawn.test.copies
    found = trial(100, rx_frames=100 * copies, copies=copies, per_flow=frames, counters=counted)
    found = balanced(found, ports=(), through=False, ways=ways_of(drawn))
    sections = {
        str(p): (frames.arrived, frames.counted) for p, frames in found.evidence.past.items()
    }
    assert sections == past


def test_what_came_after_the_ports_were_read_is_not_past_the_switch() -> None:
    drawn = resolve(Test(), prefix="sm0000", run_dir="/run/x")
    counters = ends(f0=(100, 0), f1=(0, 95))
    for late, past in ((5, False), (4, True)):
        found = trial(100, per_flow=arrived(f0_f1=100), lost_at={"late": late}, counters=counters)
        found = balanced(found, ports=PORTS, through=True, ways=ways_of(drawn))
        assert bool(found.evidence.past) == past


CPUS = (Cpu(0), Cpu(1), Cpu(2, isolated=True))
DISTURBED = NoiseCertificate(jitter={"1": Jitter(lost=0.06)})
DEEP_SLEEP = NoiseCertificate(tsc=("constant_tsc",))
FAILED = GateResult(passed=False, tries=3, frames=100, wrong=("2 frames arrived twice",))
ONE_WAY = Latency.model_validate(
    {"kind": "one-way", "count": 1, "min": 5, "max": 5, "mean": 5.0, **dict.fromkeys(PERCENTILES)}
)
SLOWER = tuple(10_000 - 30 * i for i in range(98))


def after_event(*, by_time_ns: int) -> TrialResult:
    """Return a second at 1 Mpps in which 100,000 frames were lost after a kill: an outage of 100 ms
    by loss, and of so many nanoseconds between two arrivals. Before, latencies were up to 2 ms."""
    found = trial(lost=100_000)
    event = {"kind": "kill", "due_ns": 10**8, "began_ns": 10**8, "disturbed_ns": 10**8}
    flow = {"flow": "f0-f1", "tx": found.tx_frames, "rx": found.distinct, "lost": 100_000}
    before_ns, after_ns = 10**8 + 1, 10**8 + 1 + by_time_ns
    gap = {"flow": "f0-f1", "first": 0, "lost": 100_000}
    gap |= {"before_due_ns": before_ns, "before_ns": before_ns}
    gap |= {"after_due_ns": after_ns, "after_ns": after_ns}
    counts = dict.fromkeys(("offered", "lost", "received", "duplicated", "reordered"), (0, 0))
    times = dict.fromkeys(("p50_ns", "p99_ns", "p999_ns", "max_ns"), (2_000_000, None))
    counts["lost"] = (0, 100_000)
    series = {"interval_ns": 10**8, **counts, **times, "gaps": (gap,), "silences": ()}
    changes = {"series": series, "per_flow": (flow,), "evidence": {"events": (event,)}}
    return TrialResult.model_validate({**found.model_dump(), **changes})


def judged(
    found: TrialResult | None = None,
    *,
    interrupts: int = 0,
    khz: int = 2_000_000,
    trust: dict[str, Any] | None = None,
    layout: dict[str, Any] | None = None,
    **axes: Any,
) -> TrialResult:
    """Return a trial as it is judged after a second of so many interrupts, that began at 2 GHz."""
    drawn = resolve(Test(**axes), prefix="sm0000", run_dir="/run/x", **(layout or {}))
    snapshot = Snapshot(0.0, {}, {1: 0}, {1: 2_000_000}, None)
    window = Snapshot(1.0, {}, {1: interrupts}, {1: khz}, None).since(snapshot)
    judge = JudgedTrials(
        RecordingHost(),
        drawn.placed(place(drawn.cpu_users, CPUS[:2])),
        CPUS,
        **(trust or {}),
    )
    found = found or trial()
    if not found.counters.links:
        carried = ends(f0=(found.tx_frames, 0), f1=(0, found.tx_frames))
        found = found.model_copy(update={"counters": PathCounters.parse(carried)})
    return judge._judged(found, window)


@pytest.mark.parametrize(
    ("doubt", "evidence", "raised", "not_raised"),
    [
        ("interrupts", {"1": 1001.0}, {"interrupts": 1001}, {"interrupts": 1000}),
        (
            "frequency-changed",
            {"1": [2_000_000, 1_890_000]},
            {"khz": 1_890_000},
            {"khz": 1_910_000},
        ),
        (
            "not-isolated",
            {"1": 0.06},
            {"found": trial(evidence={"taken": {"0": 0.0, "1": 0.06}})},
            {"found": trial(evidence={"taken": {"0": 0.04, "2": 0.3}})},
        ),
        (
            "not-isolated",
            {"1": 0.06},
            {"trust": {"noise": DISTURBED}},
            {
                "found": trial(evidence={"taken": {"0-1": 0.0}}),
                "trust": {"noise": DISTURBED},
            },
        ),
        (
            "emulated",
            "emulated (TCG)",
            {"environment": "vm", "layout": {"found": Findings(modes={"vm": "emulated (TCG)"})}},
            {"environment": "vm", "layout": {"found": Findings(modes={"vm": "KVM"})}},
        ),
        (
            "no-hugepages",
            "no-huge",
            {"switch": "testpmd", "engine": "dpdk", "layout": {"memory": "no-huge"}},
            {"switch": "testpmd", "engine": "dpdk", "memory": "no-huge"},
        ),
        (
            "clock",
            "the TSC is only ['constant_tsc']",
            {
                "found": trial(latency=ONE_WAY),
                "trust": {"noise": DEEP_SLEEP},
            },
            {
                "found": trial(latency=ONE_WAY),
                "trust": {"noise": NoiseCertificate(tsc=("constant_tsc", "nonstop_tsc"))},
            },
        ),
        (
            "clock",
            "3 frames came before they were sent",
            {"found": trial(latency=ONE_WAY, evidence={"early": 3})},
            {},
        ),
        ("unstable", {"intervals": 98}, {"found": trial(intervals=SLOWER, interval_ns=10**7)}, {}),
        (
            "outage-methods",
            {"by_loss_s": 0.1, "by_time_s": 0.102002, "unsure_s": 0.002001},
            {"found": after_event(by_time_ns=102_003_000)},
            {"found": after_event(by_time_ns=102_001_000)},
        ),
        ("captured", {"frames": 10}, {"trust": {"capture": 10}}, {"trust": {"capture": None}}),
        (
            "flows-in-runs",
            {"frames": 2},
            {"engine": "raw-gso", "flows": 2, "burst": 2},
            {"engine": "raw-gso", "flows": 2, "burst": 1},
        ),
        ("flows-in-runs", {"frames": 32}, {"engine": "raw-gso", "flows": 2}, {"engine": "raw-gso"}),
        (
            "flows-in-runs",
            {"frames": 32},
            {"engine": "raw-gso", "flows": 2},
            {"engine": "raw-mmsg", "flows": 2},
        ),
        (
            "not-equivalent",
            ["2 frames arrived twice"],
            {"trust": {"gate": FAILED}},
            {"trust": {"gate": GateResult(passed=True, tries=1, frames=100)}},
        ),
        (
            "past-switch",
            {"from switch": {"arrived": 10**6, "counted": 989_999}},
            {"found": trial(counters={"f0@switch": port(10**6, 0), "f1@switch": port(0, 989_999)})},
            {"found": trial(counters={"f0@switch": port(10**6, 0), "f1@switch": port(0, 990_000)})},
        ),
        (
            "nothing-arrived",
            {"sent": 1000},
            {"found": trial(1000, lost=1000), "rate": "1000"},
            {"found": trial(1000, lost=999), "rate": "1000"},
        ),
        ("flooded", {"stray": 1}, {"found": trial(stray=1)}, {}),
        (
            "flooded",
            {"f0": 1001},
            {"found": trial(counters=ends(f0=(10**6, 1001), f1=(0, 10**6)))},
            {"found": trial(counters=ends(f0=(10**6, 1000), f1=(0, 10**6)))},
        ),
        (
            "flooded",
            {"f1": 1001},
            {"found": trial(counters=ends(f0=(10**6, 0), f1=(0, 10**6 + 1001)))},
            {
                "found": trial(
                    counters=ends(f0=(10**6, 1100), f1=(0, 10**6 + 1100)),
                    evidence={"announced": 60, "left_over": 40},
                )
            },
        ),
        (
            "flooded",
            {"f2": 2**20},
            {
                "pairs": 2,
                "found": trial(
                    counters=ends(f0=(10**6, 9), f1=(0, 10**6), f2=(10**6, 2**20), f3=(0, 10**6))
                ),
            },
            {
                "dimension": "latency",
                "found": trial(counters=ends(f0=(10**6, 10**6), f1=(10**6, 10**6))),
            },
        ),
        (
            "slow-path",
            {"slow_path": 100_001, "entered": 10**6},
            {"found": trial(counters={**PASSED, "switch": {"slow_path": 100_001}})},
            {"found": trial(counters={**PASSED, "switch": {"slow_path": 100_000}})},
        ),
        (
            "path-unseen",
            ["f0"],
            {"found": trial(counters={"f0@switch": UNCOUNTED, "f1@switch": port(0, 10**6)})},
            {"switch": "direct", "found": trial(counters={"f0": port(0, 10**6)})},
        ),
        (
            "path-unseen",
            ["f0", "f1"],
            {"switch": "testpmd", "engine": "dpdk", "found": trial(counters={"f9": UNCOUNTED})},
            {"switch": "direct", "engine": "dpdk", "found": trial(counters={"f9": UNCOUNTED})},
        ),
    ],
)
def test_a_doubt_is_raised_beyond_its_threshold(
    doubt: str, evidence: object, raised: dict[str, Any], not_raised: dict[str, Any]
) -> None:
    found = judged(**raised)
    assert found.doubts == (doubt,)
    assert found.evidence.doubts == {doubt: evidence}
    assert judged(**not_raised).doubts == ()


def test_a_doubt_that_was_found_elsewhere_has_its_evidence() -> None:
    elsewhere: dict[str, object] = {
        "started-late": {"started_late_ns": {"f0": 9}},
        "host-busy": {"taken": {"1": 0.04}, "pressure": None, "scheduler": None},
        "cpu-stolen": {"stolen": None},
        "flows-mixed": {"mixed": 1, "unfollowed": 2, "ties": 3},
        "short": {"duration_s": 1.0},
        "foreign-frames": {"frames": 4},
        "clock": "the ends have separate clocks, and their offset is unknown",
    }
    counts = {"taken": {"1": 0.04}, "started_late_ns": {"f0": 9}}
    counts |= {"mixed": 1, "unfollowed": 2, "ties": 3}
    found = judged(trial(doubts=tuple(elsewhere), foreign=4, evidence=counts))
    assert found.doubts == tuple(elsewhere)
    assert found.evidence.doubts == elsewhere


def test_a_doubt_of_the_placement_says_so() -> None:
    counted = ends(f0=(10**6, 0), f1=(0, 10**6), f2=(0, 0), f3=(0, 0))
    crowded = judged(trial(doubts=("cores-shared", "nothing"), counters=counted), pairs=2)
    assert crowded.evidence.doubts == {"cores-shared": "placement", "nothing": None}


def test_what_was_to_be_certain_and_is_not_is_doubted() -> None:
    wide = [trial(pps) for pps in (800_000, 1_000_000, 1_200_000) * 5]
    requested = Test(until_certain="1%")
    assert is_uncertain(requested, wide)
    assert not is_uncertain(requested, [trial(pps) for pps in range(1_000_000, 1_000_012)])
    assert not is_uncertain(Test(), wide)


@pytest.mark.parametrize(
    ("mpps", "drifts"),
    [
        ((1.0, 0.98, 0.96, 0.94, 0.92, 0.9), True),
        ((0.9, 0.92, 0.94, 0.96, 0.98, 1.0), True),
        ((1.0, 0.98, 0.96, 0.94, 0.92, 0.93), False),  # chance does as much 12 times in 720
        ((1.0, 0.975, 0.95, 0.925, 0.9), False),  # and of five even this 2 times in 120
        ((1.0, 0.99, 0.98, 0.97, 0.96, 0.95, 0.94), False),  # less than a tenth
        ((1.0, 0.9, 1.0, 0.9, 1.0, 0.9, 1.0, 0.9), False),
    ],
)
def test_repeats_that_rise_or_fall_are_doubted(mpps: tuple[float, ...], drifts: bool) -> None:
    trials = tuple(trial(round(rate * 1e6)) for rate in mpps)
    assert is_drifting(Test(repeat=len(mpps)), trials) is drifts


RAISED_BY = {
    "other-commit": "root/test_compare.py::test_a_stored_run_goes_on_until_it_is_decided",
    "cores-shared": "netns/test_real_frames.py::test_pairs_in_both_directions",
    "cores-overcommitted": "root/test_chains.py::test_chains_are_told_apart_by_their_source_macs",
    "sibling-busy": "unit/test_path_placement.py::test_parts_are_seated",
    "nic-on-other-node": "unit/test_placement_nics.py"
    "::test_a_polling_switch_and_its_memory_are_on_the_node_of_its_nics",
    "hosts-share-machine": "root/test_remote.py::test_accounts_for_every_frame_between_two_hosts",
    "not-isolated": "root/test_truth.py::test_a_hog_on_the_switchs_core",
    "host-busy": "root/test_truth.py::test_a_hog_on_the_switchs_core",
    "cpu-stolen": "root/test_truth.py::test_time_that_the_hypervisor_kept",
    "started-late": "netns/test_real_frames.py::test_a_late_start_is_doubted_and_floods_nobody",
    "flows-mixed": "root/test_truth.py::test_flows_that_come_to_both_cores_are_counted_exactly",
    "flows-in-runs": "unit/test_judging.py::test_a_doubt_is_raised_beyond_its_threshold",
    "interrupts": "unit/test_judging.py::test_a_doubt_is_raised_beyond_its_threshold",
    "frequency-changed": "unit/test_judging.py::test_a_doubt_is_raised_beyond_its_threshold",
    "emulated": "root/test_vm.py::test_frames_pass_from_machine_to_machine",
    "no-hugepages": "root/test_bypass_failures.py"
    "::test_hugepages_that_cannot_be_had_are_counted_and_given_back",
    "unstable": "unit/test_judging.py::test_a_doubt_is_raised_beyond_its_threshold",
    "outage-methods": "unit/test_judging.py::test_a_doubt_is_raised_beyond_its_threshold",
    "growing": "root/test_truth.py::test_a_leak_of_the_switch_is_named",
    "no-overload": "unit/test_recovery.py::test_without_an_overload_there_is_a_doubt_and_no_number",
    "not-recovered": "unit/test_recovery.py::test_losses_to_the_end_are_no_recovery",
    "drifting": "root/test_truth.py::test_a_rate_that_falls_from_trial_to_trial",
    "uncertain": "root/test_truth.py::test_repeats_that_end_before_they_are_certain",
    "short": "root/test_truth.py::test_frames_that_nobody_here_had_sent",
    "clock": "root/test_vm.py::test_frames_pass_from_machine_to_machine",
    "foreign-frames": "root/test_truth.py::test_frames_that_nobody_here_had_sent",
    "not-equivalent": "root/test_truth.py::test_a_broken_switch_is_measured_with_a_doubt_if_asked",
    "nothing-arrived": "unit/test_judging.py::test_a_doubt_is_raised_beyond_its_threshold",
    "past-switch": "netns/test_past_the_switch.py::test_each_trial_past_the_switch_is_doubted",
    "flooded": "netns/test_flooding.py::test_what_is_flooded_is_doubted",
    "path-unseen": "unit/test_judging.py::test_a_doubt_is_raised_beyond_its_threshold",
    "slow-path": "unit/test_judging.py::test_a_doubt_is_raised_beyond_its_threshold",
    "profiled": "root/test_axes.py::test_what_cpus_do_is_sampled_where_that_is_asked_for",
    "undo-refused": "root/test_cni.py::test_a_failing_del_is_a_doubt_and_the_pod_goes",
    "shared-machine": "root/test_measuring.py::test_a_run_beside_another_one_is_doubted",
    "captured": "root/test_command.py::test_captures_hold_valid_frames",
}
"""A test of each doubt: on a real path where this kind of host has its cause."""


def test_each_doubt_has_a_test() -> None:
    assert set(RAISED_BY) == set(TABLE)
    for doubt, named in RAISED_BY.items():
        file, _, name = named.partition("::")
        text = (Path(__file__).parents[1] / file).read_text()
        assert f"def {name}(" in text
        assert f'"{doubt}"' in text.replace("'", '"')


def test_every_doubt_that_the_code_raises_is_in_the_table() -> None:
    package = Path(__file__).parents[2] / "src/switchmark"
    for file, names in {
        "path/placement.py": ("cores-shared", "cores-overcommitted", "nic-on-other-node"),
        "path/pinning.py": ("sibling-busy",),
        "hosts/hosts.py": ("hosts-share-machine", "emulated"),
        "lab/outcome.py": (
            *("host-busy", "cpu-stolen", "started-late", "short", "foreign-frames"),
            "flows-mixed",
        ),
        "lab/searching.py": ("uncertain", "drifting"),
        "searches/recovery.py": ("no-overload", "not-recovered"),
        "campaign/sharing.py": ("shared-machine", "other-commit"),
        "errors.py": ("not-equivalent", "host-busy"),
        "lab/judging.py": (
            *("not-isolated", "interrupts", "frequency-changed", "emulated", "no-hugepages"),
            *("clock", "unstable", "captured", "not-equivalent", "past-switch", "path-unseen"),
            *("profiled", "slow-path", "flooded", "nothing-arrived", "outage-methods"),
            *("growing", "flows-in-runs"),
        ),
    }.items():
        text = (package / file).read_text()
        for name in names:
            assert f'"{name}"' in text
            assert TABLE[name].threshold
            assert TABLE[name].cure
    assert passing(("short", "host-busy")) == ("host-busy",)


def host(*, steal: int, interrupts: int, khz: int) -> RecordingHost:
    files = {
        "/proc/stat": f"cpu 10 0 0 100 0 0 5 {steal} 0 0\ncpu0 10 0 0 100 0 0 5 {steal} 0 0\n",
        "/proc/interrupts": f"      CPU0  CPU1\n 24:  {interrupts}  7  PCI eth\nLOC: 9 9 timer\n",
        "/proc/pressure/cpu": "some avg10=0.00 total=1000\n",
        "/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": f"{khz}\n",
    }
    return RecordingHost(files={path: text.encode() for path, text in files.items()})


def test_noise_is_what_was_counted_in_between() -> None:
    before = Snapshot.read(host(steal=0, interrupts=100, khz=2_000_000), (0,))
    after = Snapshot.read(host(steal=100, interrupts=300, khz=3_000_000), (0,))
    found = after.since(before)
    assert found.stolen == 1.0
    assert found.frequency_khz == {"0": (2_000_000, 3_000_000)}
    assert found.interrupts_per_s["0"] > 0
    assert found.pressure == 0
    assert json.dumps(found.model_dump())


def test_a_host_that_tells_nothing_has_no_figures() -> None:
    empty = Snapshot.read(RecordingHost(), (0,))
    found = empty.since(empty)
    assert found.stolen is found.softirq_cores is found.pressure is None
    assert found.frequency_khz is None


def test_a_burst_is_not_held_against_a_rate() -> None:
    burst = TrialSpec(rate_pps=None, duration_s=1, warmup_s=0, frames=1000)
    slow = parts({"user_cores": 0.9}, {})
    assert (
        judge(trial(1000, spec=burst, parts=slow), DIRECT, dedicated_core=False)[0]
        == "offered-load"
    )
    found = trial(1000, spec=burst, lost=10, lost_at={"inside switch": 10}, parts=slow)
    assert judge(found, DIRECT, dedicated_core=False)[0] == "switch"
    assert judge(trial(1000, spec=burst, lost=10), DIRECT, dedicated_core=False)[0] == "unknown"


def test_a_cable_is_no_switch_to_be_blamed() -> None:
    assert judge(trial(800_000), DIRECT, dedicated_core=False, cable=True)[0] == "sender"
