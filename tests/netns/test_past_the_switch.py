"""These tests lead frames past the switch to their receiver. Such frames must not count as the
switch's. Every switch of the kernel is tested with cables that bypass it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from real_frames import Measure
from switchmark.switches import TABLE
from switchmark.switches.base import NO_COUNTERS

CABLES = """
ip link add uxa type veth peer name uxb
ip link add uxc type veth peer name uxd
for end in uxa uxb uxc uxd; do ip link set $end up; done
"""
"""The user believes that these are two cables from the switch to the generator: uxa-uxc and
uxb-uxd."""

SIBLING = """
ip link add uxa type veth peer name uxb
ip link add link uxa name uxc type macvlan mode bridge
for end in uxa uxb uxc; do ip link set $end up; done
"""
"""The generator's end is a child of the switch's: it reaches its siblings past their parent."""

MEASURE = """
import json, sys
from pathlib import Path
from switchmark.lab import gate
from switchmark.lab.measure import Lab
from switchmark.path.refusals import check
from switchmark.model.test import Test

gate._LAG_S = 0.01  # counters of a veth are those of the moment
with Lab(Path(sys.argv[1]), gate=sys.argv[2]) as lab:
    for axes in json.loads(sys.argv[3]):
        test = Test(**{"duration": 0.1, "warmup": 0.0, "rate": "5k", **axes})
        assert check(test) == [], check(test)
        print(lab.run(test).model_dump_json())
"""

P2P = {"scenario": "p2p", "nic": "a0=uxa:uxc,b0=uxb:uxd"}
CHILD = {"scenario": "p2v", "nic": "a0=uxa:uxc", "switch_environment": "host"}


def measured(
    traffic_program: str, folder: Path, cables: str, *tests: dict[str, Any], gate: str = "refuse"
) -> list[dict[str, Any]]:
    """Return the records of tests in a separate network namespace, which ends with them."""
    if os.geteuid() != 0:
        pytest.skip("needs root to make a namespace")
    quiet = "sysctl -e -q -w net.ipv6.conf.default.disable_ipv6=1"
    script = f'set -e\nmount -t sysfs none /sys\n{quiet}\n{cables}\nexec "$@"'
    completed = subprocess.run(
        [
            *("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc"),
            *("bash", "-c", script, "-", sys.executable, "-c", MEASURE),
            *(str(folder), gate, json.dumps(tests)),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "SWITCHMARK_TRAFFIC": traffic_program},
    )
    assert completed.returncode == 0, completed.stderr
    return [json.loads(line) for line in completed.stdout.splitlines()]


def test_a_switch_that_frames_go_past_is_refused(traffic_program: str, tmp_path: Path) -> None:
    switches = ("linux-bridge", "ovs", "ip-forward")
    tests = [{"switch": switch, **P2P} for switch in switches]
    records = measured(traffic_program, tmp_path, CABLES, *tests)
    assert [record["test"]["switch"] for record in records] == [*switches]
    for record in records:
        assert record["status"] == "failed", (record["test"]["switch"], record["gate"])
        assert record["doubts"] == ["not-equivalent"]
        for place in ("a0@switch in", "b0@switch out"):
            message = f"frames arrived, and {place} counted 0: they went past the switch"
            assert message in record["error"], record["test"]["switch"]
        assert "--nic names both ends of a cable" in record["error"]


def test_an_end_of_a_cable_that_is_a_child_of_the_other_is_refused(
    traffic_program: str, tmp_path: Path
) -> None:
    """Its frames would go to its siblings past their parent, which is the switch's end."""
    (record,) = measured(traffic_program, tmp_path, SIBLING, {"switch": "macvlan", **CHILD})
    assert record["status"] == "refused"
    assert record["error"].startswith("the NIC uxa is in use: uxc is on top of it")


def test_each_trial_past_the_switch_is_doubted(traffic_program: str, tmp_path: Path) -> None:
    """Also where nobody tried the path before, or looks which flow a frame is of."""
    tests = [{"touch": touch, **P2P} for touch in ("header", "none")]
    records = measured(traffic_program, tmp_path, CABLES, *tests, gate="off")
    places = (("a0@switch in", "b0@switch out"), ("to switch", "from switch"))
    for record, where in zip(records, places, strict=True):
        assert record["status"] == "ok", record["error"]
        (trial,) = record["trials"]
        assert trial["rx_frames"] == trial["tx_frames"] > 0
        assert trial["doubts"].count("past-switch") == 1
        nothing = {"arrived": trial["rx_frames"], "counted": 0}
        assert trial["evidence"]["doubts"]["past-switch"] == dict.fromkeys(where, nothing)


def test_where_a_switch_tells_nothing_its_interfaces_count(
    measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    bridge = type(TABLE["linux-bridge"])
    monkeypatch.setattr(bridge, "counters", NO_COUNTERS)
    record = measure(switch="linux-bridge")
    (trial,) = record.trials
    assert trial.counters.at_switch["f0"].rx == trial.tx_frames
    assert trial.counters.at_switch["f1"].tx == trial.rx_frames
    assert not {"past-switch", "path-unseen"} & set(record.doubts)
