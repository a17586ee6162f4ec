"""These tests check what the traffic program is asked to do in a trial."""

from __future__ import annotations

from typing import Any

import pytest

from switchmark.model.record import TrialSpec
from switchmark.model.test import Test
from switchmark.model.topology import Role
from switchmark.path.orders import expected_of, load_of
from switchmark.path.path import Part, Path
from switchmark.path.resolving import resolve

PACED = TrialSpec(rate_pps=1000, duration_s=1, warmup_s=0)
BURST = TrialSpec(rate_pps=None, duration_s=1, warmup_s=0, frames=1001)


def path_of(**axes: Any) -> Path:
    return resolve(Test(**axes), prefix="sm0000", run_dir="/run/x")


def tasks(path: Path, *roles: Role) -> list[tuple[Part, Any]]:
    """Return the parts with their tasks of some roles."""
    return [(part, job) for part in path.parts for job in part.jobs if job.role in roles]


def loads(path: Path, spec: TrialSpec, *roles: Role) -> list[dict[str, Any]]:
    return [dict(load_of(path, part, job, spec)) for part, job in tasks(path, *roles)]


def test_a_sender_offers_the_rate() -> None:
    (load,) = loads(path_of(rate="1000"), PACED, Role.SENDER)
    assert (load["rate_pps"], load["frames"], load["flows"]) == (1000, 0, 1)


def test_each_sender_of_several_pairs_offers_the_rate() -> None:
    found = loads(path_of(rate="1000", pairs=3), PACED, Role.SENDER)
    assert [load["rate_pps"] for load in found] == [1000, 1000, 1000]
    assert [load["stagger"] for load in found] == pytest.approx([0, 1 / 3, 2 / 3])


@pytest.mark.parametrize("flows", [4, 5])
def test_the_tasks_of_a_sender_share_its_rate_its_frames_and_its_flows(flows: int) -> None:
    path = path_of(rate="1000", flows=flows, function_cores=1, queues=1, pairs=1)
    assert sum(load["rate_pps"] for load in loads(path, PACED, Role.SENDER)) == 1000
    path = path_of(scenario="p2p", flows=flows, queues=2, engine="dpdk", switch="testpmd")
    found = loads(path, PACED, Role.SENDER)
    assert len(found) == 2
    assert [load["flows"] for load in found] == [flows // 2, flows - flows // 2]
    assert [load["rate_pps"] for load in found] == pytest.approx(
        [1000 * load["flows"] / flows for load in found]
    )
    frames = [load["frames"] for load in loads(path, BURST, Role.SENDER)]
    assert sum(frames) == 1001
    assert [load["first_flow"] for load in found] == [0, flows // 2]


@pytest.mark.parametrize(
    ("switch", "ttl"), [("linux-bridge", 64), ("ip-forward", 63)], ids=("bridge", "router")
)
def test_a_router_is_to_count_down_the_ttl(switch: str, ttl: int) -> None:
    path = path_of(switch=switch)
    ((part, job),) = tasks(path, Role.RECEIVER)
    (address,) = expected_of(path, part, job)["expect"]["address"]
    assert address["ttl"] == ttl


@pytest.mark.parametrize(("engine", "ttl"), [("raw-mmsg", 62), ("udp-mmsg", 63)])
def test_an_answer_crosses_a_router_too(engine: str, ttl: int) -> None:
    """The kernel of a server creates new headers for its answers."""
    path = path_of(switch="ip-forward", dimension="latency", rate="1000", engine=engine)
    ((part, job),) = tasks(path, Role.CLIENT)
    (address,) = expected_of(path, part, job)["expect"]["address"]
    assert address["ttl"] == ttl


def test_a_router_writes_other_macs() -> None:
    path = path_of(switch="ip-forward")
    ((part, job),) = tasks(path, Role.RECEIVER)
    (address,) = expected_of(path, part, job)["expect"]["address"]
    (sent,) = loads(path, PACED, Role.SENDER)[0]["address"]
    assert address["dst_ip"] == sent["dst_ip"]
    assert {address["src_mac"], address["dst_mac"]} & {sent["src_mac"], sent["dst_mac"]} == set()


def test_who_sends_nothing_tells_a_learning_switch_where_it_is() -> None:
    (bridge,) = loads(path_of(), PACED, Role.RECEIVER)
    (router,) = loads(path_of(switch="ip-forward"), PACED, Role.RECEIVER)
    assert set(bridge) - set(router) == {"announce", "announce_again"}


@pytest.mark.parametrize(
    ("axes", "run"),
    [
        ({"flows": 8}, 32),
        ({"flows": 8, "burst": 300}, 128),
        ({"flows": 8, "burst": 127}, 64),
        ({"flows": 8, "burst": 1}, 1),
        ({"flows": 1}, 1),
        ({"flows": 100_000}, 32),
        ({"flows": 8, "flow_order": "zipf"}, 32),
        ({"flows": 8, "engine": "mmap-gso"}, 32),
        ({"flows": 8, "engine": "raw-mmsg"}, 1),
    ],
)
def test_flows_of_an_engine_of_packets_come_in_runs(axes: dict[str, Any], run: int) -> None:
    """Both ends need the length of a run: it decides the sub-flow of a frame."""
    path = path_of(**{"engine": "raw-gso", **axes})
    (load,) = loads(path, PACED, Role.SENDER)
    assert load.get("flow_run", 1) == run
    ((part, job),) = tasks(path, Role.RECEIVER)
    expected = expected_of(path, part, job)["expect"]
    assert expected.get("flow_run", 1) == run
    assert expected.get("identified", False) == (path.test.engine in ("raw-gso", "mmap-gso"))
