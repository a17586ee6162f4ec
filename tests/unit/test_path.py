"""A test is resolved once: these tests hold what the parts of a path have, and what stays where
another test is measured on it."""

from __future__ import annotations

from typing import Any

import pytest

from switchmark.engines import TABLE as ENGINES
from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.model.cpus import Pin
from switchmark.model.test import Test
from switchmark.model.topology import Role
from switchmark.path.path import Path
from switchmark.path.placement import Placement
from switchmark.path.resolving import resolve, turned_to


def resolved(cpus: dict[str, tuple[int, ...]] | None = None, **axes: Any) -> Path:
    test = Test.model_validate(axes)
    path = resolve(test, prefix="sm0000", run_dir="/run/x")
    return path.placed(pinned(cpus)) if cpus else path


def pinned(cpus: dict[str, tuple[int, ...]]) -> Placement:
    return Placement("pinned", {part: Pin(cpu) for part, cpu in cpus.items()}, None, ())


def test_a_part_has_its_drivers_node_and_ends() -> None:
    sender, receiver = resolved(environment="docker", engine="xdp-live").parts
    assert sender.environment is receiver.environment is ENVIRONMENTS["docker"]
    assert sender.engine is ENGINES["xdp-live"]
    assert receiver.engine is ENGINES[ENGINES["xdp-live"].receiver or ""]
    assert (sender.node.name, sender.node.environment) == ("sm0000-f0", "docker")
    assert [port.id for port, _ in sender.ends] == ["f0"]
    assert [flow.id for flow in sender.sent] == [flow.id for flow in receiver.received]
    assert (sender.roles, receiver.roles) == ((Role.SENDER,), (Role.RECEIVER,))


def test_a_physical_port_ends_in_a_namespace_whatever_functions_are_in() -> None:
    path = resolved(scenario="p2v", environment="docker")
    assert {part.id: part.environment.name for part in path.parts} == {
        "a0": "netns",
        "f0": "docker",
    }


@pytest.mark.parametrize(("queues", "shares"), [(1, [(0, 5)]), (2, [(0, 2), (2, 3)])])
def test_each_queue_is_sent_to_by_a_task_with_its_share_of_the_flows(
    queues: int, shares: list[tuple[int, int]]
) -> None:
    sender, receiver = resolved(queues=queues, flows=5).parts
    assert [(job.first, job.flows) for job in sender.jobs] == shares
    assert [(job.queue, job.flows) for job in receiver.jobs] == [(0, 5)]


@pytest.mark.parametrize(
    ("axes", "clocks"),
    [
        ({}, ["", ""]),
        ({"environment": "vm", "scenario": "p2v"}, ["", "f0"]),
    ],
)
def test_a_part_reads_the_clock_of_its_kernel(axes: dict[str, Any], clocks: list[str]) -> None:
    assert [part.clock for part in resolved(**axes).parts] == clocks


def test_another_test_on_a_path_has_its_own_search_and_the_same_parts() -> None:
    path = resolved()
    other = turned_to(path, path.test.model_copy(update={"search": "ndr", "burst": 1}))
    assert (path.drivers.search.name, other.drivers.search.name) == ("fixed", "ndr")
    assert other.test.burst == 1
    assert all(a is b for a, b in zip(path.parts, other.parts, strict=True))


def test_parts_that_are_given_other_cpus_are_those_of_the_processes_too() -> None:
    path = resolved({"f0": (1,), "f1": (2,)}).placed(pinned({"f0": (3,)}))
    assert [part.cpus for part in path.parts] == [(3,), ()]
    assert [part for player in path.processes for part in player.parts] == list(path.parts)


def test_a_pair_is_one_process_where_it_is_asked_for() -> None:
    path = resolved(pairs=2, placement="shared-process")
    assert [player.name for player in path.processes] == ["f0+f1", "f2+f3"]
    assert [player.node.name for player in path.processes] == ["sm0000-pair0", "sm0000-pair1"]


def test_between_two_hosts_each_part_is_at_the_switch_of_its_host() -> None:
    path = resolved(locality="remote", hosts="left,right")
    assert [(part.id, part.switch.id) for part in path.parts] == [
        ("f0", "switch"),
        ("f1", "switch@right"),
    ]
    assert [switch.host for switch in path.switches] == ["left", "right"]
    assert [[port.id for port in switch.uplinks] for switch in path.switches] == [
        ["left:u0"],
        ["right:u0"],
    ]
