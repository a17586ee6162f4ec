"""The bench's comparisons in user space start, count frames and leave nothing behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench.__main__ import main


@pytest.mark.parametrize("name", ["vhost", "memif", "memif-native"])
def test_a_comparison_in_user_space_counts_frames(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.json"
    assert main([name, "--pairs", "1", "--seconds", "0.1", "--json", str(path)]) == 0, (
        capsys.readouterr().out
    )
    rows = json.loads(path.read_text())["rows"]
    assert rows
    for row in rows:
        assert all(rate > 0.1 for rates in row["samples"].values() for rate in rates), row
