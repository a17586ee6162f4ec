"""An axis has one record, and all that the program does with it follows from that."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from switchmark.campaign.store import key
from switchmark.campaign.values import read_value, read_words
from switchmark.engines import TABLE as ENGINES
from switchmark.errors import UsageError
from switchmark.lab.searching import bounds_of
from switchmark.metrics.verdict import verdict
from switchmark.model.axis import Axis, axes_of, field_name, key_of, ranked
from switchmark.model.test import AXES, Test, axes_in_key
from switchmark.model.units import parse_verification
from switchmark.path.cables import on_cable, without_switch
from switchmark.path.resolving import TABLES, resolve
from switchmark.path.subflows import first_subflow, has_subflows, subflows_of
from switchmark.searches.base import LoadBounds
from switchmark.switches import TABLE as SWITCHES

PACKAGE = Path(__file__).parents[2] / "src" / "switchmark"
DATA = Path(__file__).parent / "data"

ENDINGS = {"bytes": "_bytes", "s": "_s", "pps": "_pps"}
"""How a name ends that carries a unit."""


def unusual(test: Test) -> dict[str, Any]:
    """Return the axes of a test that have not the usual value."""
    usual = Test().model_dump()
    return {name: value for name, value in test.model_dump().items() if value != usual[name]}


def test_flows_are_written_as_counts() -> None:
    for text, flows in (("1M", 1_000_000), ("1.5k", 1500), (64, 64), ("16K", 16_000)):
        assert Test(flows=text).flows == flows
    for text in ("0", "1.5", "1G", "M", "17M", "-1"):
        with pytest.raises((ValueError, UsageError), match="number of things|less than or equal"):
            Test(flows=text)


def test_flows_that_frames_cannot_number_are_sub_flows() -> None:
    for axes, numbers in (
        ({"flows": 16384}, 16384),
        ({"flows": 16384, "direction": "bi"}, 1),
        ({"flows": "1M"}, 1),
        ({"flows": "1M", "queues": 4}, 4),
        ({"flows": 8, "flow_order": "zipf"}, 1),
        ({"flows": 2, "flow_order": "zipf"}, 1),
    ):
        test = Test(**axes)
        assert test.flow_numbers == numbers
        assert has_subflows(test) == (numbers < test.flows)


def test_sub_flows_of_queues_and_senders_are_others() -> None:
    test = Test(flows="1M", queues=4, flows_by="ip", flow_order="random", seed=7)
    of_queue = subflows_of(test, 2, several=1, answers=False)
    assert (of_queue["count"], of_queue["first"], of_queue["step"]) == (250_000, 500_000, 0)
    received = subflows_of(test, 0, several=4, answers=False)
    assert (received["count"], received["first"], received["step"]) == (250_000, 0, 250_000)
    assert (received["order"], received["seed"], received["by"]) == ("random", 7, "ip")
    assert first_subflow(test, 1) == {"src_ip": "10.15.66.64"}
    assert first_subflow(Test(flows="1M", flows_by="mac"), 1) == {"src_mac": "02:53:4d:8f:42:40"}


def test_a_field_has_one_record() -> None:
    class Without(BaseModel):
        speed: int = 1

    class Twice(BaseModel):
        speed: Annotated[int, Axis("load", "how fast"), Axis("path", "how fast")] = 1

    with pytest.raises(TypeError, match=r"Without\.speed has 0 records"):
        axes_of(Without)
    with pytest.raises(TypeError, match=r"Twice\.speed has 2 records"):
        axes_of(Twice)
    assert list(AXES) == list(Test.model_fields)


def test_a_name_is_one_everywhere() -> None:
    for name, axis in AXES.items():
        assert (axis.name, field_name(axis.key), field_name(name)) == (name, name, name)
        assert axis.option == f"--{axis.key}" == f"--{key_of(name)}"
    assert AXES["switch_cores"].option == "--switch-cores"


def test_a_name_in_json_that_is_not_the_fields_carries_its_unit() -> None:
    other = {axis.json_name: axis for axis in AXES.values() if axis.json_name}
    other |= {axis.json_number: axis for axis in AXES.values() if axis.json_number}
    seconds = {"duration_s", "duration_sum_s", "warmup_s", "ramp_s", "interval_s"}
    seconds |= {"residual_s", "settle_s"}
    assert set(other) == {"frame_bytes", "rate_pps", *seconds}
    for name, axis in other.items():
        assert name.endswith(ENDINGS[axis.unit])


def test_what_needs_another_path_or_switch() -> None:
    def those(changes: str) -> set[str]:
        return {name for name, axis in AXES.items() if axis.changes == changes}

    assert {"switch", "switch_environment", "semantics", "listen", "buffers"} < those("switch")
    assert {"rx_affinity", "switch_cores", "switch_burst"} < those("switch")
    assert {"frame_size", "rate", "burst", "touch", "noise", "search", "repeat"} < those("trial")
    assert {"scenario", "engine", "queues", "flows", "chain", "placement"} < those("path")


def test_the_values_that_the_reference_shows_are_values() -> None:
    options = [
        (name, word)
        for name, axis in AXES.items()
        if not axis.values.startswith("as ")
        for word in re.findall(r"`([^`]+)`", axis.values)
    ]
    assert len(options) > 30
    for name, word in options:
        for value in read_words(name, word):
            assert read_value(name, value) is not None


def test_an_axis_that_takes_names_names_a_table() -> None:
    assert {axis.table for axis in AXES.values()} - {""} == set(TABLES)
    for axis in AXES.values():
        assert not axis.table or axis.default in TABLES[axis.table][1], axis.name


def test_a_driver_follows_axes_that_drivers_can_follow() -> None:
    followed = {name for name, axis in AXES.items() if axis.followed_by or axis.tries}
    for table in (SWITCHES, ENGINES):
        for driver in table.values():
            assert driver.resources <= followed, driver.name


def test_the_greatest_rank_is_first_and_of_equal_ones_the_last() -> None:
    class Model(BaseModel):
        a: Annotated[int, Axis("path", "", blame_rank=1)] = 0
        b: Annotated[int, Axis("path", "", blame_rank=2)] = 0
        c: Annotated[int, Axis("path", "")] = 0
        d: Annotated[int, Axis("path", "", blame_rank=1)] = 0

    assert ranked(axes_of(Model), lambda axis: axis.blame_rank) == ("b", "d", "a")


# --- keys, which have to stay as they are ---------------------------------------------------


def test_results_of_earlier_versions_keep_their_keys() -> None:
    """A key is made of all axes, their names, their order and their usual values: what a run folder
    has is measured again where this changes."""
    assert key(Test(), {"switch linux-bridge": "6.1.0"}) == "e3c483a5e0ccd6ad"
    full = Test(
        dimension="latency",
        scenario="loopback",
        switch="vpp",
        frame_size="imix",
        rate="50%",
        until_certain="1%",
        duration="500ms",
        warmup="0",
        vlan=5,
        cpu_limit="50",
        loads="20",
        loss_ratio="0.1%",
    )
    assert key(full, {"a": "b"}) == "7bab782d9f3b512c"


def test_results_on_two_hosts_keep_their_key() -> None:
    """With axes that came later, in the order of no file."""
    test = Test(
        switch="vpp",
        engine="memif",
        rate="2.5Gbps",
        vlan=7,
        arrivals="poisson",
        switch_cores=2,
        hosts="a,b",
        locality="remote",
        dimension="latency",
        loads="10,50",
    )
    assert key(test, {"vpp": "24.02"}) == "b598cc684a740c41"


def test_an_axis_that_came_later_is_in_keys_once_it_has_another_value() -> None:
    later = {name for name, axis in AXES.items() if axis.later}
    line = (DATA / "records-0.1.0.jsonl").read_text().splitlines()[0]
    assert AXES.keys() - later == json.loads(line)["record"]["test"].keys()
    assert not later & set(axes_in_key(Test()))
    assert axes_in_key(Test(line_rate="10Gbps"))["line_rate"] == "10Gbps"
    assert key(Test(line_rate="10Gbps"), {}) != key(Test(), {})
    assert axes_in_key(Test(listen="switch"))["listen"] == "switch"
    assert key(Test(profile=99), {}) != key(Test(), {})


def test_a_link_limits_the_rate_of_a_sender_and_not_that_of_its_cable() -> None:
    test = Test(line_rate="10Gbps", frame_size=64)
    assert test.rate_pps == test.line_pps == pytest.approx(14_880_952.4)
    assert Test(line_rate="10Gbps", rate="1M").rate_pps == 1e6
    assert Test(line_rate="2M", frame_size=1518).line_pps == 2e6
    assert Test(line_rate="10Gbps", rate="50%").rate_pps is None
    assert Test().line_pps is None
    found = without_switch(resolve(test, prefix="sm", run_dir="/run"))
    assert found == without_switch(resolve(Test(), prefix="sm", run_dir="/run"))


def test_a_search_is_bounded_by_the_axes_of_its_test() -> None:
    axes: dict[str, Any] = {
        "rate": "1M",
        "line_rate": "2M",
        "duration": 7,
        "warmup": 0.25,
        "repeat": 5,
        "finals": 2,
        "loss_ratio": "0.1%",
        "precision": "2%",
        "verification": "tst009:3:20%",
        "burst": 8,
        "exceed_ratio": "0.25",
        "duration_sum": 21,
        "loads": "20%,80%",
        "until_certain": "3%",
    }
    expected = LoadBounds(
        1e6,
        7.0,
        0.25,
        5,
        2,
        loss_ratio=0.001,
        precision=0.02,
        verification=parse_verification("tst009:3:20%"),
        exceed_ratio=0.25,
        duration_sum_s=21.0,
        loads=(0.2, 0.8),
        until_certain=0.03,
        senders=3,
        line_pps=2e6,
        burst=8,
        judge=verdict,
    )
    assert bounds_of(Test(**axes), 3, None) == expected
    paced = bounds_of(Test(**axes, arrivals="poisson"), 3, None)
    assert paced == replace(expected, burst=1)
    latency = bounds_of(Test(**axes, dimension="latency"), 3, None)
    assert latency == replace(expected, latency=True)


@pytest.mark.parametrize(
    ("axes", "streams", "pps"),
    [
        ({"rate": "10%"}, 1, 1e5),
        ({"rate": "10%"}, 4, 25_000.0),
        ({"rate": "0.1%"}, 1, 1e3),
        ({}, 1, 1e5),  # a tenth of R+
        ({}, 200, 2500.0),  # at least 10 kpps, but no more than half of R+
        ({}, 40, 10_000.0),
        ({"line_rate": "9k"}, 40, 9e3),
    ],
)
def test_the_rate_of_an_outage_is_a_share_of_r_plus_that_resolves_time(
    axes: dict[str, Any], streams: int, pps: float
) -> None:
    test = Test(dimension="outage", event="kill", **axes)
    assert bounds_of(test, streams, 1e6).rate_pps == pytest.approx(pps)


@pytest.mark.parametrize(("rate", "expected"), [("50%", 5e5), ("100%", 1e6), ("200%", 1.2e6)])
def test_a_share_of_r_plus_is_no_more_than_a_link_carries(rate: str, expected: float) -> None:
    test = Test(line_rate="1.2M", rate=rate)
    assert bounds_of(test, 1, 1e6).rate_pps == expected
    assert bounds_of(Test(rate=rate), 2, 1e6).rate_pps == float(rate[:-1]) / 200 * 1e6
    copied = Test(scenario="p2v", rate=rate, copies=4)
    assert bounds_of(copied, 1, 4e6).rate_pps == bounds_of(Test(rate=rate), 1, 1e6).rate_pps


MEASURED = {
    "search": "ndr",
    "loss_ratio": 0.1,
    "precision": 0.1,
    "loads": "20",
    "duration": 2,
    "warmup": 1,
    "repeat": 4,
    "until_certain": 0.1,
    "seed": 3,
}
"""How a test is measured, otherwise than usual."""


def test_a_cable_has_the_axes_that_are_not_of_the_switch_or_the_method() -> None:
    sent = {"frame_size": 1518, "burst": 16, "touch": "full", "noise": "cpu"}
    path = {"scenario": "loopback", "engine": "dpdk", "environment": "host", "placement": "pinned"}
    of_switch = {"switch": "ovs-dpdk", "switch_cores": 2, "switch_environment": "docker"}
    test = Test(**sent, **path, **of_switch, **MEASURED, rate="1M", chain=2, chains=2)
    found = without_switch(resolve(test, prefix="sm", run_dir="/run"))
    cable = {"switch": "direct", "port": "vhost-user"}
    assert unusual(found["functions"]) == {**sent, **path, **cable, "chain": 2, "pairs": 2}
    ends = {"scenario": "p2p", "engine": "dpdk", "placement": "pinned"}
    by_source = {"flows": 2, "flows_by": "mac"}
    assert unusual(found["ends"]) == {**sent, **ends, **cable, **by_source}


def test_the_cable_of_a_test_of_latency_has_its_rate() -> None:
    test = Test(dimension="latency", rate="1k", semantics="learning", **MEASURED)
    cable = on_cable(resolve(test, prefix="sm", run_dir="/run"))
    axes = {"dimension": "latency", "rate": "1k", "burst": 1}
    assert unusual(cable) == {**axes, "switch": "direct", "port": "veth"}


# --- a new axis -----------------------------------------------------------------------------

NEW_AXES = """
    hop_limit: Annotated[
        int | None,
        Axis("load", "how long a hop may take", unit="s", json_name="hop_limit_s"),
    ] = Field(None, ge=1, le=255)
    hop_count: Annotated[
        int, Axis("ports", "how often a frame is routed", followed_by=("engine",), blame_rank=9)
    ] = 1
"""

TRIED = """
import json, sys
import click
sys.path.insert(0, sys.argv[1])
from switchmark.campaign.load import dump, from_options, parse
from switchmark.cli.options import with_axes
from switchmark.path.refusals import check
from switchmark.path.path import shares_path
from switchmark.model.labels import label, telling
from switchmark.model.record import Record
from switchmark.model.test import Test
from switchmark.report.json import to_object

campaign = from_options({"hop_limit": "3..5,none"}, check)
again = parse(dump(campaign), {}, check, source="again", name="x")
record = Record(key="k", number=1, status="ok", error=None, test=campaign.tests[0])
params = click.command()(with_axes(lambda axes: 0)).params
(option,) = (param for param in params if param.name == "hop_limit")
print(json.dumps({
    "values": [test.hop_limit for test in campaign.tests],
    "again": again.tests == campaign.tests,
    "shared": [shares_path(Test(), Test(hop_limit=9)), shares_path(Test(), Test(hop_count=2))],
    "label": label(campaign.tests[0], telling(campaign.tests)),
    "json": to_object(record)["test"]["hop_limit_s"],
    "option": option.help,
    "refused": [refusal.why for refusal in check(Test(hop_count=2))],
}))
"""


def test_a_new_axis_is_one_field_with_its_record(tmp_path: Path) -> None:
    """In a copy of the package, fields are added to `Test`, and nothing else is edited."""
    shutil.copytree(PACKAGE, tmp_path / "switchmark", ignore=shutil.ignore_patterns("*.pyc"))
    spec = tmp_path / "switchmark/model/test.py"
    text, before = spec.read_text(), "\n    @property\n    def limits"
    assert text.count(before) == 1
    spec.write_text(text.replace(before, NEW_AXES + before))
    command = [sys.executable, "-c", TRIED, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {
        "values": [3, 4, 5, None],
        "again": True,
        "shared": [True, False],
        "label": "linux-bridge hop limit 3",
        "json": 3,
        "option": "how long a hop may take [none]",
        "refused": ["engine raw-mmsg does not follow --hop-count"],
    }
