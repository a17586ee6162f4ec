"""These tests check what a run leaves in the care of a host that ssh reaches, and how leftovers
there are cleaned up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from switchmark.errors import SetupFailed, Unavailable
from switchmark.hosts.recording import RecordingHost
from switchmark.runs.clean import Cleaned, clean_there
from switchmark.runs.far_run import FarRun
from switchmark.runs.journal import Command, Far, Journal, Lease, Restore, Stop, Undo
from switchmark.runs.workspace import Workspace

RUN, FOLDER = "sm1a2b", "/run/switchmark/sm1a2b"


class Holding:
    """The far end of a run: it notes what it is told."""

    boot, pid, started = "b00t", 71, 7100

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.alive = True
        self.gone = False

    def lives(self) -> bool:
        return self.alive

    def __getattr__(self, name: str) -> Any:
        def tell(*arguments: object, **options: object) -> None:
            if self.gone:
                raise SetupFailed("the connection ended")
            self.told.append((name, *arguments, *options.items()))

        return tell


class There(RecordingHost):
    """A host that ssh reaches."""

    is_far = True
    owner = ""
    is_up = True
    left: Sequence[tuple[str, str, bool]] = ()

    def __init__(self, name: str = "left", user: bytes = b"0\n") -> None:
        super().__init__({("id", "-u"): user}, name=name)
        self.holds: list[Holding] = []
        self.asked: list[tuple[object, ...]] = []

    @property
    def up(self) -> bool:
        return self.is_up

    def hold(self, run: str, folder: str, names: Sequence[str]) -> Any:
        self.asked.append((run, folder, *names))
        self.holds.append(Holding())
        return self.holds[-1]

    def runs_there(self) -> Sequence[tuple[str, str, bool]]:
        return self.left

    def undo_run(self, run: str, folder: str) -> None:
        if folder == "/stuck":
            raise SetupFailed("it is stuck")
        self.asked.append((run, folder))


@pytest.fixture
def journal(tmp_path: Path) -> Any:
    made = Journal.create(tmp_path / "journal", RUN)
    yield made
    made.close()


def led(journal: Journal, host: There) -> FarRun:
    far = FarRun(host, RUN, FOLDER)
    journal.mirrors.append(far.note)
    far.hold()
    return far


def test_a_far_host_holds_the_run_once_and_again_after_a_lost_connection(journal: Journal) -> None:
    host = There()
    far = led(journal, host)
    far.hold()
    assert host.asked == [(RUN, FOLDER, "ports", "switch")]
    (name, line), *rest = host.holds[0].told
    assert (name, rest) == ("journal", [])
    assert json.loads(line) == {
        "entry": "begin",
        "run": RUN,
        "boot": "b00t",
        "pid": 71,
        "start": 7100,
    }
    host.holds[0].alive = False
    far.hold()
    assert len(host.holds) == 2


def test_another_user_than_root_holds_no_run(journal: Journal) -> None:
    with pytest.raises(Unavailable) as refused:
        led(journal, There(user=b"1000\n"))
    assert refused.value.message == (
        "a run on host left needs root there, and this is another user"
    )
    assert refused.value.hint == 'address = "root@..." in [hosts.left] of the host file'


@pytest.mark.parametrize(
    ("undo", "told"),
    [
        (
            Command(host="left", argv=("ip", "link", "del", "x"), stdin=b"y"),
            ("command", 0, ("ip", "link", "del", "x"), b"y"),
        ),
        (Restore(host="left", path="/a", content=b"old"), ("restore", 0, "/a", b"old")),
        (Lease(host="left", path="/proc/a", added=3), ("lease", 0, "/proc/a", 3)),
    ],
)
def test_an_undo_on_a_far_host_is_kept_there_before_its_step(
    journal: Journal, undo: Undo, told: tuple[object, ...]
) -> None:
    host = There()
    led(journal, host)
    journal.intend(undo)
    _, (_, line), kept = host.holds[0].told
    entry = json.loads(line)
    assert (entry["entry"], entry["number"], entry["undo"]["host"]) == ("undo", 0, "local")
    assert kept == told
    journal.done(0)
    done, (_, line) = host.holds[0].told[3:]
    assert done == ("done", 0)
    assert json.loads(line) == {"entry": "done", "number": 0}
    journal.done(0)
    assert len(host.holds[0].told) == 5, "it is done once"


def test_a_process_on_a_far_host_is_known_there_once_it_runs(journal: Journal) -> None:
    host = There()
    led(journal, host)
    number = journal.intend(Stop(host="left", name="vpp", number=15, grace_s=4))
    journal.started(number, 99, 12345)
    *_, stop, (name, line) = host.holds[0].told
    assert stop == ("stop", number, 99, 12345, 15, 4.0)
    assert (name, json.loads(line)["pid"]) == ("journal", 99)


def test_what_is_on_other_hosts_is_not_noted_there(journal: Journal) -> None:
    host = There()
    led(journal, host)
    journal.intend(Command(host="local", argv=("true",)))
    number = journal.intend(Stop(host="right", name="vpp", number=15, grace_s=4))
    journal.started(number, 99, 12345)
    journal.done(0)
    assert len(host.holds[0].told) == 1


def test_an_undo_that_is_done_needs_no_connection(journal: Journal) -> None:
    host = There()
    led(journal, host)
    journal.intend(Command(host="left", argv=("true",)))
    host.holds[0].gone = True
    journal.done(0)
    with pytest.raises(SetupFailed):
        journal.intend(Command(host="left", argv=("true",)))


@pytest.mark.parametrize("kept", [False, True])
def test_the_end_of_a_run_is_told_to_a_host_that_still_holds_it(
    journal: Journal, kept: bool
) -> None:
    host = There()
    far = led(journal, host)
    end = far.keep if kept else far.end
    end()
    assert host.holds[0].told[-1] == ("end", ("kept", kept))
    end()
    assert len(host.holds[0].told) == 2, "it holds nothing any more"
    far.hold()
    host.holds[1].alive = False
    end()
    assert len(host.holds[1].told) == 1
    far.hold()
    host.holds[2].gone = True
    end()


# --- the workspace ----------------------------------------------------------------------------


def test_a_workspace_reaches_a_far_host_with_its_folder_and_lets_it_go(tmp_path: Path) -> None:
    host = There()
    host.owner = "sm9999"
    with Workspace(tmp_path / "runs") as workspace:
        workspace.reach(RecordingHost())
        assert workspace.journal.pending == {}
        workspace.reach(host)
        workspace.reach(host)
        folder = str(workspace.folder)
        assert workspace.journal.pending == {0: Far(host="left", folder=folder, owner="sm9999")}
        assert host.asked == [(workspace.run, folder, "ports", "switch")]
        workspace.journal.intend(Command(host="left", argv=("true",)))
        assert len(host.holds[0].told) == 3
        workspace.let_go("left")
        workspace.let_go("left")
        workspace.let_go("right")
        assert host.holds[0].told[-1] == ("end", ("kept", False))
        workspace.journal.intend(Command(host="left", argv=("true",)))
        assert len(host.holds[0].told) == 4
        workspace.reach(host)
    assert host.holds[1].told[-1] == ("end", ("kept", True)), "what is left is for clean"


# --- the clean-up there -----------------------------------------------------------------------


def test_dead_runs_on_a_far_host_are_undone_and_live_ones_stay() -> None:
    host = There()
    host.left = (("sm0001", "/a", True), ("sm0002", "/b", False), ("sm0003", "/stuck", True))
    undone = Cleaned("sm0001", "cleaned", ("end the run on host left",))
    live = Cleaned("sm0002", "live")
    stuck = Cleaned("sm0003", "incomplete", failures=("it is stuck",))
    assert clean_there(host) == [undone, live, stuck]
    assert host.asked == [("sm0001", "/a")]
    assert clean_there(host, runs=("sm0002",)) == [live]
    assert clean_there(host, dry_run=True) == [
        Cleaned("sm0001", "dead"),
        live,
        Cleaned("sm0003", "dead"),
    ]
    assert host.asked == [("sm0001", "/a")]
    host.is_up = False
    assert clean_there(host) == []
