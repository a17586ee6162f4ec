"""These tests replay recorded runs without a host, a process or a wait, and compare the records
with those of the recorded run: exactly, and by the faults in its switch, host or code. They also
hold what switchmark says of these runs, word by word: answers, tables, notes, exports and
comparisons, from the first answer of the traffic program to the sentence that a user reads. `make
golden` rewrites the texts. One file has all tests, so that one lane replays each run once."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import get_args

import pytest
from click.testing import CliRunner

from recorded import RECORDINGS
from replay_cases import CASES
from replay_runs import Case, stored_lines, without_run
from replaying import differences
from switchmark.cli.app import app
from switchmark.engines import TABLE as ENGINES
from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.functions import TABLE as FUNCTIONS
from switchmark.metrics.doubts import TABLE as DOUBTS
from switchmark.model.record import Record, Verdict
from switchmark.model.test import AXES
from switchmark.report.export import rows_as_csv
from switchmark.report.rows import Tables
from switchmark.scenarios import TABLE as SCENARIOS
from switchmark.searches import TABLE as SEARCHES
from switchmark.switches import TABLE as SWITCHES

Golden = Callable[[str, str], None]
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


# --- what is said of them ----------------------------------------------------------------------

TEXTS = Path(__file__).parent / "texts"

OF_A_VERSION = ("key", "switchmark_version", "versions")
"""Columns of the export that change with each version of switchmark."""

IN_FULL = ("linux-bridge", "latency", "search-ndr", "turns-frozen", "profile")
"""The runs whose export is shown in full, and whose tables are shown with all columns and notes."""

BY_NAME = {case.name: case for case in CASES}


@pytest.fixture
def _width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


def command(*arguments: object) -> str:
    """Return the output of a command, with its exit status."""
    completed = CliRunner().invoke(app, [str(word) for word in arguments], standalone_mode=False)
    if completed.exception is not None:
        raise completed.exception
    return f"$ switchmark {arguments[0]}: {completed.return_value}\n\n{completed.stdout}"


def columns(folder: Path, case: Case) -> str:
    """Return the export of a run, a column a line, without those that are empty. Axes, facts about
    the host and metrics, which repeat columns in other units, are those of some runs alone."""
    rows = list(csv.reader(io.StringIO(rows_as_csv(Tables([folder])), newline="")))
    lines = [
        f"{name}: {' | '.join(cells)}"
        for name, *cells in zip(*rows, strict=True)
        if any(cells)
        and name not in OF_A_VERSION
        and (case.name in IN_FULL or not (name in AXES or "." in name or name.startswith("host_")))
    ]
    return "".join(f"{line}\n" for line in lines)


@by_name
@pytest.mark.usefixtures("_width")
def test_a_run_is_reported(case: Case, run_of: RunOf, golden: Golden) -> None:
    folder = run_of(case)
    parts = [command("report", folder), columns(folder, case)]
    if case.name in IN_FULL:
        parts.insert(1, command("report", "--wide", folder))
    golden(f"{case.name}.txt", without_run("\n".join(parts)))


COMPARED: Mapping[str, tuple[str, str]] = {
    "same": ("turns-idle", "turns-idle-again"),
    "slower": ("search-max", "search-max-slowed"),
}


@pytest.mark.parametrize("name", COMPARED)
@pytest.mark.usefixtures("_width")
def test_two_runs_are_compared(name: str, run_of: RunOf, golden: Golden, tmp_path: Path) -> None:
    base, other = (run_of(BY_NAME[case]) for case in COMPARED[name])
    junit, markdown = tmp_path / "junit.xml", tmp_path / "compared.md"
    also = ("--junit", junit, "--markdown", markdown, "--fail-on", "slower:5%")
    output = command("compare", base, other, *also)
    golden(f"compare-{name}.txt", f"{output}\n{junit.read_text()}\n{markdown.read_text()}")


def test_each_text_is_of_a_run_or_of_a_comparison() -> None:
    others = {f"compare-{name}" for name in COMPARED} | {f"export-{form}" for form in FORMS}
    assert {path.stem for path in TEXTS.iterdir()} == {*BY_NAME} | others


FORMS = ("latex", "csit")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.usefixtures("_width")
def test_a_run_is_exported(form: str, run_of: RunOf, golden: Golden, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command("export", run_of(BY_NAME["search-ndr"]), "--format", form, "-o", out)
    files = sorted(out.rglob("*.json")) if out.is_dir() else [out]
    golden(f"export-{form}.txt", "\n".join(file.read_text() for file in files))
