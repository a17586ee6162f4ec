"""These tests compare how recorded hosts are prepared and restored with stored texts: the steps or
the refusals of each preparation, the files that are written, and what records say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from golden_cases import text_of_cases
from recorded_roots import ROOTS, RecordedRoot
from switchmark.environments import inside
from switchmark.errors import SwitchmarkError
from switchmark.lab import host_preparation
from switchmark.lab.host_preparation import (
    can_have,
    lost_threads,
    other_cpus,
    planned,
    planned_for,
    spoiling,
    state_on,
)
from switchmark.lab.prepare import prepare
from switchmark.model.preparation import ALL, TABLE
from switchmark.model.test import Test
from switchmark.model.topology import Findings
from switchmark.observe.cpus import read_cpus
from switchmark.runs import leases, workspace
from switchmark.runs.script import describe
from unit.test_preparation import Run

Golden = Callable[[str, str], None]

HOSTS = sorted(path.name for path in ROOTS.iterdir())


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "MACHINE_WIDE", tmp_path / "machine-leases")
    monkeypatch.setattr("switchmark.runs.workspace.default_base", lambda: tmp_path / "runs")
    monkeypatch.setattr(host_preparation, "privileges", lambda: "root")
    numbers = (f"{number:04x}" for number in range(1, 1000))
    ids = SimpleNamespace(token_hex=lambda count: next(numbers))
    monkeypatch.setattr(workspace, "secrets", ids)


def preparation_lines(run: Run, names: str, axes: Mapping[str, object]) -> Iterator[str]:
    """Prepare a host for a test, and yield the refusal if there is one."""
    try:
        run.begin(names, **axes)
    except SwitchmarkError as error:
        yield f"{type(error).__name__}: {error.message}"
        yield f"hint: {error.hint}"


def placed(host: RecordedRoot, test: Test) -> Iterator[str]:
    """Yield the steps of the preparations of a test, or why they cannot be."""
    path = prepare(host, test, Findings(), prefix="smtest", run_dir="/run", can=lambda steps: True)
    for preparation, steps in (*planned(host, test), *planned_for(host, path)):
        yield f"- {preparation.name}"
        if isinstance(steps, list):
            yield from describe(tuple(steps), inside)
        else:
            yield f"{steps.message}; {steps.hint}"


def test_what_would_be_done(tmp_path: Path, golden: Golden) -> None:
    told: dict[str, list[str]] = {}
    for name in HOSTS:
        host = RecordedRoot(name, tmp_path / name)
        told[name] = host_lines(host)
        highest = max(cpu.id for cpu in read_cpus(host))
        for axes in (
            {"placement": "1"},
            {"placement": "unpinned"},
            {"placement": f"0-{highest}"},
            {"placement": "auto", "noise": f"cpu:{highest}"},
            {"placement": f"1+{highest}", "noise": "cpu"},
        ):
            test = Test.model_validate({"prepare": "all", **axes})
            told[f"{name}, {axes}"] = [*placed(host, test)]
    golden("preparing/plans.txt", text_of_cases(told))


def host_lines(host: RecordedRoot) -> list[str]:
    """Return what a host can have, and its state."""
    cpus = read_cpus(host)
    text = [f"can have {can_have(host)}"]
    text += [f"spoils: {words}" for words in spoiling(host)]
    for preparation in TABLE:
        text.append(f"spoils with {preparation}: {len(spoiling(host, (preparation,)))}")
        states = [f"{found.path} {found.value}" for found in state_on(host, TABLE[preparation])]
        text.append(f"state of {preparation}: {states[:3]}, {len(states)} in all")
    text.append(f"lost threads {sorted(lost_threads(cpus))}")
    for used in ((), (0,), (1, 2), tuple(cpu.id for cpu in cpus)):
        text.append(f"others than {used}: {other_cpus(host, used)}")
    return text


@pytest.mark.parametrize("name", ["amd", "server"])
def test_what_is_done_and_undone(name: str, tmp_path: Path, golden: Golden) -> None:
    text: list[str] = []
    host = RecordedRoot(name, tmp_path / name)
    before, run = host.contents, Run(host, tmp_path / "logs")
    names = ",".join(can_have(host))
    axes: Mapping[str, object]
    for axes in ({}, {"placement": "2"}, {"prepare": ALL}):
        host.written.clear()
        text.append(f"# {names}, {axes}")
        text += preparation_lines(run, names, axes)
        text += [f"  write {content} to {path}" for path, content in host.written]
    text += [
        f"  {value}" for value in run.preparation.values(run.probes.locate(Test(prepare=names)))
    ]
    host.written.clear()
    text += [f"left: {left}" for left in run.preparation.restore()]
    text += [f"  write {content} back to {path}" for path, content in host.written]
    assert host.contents == before
    assert run.preparation.restore() == ()
    golden(f"preparing/done-{name}.txt", "\n".join([*text, ""]))
