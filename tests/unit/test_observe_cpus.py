"""These tests check the facts about CPUs from /sys, on simulated hosts and on this host."""

from __future__ import annotations

import os
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchmark.errors import UsageError
from switchmark.hosts.local import LocalHost
from switchmark.hosts.recording import RecordingHost
from switchmark.model.cpus import Cpu, cpu_mask, format_cpus, parse_cpus
from switchmark.observe.cpus import read_cpus


def machine(files: Mapping[str, str]) -> RecordingHost:
    return RecordingHost(
        files={f"/sys/devices/system/{path}": f"{text}\n".encode() for path, text in files.items()}
    )


def test_siblings_nodes_and_isolation_are_read() -> None:
    host = machine(
        {
            "cpu/online": "0-3",
            "cpu/isolated": "3",
            "node/node0/cpulist": "0,2",
            "node/node1/cpulist": "1,3",
            **{f"cpu/cpu{cpu}/topology/thread_siblings_list": "0,2" for cpu in (0, 2)},
            **{f"cpu/cpu{cpu}/topology/thread_siblings_list": "1,3" for cpu in (1, 3)},
        },
    )
    assert read_cpus(host, allowed=range(4)) == (
        Cpu(0, node=0, siblings=(2,)),
        Cpu(1, node=1, siblings=(3,)),
        Cpu(2, node=0, siblings=(0,)),
        Cpu(3, node=1, siblings=(1,), isolated=True),
    )


def test_only_what_is_online_and_allowed_is_offered() -> None:
    host = machine({"cpu/online": "0-1,3", "cpu/isolated": ""})
    assert [cpu.id for cpu in read_cpus(host, allowed={1, 2, 3, 9})] == [1, 3]


def test_a_machine_that_tells_nothing_has_what_is_allowed() -> None:
    assert read_cpus(machine({}), allowed=[4, 2]) == (Cpu(2), Cpu(4))


def test_this_machine_offers_what_this_process_may_use() -> None:
    usual = os.sched_getaffinity(0)
    assert {cpu.id for cpu in read_cpus(LocalHost())} >= usual
    assert os.sched_getaffinity(0) == usual


@given(st.sets(st.integers(0, 300), min_size=1))
def test_a_list_of_cpus_is_read_as_it_is_written(cpus: set[int]) -> None:
    assert parse_cpus(format_cpus(cpus)) == tuple(sorted(cpus))


def test_lists_are_as_short_as_the_kernels() -> None:
    assert format_cpus([5, 0, 1, 2, 7, 8]) == "0-2,5,7-8"
    assert parse_cpus(" 3 , 0-1\n") == (0, 1, 3)


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "1,,2", "3-1", "0x1", "1.5"])
def test_garbled_lists_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="CPUs|backwards"):
        parse_cpus(text)


@pytest.mark.parametrize(
    ("cpus", "mask"),
    [((), "00000000"), ((0, 1), "00000003"), ((31,), "80000000"), ((0, 32), "00000001,00000001")],
)
def test_a_mask_has_a_comma_between_its_words(cpus: tuple[int, ...], mask: str) -> None:
    assert cpu_mask(cpus) == mask
