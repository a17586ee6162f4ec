"""These tests draw the experiments of the literature: published values alone, and with records."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path

import pytest

from checked import check
from recorded import fresh, latency_trial
from switchmark.campaign.experiments import PlannedPoint, planned
from switchmark.campaign.load import Campaign
from switchmark.campaign.store import RunFolder
from switchmark.cli.gallery import gallery
from switchmark.errors import UsageError
from switchmark.model.record import TrialResult
from switchmark.papers.library import library, names, read
from switchmark.plots.render import svg
from switchmark.plots.vega import specification
from switchmark.report.drawn import experiment_charts
from switchmark.report.gallery import GalleryEntry, gallery_page
from switchmark.report.judged import Judged, judged
from switchmark.report.paper import ODDS
from switchmark.report.paper_files import check_drawing, write_papers
from switchmark.report.paper_page import paper_page

pytestmark = pytest.mark.usefixtures("undrawn")


@lru_cache(maxsize=1)
def points_of(name: str) -> list[PlannedPoint]:
    return planned(read(name), check, {})


@cache
def late_by(least_ns: int) -> TrialResult:
    return latency_trial(200_000, range(least_ns, least_ns + 2000))


def told(name: str, *, measured: bool) -> Judged:
    """Return an experiment of published values alone, or with made-up records of each point."""
    experiment = read(name)
    pairs = []
    for number, each in enumerate(points_of(name), 1):
        record = None
        if measured and each.test is not None:
            trials = (late_by(1000 * (number % 9 + 1)),) * 3
            record = fresh(1, test=each.test, trials=trials, key=f"{number:064x}")
        pairs.append((each.point, record))
    return judged(experiment, pairs, frozenset())


@pytest.mark.parametrize("name", names())
def test_each_experiment_is_drawn_as_its_paper_drew_it(name: str) -> None:
    published = experiment_charts(told(name, measured=False))
    assert all(mark.published for chart in published for mark in chart.marks)
    result = told(name, measured=True)
    drawn = experiment_charts(result)
    known = any(
        point.is_at(figure.among) and {figure.x, figure.y} <= {*point.figures, *point.axes}
        for figure in result.experiment.figures
        for point in result.points
    )
    assert bool(drawn) >= bool(known or published)
    assert not known or any(not mark.published for chart in drawn for mark in chart.marks)
    for chart in drawn:
        spec = specification(chart)
        assert spec["data"]["values"]


@pytest.mark.parametrize(
    "name",
    ["ara-2021/fig4b", "dissertation-2017/case2", "bonafiglia-2015/fig5b", "zhang-2021/fig8"],
)
def test_figures_are_pictures_with_the_published_values(name: str) -> None:
    for chart in experiment_charts(told(name, measured=True)):
        assert svg(specification(chart)).startswith("<svg")


def test_the_page_of_experiments_has_contents_claims_and_sources() -> None:
    chosen = [told(name, measured=False) for name in ("ara-2021/fig4b", "zhang-2021/fig8")]
    page = paper_page(chosen)
    assert page.count("<nav aria-label='experiments'>") == 1
    for result in chosen:
        assert f"id='{result.experiment.name.replace('/', '-')}'" in page
        assert result.experiment.claims[0].says.split()[0] in page


def test_papers_are_written_as_their_suffix_says(tmp_path: Path) -> None:
    results = [told("ara-2021/fig4b", measured=True)]
    write_papers(tmp_path / "a.svg", results)
    assert (tmp_path / "a.svg").read_text().startswith("<svg")
    write_papers(tmp_path / "a.pdf", results)
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(UsageError, match="suffix") as raised:
        check_drawing(tmp_path / "a.docx")
    assert ".svg" in str(raised.value)


def gallery_of(*names: str, measured: bool = False, still_marks: int = 2500) -> str:
    shown = [
        GalleryEntry({"": told(name, measured=measured)}, [each.point for each in points_of(name)])
        for name in names
    ]
    return gallery_page(shown, still_marks=still_marks)


def test_the_gallery_has_every_experiment_below_its_paper() -> None:
    page = gallery_of(*names(), still_marks=100)
    assert page.count("<svg") >= 2
    places = [page.index(f"<h3 id='{name.replace('/', '-')}'>") for name in names()]
    assert places == sorted(places)
    assert page.count("<h2 id=") == len({name.partition("/")[0] for name in names()})
    assert "None of them was measured" in page
    assert "How it was measured" not in page
    assert "<th scope='col'>here</th>" not in page
    assert not re.search(r"(src|href|action)=['\"]?(https?:|//)", page)
    assert len(page) < 6_000_000


def test_the_gallery_answers_claims_by_the_papers_values_and_by_what_was_measured() -> None:
    page = gallery_of("ara-2021/table2", measured=True)
    assert "Measured here, at least in part: 1 result." in page
    assert "<th scope='col'>in the paper's values</th><th scope='col'>here</th>" in page


def test_pages_say_how_surely_claims_are_answered_of_what_was_measured() -> None:
    for made in (gallery_of, lambda name, measured: paper_page([told(name, measured=measured)])):
        assert f"<p>{ODDS}</p>" in made("ara-2021/table2", measured=True)
        assert ODDS not in made("ara-2021/table2", measured=False)


def drawn_gallery(runs: Sequence[Path], output: Path, only: str) -> int:
    """Run the command; return the status that it ends with."""
    argv = (*map(str, runs), "-o", str(output), "--only", only)
    status: int = gallery.main(argv, standalone_mode=False)
    return status


@pytest.mark.parametrize(
    ("facts", "told_as"),
    [
        ({"kernel_options": ["CONFIG_IRQ_TIME_ACCOUNTING"]}, "a kernel without CONFIG_IRQ"),
        ({"kernel_options": []}, None),
        ({}, "a kernel without CONFIG_IRQ"),
    ],
)
def test_the_gallery_takes_the_options_of_the_kernel_from_the_run(
    facts: dict[str, object], told_as: str | None, tmp_path: Path
) -> None:
    planned_points = planned(read("emmerich-2014/fig12"), check, {}, quick=True)
    tests = tuple(each.test for each in planned_points if each.test is not None)
    with RunFolder.create(tmp_path, Campaign("x", tests), facts, "x") as folder:
        for number, test in enumerate(tests, 1):
            folder.append_record(fresh(number, test=test, switch_mode="kernel"), {})
    assert drawn_gallery([tmp_path / "x"], tmp_path / "g.html", "emmerich-2014/fig12") == 0
    page = (tmp_path / "g.html").read_text()
    assert ("CONFIG_IRQ_TIME_ACCOUNTING" in page) == (told_as is not None)


def test_the_gallery_command_finds_the_points_of_stored_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    planned_points = planned(read("ara-2021/table2"), check, {}, quick=True)
    tests = tuple(each.test for each in planned_points if each.test is not None)
    with RunFolder.create(tmp_path, Campaign("x", tests), {}, "x") as folder:
        for number, test in enumerate(tests, 1):
            folder.append_record(fresh(number, test=test), {})
    assert drawn_gallery([tmp_path / "x"], tmp_path / "g.html", "ara-2021/*") == 0
    assert "20 experiments, 1 of them measured" in capsys.readouterr().out
    page = (tmp_path / "g.html").read_text()
    assert re.search(rf" {len(tests)} of \d+ points measured here", page)


def test_the_gallery_takes_further_experiments_and_refuses_one_that_contradicts_itself(
    tmp_path: Path,
) -> None:
    own = tmp_path / "mine/my-table"
    own.mkdir(parents=True)
    kept = read("ara-2021/table2").file
    shutil.copy(kept.with_name("source.yaml"), own)
    shutil.copy(kept, own)
    page = tmp_path / "g.html"
    gallery(["-o", str(page), "--experiments", str(tmp_path / "mine"), "--only", "my-table/*"],
            standalone_mode=False)  # fmt: skip
    assert "<h3 id='my-table-table2'>" in page.read_text()
    text = (own / "table2.yaml").read_text()
    (own / "table2.yaml").write_text(text.replace("repeat: 3", "repeat: 1"))
    library.cache_clear()
    with pytest.raises(UsageError, match="claims need 3 trials"):
        gallery(["-o", str(page), "--only", str(own)], standalone_mode=False)


def test_the_gallery_is_a_page_only() -> None:
    with pytest.raises(UsageError, match="is an HTML page") as raised:
        drawn_gallery([], Path("g.png"), "*")
    assert "switchmark paper" in str(raised.value)


def test_what_was_published_as_at_least_so_much_has_a_mark() -> None:
    charts = experiment_charts(told("ara-2021/fig4b", measured=False))
    marks = [mark for chart in charts for mark in chart.marks]
    assert any(mark.bounded and mark.published for mark in marks)
    assert "at least" in json.dumps(specification(charts[0]))
