"""These tests check what a lab says at its end about what could not be undone, and what it knows of
a path that is up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from switchmark.errors import TrialFailed
from switchmark.lab import measure, running
from switchmark.lab.measure import Lab
from switchmark.lab.running import _added, _counted_by_links, _counters, entrances
from switchmark.model.counters import PortCounters
from switchmark.model.plan import Run as RunStep
from switchmark.model.record import GateResult
from switchmark.model.test import Test
from switchmark.model.topology import Wiring
from switchmark.path.resolving import resolve
from switchmark.switches.base import Counters


class Undoing:
    """An executor whose undos end like this."""

    def __init__(self, failures: tuple[str, ...], refused: tuple[str, ...]) -> None:
        self.failures, self.refused = failures, refused
        self.unwound: list[int | None] = []

    def unwind(self, to: int | None = None) -> tuple[str, ...]:
        self.unwound.append(to)
        return self.failures


def ended(
    monkeypatch: pytest.MonkeyPatch, folder: Path, executor: Undoing, *kept: str
) -> tuple[str, ...]:
    """Return what is left when a lab has ended."""
    closed: list[str] = []
    workspace = SimpleNamespace(run="sm1a2b", close=lambda: closed.append("workspace"))
    monkeypatch.setattr(measure, "Workspace", lambda: workspace)
    monkeypatch.setattr(measure, "Executor", lambda *arguments, **options: executor)
    with Lab(folder) as lab:
        restored: Any = SimpleNamespace(restore=lambda: ("could not restore smt",))
        lab.instruments = replace(lab.instruments, preparation=restored)
        lab.kept += kept
    assert closed == ["workspace"]
    return lab.left


def test_a_lab_that_has_undone_all_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    executor = Undoing((), ())
    assert ended(monkeypatch, tmp_path, executor) == ("could not restore smt",)
    assert executor.unwound == [None]


def test_a_lab_beside_another_one_leaves_the_preparation_to_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first, second = Undoing((), ()), Undoing((), ())
    assert ended(monkeypatch, tmp_path, first) == ("could not restore smt",)
    workspace = SimpleNamespace(run="sm1a2c", close=lambda: None)
    monkeypatch.setattr(measure, "Workspace", lambda: workspace)
    monkeypatch.setattr(measure, "Executor", lambda *arguments, **options: second)
    main = Lab(tmp_path)
    with Lab(tmp_path, beside=main) as beside:
        assert beside.instruments is main.instruments
    assert beside.left == ()
    assert second.unwound == [None]


def test_what_a_lab_leaves_is_told_with_the_command_that_undoes_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    executor = Undoing(("could not undo (ip link del x): busy",), ("refused (DEL): no",))
    assert ended(monkeypatch, tmp_path, executor) == (
        "could not undo (ip link del x): busy",
        "what is left is undone by: switchmark clean sm1a2b",
        "refused (DEL): no",
        "could not restore smt",
    )


def test_a_lab_that_keeps_its_paths_undoes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    executor = Undoing(("could not undo (ip link del x): busy",), ())
    assert ended(monkeypatch, tmp_path, executor, "sm1a2b") == ("could not restore smt",)
    assert executor.unwound == []


# --- a path that rests, or that is in the way --------------------------------------------------


class Resting:
    """A path that is up: it is alive, or it died, or it serves another test."""

    def __init__(self, test: Test, *, died: bool = False, serves: bool = True) -> None:
        self.path = resolve(test, prefix="sm1a2b", run_dir="/run/x")
        self.mark, self.died, self.serving = 5, died, serves
        self.frames_after: int | None = None
        self.calls: list[str] = []
        self.trials = SimpleNamespace(
            end=lambda: self.calls.append("end"),
            turn_to=lambda path: self.calls.append(f"turn to {path.test.rate}"),
        )

    def alive(self, when: str) -> None:
        self.calls.append(when)
        if self.died:
            raise TrialFailed(f"switch ovs died {when}")

    def serves(self, test: Test) -> bool:
        return self.serving


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    made: Any = Lab(tmp_path)
    made._executor = Undoing(("could not undo (x): busy",), ())
    return made


def test_a_path_that_died_while_it_rested_is_taken_down(lab: Any) -> None:
    for resting, message in (
        (Resting(Test(), died=True), "switch ovs died between two rounds"),
        (Resting(Test(), serves=False), "a traffic process died between two rounds"),
    ):
        lab._up = resting
        lab._require_whole(Test(switch="macvlan"))  # it is the path of another test
        with pytest.raises(TrialFailed, match=message):
            lab._require_whole(Test(rate="1k"))
        assert lab.up is None
        assert resting.calls == ["between two rounds", "end"]
    assert lab._executor.unwound == [5, 5]
    assert lab._not_undone == ("could not undo (x): busy",) * 2
    lab._require_whole(Test())
    lab._up = whole = Resting(Test())
    lab._require_whole(Test())
    assert (lab.up, whole.calls) == (whole, ["between two rounds"])


def test_a_path_is_proved_again_after_its_rest(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    gates: list[Any] = [GateResult(passed=True, tries=1, frames=98), None]
    monkeypatch.setattr(measure, "pass_gate", lambda path, trials, gate: gates.pop(0))
    lab._up = resting = Resting(Test())
    lab._prove_again(resting)
    assert resting.frames_after == 98
    lab._prove_again(resting)  # nobody asked for the functional trial
    assert (resting.frames_after, lab.up) == (0, resting)
    with pytest.raises(IndexError):
        lab._prove_again(resting)
    assert (lab.up, resting.calls) == (None, ["end"])


def test_a_path_goes_on_with_a_test_that_it_serves(lab: Any) -> None:
    lacking: set[str] = set()
    location: Any = SimpleNamespace(test=Test(rate="2k"), booted=("boot", "cpu"))
    for name in ("_calibrations", "_cable_latencies"):
        lacks = SimpleNamespace(lacks=lambda basis, name=name: name in lacking)
        setattr(lab, name, lacks)
    assert not lab._goes_on_with(location, {})
    lab._up = resting = Resting(Test(rate="1k"))
    assert lab._goes_on_with(location, {})
    assert (resting.calls, resting.path.test.rate) == (["turn to 2k"], "2k")
    for name in ("_calibrations", "_cable_latencies"):
        lacking = {name}
        assert not lab._goes_on_with(location, {})
    lacking = set()
    resting.serving = False
    assert not lab._goes_on_with(location, {})
    resting.serving = True

    def fails(path: object) -> None:
        raise TrialFailed("the port is gone")

    resting.trials.turn_to = fails
    assert not lab._goes_on_with(location, {})


# --- a path that is up ------------------------------------------------------------------------


def test_a_kept_path_is_entered_node_by_node_and_then_cleaned_up() -> None:
    path = resolve(Test(scenario="p2v"), prefix="sm1a2b", run_dir="/run/x")
    assert entrances(path, "sm1a2b") == [
        "ip netns exec sm1a2b-sw bash",
        "ip netns exec sm1a2b-a0 bash",
        "ip netns exec sm1a2b-f0 bash",
        "switchmark clean sm1a2b",
    ]
    remote = Test(locality="remote", hosts="left,right")
    path = resolve(remote, prefix="sm1a2b", run_dir="/run/x")
    *shells, clean = entrances(path, "sm1a2b")
    assert [shell.partition("  # ")[2] for shell in shells] == [
        "on left",
        "on right",
        "on left",
        "on right",
    ]
    on_host = Test(environment="host", switch_environment="host")
    path = resolve(on_host, prefix="sm1a2b", run_dir="/run/x")
    assert entrances(path, "sm1a2b") == [clean] == ["switchmark clean sm1a2b"]


def test_the_counters_of_two_instances_are_those_of_one_switch() -> None:
    near = Counters({"f0": PortCounters(1, 2, 3, 4)}, busy_cycles=5, idle_cycles=None, slow_path=7)
    far = Counters({"f1": PortCounters(5, 6, 7, 8)}, busy_cycles=50, idle_cycles=None)
    assert _added([near, far]) == Counters(
        {"f0": PortCounters(1, 2, 3, 4), "f1": PortCounters(5, 6, 7, 8)},
        busy_cycles=55,
        idle_cycles=None,
        slow_path=7,
    )


class Printing:
    """An executor whose commands print these texts, by the beginning of the command."""

    def __init__(self, **printed: str) -> None:
        self.printed = printed
        self.ran: list[str] = []

    def run(self, *steps: RunStep) -> tuple[bytes, ...]:
        self.ran += [f"{step.argv[0]} at {step.at.name} on {step.at.host}" for step in steps]
        return tuple(self.printed.get(step.argv[0], "").encode() for step in steps)


def counting(monkeypatch: pytest.MonkeyPatch, counted: Mapping[str, PortCounters]) -> None:
    """Let the interfaces of switches count these frames."""

    def read(wiring: Wiring, outputs: tuple[bytes, ...]) -> Counters:
        assert outputs == (b"links",)
        return Counters({port: counted[port] for port in counted if wiring.node.host in port})

    monkeypatch.setattr(running, "kernel_counters", read)


def test_ports_that_a_switch_does_not_count_are_counted_by_its_links(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted = {
        f"{host}:u0": PortCounters(n, n + 1, 0, 0) for n, host in enumerate(("left", "right"))
    }
    counting(monkeypatch, counted)
    remote = resolve(
        Test(locality="remote", hosts="left,right", switch="ovs"), prefix="sm1a2b", run_dir="/run/x"
    )
    executor = Printing(ip="links")
    ends = {port.id: PortCounters(1, 2, 3, 4) for port, end in remote.ends if end.switch_ifname}
    found = _counted_by_links(cast(Any, executor), remote, ends)
    assert found == counted, "only the uplinks are not counted"
    assert executor.ran == ["ip at sm1a2b-a-sw on left", "ip at sm1a2b-b-sw on right"]
    executor.ran.clear()
    known = {**ends, "left:u0": PortCounters(5, 6), "right:u0": PortCounters(7, None)}
    found = _counted_by_links(cast(Any, executor), remote, known)
    assert found == {"right:u0": counted["right:u0"]}
    known["right:u0"] = PortCounters(7, 8)
    executor.ran.clear()
    assert _counted_by_links(cast(Any, executor), remote, known) == {}
    assert executor.ran == []


def test_counters_that_cannot_be_read_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    path = resolve(Test(), prefix="sm1a2b", run_dir="/run/x")
    executor = Printing(ip="links")
    with pytest.raises(TrialFailed, match="the counters of switch linux-bridge cannot be read: "):
        _counters(cast(Any, executor), path)
    chain = Test(scenario="loopback", function="pcap-bridge", switch="ovs")
    path = resolve(chain, prefix="sm1a2b", run_dir="/run/x")
    links = {end.ifname: PortCounters(1, 2, 3, 4) for part in path.parts for _, end in part.ends}
    monkeypatch.setattr(running, "parse_link_counters", lambda output: links)
    monkeypatch.setattr(running, "_counted_by_links", lambda executor, path, counters: {})
    counted = Counters({"f1": PortCounters(9, 9)}, busy_cycles=5)
    monkeypatch.setattr(type(path.switches[0]), "parse", lambda switch, outputs: counted)
    with pytest.raises(TrialFailed, match="the counters of function f1 cannot be read: "):
        _counters(cast(Any, executor), path)
    monkeypatch.setattr(type(path.hosted[0].function.counters), "parse", lambda *_: Counters({}))
    found = _counters(cast(Any, executor), path)
    assert {str(end): links.rx for end, links in found.links.items()} == {
        "f1@switch": 9,
        **{port.id: 1 for part in path.parts for port, end in part.ends if end.ifname},
    }
    assert (found.functions, found.busy_cycles) == ({"f1": {}}, 5)
