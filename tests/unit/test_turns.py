"""These tests check the lab of tests that are compared in turns: which paths stay up between
visits, and what happens where there is no room for all of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from golden_cases import text_of_cases
from switchmark import clock
from switchmark.errors import SetupFailed, SwitchmarkError, Unavailable
from switchmark.hosts.recording import RecordingHost
from switchmark.lab import turns
from switchmark.lab.turns import Turns
from switchmark.model.record import Record
from switchmark.model.test import Test
from switchmark.model.visit import Visit

STORED = Path(__file__).parent / "data" / "records-schema-1.jsonl"
RECORD = Record.model_validate(json.loads(STORED.read_text().splitlines()[0])["record"])
BRIDGE, VLAN = Test(repeat=4), Test(switch="macvlan", repeat=4)
BOTH = (BRIDGE, VLAN)


class Working(RecordingHost):
    """A host on which the processes of a path use CPU time at rest, or none."""

    busy_ns = 0
    used_ns = 0

    def marked(self, run: str) -> tuple[tuple[int, int], ...]:
        return ((7, 1),)


@dataclass
class Room:
    """A host with room for some paths at a time, and the labs on it."""

    paths: int = 9
    works: bool = False
    freezer: str | None = "cgroup v2"
    freezes: bool = True
    host: Working = field(default_factory=Working)
    labs: list[Any] = field(default_factory=list)
    done: list[str] = field(default_factory=list)

    def lab(self, folder: Path, **options: Any) -> Any:
        self.labs.append(made := FakeLab(self, len(self.labs), options.get("logs", "")))
        return made


class FakeLab:
    """A lab whose path comes up where there is room, and which measures nothing."""

    def __init__(self, room: Room, number: int, logs: str) -> None:
        self.room, self.number, self.logs = room, number, logs
        self.instruments = SimpleNamespace(hosts={"local": room.host})
        self.executor = None
        self.workspace = SimpleNamespace(run=f"sm{number}")
        self.up: Any = None
        self.unbuilt = False
        self.kept: list[str] = []
        self.left: tuple[str, ...] = ()

    def __enter__(self) -> FakeLab:
        return self

    def __exit__(self, *_: object) -> None:
        self.room.done.append(f"close {self.number}")
        self.left = (f"left by {self.number}",)
        self.up = None

    def calibrate(self, test: Test) -> None:
        self.room.done.append(f"calibrate {test.switch}")
        if test.switch == "macvlan":
            raise SwitchmarkError("the visit reports it")

    def visit(self, visit: Visit) -> Record:
        others = sum(lab.up is not None for lab in self.room.labs if lab is not self)
        self.unbuilt = others >= self.room.paths
        self.room.done.append(f"visit {self.number} {visit.test.switch} {len(visit.among)}")
        if self.unbuilt:
            self.up = None
            failed = {"status": "failed", "error": "no hugepages\nat all", "test": visit.test}
            return RECORD.model_copy(update=failed)
        self.up = self.up or SimpleNamespace(frames_after=90, works=self.room.works)
        return RECORD.model_copy(update={"status": "ok", "error": None, "test": visit.test})

    def take_down(self) -> None:
        self.room.done.append(f"take down {self.number}")
        self.up = None


class FakeFreezer:
    name = "cgroup v2"

    def __init__(self, room: Room, run: str) -> None:
        self.room, self.run = room, run

    def forget(self) -> None:
        self.room.done.append(f"forget {self.run}")

    def freeze(self) -> None:
        if not self.room.freezes:
            raise SetupFailed("it stays awake\nfor ever")
        self.room.done.append(f"freeze {self.run}")

    def thaw(self) -> None:
        self.room.done.append(f"thaw {self.run}")


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Room:
    return made_room(monkeypatch)


def made_room(monkeypatch: pytest.MonkeyPatch) -> Room:
    found = Room()
    now = [0.0]

    def freezer(executor: object, host: object, run: str) -> FakeFreezer:
        if found.freezer is None:
            raise Unavailable("no control groups\nhere")
        return FakeFreezer(found, run)

    def used(host: Working, pids: tuple[int, ...]) -> tuple[int, int]:
        assert pids == (7,)
        host.used_ns += host.busy_ns
        return host.used_ns, 0

    def later() -> float:
        now[0] += 1.0
        return now[0]

    monkeypatch.setattr(turns, "Lab", found.lab)
    monkeypatch.setattr(turns, "Freezer", freezer)
    monkeypatch.setattr(turns, "cpu_ns", used)
    monkeypatch.setattr(clock, "sleep", lambda seconds: None)
    monkeypatch.setattr(clock, "monotonic", later)
    return found


def visited(lab: Turns, test: Test, among: tuple[Test, ...] = BOTH) -> Mapping[str, Any]:
    """Return what a record says of the path's turns."""
    record = lab.visit(Visit(test, key="k", number=1, among=among))
    assert record is not None
    return record.turns.model_dump(exclude_none=True) if record.turns else {}


def test_paths_of_compared_tests_stay_up_and_rest_in_between(room: Room, tmp_path: Path) -> None:
    with Turns(tmp_path) as lab:
        assert visited(lab, BRIDGE)["kept"] == "idle"
        assert visited(lab, VLAN)["kept"] == "idle"
        again = visited(lab, BRIDGE)
        assert again == {
            "kept": "idle",
            "rested_s": 2.0,
            "rested_cpu_s": 0.0,
            "frames_after": 90,
        }
        assert [bool(found.up) for found in room.labs] == [False, True, True]
        assert [found.logs for found in room.labs] == ["", "turns/1", "turns/2"]
    assert room.done[:2] == ["calibrate linux-bridge", "calibrate macvlan"]
    assert sum("calibrate" in done for done in room.done) == 2, "once for all of them"
    assert "freeze sm1" not in room.done
    assert set(room.done[-3:]) == {"close 0", "close 1", "close 2"}
    assert set(lab.left) == {"left by 0", "left by 1", "left by 2"}


def test_paths_with_processes_that_work_are_frozen(room: Room, tmp_path: Path) -> None:
    room.works = True
    with Turns(tmp_path) as lab:
        first = visited(lab, BRIDGE)
        assert (first["kept"], first["freezer"]) == ("frozen", "cgroup v2")
        visited(lab, VLAN)
        visited(lab, BRIDGE)
    rests = [done for done in room.done if done.endswith("sm1")]
    assert rests == ["forget sm1", "freeze sm1", "thaw sm1", "freeze sm1"]


def test_a_path_that_is_busy_at_rest_is_frozen(room: Room, tmp_path: Path) -> None:
    room.host.busy_ns = 500_001  # in 50 ms: a hundredth of a core, and more
    with Turns(tmp_path) as lab:
        assert visited(lab, BRIDGE)["kept"] == "frozen"
    room.host.busy_ns = 499_999
    with Turns(tmp_path) as lab:
        assert visited(lab, BRIDGE)["kept"] == "idle"


def test_a_busy_path_is_set_up_again_where_nothing_freezes_it(room: Room, tmp_path: Path) -> None:
    room.freezer, room.host.busy_ns = None, 10**6
    again = {"kept": "set-up-again", "why": "no control groups"}
    with Turns(tmp_path) as lab:
        assert visited(lab, BRIDGE) == again
        assert room.done[-2:] == ["take down 1", "close 1"]
    room.freezer, room.freezes, room.works = "cgroup v2", False, True
    with Turns(tmp_path) as lab:
        assert visited(lab, BRIDGE)["why"] == "it cannot be frozen: it stays awake"


def test_the_last_path_makes_room_for_another_one(room: Room, tmp_path: Path) -> None:
    room.paths = 1
    why = "no room for another path: no hugepages"
    with Turns(tmp_path) as lab:
        assert visited(lab, BRIDGE)["kept"] == "idle"
        second = visited(lab, VLAN)
        assert (second["kept"], second["why"]) == ("set-up-again", why)
        assert [done for done in room.done if done.split()[0] in ("visit", "take", "close")] == [
            "visit 1 linux-bridge 2",
            "visit 2 macvlan 2",
            "take down 1",
            "visit 2 macvlan 2",
            "take down 2",
            "close 2",
        ]
        third = visited(lab, BRIDGE)
        assert (third["kept"], third["why"]) == ("set-up-again", why)
        assert "visit 1 linux-bridge 0" in room.done, "its path is for this visit alone"


def test_paths_that_were_not_in_the_way_come_up_again(room: Room, tmp_path: Path) -> None:
    with Turns(tmp_path) as lab:
        visited(lab, BRIDGE)
        room.paths = 0
        assert visited(lab, VLAN).get("why") is None
        room.paths = 9
        assert visited(lab, BRIDGE)["kept"] == "idle"


def test_a_test_on_its_own_closes_the_paths_of_others(room: Room, tmp_path: Path) -> None:
    with Turns(tmp_path) as lab:
        visited(lab, BRIDGE)
        visited(lab, VLAN)
        assert visited(lab, BRIDGE, ()) == {}
        assert room.done[-3:] == ["close 1", "close 2", "visit 0 linux-bridge 0"]
        assert [*cast(Any, lab)._slots] == []


def test_latencies_on_cables_are_measured_before_each_visit(room: Room, tmp_path: Path) -> None:
    axes = {"dimension": "latency", "rate": "1k", "repeat": 4}
    slow, fast = (Test(switch=name, **axes) for name in ("linux-bridge", "ip-forward"))
    with Turns(tmp_path) as lab:
        for test in (slow, fast, slow):
            visited(lab, test, (slow, fast))
    calibrated = [done.split()[1] for done in room.done if "calibrate" in done]
    assert calibrated == ["linux-bridge", "ip-forward", "ip-forward", "linux-bridge"]


HOSTS: Mapping[str, dict[str, Any]] = {
    "idle": {},
    "nearly idle": {"busy_ns": 499_999},
    "busy": {"busy_ns": 500_001},
    "working": {"works": True, "busy_ns": 100_000},
    "without a freezer": {"freezer": None},
    "busy, without a freezer": {"freezer": None, "busy_ns": 10**6},
    "with a freezer that fails": {"freezes": False, "works": True},
    "with room for one": {"paths": 1, "busy_ns": 1000},
    "without room": {"paths": 0},
    "with room for one, working": {"paths": 1, "works": True},
}


def test_the_course_of_turns(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, golden: Callable[[str, str], None]
) -> None:
    told = {
        name: course(made_room(monkeypatch), dict(options), tmp_path / name)
        for name, options in HOSTS.items()
    }
    golden("turns.txt", text_of_cases(told))


def course(room: Room, options: dict[str, Any], folder: Path) -> list[str]:
    """Return what happens in visits to a host that take turns."""
    room.host.busy_ns = options.pop("busy_ns", 0)
    for option, value in options.items():
        setattr(room, option, value)
    text: list[str] = []
    third = Test(switch="ip-forward", dimension="latency", rate="1k", repeat=4)
    with Turns(folder) as lab:
        for number, test in enumerate((BRIDGE, VLAN, third, BRIDGE, third, VLAN, BRIDGE), 1):
            among = (*BOTH, third) if number < 7 else ()
            text.append(f"# visit {number}: {test.switch}")
            room.done.clear()
            told = visited(lab, test, among)
            text += [*room.done, *(f"  {key}: {value}" for key, value in told.items())]
            text.append(f"  up: {[made.number for made in room.labs if made.up]}")
        room.done.clear()
    return [*text, "# the end", *room.done, f"left {lab.left}, kept {lab.kept}"]
