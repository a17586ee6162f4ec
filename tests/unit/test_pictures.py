"""These tests check the pictures of the README and of the guide: every picture shows a real run,
says where and when it was measured, and is part of a page."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from recorded import fresh
from switchmark.model.cable import Calibration
from switchmark.model.record import Origin, Record
from switchmark.model.test import Test

REPOSITORY = Path(__file__).parents[2]
PICTURES = REPOSITORY / "docs" / "pictures"
FIRST_PAGES = (REPOSITORY / "README.md", REPOSITORY / "docs" / "guide" / "getting-started.md")
LARGEST = 60_000
HOST = {"virtual": True, "cores_usable": 2, "cpu_model": "A processor", "kernel": "6.1.0-a"}


@pytest.fixture(scope="module")
def pictures() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pictures", REPOSITORY / "tools/pictures.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_picture_is_there_small_and_says_where_and_when_it_was_measured(
    pictures: ModuleType,
) -> None:
    assert {path.stem for path in PICTURES.glob("*")} == set(pictures.ALL)
    for name in pictures.ALL:
        content = (PICTURES / f"{name}.svg").read_text()
        assert len(content) < LARGEST
        assert re.search(r"measured 20\d\d-\d\d-\d\d on .*CPUs", content)
        assert 'fill="#ffffff"' in content, "it is read on a dark page, too"
        assert not re.search(r"href=|<script|url\((?!#)", content)


def test_each_picture_stands_in_a_first_page_with_words_for_who_cannot_see_it(
    pictures: ModuleType,
) -> None:
    text = "\n".join(path.read_text() for path in FIRST_PAGES)
    embedded = dict(re.findall(r"!\[([^\]]+)\]\([./]*(?:docs/)?pictures/(\w+)\.svg\)", text))
    assert set(embedded.values()) == set(pictures.ALL)
    assert all(len(title) > 20 for title in embedded)
    assert "docs/pictures/" in FIRST_PAGES[0].read_text().partition("\n## ")[0]


def records_of(campaign: dict[str, str]) -> list[Record]:
    """Return records of the tests of a campaign, as a run of this host would have them."""
    cable = Calibration(switch="direct", rate_pps=(1e6, 1.1e6, 1.2e6), sent_pps=1e6)
    method = {"repeat", "duration", "warmup"}
    axes = {axis: values.split(",") for axis, values in campaign.items() if axis not in method}
    varied = [axis for axis, values in axes.items() if len(values) > 1]
    tests: list[dict[str, str]] = [{}]
    for axis in axes:
        field = axis.replace("-", "_")
        tests = [{**test, field: word} for test in tests for word in axes[axis]]
    assert "switch" in varied
    origin = Origin(run="a", host=HOST, versions={})
    return [
        fresh(
            number,
            test=Test.model_validate(test),
            calibration=cable,
            origin=origin,
            started="2026-11-22T10:00:00+00:00",
        )
        for number, test in enumerate(tests, 1)
    ]


@pytest.mark.parametrize("name", ["rates", "sizes", "loads"])
def test_the_campaign_of_a_picture_shows_its_plot(name: str, pictures: ModuleType) -> None:
    axes = pictures.ALL[name].campaign
    options = {
        key.removeprefix("--"): word for key, word in zip(axes[::2], axes[1::2], strict=True)
    }
    chart = pictures.chart_of(name, records_of(options))
    assert chart.note == (
        "measured 2026-11-22 on a virtual machine of 2 CPUs (A processor), Linux 6.1.0"
    )
    assert len({mark.series or mark.x for mark in chart.marks}) >= 2


def test_a_picture_of_nothing_is_refused(pictures: ModuleType) -> None:
    with pytest.raises(ValueError, match="no record shows"):
        pictures.chart_of("loads", [])
