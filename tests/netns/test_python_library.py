"""Runs the notebook of the guide, with real frames."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from switchmark.lab import calibration
from switchmark.model.record import TrialSpec

BRIEF = TrialSpec(rate_pps=None, duration_s=0.05, warmup_s=0.0)
NOTEBOOK = Path(__file__).parents[2] / "docs/examples/first-run.ipynb"


def test_the_notebook_runs_from_its_first_cell_to_its_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With trials that are shorter than a reader's, fewer of them, and one frame size."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # no calibration of an hour ago
    monkeypatch.setattr(calibration, "_ON_CABLE", BRIEF)
    monkeypatch.setattr(calibration, "_INTO_NOTHING", BRIEF)
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    for a_readers, ours in (
        ("duration=0.3, repeat=3", "duration=0.05, warmup=0, repeat=2"),
        ("frame_size=[64, 1500]", "frame_size=[64]"),
    ):
        assert sources[0].count(a_readers) == 1
        sources[0] = sources[0].replace(a_readers, ours)
    names: dict[str, object] = {}
    for source in sources:
        exec(compile(source, str(NOTEBOOK), "exec"), names)
    printed = capsys.readouterr().out
    assert printed.count("100% of the cable") == 1
    assert "linux-bridge      64 B" in printed
    assert len(names["run"].records) == 2  # type: ignore[attr-defined]
