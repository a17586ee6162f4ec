"""These tests hold what switchmark says of the replayed runs, word by word: answers, tables, notes,
exports and comparisons, from the first answer of the traffic program to the sentence that a user
reads. `make golden` rewrites the texts."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from replay_cases import CASES
from replay_runs import Case, without_run
from switchmark.cli.app import app
from switchmark.model.test import AXES
from switchmark.report.export import rows_as_csv
from switchmark.report.rows import Tables

Golden = Callable[[str, str], None]
RunOf = Callable[[Case], Path]

TEXTS = Path(__file__).parent / "texts"

OF_A_VERSION = ("key", "switchmark_version", "versions")
"""Columns of the export that change with each version of switchmark."""

IN_FULL = ("linux-bridge", "latency", "search-ndr", "turns-frozen", "profile")
"""The runs whose export is shown in full, and whose tables are shown with all columns and notes."""

BY_NAME = {case.name: case for case in CASES}


@pytest.fixture(autouse=True)
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


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
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
def test_a_run_is_exported(form: str, run_of: RunOf, golden: Golden, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command("export", run_of(BY_NAME["search-ndr"]), "--format", form, "-o", out)
    files = sorted(out.rglob("*.json")) if out.is_dir() else [out]
    golden(f"export-{form}.txt", "\n".join(file.read_text() for file in files))
