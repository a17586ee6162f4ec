"""These tests replay recorded runs without a host, a process or a wait, and compare the records
with those of the recorded run: exactly, and by the faults in its switch, host or code."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import get_args

import pytest

from replay_cases import CASES
from replay_runs import RECORDINGS, Case, stored_lines
from replaying import differences
from switchmark.engines import TABLE as ENGINES
from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.functions import TABLE as FUNCTIONS
from switchmark.metrics.doubts import TABLE as DOUBTS
from switchmark.model.record import Record, Verdict
from switchmark.model.test import AXES
from switchmark.scenarios import TABLE as SCENARIOS
from switchmark.searches import TABLE as SEARCHES
from switchmark.switches import TABLE as SWITCHES

RunOf = Callable[[Case], Path]

LATER_AXES = {name: axis.default for name, axis in AXES.items() if axis.later}
"""The axes that a recording may be older than, with the value that they had then."""

by_name = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@by_name
def test_the_same_answers_give_the_same_records(case: Case, run_of: RunOf) -> None:
    stored = [json.loads(line) for line in case.records.read_text().splitlines()]
    for line in stored:
        line["record"]["test"] = {**LATER_AXES, **line["record"]["test"]}
    now = [json.loads(line) for line in stored_lines(run_of(case))]
    assert not list(differences(stored, now))


@by_name
def test_the_records_show_what_was_done(case: Case, run_of: RunOf) -> None:
    case.check(run_of(case))


# --- what is recorded --------------------------------------------------------------------------

NOT_RECORDED: Mapping[str, str] = {
    **dict.fromkeys(("vpp", "bess", "t4p4s", "snabb", "fastclick"), "no package has it"),
    **dict.fromkeys(("vale", "netmap"), "needs the netmap module"),
    "sriov": "needs a NIC with virtual functions",
    "netkit": "needs Linux 6.7 with netkit",
    "ipvlan": "needs a kernel with ipvlan",
    "cni": "its addresses differ from run to run; tests/root/test_cni.py has frames on it",
    "undo-refused": "of cni",
    "pod-network": "needs pods of a cluster; tests/root/test_pods.py has frames between two",
    "nft-flowtable": "needs a kernel with nf_flow_table",
    "mlr:csit": "mlr with more trials, which take minutes",
    "slow-path": "of nft-flowtable",
    **dict.fromkeys(("recovery", "no-overload", "not-recovered"), "an overload takes a minute"),
    "growing": "a leak takes minutes to show",
    "nic-on-other-node": "needs two NUMA nodes",
    "hosts-share-machine": "of tests between two hosts",
    "outage-methods": "of tests with an event",
    "shared-machine": "said by the command line, of --share-machine",
    "other-commit": "said by the command line, of a continued run",
}
"""The entries of the tables of drivers and doubts that no recording has, with the reason."""


def recorded() -> set[str]:
    """Return the names of drivers, doubts and verdicts that the stored records have."""
    found: set[str] = set()
    for case in CASES:
        for line in case.records.read_text().splitlines():
            record = Record.model_validate({"key": "", **json.loads(line)["record"]})
            test = record.test
            found |= {test.switch, test.engine, test.scenario, test.search, test.function}
            found |= {test.environment, test.direction, test.dimension, record.verdict}
            found |= {*record.doubts}
    return found


def test_each_driver_doubt_and_verdict_is_recorded_or_named() -> None:
    tables = (SWITCHES, ENGINES, ENVIRONMENTS, FUNCTIONS, SCENARIOS, SEARCHES, DOUBTS)
    expected = {name for table in tables for name in table} | {*get_args(Verdict)}
    missing = expected - recorded()
    assert missing == {*NOT_RECORDED} & expected


def test_each_file_is_of_a_case() -> None:
    names = {case.name for case in CASES}
    assert {path.name for path in RECORDINGS.iterdir()} == {
        f"{name}{end}" for name in names for end in (".jsonl", ".records.jsonl")
    }
