"""The bench's comparisons in user space start, count frames and leave nothing behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench.__main__ import main
from bench.own import _OVER_TIME, _WORK


@pytest.mark.parametrize(
    "name",
    # They differ in the devices and the engine alone.
    ["memif-native", *(pytest.param(n, marks=pytest.mark.further) for n in ("vhost", "memif"))],
)
def test_a_comparison_in_user_space_counts_frames(
    name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bench.ours._WARMUP_S", 0.05)
    monkeypatch.setattr("bench.testpmd._READY_S", 60.0)  # on a busy host
    path = tmp_path / "rows.json"
    assert main([name, "--pairs", "1", "--seconds", "0.1", "--json", str(path)]) == 0, (
        capsys.readouterr().out
    )
    rows = json.loads(path.read_text())["rows"]
    assert rows
    for row in rows:
        assert all(rate > 0 for rates in row["samples"].values() for rate in rates), row


def rows_of(name: str, path: Path) -> list[dict[str, Any]]:
    assert main([name, "--pairs", "1", "--seconds", "0.1", "--json", str(path)]) == 0
    rows: list[dict[str, Any]] = json.loads(path.read_text())["rows"]
    return rows


def test_each_kind_of_work_is_measured(tmp_path: Path, traffic_program: str) -> None:
    rows = rows_of("null", tmp_path / "rows.json")
    assert [row["name"] for row in rows] == [f"null, {work}" for work in _WORK]


def test_another_build_is_compared_with_this_one_for_each_kind_of_work(
    tmp_path: Path, traffic_program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = [next(iter(_WORK)), _OVER_TIME]
    monkeypatch.setattr("bench.own._WORK", {work: _WORK[work] for work in works})
    other = tmp_path / "other"
    started = tmp_path / "started"
    other.write_text(f'#!/bin/sh\necho >>{started}\nexec {traffic_program} "$@"\n')
    other.chmod(0o755)
    monkeypatch.setenv("SWITCHMARK_BENCH_OTHER", str(other))
    rows = rows_of("builds", tmp_path / "rows.json")
    assert [row["name"] for row in rows] == [f"builds, {work}" for work in works]
    assert all(sorted(row["samples"]) == ["A", "A again", "B"] for row in rows)
    assert len(started.read_text()) == 2 * len(works)


def test_builds_without_another_build_are_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SWITCHMARK_BENCH_OTHER", raising=False)
    assert main(["builds", "--pairs", "1"]) == 0
    assert "SWITCHMARK_BENCH_OTHER names no program" in capsys.readouterr().out
