"""These tests check that combinations that can never work are refused before anything starts, with
what would work."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from refused import REFUSED
from switchmark.model.test import AXES, Test
from switchmark.path import refusals
from switchmark.path.refusals import check, may_share_process
from switchmark.switches import TABLE as SWITCHES


@pytest.mark.parametrize(("axes", "messages"), REFUSED)
def test_it_is_refused_with_the_reason(axes: dict[str, Any], messages: list[str]) -> None:
    reasons = check(Test(**axes))
    assert reasons
    text = "\n".join(map(str, reasons))
    for word in messages:
        assert word in text


@pytest.mark.parametrize("switch", [*SWITCHES])
@pytest.mark.parametrize("engine", ["raw-mmsg", "udp", "dpdk", "null"])
def test_a_change_that_a_refusal_suggests_is_accepted(switch: str, engine: str) -> None:
    for axes in ({}, {"scenario": "loopback"}, {"environment": "vm"}):
        test = Test(switch=switch, engine=engine, **axes)
        refusals = check(test)
        reasons = {refusal.why for refusal in refusals}
        for refusal in refusals:
            for name, value in refusal.changes:
                left = {refusal.why for refusal in check(test.model_copy(update={name: value}))}
                assert left <= reasons - {refusal.why}, axes
                assert f"--{name} " in str(refusal.hint), axes
                assert value in str(refusal.hint), axes


def test_a_switch_whose_ports_an_engine_cannot_open_is_suggested_an_engine() -> None:
    (refusal,) = check(Test(switch="testpmd"))
    assert refusal.hint == "--engine memif,dpdk"
    assert check(Test(dimension="latency", switch="testpmd"))[-1].hint == "--engine memif,dpdk"


def test_every_axis_that_a_refusal_is_about_is_one() -> None:
    source = "".join(
        (Path(refusals.__file__).parent / f"{name}.py").read_text()
        for name in ("refusals", "combinations")
    )
    named = re.findall(r"Refusal\(\s*\(([^()]*)\)", source)
    assert len(named) > 30
    axes = {word for names in named for word in re.findall(r'"(\w+)"', names)}
    assert axes - set(AXES) == set()


def test_all_reasons_come_at_once() -> None:
    reasons = check(Test(engine="udp", flows=300, flows_by="mac", vlan=5, environment="host"))
    assert len(reasons) == 4


@pytest.mark.parametrize(
    "axes",
    [
        {},
        {"switch": "direct", "engine": "xdp"},
        {"dimension": "latency", "rate": "1000"},
        {"engine": "raw", "frame_size": "imix", "flows": 4096, "flows_by": "mac"},
        {"flows": 9000, "pairs": 2},
        {
            "flows": "1M",
            "flow_order": "zipf",
            "flows_by": "ip",
            "dimension": "latency",
            "rate": "1k",
        },
        {"flows": "1M", "queues": 4, "engine": "dpdk", "switch": "ovs-dpdk"},
        {"function_cores": 2, "flows": 2, "engine": "xdp"},
        {"function_cores": 16, "flows": "1M", "engine": "mmap", "direction": "bi"},
        {"function_cores": 2, "flows": 2, "queues": 2, "engine": "dpdk", "switch": "testpmd"},
        {"ip_version": "6", "frame_size": 84},
        {"encapsulation": "vlan", "frame_size": 68},
        {"encapsulation": "vlan", "vlan": 5, "frame_size": 68},
        {"encapsulation": "vxlan", "frame_size": 114, "flows": "1M", "flows_by": "ip"},
        {"encapsulation": "vxlan", "frame_size": 114, "switch": "ip-forward"},
        {"encapsulation": "vxlan", "frame_size": 134, "switch": "ip-forward", "ip_version": 6},
        {"encapsulation": "vxlan6", "frame_size": 134, "switch": "ovs"},
        {"encapsulation": "vxlan6", "frame_size": 154, "ip_version": 6, "flows": "1M"},
        {"ip_version": 6, "frame_size": 1518, "switch": "vpp", "engine": "dpdk"},
        {"arrivals": "poisson", "search": "ndr"},
        {"arrivals": "on-off", "line_rate": "1M"},
        {"switch": "null", "engine": "null", "environment": "host", "switch_environment": "host"},
        {"scenario": "p2p", "nic": "a0=x:y,b0=z:w"},
        {"noise": "web:functions"},
        {"noise": "web:functions", "placement": "9+77"},
        {"noise": "web:switch", "switch": "ovs"},
    ],
)
def test_what_can_work_is_not_refused(axes: dict[str, Any]) -> None:
    assert check(Test(**axes)) == []


@pytest.mark.parametrize(
    ("axes", "may"),
    [
        ({}, True),
        ({"dimension": "latency", "rate": "1k"}, True),
        ({"pairs": 3, "scenario": "p2v"}, True),
        ({"environment": "host", "switch_environment": "host"}, True),
        ({"switch": "ovs", "cpu_limit": "switch:50"}, True),
        ({"cpu_limit": "function:50"}, False),
        ({"direction": "bi"}, False),
        ({"scenario": "loopback"}, False),
        ({"copies": 2}, False),
        ({"environment": "vm"}, False),
        ({"environment": "lxc"}, False),
    ],
)
def test_which_ends_may_be_one_process(axes: dict[str, Any], may: bool) -> None:
    test = Test(**axes)
    assert check(test) == []
    assert may_share_process(test) is may


def test_latency_sends_one_frame_at_a_time_unless_asked() -> None:
    assert Test(dimension="latency", rate="10").burst == 1
    assert Test(dimension="latency", rate="10", burst=8).burst == 8
    assert Test().burst == 32
