"""These tests compare what becomes of an experiment and of a run folder with stored texts: the
points of an experiment in each way to run it, with the reasons of those that wait; its points in
the records of a run; and all that a run folder says of what it holds, and of what it cannot read.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from golden.test_campaigns import shown
from golden_cases import shortened
from recorded import FACTS, fresh
from switchmark.campaign import store
from switchmark.campaign.asked import (
    HOW_LONG,
    AskedRun,
    keep,
    paper_points,
    points_by_tests,
    read_asked,
)
from switchmark.campaign.experiments import PlannedPoint, blocks_of, left_out, planned, value_words
from switchmark.campaign.load import Campaign
from switchmark.campaign.store import (
    RunFolder,
    check_name,
    read_campaign,
    read_host,
    read_lab,
    read_records,
)
from switchmark.errors import SwitchmarkError
from switchmark.model.record import Record
from switchmark.model.refusal import Refusal
from switchmark.model.test import Test
from switchmark.papers.experiment import Experiment, Source
from switchmark.papers.library import read
from switchmark.papers.points import Point

Golden = Callable[[str, str], None]

SOURCE = Source(authors="A", title="t", year=2021, venue="v", bed="a host", cores=8)

MADE: Mapping[str, dict[str, Any]] = {
    "plain": {
        "axes": ["frame-size", "switch"],
        "campaign": {
            "name": "n",
            "switch": ["vpp", "linux-bridge", "lagopus"],
            "repeat": 3,
            "frame-size": ["1500", "64..64..256", 64],
        },
    },
    "blocks": {
        "axes": ["switch", "rate", "hosts"],
        "campaign": {
            "rate": ["10k", "20k"],
            "duration": 7,
            "tests": [
                {"switch": "ovs", "frame-size": 128},
                {"switch": "linux-bridge", "locality": "remote"},
                {"switch": "ovs", "rate": "30k", "locality": "local", "hosts": "x"},
                {"switch": "ovs", "engine": "pf-ring"},
                {"switch": "ovs", "rate": "fast"},
                {"switch": "ovs", "vlan": None, "locality": "remote", "hosts": "x,y"},
            ],
        },
    },
    "scaled": {
        "axes": ["rate", "direction"],
        "campaign": {"switch": "ovs", "rate": "1M..1M..3M", "direction": ["bi", "uni"]},
        "scale": {"rate": ["50%", "100%"], "duration": 4, "burst": 9},
    },
    "quick": {
        "axes": ["frame-size", "switch"],
        "campaign": {"switch": ["ovs", "lagopus"], "frame-size": [64, 128, 9601]},
        "quick": {
            "axes": {"duration": 0.5, "repeat": 3, "queues": 2},
            "keep": {"frame-size": [64, 9601], "rate": "1k"},
        },
    },
    "cores": {
        "axes": ["pairs"],
        "campaign": {"switch": "ovs", "pairs": [1, 2]},
        "scale": {"pairs": [1, "25%..25%..100% of cores", 3]},
    },
    "impossible": {
        "axes": ["switch", "flows"],
        "campaign": {"switch": ["ovs", "vpp"], "flows": [1, 2, 4]},
        "impossible": [
            {"at": {"switch": "vpp", "flows": [2, 4]}, "why": "it was not"},
            {"at": {"flows": 4}, "why": "too many"},
        ],
        "shows": {"flows": [1, 4]},
    },
}

WAYS: Mapping[str, dict[str, Any]] = {
    "": {},
    "quick": {"quick": True},
    "as published": {"as_published": True},
    "quick as published": {"quick": True, "as_published": True},
    "on 8 CPUs": {"cores": 8},
    "on 64 CPUs": {"cores": 64},
    "on 11 CPUs, quick": {"cores": 11, "quick": True},
}

OPTIONS: tuple[dict[str, str], ...] = (
    {"switch": "vpp,ovs", "flows": "2"},
    {"hosts": "p,q", "rate": "5k..5k..15k"},
)


def made(name: str) -> Experiment:
    content = {"name": f"p/{name}", "place": "table 0", "summary": "s", **MADE[name]}
    return Experiment.model_validate(content).with_own(SOURCE, None, Path("/p"))


def refusing(test: Test) -> Sequence[Refusal]:
    """Refuse long frames and tests of VPP with one flow, and tests between the wrong hosts."""
    whys = [
        *(["  frames are\n  too long "] * (test.frame_size == 1500)),
        *(["of one flow"] * (test.switch == "vpp" and test.flows == 1)),
        *(["not there"] * (test.hosts == "p,q")),
    ]
    return [Refusal(("switch",), why) for why in whys]


def listing(points: Iterable[PlannedPoint]) -> list[str]:
    return [f"  {one.point.name}: {one.point.untold or shown(one.test)}" for one in points]


def test_the_points_of_experiments(golden: Golden) -> None:
    lines = []
    for name in MADE:
        one = made(name)
        for way, how in WAYS.items():
            lines += [f"## {name} {way}", *listing(planned(one, refusing, {}, **how))]
            how = {axis: value for axis, value in how.items() if axis != "quick"}
            out = left_out(one, refusing, {}, **how) if "quick" in way else []
            lines += [f"  left out {point.name}: {point.untold}" for point in out]
        for options in OPTIONS:
            lines += [f"## {name} with {options}", *listing(planned(one, refusing, options))]
        lines += [f"## {name} in a paper", *(f"  {point.name}" for point in paper_points(one))]
        lines += [f"  block {block}" for block in blocks_of(one.campaign)]
    lines.append("## values in words")
    lines += [
        f"{axis} {value}: {refused(value_words, axis, value)}"
        for axis, value in (("frame-size", [64, "128..64..256"]), ("vlan", None), ("size", 1))
    ]
    lines.append(f"how long: {sorted(HOW_LONG)}")
    golden("experiments/points.txt", shortened("\n".join([*lines, ""])))


def refused(work: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function returns, or its refusal."""
    try:
        return work(*arguments)
    except SwitchmarkError as error:
        return f"{type(error).__name__}: {error.message}; {error.hint}"


def records_of(tests: Iterable[Test | None]) -> list[Record]:
    """Return a record for every second test, measured for another time, by hosts with more CPUs
    from record to record."""
    some = [test for test in tests if test is not None][::2]
    origin = fresh().model_copy(update={"origin": None})
    return [
        origin.model_copy(
            update={
                "number": number,
                "test": test.model_copy(update={"duration": 33.0, "repeat": 9}),
                "key": f"k{number}",
            }
        )
        for number, test in enumerate(some, 1)
    ]


def matched(points: Iterable[tuple[Point, Record | None]]) -> list[str]:
    return [
        f"  {point.name}: {point.untold or '-'}, record {record and record.number}"
        for point, record in points
    ]


def with_cores(record: Record, cores: int, folder: Path) -> Record:
    """Return a record of a host with so many CPUs, by way of a run folder."""
    facts = {**FACTS, "cores_usable": cores}
    with RunFolder.create(folder, Campaign("x", (record.test,)), facts, f"c{cores}") as run:
        return run.append_record(record, {})


def test_the_points_of_records(golden: Golden, tmp_path: Path) -> None:
    lines = []
    for name in ("plain", "scaled", "quick", "cores"):
        one = made(name)
        for way, how in (("as published", {"as_published": True}), ("on 64 CPUs", {"cores": 64})):
            records = records_of(entry.test for entry in planned(one, refusing, {}, **how))
            for quick in (False, True):
                found = points_by_tests(one, records, quick=quick)
                lines += [f"## {name} {way}, quick {quick}", *matched(found)]
        for each in (4, 64):
            large = [with_cores(record, each, tmp_path / name) for record in records]
            found = points_by_tests(one, [*records[:1], *large])
            lines += [f"## {name} on a host of {each}", *matched(found)]
    golden("experiments/records.txt", shortened("\n".join([*lines, ""])))


QUICK = "ara-2021/fig4b"


def kept_run(folder: Path, name: str = QUICK, *, quick: bool = True) -> AskedRun:
    """Return what a run of an experiment was asked for, of which two points wait."""
    of = read(name)
    points = planned(of, refusing, {"duration": "2"}, quick=quick)
    missing = [
        PlannedPoint(Point(entry.point.axes, untold="it rained"), entry.test)
        for entry in points[:2]
    ]
    out = left_out(of, refusing, {"duration": "2"}) if quick else []
    told_out = [Point(point.axes, untold="not today") for point in out[:1]]
    further = folder.parent / "further.csv"
    further.write_text("a,b\n")
    folder.mkdir()
    options = {"quick": quick, "as_published": False, "axes": {"duration": "2"}, "cores": 3}
    keep(folder, [(of, [*missing, *points[2:]])], options, {name: told_out}, [further])
    asked = read_asked(folder)
    assert asked is not None
    return asked


def test_what_a_run_was_asked_for(golden: Golden, tmp_path: Path) -> None:
    lines = []
    for name, quick in ((QUICK, True), (QUICK, False)):
        run = kept_run(tmp_path / f"{quick}", name, quick=quick)
        content = json.loads((run.folder / "experiment.json").read_text())
        content |= {"files": sorted(content["files"]), "switchmark": bool(content["switchmark"])}
        lines += [f"## {name}, quick {quick}", json.dumps(content, indent=1)]
        assert (run.folder / "experiment.json").read_text().endswith("}\n")
        of = read(name)
        tests = [entry.test for entry in planned(of, refusing, {"duration": "2"}, quick=quick)]
        records = [
            fresh(test=test, number=number)
            for number, test in enumerate(tests, 1)
            if test is not None
        ]
        lines += matched(run.points_of(of, records[::2]))
        lines += [f"  left out {point.name}: {point.untold}" for point in run.left_out_of(of)]
        for file in sorted((run.folder / "experiment").rglob("*.*")):
            lines.append(f"  file {file.relative_to(run.folder)}")
    golden("experiments/asked.txt", shortened("\n".join([*lines, ""])))


def test_a_run_that_cannot_be_read(golden: Golden, tmp_path: Path) -> None:
    lines = []
    for title, content in {
        "nothing": None,
        "no object": "[]",
        "empty": "{}",
        "no JSON": "{",
        "another schema": '{"schema": 2, "experiments": [], "files": {}}',
        "no files": '{"schema": 1, "experiments": []}',
        "a missing file": '{"schema": 1, "experiments": [], "files": {"a.yaml": "0"}}',
        "a missing experiment": '{"schema": 1, "experiments": ["a/b"], "files": {}}',
    }.items():
        folder = tmp_path / title
        folder.mkdir()
        if content is not None:
            (folder / "experiment.json").write_text(content)

        def experiments(folder: Path = folder) -> Any:
            asked = read_asked(folder)
            return asked and asked.experiments

        lines.append(f"{title}: {refused(experiments)}")
    folder = tmp_path / "kept"
    kept_run(folder)
    file = folder / f"experiment/{QUICK}.yaml"
    file.write_text("changed")
    asked = read_asked(folder)
    assert asked is not None
    lines.append(f"a changed file: {refused(lambda: asked.experiments)}")
    (tmp_path / "file").write_text("")
    lines.append(f"no folder: {refused(keep, tmp_path / 'file', [], {})}")
    golden("experiments/unreadable.txt", clean("\n".join([*lines, ""]), tmp_path))


def clean(text: str, folder: Path) -> str:
    return text.replace(str(folder), "RUNS")


# --- run folders -------------------------------------------------------------------------------

LINE = {"schema": 1, "key": "k", "number": 1}
SPOILT: Mapping[str, tuple[str, str]] = {
    "no JSON": ("records.jsonl", "{"),
    "a list": ("records.jsonl", "[1]"),
    "no schema": ("records.jsonl", "{}"),
    "a newer schema": ("records.jsonl", '{"schema": 99}'),
    "no record": ("records.jsonl", '{"schema": 1}'),
    "a part of a record": ("records.jsonl", '{"schema": 1, "record": {"key": "k"}}'),
    "no trial": ("trials.jsonl", json.dumps(LINE)),
    "a part of a trial": ("trials.jsonl", json.dumps({**LINE, "trial": {}})),
    "another host": ("host.json", "["),
    "other testbeds": ("testbeds.json", '{"testbeds": 3}'),
    "no campaign": ("campaign.yaml", "rate: [1"),
    "intervals of nothing": ("intervals.jsonl", json.dumps(LINE)),
    "a torn line": ("records.jsonl", '{"schema": 1'),
}


def opened(path: Path) -> list[Any]:
    with RunFolder(path) as folder:
        return [len(folder.records), len(folder.trials), str(folder.unfinished), folder.kept]


def how_many_tests(path: Path) -> int:
    return len(read_campaign(path).tests)


def run_at(path: Path, name: str = "x") -> RunFolder:
    tests = (Test(), Test(frame_size=128))
    return RunFolder.create(path, Campaign("c", tests), FACTS, name)


def test_run_folders_that_are_spoilt(golden: Golden, tmp_path: Path) -> None:
    lines = []
    for title, (file, line) in SPOILT.items():
        run_at(tmp_path, title).close()
        path = tmp_path / title
        with (path / file).open("a") as spoilt:
            spoilt.write(line + "\n" * (title != "a torn line"))
        lines.append(f"# {title}: {refused(opened, path)}")
        lines.append(f"  records {refused(read_records, path)}")
        lines.append(f"  campaign {refused(how_many_tests, path)}")
        lines.append(f"  facts {sorted(read_host(path))} {read_lab(path)}")
        kept = ((path / kind).read_bytes() for kind in ("records.jsonl", "trials.jsonl"))
        lines.append(f"  lines {[*kept]}")
    lines += [
        f"named '{name}': {refused(check_name, tmp_path, name)}"
        for name in ("a b", "", "x", "no campaign", "ok")
    ]
    run_at(tmp_path).close()
    lines.append(f"named 'x': {refused(check_name, tmp_path, 'x')}")
    lines.append(f"no run: {refused(read_campaign, tmp_path)}")
    (tmp_path / "f").write_text("")
    lines.append(f"in a file: {refused(run_at, tmp_path / 'f')}")
    run_at(tmp_path, "linked").close()
    (tmp_path / "linked/campaign.yaml").rename(tmp_path / "elsewhere.yaml")
    (tmp_path / "linked/campaign.yaml").symlink_to(tmp_path / "elsewhere.yaml")
    lines.append(f"a link: {refused(how_many_tests, tmp_path / 'linked')}")
    (tmp_path / "x/trials.jsonl").unlink()
    (tmp_path / "x/trials.jsonl").mkdir()
    lines.append(f"a folder for a file: {refused(opened, tmp_path / 'x')}")
    with run_at(tmp_path, "held"):
        lines.append(f"held: {refused(opened, tmp_path / 'held')}")
    second = run_at(tmp_path, "held")
    lines.append(
        f"another of its name: {second.path}, files {sorted(p.name for p in second.path.iterdir())}"
    )
    second.close()
    golden("experiments/spoilt.txt", clean("\n".join([*lines, ""]), tmp_path))


def test_what_a_run_folder_says(
    golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, record = [], fresh()
    folder = run_at(tmp_path, "a run")
    for until, cluster in ((None, ""), (None, "k 1"), (7, "")):
        folder.until_decided, folder.cluster = until, cluster
        lines.append(f"resumed by: {folder.resume_command}")
    for number, trial in enumerate(record.trials, 1):
        folder.append_trial("t", number, trial)
        lines.append(folder.kept)
    spec, some = record.trials[0].spec, {"offered": [1, 2]}
    for first in (0, 2):
        folder.append_intervals("t", 4, spec, {"first": first, **some})
    lines.append(f"intervals {len((folder.path / 'intervals.jsonl').read_text().splitlines())}")
    folder.append_intervals("t", 5, spec, {"first": 0, **some})
    lines.append(f"intervals {len((folder.path / 'intervals.jsonl').read_text().splitlines())}")
    folder.close()
    folder = RunFolder(folder.path)
    lines += [str(folder.unfinished), str(sorted(p.name for p in folder.path.iterdir()))]
    lab = {
        "testbeds": {"a": {"facts": {"kernel": "5"}}, "b": {"facts": {}}},
        "groups": [["a", "c"], ["b"]],
        "differences": ["kernel"],
    }
    for testbed in ("a", "b", "c", ""):
        evidence = record.trials[0].evidence.model_copy(update={"testbed": testbed})
        trials = tuple(t.model_copy(update={"evidence": evidence}) for t in record.trials)
        there = record.model_copy(update={"trials": trials, "key": f"at {testbed}"})
        lines.append(f"at '{testbed}': {folder.append_record(there, {'v': '1'}).origin}")
        folder.keep_lab(lab)
        lines.append(f"  then: {folder.append_record(there, {}).origin}")
        lines.append(f"  {folder.is_done(there.key)} {folder.is_done('t')} {folder.kept}")
    logs = {"a.log": "x", "..": "y", ".": "z", "b/c": "w"}
    for _ in range(2):
        folder.append_logs("a", logs)
    found = {p.name: p.read_text() for p in (folder.path / "logs/a").iterdir()}
    lines.append(f"logs {found}")

    def full(descriptor: int, line: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store, "append_line", full)
    lines.append(f"full: {refused(folder.append_trial, 't', 9, record.trials[0])}")
    (folder.path / "campaign.yaml").unlink()
    lines.append(f"gone: {refused(folder.append_record, record, {})}")
    folder.close()
    golden("experiments/folder.txt", clean("\n".join([*lines, ""]), tmp_path))
