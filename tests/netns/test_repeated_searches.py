"""These tests search real switches more than once, in turn, and go on where a run was cut off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from recorded import stored_run
from switchmark.campaign.load import from_options
from switchmark.campaign.run import run
from switchmark.campaign.store import RunFolder, read_records
from switchmark.errors import Interrupted
from switchmark.lab.measure import Lab
from switchmark.metrics.searched import values_of_goal
from switchmark.model.record import Record, TrialResult
from switchmark.model.test import Test
from switchmark.path.refusals import check
from switchmark.report.json import to_object
from switchmark.report.query import ask, opened
from switchmark.report.rows import Tables

AXES = {
    "switch": "linux-bridge,tc-redirect",
    "search": "ndr",
    "repeat": "3",
    "rate": "20k",
    "precision": "20%",
    "duration": "0.03",
    "warmup": "0",
    "seed": "1",
}


class Watching:
    """This notes which test each trial was of, and of which search of it; it interrupts after so
    many trials of second searches."""

    def __init__(self, seconds: int | None = None) -> None:
        self.trials: list[tuple[str, int]] = []
        self._seconds = seconds
        self._switch = ""

    def begin(self, test: Test, position: int, total: int, left_s: float | None) -> None:
        self._switch = test.switch

    def trial(self, result: TrialResult) -> None:
        self.trials.append((self._switch, result.spec.repeat))
        if [number for _, number in self.trials].count(2) == self._seconds:
            raise Interrupted("interrupted")

    def end(self, record: Record) -> None:
        assert record.status == "ok", record.error


def rounds_of(trials: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return the searches that were made, each once, in their order."""
    return list(dict.fromkeys(trials))


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Watching]:
    """Return a run of two switches, each searched three times."""
    folder = RunFolder.create(tmp_path_factory.mktemp("runs"), from_options(AXES, check), {})
    watching = Watching()
    with folder:
        run(folder, Lab(folder.path), watching)
    return folder.path, watching


def test_searches_of_two_switches_take_turns(finished_run: tuple[Path, Watching]) -> None:
    _, watching = finished_run
    rounds = rounds_of(watching.trials)
    assert len(rounds) == 6, "no search is torn apart"
    assert [number for _, number in rounds] == [1, 1, 2, 2, 3, 3]
    for start in (0, 2, 4):
        assert {switch for switch, _ in rounds[start : start + 2]} == {
            "linux-bridge",
            "tc-redirect",
        }


def test_a_record_has_what_each_search_found(finished_run: tuple[Path, Watching]) -> None:
    path, watching = finished_run
    counts = Counter(watching.trials)
    for record in read_records(path):
        assert record.search is not None
        counted = [counts[record.test.switch, number] for number in (1, 2, 3)]
        assert [result.trials for result in record.search.results] == counted
        assert record.search.trials == sum(counted)
        values = values_of_goal(record, "ndr")
        assert len(values) == 3
        assert all(value.value is None or value.value == value.passed for value in values)
        sorted_values = sorted(value.value or 0.0 for value in values)
        assert record.search.goals[0].rate_pps == (sorted_values[1] or None)
        content = to_object(record)
        assert content["ci95_pps"] is None
        assert len(content["search"]["results"]) == 3


def test_each_search_is_a_row_of_a_query(
    finished_run: tuple[Path, Watching], tmp_path: Path
) -> None:
    records = read_records(finished_run[0])
    with opened(Tables([stored_run(tmp_path, records)])) as database:
        query = "select repeat, rate_pps, low_pps, high_pps from searches order by number, repeat"
        rows = ask(database, query).rows
    expected = [
        (number, value.value, value.passed, value.failed)
        for record in records
        for number, value in enumerate(values_of_goal(record, "ndr"), 1)
    ]
    assert rows == expected


def test_a_run_goes_on_in_the_middle_of_a_repeated_search(tmp_path: Path) -> None:
    """It was cut off in the second search of a switch: what is measured then begins there."""
    cut, rest = Watching(seconds=2), Watching()
    campaign = from_options({**AXES, "repeat": "2"}, check)
    with RunFolder.create(tmp_path, campaign, {}) as folder:
        with pytest.raises(Interrupted):
            run(folder, Lab(folder.path), cut)
        path = folder.path
    with RunFolder(path) as folder:
        stored = {key: len(trials) for key, trials in folder.trials.items()}
        assert sum(stored.values()) == len(cut.trials)
        run(folder, Lab(folder.path), rest)
        kept_trials = {key: list(trials) for key, trials in folder.trials.items()}
    switch = cut.trials[-1][0]
    again = [number for name, number in rest.trials if name == switch]
    assert min(again) == 2, "the first search is not made again"
    records = read_records(path)
    assert [record.status for record in records] == ["ok", "ok"]
    for record in records:
        assert record.search is not None
        trials = kept_trials[record.key]
        assert Counter(trial.spec.repeat for trial in trials) == {
            number: result.trials for number, result in enumerate(record.search.results, 1)
        }, "no trial was measured twice, none is of another search"
