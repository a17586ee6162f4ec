"""These tests check what a lab says at its end about what could not be undone, and what it knows of
a path that is up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from switchmark.lab import measure
from switchmark.lab.measure import Lab
from switchmark.lab.running import _added, entrances
from switchmark.model.counters import PortCounters
from switchmark.model.test import Test
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
