"""These tests check what a lab says at its end about what could not be undone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from switchmark.lab import measure
from switchmark.lab.measure import Lab


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
