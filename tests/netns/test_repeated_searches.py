"""These tests search real switches more than once, in turn, and go on where a run was cut off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    "precision": "50%",
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


@dataclass
class Resumed:
    """A run of two switches, each searched three times, that was cut off in the second search of
    one of them and went on."""

    path: Path
    cut: Watching
    rest: Watching
    stored: Mapping[str, int]
    """The numbers of trials that the first part has stored, by test."""
    kept: Mapping[str, Sequence[TrialResult]]
    """All trials, by test."""


@pytest.fixture(scope="module")
def resumed(tmp_path_factory: pytest.TempPathFactory) -> Resumed:
    cut, rest = Watching(seconds=2), Watching()
    runs = tmp_path_factory.mktemp("runs")
    with RunFolder.create(runs, from_options(AXES, check), {}) as folder:
        with pytest.raises(Interrupted):
            run(folder, Lab(folder.path, gate="off"), cut)
        path = folder.path
    with RunFolder(path) as folder:
        stored = {key: len(trials) for key, trials in folder.trials.items()}
        run(folder, Lab(folder.path, gate="off"), rest)
        kept = {key: list(trials) for key, trials in folder.trials.items()}
    return Resumed(path, cut, rest, stored, kept)


def test_searches_of_two_switches_take_turns(resumed: Resumed) -> None:
    trials = [*resumed.cut.trials, *resumed.rest.trials]
    rounds = rounds_of(trials)
    assert len(rounds) == 6, "no search is torn apart"
    assert [number for _, number in rounds] == [1, 1, 2, 2, 3, 3]
    for start in (0, 2, 4):
        assert {switch for switch, _ in rounds[start : start + 2]} == {
            "linux-bridge",
            "tc-redirect",
        }


def test_a_record_has_what_each_search_found(resumed: Resumed) -> None:
    counts = Counter([*resumed.cut.trials, *resumed.rest.trials])
    for record in read_records(resumed.path):
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


def test_each_search_is_a_row_of_a_query(resumed: Resumed, tmp_path: Path) -> None:
    records = read_records(resumed.path)
    with opened(Tables([stored_run(tmp_path, records)])) as database:
        query = "select repeat, rate_pps, low_pps, high_pps from searches order by number, repeat"
        rows = ask(database, query).rows
    expected = [
        (number, value.value, value.passed, value.failed)
        for record in records
        for number, value in enumerate(values_of_goal(record, "ndr"), 1)
    ]
    assert rows == expected


def test_a_run_goes_on_in_the_middle_of_a_repeated_search(resumed: Resumed) -> None:
    """What is measured then begins there."""
    cut, rest = resumed.cut, resumed.rest
    assert sum(resumed.stored.values()) == len(cut.trials)
    switch = cut.trials[-1][0]
    again = [number for name, number in rest.trials if name == switch]
    assert min(again) == 2, "the first search is not made again"
    records = read_records(resumed.path)
    assert [record.status for record in records] == ["ok", "ok"]
    for record in records:
        assert record.search is not None
        assert Counter(trial.spec.repeat for trial in resumed.kept[record.key]) == {
            number: result.trials for number, result in enumerate(record.search.results, 1)
        }, "no trial was measured twice, none is of another search"
