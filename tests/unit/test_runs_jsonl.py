"""These tests check that JSON lines are written completely or not written."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchmark.runs.jsonl import append_line, parse_line, to_line, whole_lines


@given(st.dictionaries(st.text(), st.text() | st.integers(), max_size=4), st.booleans())
def test_a_line_is_read_as_it_was_written(content: dict[str, object], compact: bool) -> None:
    line = to_line(content, compact=compact)
    assert "\n" not in line
    assert parse_line(line) == parse_line(line.encode()) == content


@pytest.mark.parametrize("line", ["", "{", "[]", "7", "null", '"x"', "[" * 100_000, b"\xff"])
def test_what_is_no_object_is_refused(line: str | bytes) -> None:
    with pytest.raises(ValueError):
        parse_line(line)


def test_a_number_that_json_lacks_is_not_written() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        to_line({"rate_pps": float("nan")})


def test_a_line_that_cannot_be_written_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lines"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    try:
        append_line(descriptor, to_line({"a": 1}))

        def full(descriptor: int) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as disk:
            disk.setattr(os, "fdatasync", full)
            with pytest.raises(OSError, match="No space left"):
                append_line(descriptor, to_line({"b": 2}))
        assert path.read_text() == '{"a": 1}\n'
        append_line(descriptor, to_line({"c": 3}))
        os.write(descriptor, b'{"torn')
        assert [json.loads(line) for line in whole_lines(descriptor) if line] == [
            {"a": 1},
            {"c": 3},
        ]
        assert path.read_text().endswith("}\n")
    finally:
        os.close(descriptor)
