"""These tests check that docs/reference agrees with the tables."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", REPOSITORY / "tools/reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_current(reference: ModuleType) -> None:
    stored = {path.name: path.read_text() for path in reference.REFERENCE.iterdir()}
    current = dict(reference.pages())
    assert sorted(stored) == sorted(current), "run make docs"
    assert [name for name in current if stored[name] != current[name]] == [], "run make docs"


def test_a_sentence_ends_at_its_full_stop(reference: ModuleType) -> None:
    assert reference.sentence("A switch\nof 10.0 ports. And more.\n\nMore.") == (
        "A switch of 10.0 ports."
    )


def test_a_bar_in_a_cell_is_escaped(reference: ModuleType) -> None:
    assert reference.line(["a|b", "c"]) == "| a\\|b | c |"


def test_every_member_of_a_record_is_told(reference: ModuleType) -> None:
    silent = {
        f"{model.__name__}.{name}"
        for _, model in reference.parts_of_record()
        for name in set(model.model_fields) - set(reference.member_docstrings(model))
    }
    assert silent == set()


def test_the_guide_tells_every_field_that_is_printed() -> None:
    objects = (REPOSITORY / "tests/unit/data/objects-0.1.0.jsonl").read_text().splitlines()
    printed = {name for text in objects for name in json.loads(text)}
    guide = (REPOSITORY / "docs/guide/reading-a-record.md").read_text()
    names = {name for text in re.findall(r"`([^`]+)`", guide) for name in re.findall(r"\w+", text)}
    assert printed - names == set()
