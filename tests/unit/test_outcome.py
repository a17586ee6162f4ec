"""These tests check how the reports of a trial's processes, counters and host become its result."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from reported import SECOND, received, report, sent
from switchmark.errors import TrialFailed
from switchmark.lab.outcome import Outcome
from switchmark.lab.workers import Worker
from switchmark.model.counters import PathCounters, PortCounters
from switchmark.model.cpus import Cpu
from switchmark.model.evidence import ClockEvidence
from switchmark.model.place import PortEnd
from switchmark.model.record import TrialResult, TrialSpec
from switchmark.model.test import Test
from switchmark.model.topology import Role
from switchmark.path.path import Path, Player
from switchmark.path.placement import place
from switchmark.path.resolving import resolve

SPEC = TrialSpec(rate_pps=None, duration_s=1, warmup_s=0)
LATER = {"count": 4, "min": 100, "max": 130, "sum": 460, "counts": [[100, 2], [130, 2]]}


def path_of(**axes: Any) -> Path:
    return resolve(Test(**axes), prefix="sm0000", run_dir="/run/x")


def outcome(path: Path, **clocks: ClockEvidence) -> Outcome:
    def up(player: Player) -> Worker:
        return Worker(cast(Any, SimpleNamespace(part=player.name)), player)

    return Outcome(path, [up(player) for player in path.processes], clocks)


def result(
    *reports: dict[str, Any],
    path: Path | None = None,
    spec: TrialSpec = SPEC,
    counted: PathCounters | None = None,
    used: dict[str, tuple[float, ...]] | None = None,
    stolen: float = 0.0,
) -> TrialResult:
    path = path or path_of()
    counters = counted or PathCounters()
    return outcome(path).result(spec, SECOND // 2, reports, counters, used or {}, stolen, load={})


def one_way(
    sending: dict[str, Any] | None = None, receiving: dict[str, Any] | None = None, **options: Any
) -> TrialResult:
    """Return the result of a path of a sender and a receiver."""
    return result(
        report({"sent": sending or sent()}),
        report({"received": receiving or received()}),
        **options,
    )


# --- frames ----------------------------------------------------------------------------------


def test_frames_that_arrived_are_counted_once() -> None:
    found = one_way()
    assert (found.tx_frames, found.rx_frames, found.lost) == (100, 100, 0)
    assert found.rx_bytes == 100 * (60 + 4)  # with the FCS
    assert found.intervals == (50, 50)
    assert found.lost_at == {}


def test_duplicates_are_received_and_replace_no_lost_frame() -> None:
    found = one_way(receiving=received(90, duplicated=8, flows=[[90, 8, 0, 0]]))
    assert (found.rx_frames, found.duplicated, found.lost) == (98, 8, 10)
    assert found.distinct == 90


def test_each_copy_of_a_lost_frame_is_lost() -> None:
    path = path_of(copies=2)
    arrived = report({"received": received(95)}), report({"received": received(90)})
    found = result(report({"sent": sent()}), *arrived, path=path)
    assert (found.copies, found.tx_frames, found.lost) == (2, 100, 15)
    assert [flow.lost for flow in found.per_flow] == [5, 10]


def test_a_frame_that_does_not_enter_the_switch_lacks_in_every_copy() -> None:
    path = path_of(copies=2)
    arrived = report({"received": received(95)}), report({"received": received(95)})
    sender = path.flows[0].source
    counted = PathCounters(links={PortEnd(sender): PortCounters(0, 95, 0, 3)})
    found = result(
        report({"sent": sent()}, port={"tx_drops": 2}), *arrived, path=path, counted=counted
    )
    assert found.lost == 10
    assert {str(place): frames for place, frames in found.lost_at.items()} == {
        f"engine {sender}": 4,
        f"{sender} out": 6,
    }


def test_what_was_not_sent_is_not_lost() -> None:
    found = one_way(sending=sent(80, unsent=20), receiving=received(80))
    assert (found.tx_frames, found.tx_unsent, found.lost) == (80, 20, 0)


@pytest.mark.parametrize("name", ["late", "reordered", "corrupted", "foreign", "stray"])
def test_each_count_of_receivers_is_in_the_result(name: str) -> None:
    found = one_way(receiving=received(90, **{name: 6}))
    assert getattr(found, name) == 6


def test_flows_have_their_own_counts() -> None:
    path = path_of(flows=2)
    arrived = received(93, flows=[[49, 1, 2, 0], [44, 0, 0, 0]])
    reports = report({"sent": sent(101, cores=[[2, 101]])}), report({"received": arrived})
    one, two = result(*reports, path=path).per_flow
    assert (one.tx, one.rx, one.lost, one.duplicated, one.reordered) == (51, 49, 2, 1, 2)
    assert (two.tx, two.rx, two.lost) == (50, 44, 6)


def test_frames_of_several_cores_are_added_by_flow() -> None:
    path = path_of(flows=4, function_cores=2)
    of_flows = [[25, 0, 0, 0], [26, 0, 0, 0], [24, 0, 0, 0], [25, 0, 0, 0]]
    sending = sent(101, cores=[[2, 51], [2, 50]])
    reports = report({"sent": sending}), report({"received": received(100, flows=of_flows)})
    assert [flow.tx for flow in result(*reports, path=path).per_flow] == [26, 25, 25, 25]


def test_nothing_is_said_of_flows_where_frames_are_not_read() -> None:
    found = result(
        report({"sent": sent()}), report({"received": received()}), path=path_of(touch="none")
    )
    assert found.per_flow == ()


# --- places ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("port", "place", "frames"),
    [
        ({"rx_ring_drops": 5}, "ring {}", 5),
        ({"tx_drops": 3}, "engine {}", 3),
        ({"rx_invalid": 2}, "engine {}", 2),
    ],
)
def test_what_a_port_drops_has_its_place(port: dict[str, int], place: str, frames: int) -> None:
    path = path_of()
    reports = report({"sent": sent()}), report({"received": received(90)}, port=port)
    found = result(*reports, path=path)
    sink = path.flows[0].sink
    assert {str(section): count for section, count in found.lost_at.items()} == {
        place.format(sink): frames
    }


def test_a_stray_copy_of_a_frame_that_arrived_is_no_lost_frame() -> None:
    found = one_way(receiving=received(98, stray=5, after_drain=1, beyond=1))
    places = {str(place): frames for place, frames in found.lost_at.items()}
    assert places == {"stray": 2, "late": 1, "beyond": 1}


def test_what_a_forwarder_drops_has_its_place() -> None:
    path = path_of(scenario="loopback")
    reports = []
    for player in path.processes:
        tasks: list[dict[str, Any]] = []
        for job in (job for part in player.parts for job in part.jobs):
            forwarded = {"dropped": [1, 2], "polls": 9, "empty_polls": 1}
            by_role = {Role.SENDER: {"sent": sent()}, Role.RECEIVER: {"received": received(97)}}
            tasks.append(by_role.get(job.role, {"forwarded": forwarded}))
        opened = [report()["ports"][0] for _ in player.opened]
        threads = [report()["threads"][0] for _ in player.parts]
        reports.append(report(*tasks) | {"ports": opened, "threads": threads})
    found = result(*reports, path=path)
    (forwarder,) = {part.id for part in path.parts if part.jobs[0].role is Role.FORWARDER}
    # One task for each way of the function, each of which dropped 3.
    ways = sum(job.role is Role.FORWARDER for part in path.parts for job in part.jobs)
    places = {str(place): frames for place, frames in found.lost_at.items()}
    assert places == {f"function {forwarder}": 3 * ways}


# --- parts and latency -----------------------------------------------------------------------


def test_a_part_has_its_cores_and_its_polls() -> None:
    sender, receiver = one_way().parts
    assert (sender.roles, sender.cpu, sender.cores, sender.user_cores) == (("sender",), 3, 0.5, 0.2)
    assert (sender.polls, sender.empty_polls, sender.blocked) == (50, 5, 2)
    assert (sender.lag_max_ns, sender.yields, sender.engine_mode) == (9, 7, "qdisc")
    assert (receiver.roles, receiver.idle, receiver.blocked) == (("receiver",), 0.25, 0)


def test_one_way_and_round_trip_latency_are_told_apart() -> None:
    timed = received(4, latency=LATER, flows=[[4, 0, 0, 0]])
    latency = one_way(sending=sent(4), receiving=timed).latency
    assert latency is not None
    assert (latency.kind, latency.count, latency.min, latency.max) == ("one-way", 4, 100, 130)
    path = path_of(dimension="latency", rate="1000")
    client = report({"sent": sent(4), "received": timed})
    server = report({"forwarded": {"dropped": [0], "polls": 1, "empty_polls": 0, "stray": 3}})
    ordered = [client, server] if path.processes[0].parts[0].sent else [server, client]
    found = result(*ordered, path=path)
    assert found.latency is not None
    assert found.latency.kind == "rtt"
    assert found.stray == 3  # what a server did not answer, as it was for another


def test_a_process_that_failed_fails_the_trial() -> None:
    with pytest.raises(TrialFailed, match="the port is gone"):
        result(report({"sent": sent()}, failure="the port is gone"), report())


@pytest.mark.parametrize(
    ("sending", "receiving"),
    [
        (sent(), received(flows=[[50, 0, 0, 0], [50, 0, 0, 0]])),
        (sent(cores=[[2, 100]]), received()),
        (sent(cores=[[2, 100]]), received(flows=[[50, 0, 0, 0], [50, 0, 0, 0]])),
    ],
)
def test_reports_of_other_flows_than_those_of_the_path_are_no_result(
    sending: dict[str, Any], receiving: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match="zip"):
        one_way(sending, receiving)


def test_reports_of_other_ports_than_those_of_the_path_are_no_result() -> None:
    sending = report({"sent": sent()})
    with pytest.raises(ValueError, match="zip"):
        result(sending | {"ports": sending["ports"] * 2}, report({"received": received()}))


def test_reports_of_another_number_of_processes_are_no_result() -> None:
    with pytest.raises(ValueError, match="zip"):
        result(report({"sent": sent()}), report({"received": received()}), report())


# --- doubts ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("doubt", "just", "beyond"),
    [
        ("cpu-stolen", {"stolen": 0.01}, {"stolen": 0.011}),
        ("foreign-frames", {}, {"receiving": received(100, foreign=1)}),
        (
            "short",
            {"spec": TrialSpec(rate_pps=None, duration_s=1, warmup_s=0)},
            {"spec": TrialSpec(rate_pps=None, duration_s=0.99, warmup_s=0)},
        ),
    ],
)
def test_a_trial_is_doubted_beyond_a_threshold_only(
    doubt: str, just: dict[str, Any], beyond: dict[str, Any]
) -> None:
    assert doubt not in one_way(**just).doubts
    assert doubt in one_way(**beyond).doubts


@pytest.mark.parametrize(("late_ns", "doubted"), [(100_000, False), (100_001, True)])
def test_a_part_that_starts_late_is_a_doubt(late_ns: int, doubted: bool) -> None:
    late = report({"sent": sent()}, thread={"started_late_ns": late_ns})
    found = result(late, report({"received": received()}))
    assert ("started-late" in found.doubts) == doubted
    assert list(found.evidence.started_late_ns.values()) == [late_ns]


@pytest.mark.parametrize(("waited", "doubted"), [(0.2, False), (0.21, True)])
def test_a_cpu_that_others_took_is_a_doubt(waited: float, doubted: bool) -> None:
    drawn = path_of()
    path = drawn.placed(place(drawn.cpu_users, (Cpu(0), Cpu(1), Cpu(2))))
    reports = [
        report({role: counts}, thread={"wait_ns": round(waited * SECOND), "cpu_ns": SECOND // 2})
        for role, counts in (("sent", sent()), ("received", received()))
    ]
    found = result(*reports, path=path)
    assert ("host-busy" in found.doubts) == doubted
    assert list(found.evidence.taken.values()) == pytest.approx([waited, waited])


def test_flows_that_came_to_several_cores_are_a_doubt() -> None:
    assert "flows-mixed" not in one_way().doubts
    assert "flows-mixed" in one_way(receiving=received(100, unfollowed=1)).doubts
    assert "flows-mixed" in one_way(receiving=received(100, ties=1)).doubts
