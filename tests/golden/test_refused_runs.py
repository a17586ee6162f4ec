"""These tests compare with stored texts what a run says before it measures: why settings cannot be
searched for, how versions differ from those of a stored run, which folders a search for settings
has, whose kernel options count, and what becomes of trials beside another measurement."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import pytest

from golden_cases import shortened
from recorded import FACTS, fresh
from switchmark.campaign.asked import kernel_options_of
from switchmark.campaign.load import Campaign, from_options
from switchmark.campaign.run import run
from switchmark.campaign.sharing import Doubting
from switchmark.campaign.store import RunFolder
from switchmark.campaign.tuning import (
    TUNED,
    asked_for,
    folders_of,
    is_tuning,
    keep_asked,
    to_try,
    with_default_settings,
    with_settings_of_its_own,
)
from switchmark.errors import SwitchmarkError, Unavailable, UsageError
from switchmark.model.record import Record, TrialResult
from switchmark.model.test import Test
from switchmark.model.visit import Visit

Golden = Callable[[str, str], None]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No line waits for the disk."""
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: None)


def refused(work: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function returns, or its refusal."""
    try:
        return work(*arguments)
    except SwitchmarkError as error:
        return f"{type(error).__name__}: {error.message}; {error.hint}"


TUNED_AXES: tuple[dict[str, str], ...] = (
    {},
    {"dimension": "latency", "rate": "1k"},
    {"rate": "1k"},
    {"search": "ndr"},
    {"search": "max", "rate": "50%"},
    {"search": "frame-loss", "rate": "1M"},
    {"switch": "testpmd", "engine": "dpdk", "descriptors": "512,1024"},
    {"switch": "testpmd", "engine": "dpdk", "switch_burst": "32,64"},
    {"frame_size": "64,128"},
)


def test_why_settings_cannot_be_searched_for(golden: Golden) -> None:
    lines = []
    for axes in TUNED_AXES:
        campaign = from_options(axes, lambda test: [])
        found = refused(to_try, campaign, 2, lambda test: [])
        told = f"{len(found.tests)} tests" if isinstance(found, Campaign) else found
        lines.append(f"{axes}: {told}")
    golden("campaigns/untuned.txt", "\n".join([*lines, ""]))


def test_the_folders_of_a_search_for_settings(tmp_path: Path) -> None:
    asked = Campaign("c", (Test(switch="testpmd", engine="dpdk", repeat=3),))
    with RunFolder.create(tmp_path, asked, {}, "x") as folder:
        path = folder.path
    assert (is_tuning(path), folders_of(path)) == (False, [path])
    keep_asked(path, asked)
    assert (is_tuning(path), folders_of(path), asked_for(path)) == (True, [path], asked)
    (path / TUNED).mkdir()
    assert folders_of(path) == [path]
    with RunFolder.create(path / "y", asked, {}, "z") as folder:
        (path / TUNED).rmdir()
        folder.path.rename(path / TUNED)
    assert folders_of(path) == [path, path / "tuned"]
    (path / "asked.yaml").unlink()
    assert folders_of(path) == [path]


def test_the_settings_of_tests() -> None:
    (test,) = from_options({"switch": "testpmd", "engine": "dpdk"}, lambda test: []).tests
    other = test.model_copy(update={"descriptors": 512})
    often, longer = (test.model_copy(update=u) for u in ({"repeat": 9}, {"duration": 9.0}))
    every = [test, other, often, longer, other.model_copy(update={"until_certain": 0.1})]
    assert with_default_settings(test, every) == [test, often]
    assert with_settings_of_its_own(test, every) == [other, every[-1]]
    assert with_settings_of_its_own(other, every) == [test, often]


class VersionsLab:
    """A lab that would measure nothing: it only knows versions."""

    def __init__(self, versions: Mapping[str, str] | Exception) -> None:
        self.found = versions
        self.seen: list[Visit] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *how: object) -> None:
        pass

    def versions(self, test: Test) -> Mapping[str, str]:
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    def visit(self, visit: Visit) -> Record | None:
        self.seen.append(visit)
        trials = fresh().trials
        for trial in trials[len(visit.stored) :]:
            visit.on_trial(trial)
        if visit.test.seed == 1:
            return None
        whole = () if visit.test.seed == 2 else (*visit.stored, *trials[len(visit.stored) :])
        return fresh(visit.number, key=visit.key, test=visit.test, trials=whole, doubts=("short",))


class Silent:
    """An observer that shows nothing."""

    def begin(self, test: Test, position: int, total: int, left_s: float | None) -> None: ...
    def trial(self, result: TrialResult) -> None: ...
    def end(self, record: Record) -> None: ...


VERSIONS: tuple[Mapping[str, str] | Exception, ...] = (
    {"switch": "1", "engine": "2"},
    {"switch": "3", "kernel": "6"},
    {},
    Unavailable("no such switch"),
    UsageError("no such axis"),
)


def test_a_run_of_other_versions(golden: Golden, tmp_path: Path) -> None:
    lines = []
    for number, versions in enumerate(VERSIONS):
        tests = (Test(), Test(frame_size=128))
        with RunFolder.create(tmp_path, Campaign("c", tests), FACTS, f"r{number}") as folder:
            first = VersionsLab({"switch": "1", "engine": "2"})
            run(folder, first, Silent())
            lines.append(f"# {versions!r}: {len(first.seen)} visits, {folder.kept}")
            for until in (9, None, 9):
                folder.until_decided = until
                lab = VersionsLab(versions)
                again = refused(run, folder, lab, Silent(), lambda every, some, limit: 0)
                lines.append(f"  until {until}: {again}, {len(lab.seen)} visits")
    text = "\n".join([*lines, ""]).replace(str(tmp_path), "RUNS")
    golden("campaigns/versions.txt", text)


def test_trials_beside_another_measurement(golden: Golden) -> None:
    lines: list[str] = []
    doubts = {"shared-machine": "--share-machine", "other-commit": "abc"}
    for seed in (0, 1, 2):
        for count in (0, 2, 3):
            told: list[TrialResult] = []
            with Doubting(VersionsLab({"v": "1"}), doubts) as lab:
                stored = fresh().trials[:count]
                visit = Visit(Test(seed=seed), stored=stored, on_trial=told.append)
                record = lab.visit(visit)
                assert lab.versions(Test()) == {"v": "1"}
            lines.append(f"# seed {seed}, {count} stored: {record and record.doubts}")
            trials = [*(record.trials if record else ()), "told", *told]
            lines += [
                f"  {one.doubts} {dict(one.evidence.doubts)}"
                if isinstance(one, TrialResult)
                else f"  {one}"
                for one in trials
            ]
    golden("campaigns/doubted.txt", "\n".join([*lines, ""]))


LABS: tuple[dict[str, Any], ...] = (
    {},
    {"t": {"facts": {"kernel_options": ["T"]}}},
    {"t": {}, "u": {}},
)


def test_whose_kernel_options_count(golden: Golden, tmp_path: Path) -> None:
    lines: list[str] = []
    options = {"a": ["X"], "b": ["X"], "c": ["X", "Y"], "d": None, "e": []}
    hosts = {name: {"kernel_options": some} for name, some in options.items()}
    facts: tuple[dict[str, Any], ...] = ({}, {"kernel_options": ["Z"]}, {"hosts": hosts})
    asked = (None, "a", "b", "c", "d", "e", "z")
    for number, fact in enumerate(facts):
        for testbeds in LABS:
            name = f"{number}{len(lines)}"
            with RunFolder.create(tmp_path, Campaign("c", (Test(),)), fact, name) as folder:
                if testbeds:
                    folder.keep_lab({"testbeds": testbeds})
            records = {
                one: fresh(test=Test(hosts=one), number=place) for place, one in enumerate(asked, 1)
            }
            lines.append(f"## {fact}, {testbeds}")
            for some in ((), *((one,) for one in asked), ("a", "b"), ("a", "c"), ("a", None)):
                found = kernel_options_of(folder.path, [records[one] for one in some])
                lines.append(f"  {some}: {None if found is None else sorted(found)}")
    golden("campaigns/kernels.txt", shortened("\n".join([*lines, ""])))
