"""These tests check the gate's decisions with simulated trials."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from switchmark.errors import HostTooBusy, NotEquivalent
from switchmark.lab.gate import pass_gate
from switchmark.lab.trial import Trials
from switchmark.model.counters import PortCounters
from switchmark.model.evidence import HeaderCheck
from switchmark.model.place import Place, PlaceKind, PortEnd
from switchmark.model.record import FlowCounts, GateResult, PartReport, TrialResult, TrialSpec
from switchmark.model.test import Test
from switchmark.path.path import Path as ResolvedPath
from switchmark.path.resolving import resolve

IDLE = {"rx": 0, "tx": 0, "rx_dropped": 0, "tx_dropped": 0}


class Path:
    """This path tells by `sent` how many of the frames that were due left in each trial, in turn,
    the last for ever; each arrived within `quick_ms`, and the ports counted them `lag_s` later, if
    at all. `kept` are frames of each trial that came in the next, `foreign` such as nobody sent."""

    quiet_ms = 20

    def __init__(
        self,
        *sent: int,
        blocked: int = 0,
        lag_s: float | None = 0.0,
        quick_ms: int = 0,
        held: tuple[int, ...] = (),
        foreign: int = 0,
    ) -> None:
        self.sent = list(sent)
        self.kept, self.foreign = [0, *held, 0], foreign
        self.quick_ms = quick_ms
        self.blocked = blocked
        self.counted_after_s = lag_s
        self.lag_s = 0.0
        self.asked: list[TrialSpec] = []

    def measure(self, spec: TrialSpec, *, proving: bool) -> TrialResult:
        assert proving
        assert spec.rate_pps is not None
        self.asked.append(spec)
        due = round(spec.rate_pps * spec.duration_s)
        n = self.sent.pop(0) if len(self.sent) > 1 else self.sent[0]
        visible = self.counted_after_s is not None and self.lag_s >= self.counted_after_s
        counted = n if visible else 0
        late = 4 if self.quick_ms > self.quiet_ms else 0
        before = self.kept.pop(0) if len(self.kept) > 1 else 0
        late += self.kept[0]
        return TrialResult(
            spec=spec,
            elapsed_ns=round(spec.duration_s * 1e9),
            tx_frames=n,
            tx_unsent=due - n,
            rx_frames=n - late,
            rx_bytes=60 * (n - late),
            lost=late,
            foreign=before + self.foreign,
            lost_at={Place(PlaceKind.LATE): late} if late else {},
            parts=(
                PartReport(part="a0", roles=("sender",), cpu=3, cores=0.1, blocked=self.blocked),
                PartReport(part="b0", roles=("receiver",), cpu=4, cores=1),
            ),
            per_flow=(FlowCounts(flow="a0-b0", tx=n, rx=n, lost=0),),
            evidence={"taken": {"3": 0.93, "4": 0.0}},
            counters={
                "a0@switch": {**IDLE, "rx": counted},
                "b0@switch": {**IDLE, "tx": counted},
            },
        )


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the times that the gate waits, which do not pass."""
    found: list[float] = []
    monkeypatch.setattr("switchmark.lab.gate.clock.sleep", found.append)
    return found


def tried(path: Path, gate: str = "refuse", **axes: Any) -> GateResult:
    found = pass_gate(laid_out(**axes), cast(Trials, path), gate)  # type: ignore[arg-type]
    assert found is not None
    return found


def laid_out(**axes: Any) -> ResolvedPath:
    return resolve(Test(**{"scenario": "p2p", **axes}), prefix="sm0000", run_dir="/run/x")


def test_a_good_switch_is_tried_once() -> None:
    path = Path(100)
    found = tried(path)
    assert (found.passed, found.tries, found.starved) == (True, 1, 0)
    assert len(path.asked) == 1


def test_where_frames_come_late_trials_wait_for_longer_and_are_slower(
    slept: list[float],
) -> None:
    path = Path(100, quick_ms=200)
    found = tried(path)
    assert (found.passed, found.tries, path.quiet_ms) == (True, 3, 320)
    assert [spec.duration_s for spec in path.asked] == pytest.approx([0.02, 0.08, 0.32])
    assert [spec.rate_pps for spec in path.asked] == pytest.approx([5000, 1250, 312.5])
    assert [spec.warmup_s for spec in path.asked] == [0.0, 0.005, 0.005]
    assert slept == [0.2, 0.2]
    with pytest.raises(NotEquivalent, match="4 of 100 frames did not arrive: 4 late"):
        tried(Path(100, quick_ms=2000))


@pytest.mark.parametrize(("held", "tries"), [((1,), 2), ((5,), 2), ((5, 5), 3)])
def test_a_try_in_which_the_frames_of_the_one_before_came_is_none(
    held: tuple[int, ...], tries: int
) -> None:
    path = Path(100, held=held)
    assert tried(path).tries == tries
    assert len(path.asked) == tries + 1


class Stopped(Path):
    """The receiver of this path gets nothing in two tries, and all of it in the third. The second
    try has `warmed_up` frames of a warm-up, which nothing counts."""

    def __init__(self, warmed_up: int) -> None:
        super().__init__(100)
        self.lost_and_foreign = [(100, 0), (100, 0), (0, 200 + warmed_up), (0, 0)]

    def measure(self, spec: TrialSpec, *, proving: bool) -> TrialResult:
        trial = super().measure(spec, proving=proving)
        lost, foreign = self.lost_and_foreign.pop(0)
        arrived = {"rx_frames": 100 - lost, "lost": lost, "foreign": foreign}
        places = {Place(PlaceKind.LATE): lost} if lost else {}
        return trial.model_copy(update={**arrived, "lost_at": places})


def test_a_try_may_have_the_frames_of_all_tries_before_and_of_their_warm_ups() -> None:
    path = Stopped(warmed_up=7)
    assert tried(path).tries == 3
    assert [spec.warmup_s for spec in path.asked] == [0.0, 0.005, 0.005, 0.005]
    with pytest.raises(NotEquivalent, match="208 frames arrived that nobody here had sent"):
        tried(Stopped(warmed_up=8))


def test_a_switch_that_keeps_frames_of_each_try_fails() -> None:
    with pytest.raises(NotEquivalent, match="in 3 tries of 100 frames\n  5 of 100 frames did not"):
        tried(Path(100, held=(5, 5, 5)))


def test_frames_that_nobody_sent_are_the_switchs_fault_whatever_was_lost() -> None:
    path = Path(100, held=(5,), foreign=1)
    with pytest.raises(NotEquivalent, match="1 frames arrived that nobody here had sent"):
        tried(path)
    assert len(path.asked) == 3


def test_a_sender_that_had_no_turn_gets_more_time_for_as_many_frames() -> None:
    path = Path(0, 0, 30, 98)
    found = tried(path)
    assert (found.passed, found.tries, found.starved) == (True, 1, 3)
    assert found.frames == 98
    assert [spec.duration_s for spec in path.asked] == [0.02, 0.04, 0.08, 0.16]
    assert [spec.rate_pps for spec in path.asked] == [5000, 2500, 1250, 625]


@pytest.mark.parametrize("gate", ["refuse", "doubt"])
def test_that_no_frame_could_be_sent_in_time_is_the_hosts_fault(gate: str) -> None:
    path = Path(0, 7)
    with pytest.raises(HostTooBusy) as failed:
        tried(path, gate)
    assert failed.value.doubts == ("host-busy",)
    assert failed.value.message == (
        "the host is too busy to try switch linux-bridge: its sender got to send 7 of 100 frames "
        "in 1.28 s\n  something else ran on CPU 3 for 93% of that time"
    )
    assert failed.value.hint == (
        "end what else runs on CPU 3-4 (`top` names it), or --placement with other CPUs"
    )
    assert len(path.asked) == 7


def test_a_sender_that_got_no_cpu_waited_for_its_turn() -> None:
    unpinned = tuple(
        PartReport(part=part, roles=(role,), cpu=None, cores=0.1)
        for part, role in (("a0", "sender"), ("b0", "receiver"))
    )
    found = Found(evidence={"taken": {}}, parts=unpinned, tx_frames=9, tx_unsent=91)
    with pytest.raises(HostTooBusy) as failed:
        tried(found)
    assert failed.value.message.endswith(
        "9 of 100 frames in 1.28 s\n  it waited for its turn at a CPU"
    )
    assert (
        failed.value.hint == "end what else runs (`top` names it), or --placement with other CPUs"
    )


def test_a_switch_that_takes_no_frame_is_no_busy_host() -> None:
    path = Path(0, blocked=50)
    with pytest.raises(NotEquivalent, match="no frame could be sent"):
        tried(path)
    assert len(path.asked) == 3


def test_one_try_shows_that_frames_go_past_the_switch() -> None:
    path = Path(100, lag_s=None)
    with pytest.raises(NotEquivalent, match="in 1 try of 100 frames\n  100 frames arrived"):
        tried(path)
    assert len(path.asked) == 1


def test_frames_past_a_switch_with_nics_may_be_those_of_swapped_ends() -> None:
    with pytest.raises(NotEquivalent) as refused:
        tried(Path(100, lag_s=None), nic="a0=nic0:nic1,b0=nic2:nic3")
    assert refused.value.hint == (
        "--nic names both ends of a cable, a0=SWITCH_END:FAR_END; --gate doubt measures it "
        "nevertheless, and says so"
    )
    with pytest.raises(NotEquivalent) as refused:
        tried(Found(reordered=5), nic="a0=nic0:nic1,b0=nic2:nic3")
    assert refused.value.hint == "--gate doubt measures it nevertheless, and says so"


def test_a_switch_that_was_stopped_amid_its_work_is_tried_again() -> None:
    path = Path(100, lag_s=None, quick_ms=2000)
    with pytest.raises(NotEquivalent, match="in 3 tries of 100 frames"):
        tried(path)
    assert len(path.asked) == 3


def test_a_device_that_counts_late_is_waited_for_from_then_on() -> None:
    cables = {"nic": "a0=nic0:nic1,b0=nic2:nic3"}
    path = Path(100, lag_s=1.0)
    found = tried(path, **cables)
    assert (found.passed, found.tries, found.lag_s) == (True, 1, 1.5)
    assert path.lag_s == 1.5
    assert len(path.asked) == 2
    path = Path(100, lag_s=None)
    found = tried(path, "doubt", **cables)
    assert (found.passed, found.lag_s, path.lag_s) == (False, 0.0, 0.0)


# --- what is wrong ---------------------------------------------------------------------------

FRAME = bytes.fromhex(
    "02000000000202000000000108004500002e00004000401100000a0000010a0000024e204e20001a0000"
)


class Found(Path):
    """This path finds the same in each trial: a hundred frames, but for what is `changed`."""

    def __init__(self, **changed: Any) -> None:
        super().__init__(100, lag_s=0.0)
        self.changed = changed

    def measure(self, spec: TrialSpec, *, proving: bool) -> TrialResult:
        found = super().measure(spec, proving=proving)
        evidence = found.evidence.model_copy(update=self.changed.get("evidence", {}))
        counters = found.counters
        if ends := self.changed.get("ends"):
            counters = replace(
                counters, links={PortEnd(a, at_switch=True): b for a, b in ends.items()}
            )
        others = {k: v for k, v in self.changed.items() if k not in ("evidence", "ends")}
        update = {**others, "evidence": evidence, "counters": counters}
        return found.model_copy(update=update)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            {"lost": 3, "rx_frames": 97, "lost_at": {Place.ring("b0"): 2}},
            "3 of 100 frames did not arrive: 2 ring b0",
        ),
        ({"duplicated": 4, "rx_frames": 104}, "4 frames arrived more than once"),
        ({"reordered": 5}, "5 frames arrived after a later one"),
        ({"corrupted": 6}, "6 frames arrived with other bytes"),
        ({"stray": 7}, "7 frames arrived at a port that they were not for"),
        ({"foreign": 8}, "8 frames arrived that nobody here had sent"),
        (
            {"evidence": {"headers": {"a0-b0": HeaderCheck(compared=90, broken=0, unkept=1)}}},
            "9 frames arrived with headers that cannot be read",
        ),
        (
            {
                "evidence": {
                    "headers": {
                        "a0-b0": HeaderCheck(
                            compared=100,
                            broken=2,
                            found=FRAME.hex(),
                            promised=(FRAME[:5] + b"\x07" + FRAME[6:]).hex(),
                        )
                    }
                }
            },
            "2 frames of a0-b0 arrived with destination MAC 02:00:00:00:00:02 instead of "
            "02:00:00:00:00:07; a wrong checksum of the IP header",
        ),
        (
            {"ends": {"a0": PortCounters(100, 4, 0, 0), "b0": PortCounters(0, 100, 0, 0)}},
            "100 frames entered the switch and 104 left it",
        ),
        (
            {"ends": {"a0": PortCounters(100, 0, 0, 0), "b0": PortCounters(0, 99, 0, 0)}},
            "100 frames entered the switch and 99 left it",
        ),
    ],
)
def test_each_fault_of_a_switch_is_named(changed: dict[str, Any], sentence: str) -> None:
    with pytest.raises(NotEquivalent) as refused:
        tried(Found(**changed))
    first, *sentences = refused.value.message.split("\n")
    tries = "1 try" if "99 left" in sentence else "3 tries"
    assert first == (
        f"switch linux-bridge does not do the work that it is to be measured by, in {tries} of 100 "
        "frames"
    )
    assert f"  {sentence}" in sentences
    assert refused.value.hint == "--gate doubt measures it nevertheless, and says so"
    result = tried(Found(**changed), "doubt")
    assert (result.passed, result.tries, result.frames) == (False, int(tries[0]), 100)
    assert sentence in result.wrong


def test_the_gate_can_be_left_out() -> None:
    path = Path(0)
    assert pass_gate(laid_out(), cast(Trials, path), "off") is None
    null = laid_out(switch="null", engine="null", scenario="p2p")
    assert pass_gate(null, cast(Trials, path), "refuse") is None
    assert path.asked == []


def test_a_gate_counts_the_headers_that_it_compared() -> None:
    seen = {
        "a0-b0": HeaderCheck(compared=90, broken=0, unkept=10),
        "b0-a0": HeaderCheck(compared=7, broken=0),
    }
    found = tried(Found(evidence={"headers": seen}))
    assert (found.passed, found.headers, found.unseen) == (True, 97, None)


def test_headers_that_nobody_saw_are_not_missed() -> None:
    unseen = {"a0-b0": HeaderCheck(compared=0, broken=0, unseen="CAP_NET_RAW is missing")}
    found = tried(Found(evidence={"headers": unseen}))
    assert (found.passed, found.headers, found.unseen) == (True, 0, "CAP_NET_RAW is missing")


def test_frames_that_leave_at_a_port_which_no_flow_uses_are_found() -> None:
    ends = {"a0": (100, 0), "b0": (0, 100), "c0": (0, 0), "c1": (0, 9)}
    path = laid_out()
    spare = replace(path.wiring.ports[0], id="c1")
    wiring = replace(path.wiring, ports=(*path.wiring.ports, spare))
    instances = tuple(replace(switch, wiring=wiring) for switch in path.switches)
    found = Found(ends={name: PortCounters(*ends[name], 0, 0) for name in ("a0", "b0", "c1")})
    with pytest.raises(NotEquivalent, match="9 frames left at port c1, which no flow uses"):
        pass_gate(replace(path, switches=instances), cast(Trials, found), "refuse")
