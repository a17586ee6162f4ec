"""Runs the notebook of the guide, with real frames."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "docs/examples/first-run.ipynb"


def test_the_notebook_runs_from_its_first_cell_to_its_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    names: dict[str, object] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), str(NOTEBOOK), "exec"), names)
    printed = capsys.readouterr().out
    assert printed.count("100% of the cable") == 2
    assert "linux-bridge      64 B" in printed
    assert len(names["run"].records) == 4  # type: ignore[attr-defined]
