"""These tests use the command line from outside: what is printed, where, and with which exit
status."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest

import switchmark
import switchmark.cli.steps
import switchmark.lab.turns
import switchmark.observe.facts
import switchmark.observe.noise
import switchmark.runs.anchor
from recorded import fresh, stored_run
from switchmark.campaign.asked import read_asked
from switchmark.campaign.load import from_options
from switchmark.cli import main
from switchmark.cli.app import COMMANDS
from switchmark.cli.doctor import Finding
from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.errors import Exit, Interrupted, Unavailable
from switchmark.hosts.base import Completed
from switchmark.hosts.commit import commit, own_commit
from switchmark.model.record import Record
from switchmark.model.test import AXES, Test
from switchmark.model.visit import Visit
from switchmark.papers.library import Library, library, read
from switchmark.path.choosing import with_engines
from switchmark.path.refusals import check
from switchmark.plugins import Table
from switchmark.runs.journal import Far
from switchmark.runs.workspace import Workspace

STORED = Path(__file__).parent / "data/records-schema-1.jsonl"
RECORD = Record.model_validate(json.loads(STORED.read_text())["record"])


@dataclass(frozen=True)
class Ended:
    status: int
    out: str
    err: str


class FakeLab:
    """This lab finds in every test what the stored record holds; `outcome` changes it, or
    raises."""

    outcome: Callable[[Test], dict[str, Any]] = staticmethod(lambda test: {"doubts": ()})
    stays: tuple[str, ...] = ()

    def __init__(self, folder: Path, *, keep: bool = False, **options: object) -> None:
        self.kept = ["nsenter --target 1 bash"] if keep else []
        self.left = FakeLab.stays

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def versions(self, test: Test) -> Mapping[str, str]:
        return {"switchmark": "1"}

    def visit(self, visit: Visit) -> Record:
        for trial in RECORD.trials:
            visit.on_trial(trial)
        members = {"number": visit.number, "key": visit.key, "test": visit.test}
        changes = {**members, **type(self).outcome(visit.test)}
        return RECORD.model_copy(update=changes)


@pytest.fixture
def cli(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    undrawn: None,
) -> Callable[..., Ended]:
    """Run a command in an empty folder, with the fake lab and without privileges. Its pages have no
    pictures."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(switchmark.lab.turns, "Turns", FakeLab)
    monkeypatch.setattr(switchmark.runs.anchor, "anchor", lambda: None)
    monkeypatch.setattr(switchmark.observe.noise, "busy_cpus", lambda *_: {})

    def call(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["switchmark", *arguments])
        with pytest.raises(SystemExit) as caught:
            main()
        printed = capsys.readouterr()
        return Ended(int(caught.value.code or 0), printed.out, printed.err)

    return call


@pytest.fixture
def outcome(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Test], dict[str, Any]]], None]:
    """Change what the fake lab finds."""

    def change(found: Callable[[Test], dict[str, Any]]) -> None:
        monkeypatch.setattr(FakeLab, "outcome", staticmethod(found))

    return change


def only_run(tmp_path: Path) -> Path:
    (folder,) = (tmp_path / "runs").iterdir()
    return folder


# --- running ---------------------------------------------------------------------------------


def test_a_run_prints_a_table_and_keeps_a_folder(cli, tmp_path: Path) -> None:
    ended = cli("run", "--burst", "1,32")
    assert ended.status == 0
    assert "485 kpps" in ended.out
    assert ended.out.startswith("linux-bridge with burst 1 (485 kpps, 485 to 485 in 3 trials) and")
    assert "are the same within 1 %." in " ".join(ended.out.split())
    assert "learning: received rate" not in ended.out
    assert "learning: received rate" in cli("run", "--wide", "--out", "other").out
    assert "[1/2] linux-bridge burst 1" in ended.err
    assert re.search(r"\[2/2\] linux-bridge burst 32, 0:0\d left", ended.err)
    assert len((only_run(tmp_path) / "trials.jsonl").read_text().splitlines()) == 6
    assert f"records are in runs/{only_run(tmp_path).name}" in ended.err


def test_json_is_one_object_a_test_and_nothing_else(cli) -> None:
    ended = cli("run", "--burst", "1,32", "--json", "--quiet")
    assert ended.err == ""
    found = [json.loads(line) for line in ended.out.splitlines()]
    assert [content["test"]["burst"] for content in found] == [1, 32]


def test_every_command_prints_the_same_object_of_a_test(cli, tmp_path: Path) -> None:
    ran = cli("run", "--burst", "1,32", "--json", "--quiet").out
    folder = only_run(tmp_path)
    for command in ("report", "resume"):
        assert cli(command, f"runs/{folder.name}", "--json").out == ran
    content = json.loads(ran.splitlines()[0])
    assert (content["run"], content["time"]) == (folder.name, RECORD.started)
    assert content["versions"] == {"switchmark": "1"}
    assert content["host"]["cores_usable"] == len(os.sched_getaffinity(0))


def test_a_table_is_as_wide_as_the_terminal_or_as_it_is_asked_to_be(
    cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    narrow, wide = cli("run", "--quiet", "--explain").out, cli("run", "--quiet", "--wide").out
    tables = [text.split("\n\n")[1].splitlines() for text in (narrow, wide)]
    assert max(map(len, tables[0])) <= 80 < max(map(len, tables[1]))
    assert ("hidden columns: " in narrow, "hidden columns: " in wide) == (True, False)


def test_what_is_printed_into_a_pipe_has_80_columns_and_100_with_explanations(cli) -> None:
    axes = ("--switch", "linux-bridge,ovs,ip-forward,macvlan", "--engine", "raw,raw-mmsg,udp")
    options = ("--frame-size", "64,1518", "--burst", "1,32", "--quiet")
    assert 60 < max(map(len, cli("run", *axes, *options).out.splitlines())) <= 80
    assert 80 < max(map(len, cli("run", *axes, *options, "--explain").out.splitlines())) <= 100


def test_five_switches_at_one_load_take_24_lines(cli, outcome) -> None:
    verdicts = {"direct": "sender", "ovs": "switch", "macvlan": "host"}
    doubts = {"ovs": ("cpu-stolen", "not-isolated"), "macvlan": ("cpu-stolen",)}
    outcome(
        lambda test: {
            "verdict": verdicts.get(test.switch, "unknown"),
            "doubts": doubts.get(test.switch, ("not-isolated",)),
            "semantics": "learning",
        }
    )
    switches = "direct,linux-bridge,ovs,ip-forward,macvlan"
    ended = cli("run", "--switch", switches, "--engine", "raw-mmsg", "--quiet")
    lines = ended.out.splitlines()
    assert len(lines) + len(ended.err.splitlines()) <= 24
    assert max(map(len, lines)) <= 80
    table = lines[lines.index(next(line for line in lines if line.startswith("─"))) - 1 :]
    columns = ("switch", "received (min..max)", "lost", "limited by")
    assert [name for name in columns if name in table[0]] == list(columns)
    rows = {row.split()[0]: row for row in table[2:7]}
    assert rows["direct"].endswith("generator")
    assert rows["ovs"].endswith("!")
    assert rows["macvlan"].endswith("!")
    assert rows["linux-bridge"].endswith("unknown")
    text = " ".join(" ".join(lines[lines.index("", 8) :]).split())
    assert text == (
        "! the virtual machine shares its cores with other guests (cpu-stolen, 2 of 5 tests): "
        "these figures may be wrong. Fix: use --rerun 3, or a machine that is not shared. "
        "--explain says more."
    )


def test_a_campaign_is_run_with_axes_of_the_command_line(cli, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("burst: [1, 2]\nframe-size: 64\n")
    ended = cli("run", "c.yaml", "--frame-size", "128", "--json", "--quiet", "--out", "here")
    assert [json.loads(line)["test"]["frame_bytes"] for line in ended.out.splitlines()] == [128] * 2
    assert next((tmp_path / "here").iterdir()).name.startswith("c-")


def test_a_failed_test_makes_one(cli, outcome) -> None:
    outcome(lambda test: {"status": "failed", "error": "no link", "trials": ()})
    ended = cli("run")
    assert ended.status == 1
    assert "test 1 failed: no link" in ended.out


def test_refusing_every_test_makes_three(cli, outcome) -> None:
    outcome(lambda test: {"status": "refused", "error": "not installed", "trials": ()})
    assert cli("run").status == 3


def test_a_doubt_makes_five_only_when_it_is_asked_for(cli, outcome) -> None:
    outcome(lambda test: {"doubts": ("clock",)})
    assert cli("run").status == 0
    assert cli("run", "--strict").status == 5


def test_an_interrupted_run_shows_what_it_has_and_can_be_resumed(
    cli, outcome, tmp_path: Path
) -> None:
    def interrupt(test: Test) -> dict[str, Any]:
        if test.burst == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return {"doubts": ()}

    outcome(interrupt)
    ended = cli("run", "--burst", "1,2,3")
    folder = f"runs/{only_run(tmp_path).name}"
    assert ended.status == 130
    assert "485 kpps" in ended.out
    assert ended.err.endswith(
        "\ninterrupted by SIGINT: kept are 1 of 3 tests and 3 trials of others\n"
        f"resume with: switchmark resume {folder}\n"
    )
    outcome(lambda test: {"doubts": ()})
    ended = cli("resume", folder, "--json")
    assert ended.status == 0
    assert "[1/2] linux-bridge burst 2" in ended.err
    assert [json.loads(line)["test"]["burst"] for line in ended.out.splitlines()] == [1, 2, 3]


def test_what_could_not_be_undone_is_told(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    left = ("could not undo (ip link del x): busy", "what is left is undone by: switchmark clean x")
    monkeypatch.setattr(FakeLab, "stays", left)
    assert "\n".join(left) in cli("run", "--quiet").err


def test_what_is_kept_is_told(cli) -> None:
    assert "nsenter --target 1 bash\n" in cli("run", "--keep").err


def test_a_paper_stands_beside_its_published_values(cli, tmp_path: Path) -> None:
    ended = cli("paper", "ara-2021/table2", "--quick", "--quiet")
    assert ended.status == 0
    assert "published rx.kpps" in ended.out
    assert "batched system calls help UDP sockets" in ended.out
    text = (only_run(tmp_path) / "campaign.yaml").read_text()
    assert "name: ara-2021-table2\n" in text
    assert "duration: 3.0\n" in text


def test_a_run_of_a_paper_keeps_its_experiment_and_is_judged_from_its_folder_alone(
    cli, tmp_path: Path
) -> None:
    ended = cli("paper", "ara-2021/table2", "--quick", "--quiet", "--burst", "8", "--json")
    run = only_run(tmp_path)
    asked = read_asked(run)
    assert asked is not None
    assert asked.asked.experiments == ("ara-2021/table2",)
    assert (asked.asked.quick, asked.asked.axes) == (True, {"burst": "8"})
    assert asked.experiments[0].model_dump() == read("ara-2021/table2").model_dump()
    again = cli("paper", "--from", run, "--quiet", "--json")
    assert json.loads(again.out) == json.loads(ended.out.splitlines()[-1])


def test_a_drawing_of_a_paper_is_confirmed(cli, tmp_path: Path) -> None:
    ended = cli("paper", "ara-2021/table2", "--quick", "-o", "table2.svg")
    assert ended.err.endswith("drawn: table2.svg\n")
    assert (tmp_path / "table2.svg").is_file()


def test_a_papers_objects_are_a_line_each(cli) -> None:
    *tests, experiment = cli("paper", "ara-2021/table2", "--quick", "--json").out.splitlines()
    assert {json.loads(line)["test"]["engine"] for line in tests} > {"udp", "udp-mmsg"}
    assert json.loads(experiment)["experiment"] == "ara-2021/table2"


def test_a_run_has_the_name_that_it_is_given_once(cli, tmp_path: Path) -> None:
    assert cli("run", "--name", "before").status == 0
    assert only_run(tmp_path).name == "before"
    assert "name: run\n" in (only_run(tmp_path) / "campaign.yaml").read_text()
    again = cli("run", "--name", "before")
    assert again.status == 2
    assert "hint: another name, or: switchmark resume runs/before" in again.err
    for name in ("a/b", "", "..", ".x"):
        assert "cannot name a run" in cli("run", "--name", name).err
    assert only_run(tmp_path).name == "before"
    assert cli("report", "runs/before").status == 0


# --- refusing --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["run", "--switch", "lxinux-bridge"], "did you mean linux-bridge?"),
        (["run", "--engine", "raw,rav"], "there is no engine named 'rav'\n  known: auto, xdp, "),
        (["plan", "--scenario", "v2w"], "there is no scenario named 'v2w'"),
        (["run", "--burst", "0"], "--burst: '0' is too small: at least 1"),
        (["run", "--frame-size", "64..128"], "write start..step..stop"),
        (["run", "--capture", "0"], "--capture"),
        (["completion", "tcsh"], "known: bash, zsh, fish"),
        (["run", "absent.yaml"], "absent.yaml cannot be read: No such file"),
        (["run", "--swich", "x"], "--swich"),
        (["runn"], "Did you mean 'run'?"),
        (["run", "a.yaml", "b.yaml"], "b.yaml"),
        (["list", "switchs"], "did you mean 'switches'?\n  known: switches, engines"),
        (["list", "switches", "--port", "x"], "there is no kind of port named 'x'"),
        (["paper", "x"], "there is no experiment named 'x'"),
        (["resume", "absent"], "absent is no run folder"),
        (["report", "absent"], "absent is no run folder"),
        (["compare", "absent", "absent"], "absent is no run folder"),
        (["clean", "sm0000"], "there is no run sm0000"),
        (["clean", "--forget", "local"], "this machine is here"),
        (["clean", "--host", "m6", "--forget", "m6"], "--forget is of runs that"),
    ],
)
def test_a_request_that_cannot_be_met_ends_with_two(
    arguments: list[str], expected: str, cli, tmp_path: Path
) -> None:
    ended = cli(*arguments)
    assert ended.status == 2
    assert ended.err.startswith("error: ")
    assert expected in ended.err
    assert "Traceback" not in ended.err
    assert ended.out == ""
    assert not (tmp_path / "runs").exists()


def test_all_impossible_combinations_of_a_sweep_are_told_at_once(cli) -> None:
    ended = cli("run", "--switch", "x,y", "--engine", "raw")
    assert ended.err.startswith("error: 2 problems\n  --switch: there is no switch named 'x'\n")


def test_an_error_has_its_hint_below_it(cli, outcome) -> None:
    def refuse(test: Test) -> dict[str, Any]:
        raise Unavailable("no root here", hint="sudo switchmark run")

    outcome(refuse)
    ended = cli("run", "--quiet")
    assert ended.status == 3
    assert ended.err == "error: no root here\n\nhint: sudo switchmark run\n"


def test_a_host_that_is_gone_does_not_keep_a_run_for_ever(
    cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("switchmark.runs.clean.default_base", lambda: tmp_path / "here")
    run = Workspace(tmp_path / "here")
    run.journal.intend(Far(host="m6", folder=str(run.folder)))
    run.journal.close()
    result = cli("clean")
    assert result.status == 4
    assert result.out.startswith(f"{run.run}: incomplete\n  failed: the host m6 is not known here")
    assert result.err.endswith(": switchmark clean --forget m6\n")
    forgotten = cli("clean", "--forget", "m6")
    assert forgotten.status == 0
    assert forgotten.out == f"{run.run}: cleaned\n  forget what is left on host m6 (1)\n"
    assert forgotten.err == ""
    assert cli("clean").out == "nothing to clean\n"


@pytest.mark.parametrize("position", [0, 1, 2])
def test_debug_shows_the_traceback_of_an_expected_error(position: int, cli) -> None:
    arguments = ["run", "--burst=0"]
    arguments.insert(position, "--debug")
    ended = cli(*arguments)
    assert ended.status == 2
    assert "Traceback" in ended.err
    assert ended.err.endswith("error: --burst: '0' is too small: at least 1\n")


def test_a_bug_is_told_as_one_and_its_traceback_kept(cli, outcome, tmp_path: Path) -> None:
    outcome(lambda test: {}[test])
    ended = cli("run", "--quiet")
    assert ended.status == 70
    assert "error: a bug in switchmark: KeyError" in ended.err
    assert "Traceback" not in ended.err
    (log,) = tmp_path.glob("switchmark-bug-*.log")
    assert str(log) in ended.err
    assert "Traceback" in log.read_text()


def test_an_interruption_before_a_run_ends_with_130(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        raise Interrupted("interrupted by SIGTERM")

    monkeypatch.setattr(switchmark.runs.anchor, "anchor", interrupt)
    assert cli("run").status == 130


# --- looking ---------------------------------------------------------------------------------


def test_stored_runs_are_reported_and_compared(cli, tmp_path: Path) -> None:
    for place in ("one", "two"):
        cli("run", "--burst", "1,32", "--out", place)
    one, two = (str(next((tmp_path / place).iterdir())) for place in ("one", "two"))
    assert "485 kpps" in cli("report", one).out
    assert len(cli("report", one, two, "--json").out.splitlines()) == 4
    assert cli("report", one, "-o", "page.html").out == ""
    assert "485 kpps" in (tmp_path / "page.html").read_text()
    assert cli("report", one, "-o", "x.gif").status == 2
    assert not (tmp_path / "x.gif").exists()
    assert "1.000" in cli("compare", one, two).out
    lines = cli("compare", one, two, "--json").out.splitlines()
    assert [json.loads(line)["ratio"] for line in lines] == [1, 1]
    assert json.loads(lines[0])["before"]["run"] == Path(one).name


def test_a_test_that_is_lacking_makes_a_comparison_one(cli, outcome, tmp_path: Path) -> None:
    cli("run", "--burst", "1,2", "--out", "good")
    cli("run", "--burst", "1", "--out", "less")
    outcome(lambda test: {"status": "failed", "error": "no link", "trials": ()})
    cli("run", "--burst", "1,2", "--out", "bad")
    good, less, bad = (str(next((tmp_path / place).iterdir())) for place in ("good", "less", "bad"))
    assert cli("compare", good, good).status == 0
    assert cli("compare", less, good).status == 0
    for before, after in ((good, bad), (bad, good), (good, less)):
        assert cli("compare", before, after).status == 1
        assert cli("compare", before, after, "--json").status == 1


def test_a_slowdown_makes_one_only_when_it_is_asked_for(cli, outcome, tmp_path: Path) -> None:
    def slowly(factor: float, repeats: int = 5) -> Callable[[Test], dict[str, Any]]:
        trials = tuple(
            RECORD.trials[0].model_copy(
                update={"rx_frames": int(factor * (10**6 + 1000 * n)), "elapsed_ns": 10**9}
            )
            for n in range(repeats)
        )
        return lambda test: {"doubts": (), "trials": trials}

    runs = {"fast": slowly(1), "slow": slowly(0.8), "short": slowly(1, repeats=2)}
    for place, found in runs.items():
        outcome(found)
        cli("run", "--out", place)
    fast, slow, short = (str(next((tmp_path / place).iterdir())) for place in runs)
    ended = cli("compare", fast, slow)
    assert (ended.status, "slower by" in ended.out) == (0, True)
    assert ended.out.startswith("hosts and versions: the same in all runs\n")
    for first, second, percent, status in (
        (fast, slow, 10, 1),
        (fast, slow, 30, 0),
        (slow, fast, 1, 0),
        (fast, short, 10, 6),
    ):
        files = ("--junit", "x.xml", "--markdown", "x.md")
        ended = cli("compare", first, second, "--fail-on", f"slower:{percent}%", *files)
        assert ended.status == status
        count = {0: "passed: 1", 1: "passed: 0, failed: 1", 6: "passed: 0, cannot tell: 1"}[status]
        assert f"\n{count}" in ended.out
        assert ('failures="1"' in (tmp_path / "x.xml").read_text()) is (status == 1)
        assert ('skipped="1"' in (tmp_path / "x.xml").read_text()) is (status == 6)
        assert f"**{count}" in (tmp_path / "x.md").read_text()
    for arguments, status in ((["pass"], 0), (["fail"], 1), ([], 6)):
        options = [f"--undecided={word}" for word in arguments]
        ended = cli("compare", fast, short, "--fail-on", "slower:10%", *options)
        assert ended.status == status
    ended = cli("compare", fast, short, "--undecided", "fail")
    assert (ended.status, "--fail-on" in ended.err) == (2, True)
    assert (
        "fewer than three repeats: about 3 rounds would decide" in cli("compare", fast, short).out
    )
    ended = cli("compare", fast, slow, "--fail-on", "slower:3%", "--json")
    assert ended.status == 1
    assert ended.err.startswith("passed: 0, failed: 1; conditions: slower:3%")
    assert json.loads(ended.out)["failures"][0]["condition"] == "slower:3%"
    ended = cli("compare", fast, slow, "--fail-on", "slow:3%")
    assert (ended.status, "known: slower:3%" in ended.err) == (2, True)
    assert cli("compare", fast, slow, "--junit", "no/x.xml").status == 4


def test_the_tests_of_one_run_are_judged_together_whichever_are_printed(
    cli, tmp_path: Path
) -> None:
    cli("run", "--burst", "1,2,3,4", "--out", "one")
    (run,) = (tmp_path / "one").iterdir()
    for options, pairs in (((), 6), (("--base", "burst=1"), 3)):
        lines = cli("compare", str(run), *options, "--json").out.splitlines()
        assert [json.loads(line)["comparisons"] for line in lines] == [4] * pairs


def test_runs_are_compared_with_a_base_in_pairs_and_as_repeats(cli, tmp_path: Path) -> None:
    for place, switch in (("one", "linux-bridge"), ("two", "ip-forward"), ("all", None)):
        switches = switch or "linux-bridge,ip-forward,macvlan"
        cli("run", "--switch", switches, "--repeat", "1", "--duration", "1", "--out", place)
    one, two, all_runs = (str(next((tmp_path / name).iterdir())) for name in ("one", "two", "all"))

    def pairs(*arguments: str) -> list[tuple[str, str]]:
        lines = map(json.loads, cli("compare", *arguments, "--json").out.splitlines())
        sides = ("before", "after")
        paired = [line for line in lines if line["before"] and line["after"]]
        return [tuple(pair[side]["test"]["switch"] for side in sides) for pair in paired]

    bridge, router, macvlan = "linux-bridge", "ip-forward", "macvlan"
    assert pairs(all_runs) == [(bridge, router), (bridge, macvlan), (router, macvlan)]
    assert pairs(all_runs, "--base", macvlan) == [(macvlan, bridge), (macvlan, router)]
    assert pairs(one, two, "--base", router) == [(router, bridge)]
    assert pairs(one, two, "--ignore", "switch") == [(bridge, router)]
    assert pairs(one, all_runs, f"{one},{one}", "--base", Path(one).name) == [(bridge, bridge)] * 2
    ended = cli("compare", one, two)
    assert "have no test in common" in ended.err
    assert ended.err.endswith("hint: --ignore switch pairs those that are most alike\n")
    assert (
        "there is no axis 'swich'; did you mean 'switch'?"
        in cli("compare", one, two, "--ignore", "swich").err
    )
    assert "has the value 'vpp'" in cli("compare", all_runs, "--base", "vpp").err


def test_runs_without_a_common_test_cannot_be_compared(cli, tmp_path: Path) -> None:
    for place, burst in (("one", "1"), ("two", "2")):
        cli("run", "--burst", burst, "--out", place)
    one, two = (str(next((tmp_path / place).iterdir())) for place in ("one", "two"))
    assert "have no test in common" in cli("compare", one, two).err


def test_a_plan_names_each_test_before_its_steps(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switchmark.cli.steps, "plan", lambda *tests: ["ip link add x"])
    assert cli("plan", "--burst", "1,2").out.partition("\n\n")[2] == (
        "# --- test 1 of 2: linux-bridge burst 1\n"
        "# --- test 2 of 2: linux-bridge burst 2\n"
        "# path of tests 1-2: set up once, if none of them fails\n"
        "ip link add x\n"
    )
    assert cli("plan", "--flows", "1,2").out.partition("\n\n")[2] == (
        "# --- test 1 of 2: linux-bridge flows 1\nip link add x\n\n"
        "# --- test 2 of 2: linux-bridge flows 2\nip link add x\n"
    )


def test_a_plan_begins_with_its_tests_paths_and_time(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switchmark.cli.steps, "plan", lambda *tests: ["ip link add x"])
    first, *rest = cli("plan", "--burst", "1..9", "--flows", "1,2").out.splitlines()
    assert re.fullmatch(r"# 18 tests on 2 paths, about [3-6]:\d\d to run", first)
    assert rest[:2] == ["#   burst: 1, 2, 3, 4, 5, 6, 7, 8, ... (9)", "#   flows: 1, 2"]
    assert re.fullmatch(r"#   engine (xdp|mmap) \(--engine auto\)", rest[2])
    assert rest[3] == ""
    lines = cli("plan", "--switch", "ovs,linux-bridge").out.splitlines()
    assert re.fullmatch(r"# 2 tests on 2 paths, about \d:\d\d to run", lines[0])
    assert lines[1] == "# compared switches take turns, with all of their paths up"
    lines = cli("plan", "--flows", "1,2", "--repeat", "2").out.splitlines()
    assert lines[1] == "# tests take turns: each path is set up once for each round of trials"
    assert cli("plan").out.startswith("# 1 test on 1 path, about 0:")


def test_names_are_listed_with_why_they_cannot_be_used(cli) -> None:
    class Missing:
        name = "missing"
        summary = "not there"
        port_kinds = frozenset({"veth"})

        def probe(self, host: object) -> None:
            raise Unavailable("no such program", hint="apt-get install it")

    missing: Any = Missing()
    with ENVIRONMENTS.replaced_by(Table({"missing": missing}, {})):
        ended = cli("list", "environments")
        of_veth = cli("list", "environments", "--port", "veth", "--json")
        of_tap = cli("list", "environments", "--port", "tap", "--json")
    assert ended.out.splitlines() == [
        "✗ missing  not there",
        "           no such program",
        "           hint: apt-get install it",
    ]
    (entry,) = json.loads(of_veth.out)
    assert entry | {"port_kinds": None} == {
        "name": "missing",
        "summary": "not there",
        "usable": False,
        "why_not": "no such program",
        "hint": "apt-get install it",
        "version": None,
        "mode": None,
        "verified": None,
        "missing": {},
        "verified_ports": {},
        "port_kinds": None,
    }
    assert json.loads(of_tap.out) == []


def test_the_list_says_which_ports_of_an_engine_were_seen_in_a_vm_only(
    monkeypatch: pytest.MonkeyPatch, cli
) -> None:
    built = {"version": "1", "engines": [{"name": name} for name in ("dpdk", "mmap")]}
    monkeypatch.setattr(
        "switchmark.hosts.local.LocalHost.run",
        lambda *_, **__: Completed(0, json.dumps(built).encode(), b""),
    )
    entries = {entry["name"]: entry for entry in json.loads(cli("list", "engines", "--json").out)}
    emulated = {"nic-pci": "verified in a VM", "vf-pci": "verified in a VM"}
    assert entries["dpdk"]["verified_ports"] == emulated
    assert entries["mmap"]["verified_ports"] == {}


@pytest.mark.parametrize("thing", ["scenarios", "searches", "functions"])
def test_what_needs_no_program_is_usable(thing: str, cli) -> None:
    """Or one that no package has, which users build and name, or load into the kernel."""
    for entry in json.loads(cli("list", thing, "--json").out):
        text = f"{entry.get('why_not')} {entry.get('hint')}"
        users = "SWITCHMARK_" in text or "module is not loaded" in text
        assert entry["usable"] or users, entry


@pytest.mark.parametrize("chosen", ["*/table*", pytest.param("*", marks=pytest.mark.further)])
def test_the_list_of_papers_says_what_its_marks_mean(
    chosen: str, cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = tuple(library().matching(chosen))
    monkeypatch.setattr(Library, "names", names)
    *entries, blank, legend = cli("list", "papers").out.splitlines()
    listed = [line[2:].partition(":")[0] for line in entries if not line.startswith(" ")]
    assert listed == [*names]
    marks = {line[0] for line in entries if not line.startswith(" ")}
    assert blank == ""
    assert legend == "✓ all points can be measured here   · some of them   ✗ none"
    assert marks <= set(legend)


def test_the_doctor_names_the_command_that_mends(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    findings = [
        Finding("tools", "ip", False, "not there", "apt-get install iproute2", needed=True),
        Finding("cores", "usable", True, "8 (0-7)"),
    ]
    monkeypatch.setattr("switchmark.cli.doctor.examine", lambda: findings)
    ended = cli("doctor")
    assert ended.status == 3
    assert ended.out.splitlines() == [
        "✗ This host cannot run tests: ip missing.",
        "",
        "tools",
        "  ✗ ip      not there",
        "            fix: apt-get install iproute2",
        "cores",
        "  ✓ usable  8 (0-7)",
        "",
        "✓ available   - missing, optional   ! makes figures unreliable   ✗ missing, required",
    ]
    assert json.loads(cli("doctor", "--json").out)[0]["mend"] == "apt-get install iproute2"


@pytest.mark.parametrize(
    ("spoiling", "summary"),
    [
        ([], "✓ This host is fit to measure."),
        (
            [Finding("noise", "CPU 0", False, "lost 84%", spoils=True)],
            "! Tests run here, but their figures are unreliable now: see CPU 0.",
        ),
    ],
)
def test_the_doctor_tells_what_is_optional_from_what_spoils_figures(
    cli, monkeypatch: pytest.MonkeyPatch, spoiling: list[Finding], summary: str
) -> None:
    findings = [Finding("switches", "netkit", False, "not in your kernel"), *spoiling]
    monkeypatch.setattr("switchmark.cli.doctor.examine", lambda: findings)
    ended = cli("doctor")
    assert ended.status == 0
    assert ended.out.splitlines()[0] == summary
    assert re.search(r"^  - netkit ", ended.out, re.MULTILINE)
    assert bool(spoiling) == bool(re.search(r"^  ! CPU 0 ", ended.out, re.MULTILINE))


@pytest.mark.parametrize(
    ("busy", "governor", "reasons"),
    [
        ({0: 0.8412}, "performance", "others take 84% of CPU 0"),
        ({}, "powersave", "the frequency governor is powersave"),
        ({1: 0.3}, "powersave", "others take 30% of CPU 1, the frequency governor is powersave"),
        ({}, None, ""),
    ],
)
def test_a_run_on_a_host_that_is_not_fit_says_so_before_it_measures(
    cli, monkeypatch: pytest.MonkeyPatch, busy: dict[int, float], governor: str, reasons: str
) -> None:
    monkeypatch.setattr(switchmark.observe.noise, "busy_cpus", lambda *_: busy)
    path = "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor"
    files = {path: governor.encode()} if governor else {}
    monkeypatch.setattr(switchmark.lab.host_preparation, "_read", lambda *_: files)
    ended = cli("run")
    warnings = [line for line in ended.err.splitlines() if line.startswith("warning: ")]
    warning = f"warning: this host is not fit to measure: {reasons} (switchmark doctor)"
    assert warnings == ([warning] if reasons else [])
    if reasons:
        assert ended.err.index("warning: ") < ended.err.index("[1/1]")
    assert "warning" not in cli("run", "--quiet").err


def test_every_axis_is_an_option_of_run_plan_and_paper(cli) -> None:
    for command in ("run", "plan", "paper"):
        text = cli(command, "--help").out
        for axis in AXES.values():
            assert f"{axis.option} " in text, (command, axis.name)


def test_help_has_axes_in_groups_and_ends_with_examples(cli) -> None:
    text = cli("run", "--help").out
    groups = re.findall(r"^(\w.*):$", text, re.MULTILINE)
    assert groups == [
        *("Arguments", "Options", "What is measured", "Environments, ports and resources"),
        *("Load", "Trials", "Statistics", "Examples"),
    ]
    by_group = dict(zip(groups, re.split(r"^\w.*:$", text, flags=re.MULTILINE)[1:], strict=True))
    assert by_group["Load"].index("--frame-size") < by_group["Load"].index("--vlan")
    assert "--until-certain" in by_group["Statistics"]
    assert by_group["What is measured"].strip().startswith("--switch ")


def test_the_examples_of_help_are_requests_that_can_be_met(cli) -> None:
    """Those of `plan` and `run` at least: axes are checked before anything is touched."""
    for command in ("run", "plan"):
        examples = cli(command, "--help").out.partition("Examples:\n")[2].splitlines()
        assert len(examples) >= 2
        for line in examples:
            arguments = shlex.split(line.partition("|")[0])
            assert arguments[:2] == ["switchmark", command]
            axes = dict(zip(arguments[2::2], arguments[3::2], strict=False))
            chosen = {axis.name: axes[axis.option] for axis in AXES.values() if axis.option in axes}
            assert from_options(chosen, check, lambda tests: with_engines(tests, bool)).tests


@pytest.mark.parametrize("arguments", [["--version"], ["version"]])
def test_the_version_is_told(arguments: list[str], cli) -> None:
    commit_id = commit(Path(switchmark.__file__).parent)
    suffix = f" (commit {commit_id})" if commit_id else ""
    assert cli(*arguments).out == f"switchmark {switchmark.__version__}{suffix}\n"


def test_no_command_shows_the_help(cli) -> None:
    ended = cli()
    assert ended.status == 0
    assert "compare" in ended.out


# --- exit codes and completion ---------------------------------------------------------------


def test_the_page_of_exit_codes_has_those_of_the_code() -> None:
    page = Path(__file__).parents[2] / "docs/guide/exit-codes.md"
    rows = re.findall(r"^\| (\d+) \| `([a-z]+)` \|", page.read_text(), re.MULTILINE)
    assert rows == [(str(int(code)), code.name.lower()) for code in Exit]


def test_no_command_ends_with_a_code_of_its_own() -> None:
    """A number beside `return`, or an exit, is said in `errors.Exit` alone; 0 is fine."""
    for path in (Path(switchmark.__file__).parent / "cli").glob("*.py"):
        numbers = re.findall(r"return (?:.* else )?[1-9]\d*$", path.read_text(), re.MULTILINE)
        assert numbers == [], path.name


COMPLETED = {
    "switchmark ru": ["run"],
    "switchmark run --en": ["--environment", "--engine", "--encapsulation"],
    "switchmark run --engine raw,x": ["raw,xdp", "raw,xdp-live"],
    "switchmark plan --switch linux-": ["linux-bridge"],
    "switchmark run --touch h": ["header"],
    "switchmark run --burst 1": [],
    "switchmark completion f": ["fish"],
    "switchmark list sw": ["switches"],
    "switchmark paper ara-2021/table2": ["ara-2021/table2"],
}


@pytest.mark.parametrize("line", COMPLETED)
def test_a_shell_is_told_what_may_follow(
    line: str, cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - 1))
    monkeypatch.setenv("_SWITCHMARK_COMPLETE", "bash_complete")
    ended = cli()
    assert (ended.status, ended.out.split()) == (0, [f"plain,{word}" for word in COMPLETED[line]])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("shell", "cword", "out"),
    [("zsh", "3", "plain\nheader\n_\n"), ("fish", "he", "plain,header\n")],
)
def test_every_shell_is_told_what_may_follow(
    shell: str, cword: str, out: str, cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMP_WORDS", "switchmark run --touch he")
    monkeypatch.setenv("COMP_CWORD", cword)
    monkeypatch.setenv("_SWITCHMARK_COMPLETE", f"{shell}_complete")
    assert cli().out == out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_printed_and_written_nowhere(
    shell: str, cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    ended = cli("completion", shell)
    assert ended.status == 0
    assert f"_SWITCHMARK_COMPLETE={shell}_complete" in ended.out
    assert list(tmp_path.iterdir()) == []


def test_bash_completes_by_the_script(tmp_path: Path) -> None:
    command = Path(sys.executable).with_name("switchmark")
    if not command.exists():
        pytest.skip("switchmark is not installed beside this Python")
    code = (
        f'eval "$({command} completion bash)"; COMP_WORDS=({command} run --touch he); COMP_CWORD=3;'
        f' _switchmark_completion {command}; echo "${{COMPREPLY[@]}}"'
    )
    ended = subprocess.run(["bash", "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert (ended.stdout, ended.stderr) == ("header\n", "")


# --- as a program ----------------------------------------------------------------------------


def program(*arguments: str, code: str = "") -> subprocess.CompletedProcess[str]:
    source = str(Path(switchmark.__file__).parents[1])
    run = ["-c", code] if code else ["-m", "switchmark", *arguments]
    return subprocess.run(
        [sys.executable, *run],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": source},
    )


def test_it_runs_as_a_module() -> None:
    built = f" (commit {own_commit()})" if own_commit() else ""
    assert program("--version").stdout == f"switchmark {switchmark.__version__}{built}\n"


LOADED = """
import sys
before = set(sys.modules)
{what}
print(*sorted(set(sys.modules) - before), file=sys.stderr)
"""

HELP = """
from switchmark.cli import main
sys.argv = ["switchmark", {words}]
try: main()
except SystemExit: pass
"""

HEAVY = {"dask", "duckdb", "hdrh", "MLRsearch", "numpy", "rich", "vl_convert", "yaml"}


def loaded(command: str) -> set[str]:
    """Return the modules that a program loads, but for those that Python itself needs to start."""
    ended = program(code=LOADED.format(what=command))
    assert ended.returncode == 0, ended.stderr
    return set(ended.stderr.split())


def top_of(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


def test_the_package_loads_nothing_but_itself() -> None:
    assert loaded("import switchmark") == {"switchmark"}


@pytest.mark.parametrize("command", ["'--help'", "'-h'", ""])
def test_the_help_of_the_whole_loads_no_command(command: str) -> None:
    modules = loaded(HELP.format(words=command))
    assert not top_of(modules) & (HEAVY | {"pydantic"})
    own_modules = {name for name in modules if name.startswith("switchmark.")}
    names = {"errors", "cli", "cli.app", "cli.help", "cli.output"}
    names |= {"hosts", "hosts.signals", "model", "model.printable"}
    assert own_modules == {f"switchmark.{name}" for name in names}


def test_the_help_of_no_command_loads_what_is_heavy() -> None:
    """But for pydantic, of which axes are made."""
    modules = loaded("".join(HELP.format(words=f"'{command}', '--help'") for command in COMMANDS))
    assert not top_of(modules) & HEAVY
    folders = {name.split(".")[1] for name in modules if name.startswith("switchmark.")}
    assert folders == {"cli", "errors", "extras", "hosts", "model", "regular_file"}
    assert not {name for name in modules if name.startswith("switchmark.hosts.")} - {
        "switchmark.hosts.signals"
    }


def test_the_help_of_the_whole_tells_each_command_in_a_line(cli) -> None:
    lines = cli("--help").out.partition("Commands:\n")[2].splitlines()[: len(COMMANDS)]
    assert [line.split(maxsplit=1) for line in lines] == [
        [name, arguments] for name, (_, arguments) in COMMANDS.items()
    ]
    assert max(map(len, lines)) <= 80


def test_each_command_of_the_table_is_there_and_told_in_full(cli) -> None:
    for name in COMMANDS:
        ended = cli(name, "--help")
        assert ended.status == 0, name
        assert ended.out.startswith(f"Usage: switchmark {name} "), ended.out
        assert "Options:" in ended.out


def test_help_says_a_default_once_and_arguments_as_they_are_written(cli) -> None:
    usages = {}
    for name in COMMANDS:
        text = cli(name, "--help").out
        usages[name] = text.partition("\n")[0].removeprefix(f"Usage: switchmark {name} [OPTIONS]")
        for line in re.split(r"\n  (?=-)", text):
            assert not re.search(r"\[.*\]\s+\[default:", line, re.DOTALL), line
    assert usages["run"] == " [CAMPAIGN.yaml]"
    assert usages["compare"] == " RUN..."
    assert usages["query"] == " RUN... [SQL]"
    assert usages["clean"] == " [RUN]..."


@pytest.mark.parametrize(
    ("command", "description"), [("report", "test"), ("compare", "pair"), ("query", "row")]
)
def test_help_says_what_json_has_an_object_of(command: str, description: str, cli) -> None:
    assert f"one JSON object per {description}" in " ".join(cli(command, "--help").out.split())


def test_the_example_of_a_query_is_no_part_of_its_sentences(cli) -> None:
    text, _, examples = cli("query", "--help").out.partition("Examples:\n")
    assert "group by switch" not in text
    assert 'switchmark query runs/before "select ' in examples


def test_charts_of_a_picture_are_chosen_with_their_width(cli, tmp_path: Path) -> None:
    assert cli("run", "--burst", "1,32", "--name", "r", "--quiet").status == 0
    first = cli("report", "runs/r", "-o", "first.svg")
    assert (first.status, first.out) == (0, "")
    assert first.err.startswith("first.svg: figures; there are ")
    (other, *_) = first.err.partition(" more charts: ")[2].partition("\n")[0].split(", ")
    chosen = cli("report", "runs/r", "-o", "x.svg", "--chart", other, "--width", "3.3in")
    assert (chosen.status, chosen.err) == (0, "")
    assert re.search(r'<svg[^>]* width="238"', (tmp_path / "x.svg").read_text())
    assert cli("report", "runs/r", "-o", "all.svg", "--chart", "all").err == ""
    sizes = {name: (tmp_path / f"{name}.svg").stat().st_size for name in ("first", "x", "all")}
    assert sizes["all"] > max(sizes["first"], sizes["x"])


def test_a_folder_gets_every_chart_with_its_origin(cli, tmp_path: Path) -> None:
    assert cli("run", "--frame-size", "64,512,1500", "--name", "r", "--quiet").status == 0
    drawn = cli("report", "runs/r", "-o", "charts/")
    assert (drawn.status, drawn.out) == (0, "")
    paths = sorted((tmp_path / "charts").iterdir())
    assert sorted(drawn.err.split()) == [f"charts/{path.name}" for path in paths]
    assert {path.suffix for path in paths} == {".svg", ".pdf"}
    assert "rate-against-size.svg" in {path.name for path in paths}
    picture = (tmp_path / "charts" / "rate-against-size.svg").read_text()
    assert f"switchmark {switchmark.__version__}" in picture
    one = cli("report", "runs/r", "-o", "charts", "--chart", "rate-against-size", "--width", "3in")
    assert one.err.split() == ["charts/rate-against-size.svg", "charts/rate-against-size.pdf"]
    narrow = (tmp_path / "charts" / "rate-against-size.svg").read_text()
    assert f"switchmark {switchmark.__version__}" not in narrow


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "x.svg", "--chart", "pie"], "no chart 'pie'"),
        (["-o", "x.html", "--chart", "figures"], "are for a picture"),
        (["--width", "3in"], "are for a picture"),
        (["-o", "x.pdf", "--width", "wide"], "'wide' is not a length"),
        (["-o", "x.pdf", "--width", "3 miles"], "'3 miles' is not a length"),
        (["-o", "x.pdf", "--width", "1in"], "120 to 4000 points"),
    ],
)
def test_a_picture_that_cannot_be_is_refused(arguments: list[str], message: str, cli) -> None:
    assert cli("run", "--name", "r", "--quiet").status == 0
    ended = cli("report", "runs/r", *arguments)
    assert ended.status == Exit.USAGE
    assert message in ended.err


def test_help_is_a_command(cli) -> None:
    assert cli("help").out == cli("--help").out
    assert cli("help", "query").out == cli("query", "--help").out
    assert cli("help", "repport").status == Exit.USAGE


def test_a_list_of_nothing_in_particular_is_that_of_the_switches(cli) -> None:
    ended = cli("list")
    assert ended.status == 0
    switches, _, rest = ended.out.partition("\n\n")
    assert f"{switches}\n" == cli("list", "switches").out
    assert "engines" in rest


def test_a_command_that_is_not_there_is_refused_with_the_nearest(cli) -> None:
    ended = cli("repport", "runs/a")
    assert ended.status == Exit.USAGE
    assert "'report'" in ended.err


@pytest.mark.parametrize("argument", ["--help", "version"])
@pytest.mark.parametrize("mode", ["", "1"], ids=["usual", "development"])
def test_a_closed_pipe_is_no_bug(argument: str, mode: str) -> None:
    """Python's development mode reports what it otherwise drops at the end."""
    source = str(Path(switchmark.__file__).parents[1])
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as closed:  # noqa: PTH123
        ended = subprocess.run(
            [sys.executable, "-m", "switchmark", argument],
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": source, "PYTHONDEVMODE": mode},
        )
    assert (ended.returncode, ended.stderr) == (1, "")


def test_a_page_is_written_in_an_ascii_locale(tmp_path: Path) -> None:
    run = stored_run(tmp_path, [fresh()])
    ended = subprocess.run(
        [sys.executable, "-m", "switchmark", "report", str(run), "-o", str(tmp_path / "r.html")],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(switchmark.__file__).parents[1]),
            "LC_ALL": "C",
            "PYTHONUTF8": "0",
            "PYTHONCOERCECLOCALE": "0",
        },
    )
    assert ended.returncode == 0, ended.stderr
    assert "</html>" in (tmp_path / "r.html").read_text("utf-8")


# --- standards -----------------------------------------------------------------------------------


def test_conform_measures_a_standard_and_names_what_is_open(cli, tmp_path: Path) -> None:
    ended = cli("conform", "rfc9004", "--quick", "--engine", "raw-mmsg", "-o", "answers.html")
    assert ended.status == 1
    lines = ended.out.splitlines()
    assert lines[0].startswith("RFC 9004 (May 2021): ")
    assert lines[-1].startswith("PARTIAL (clauses second-hand, quick run): RFC 9004 (May 2021): ")
    assert "2 tests, about" in ended.err
    assert "<td>6.2b</td>" in (tmp_path / "answers.html").read_text()
    stored = cli("conform", "rfc9004", str(only_run(tmp_path)), "--json")
    assert stored.status == 1
    assert stored.err == ""
    content = json.loads(stored.out)
    assert (content["word"], content["quick"]) == ("PARTIAL", True)
    assert len([*(tmp_path / "runs").iterdir()]) == 1


def test_conform_measures_only_what_a_run_lacks(cli, tmp_path: Path) -> None:
    cli("conform", "rfc2544", "--quick", "--engine", "raw-mmsg", "--name", "first")
    run = str(tmp_path / "runs/first")
    again = cli("conform", "rfc2544", run, "--quick", "--engine", "raw-mmsg", "--name", "more")
    assert not (tmp_path / "runs/more").exists()
    assert again.status == 1
    cli("conform", "rfc2544", run, "--quick", "--switch", "ovs", "--name", "other")
    assert "switch: ovs" in (tmp_path / "runs/other/campaign.yaml").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rfc25"], "there is no standard named 'rfc25'"),
        (["rfc2544", "-o", "x.pdf"], "-o writes .html or .md, not 'x.pdf'"),
        (["rfc2544", "-o", "none/x.md"], "there is no folder none for x.md"),
        (["rfc2544", "--search", "ndr"], "--search is set by the standard"),
        (["rfc2544", "--switch", "ovss"], "ovss"),
        (["rfc2544", "nowhere"], "nowhere is no run folder"),
    ],
)
def test_conform_refuses_what_it_cannot_do(cli, words: list[str], message: str) -> None:
    ended = cli("conform", *words)
    assert ended.status == 2
    assert message in ended.err
