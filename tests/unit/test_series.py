"""Tests of time series: figures of intervals, reading while a trial runs, the gaps of flows, and
what a run folder keeps of a trial that died."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from recorded import fresh
from reported import SECOND, received, report, sent
from switchmark import clock
from switchmark.campaign.load import from_options
from switchmark.campaign.store import RunFolder
from switchmark.clock import Clock
from switchmark.lab.losses import by_interval
from switchmark.lab.outcome import Outcome
from switchmark.lab.series import SeriesReader
from switchmark.lab.workers import Worker, Workers
from switchmark.metrics.series import columns_of, joined
from switchmark.model.counters import PathCounters, PortCounters
from switchmark.model.place import Place, PortEnd
from switchmark.model.record import TrialResult, TrialSpec
from switchmark.model.series import TimeSeries
from switchmark.model.test import Test
from switchmark.path.resolving import resolve
from synthetic import SyntheticSwitch

SPEC = TrialSpec(rate_pps=1000, duration_s=1, warmup_s=0)


def counts(number: int, **members: Any) -> dict[str, Any]:
    """Return what a task counted in this many intervals: 2000 frames each, of 1.6 us."""
    latency = [[[64, 2000]]] * number
    kinds = {"sent": 0, "arrived": 2000, "received": 2000, "duplicated": 0, "reordered": 0}
    columns = {name: [value] * number for name, value in kinds.items()}
    return {**columns, "highest": [1630] * number, "latency": latency, **members}


def sending(number: int, frames: int = 2000) -> dict[str, Any]:
    return {"sent": {**counts(number), "sent": [frames] * number}}


# --- figures ---------------------------------------------------------------------------------


def test_frames_that_were_due_and_never_arrived_are_lost() -> None:
    tasks = [sending(2), {"received": counts(2, arrived=[1990, 2000], received=[1000, 2990])}]
    columns = columns_of(tasks, copies=1, counted=True)
    assert columns["offered"] == (2000, 2000)
    assert columns["lost"] == (10, 0)
    assert columns["received"] == (1000, 2990)


def test_each_copy_is_expected() -> None:
    tasks = [sending(1), {"received": counts(1)}, {"received": counts(1, arrived=[1995])}]
    assert columns_of(tasks, copies=2, counted=True)["lost"] == (5,)
    assert columns_of(tasks, copies=2, counted=False)["lost"] is None


def test_percentiles_are_of_all_receivers_together() -> None:
    slow = counts(1, latency=[[[64, 1900], [128, 100]]], highest=[7000])
    columns = columns_of(
        [sending(1), {"received": counts(1)}, {"received": slow}], copies=1, counted=True
    )
    assert columns["p50_ns"] == (65,)
    assert columns["p99_ns"] == (263,)  # 100 of 4000 are in the bin from 256 to 263 ns
    assert columns["p999_ns"] == (None,)  # four frames lie beyond it
    assert columns["max_ns"] == (7000,)


def test_a_percentile_is_at_most_the_maximum() -> None:
    columns = columns_of(
        [sending(1), {"received": counts(1, highest=[64])}], copies=1, counted=True
    )
    assert columns["p50_ns"] == (64,)


def test_an_interval_without_frames_has_no_latency() -> None:
    empty = counts(1, received=[0], arrived=[0], latency=[[]], highest=[0])
    columns = columns_of([sending(1, 0), {"received": empty}], copies=1, counted=True)
    assert columns["p50_ns"] == columns["max_ns"] == (None,)


@pytest.mark.parametrize("name", ["sent", "arrived", "received", "latency", "highest"])
def test_tasks_have_counted_the_same_intervals(name: str) -> None:
    """The last interval of one is no interval of the others, so none of it can be added."""
    sender, receiver = sending(2), {"received": counts(2)}
    behind = sender["sent"] if name == "sent" else receiver["received"]
    behind[name] = behind[name][:1]
    with pytest.raises(ValueError, match="is (longer|shorter) than"):
        columns_of([sending(2), sender, receiver, {"received": counts(2)}], copies=1, counted=True)


def test_pages_are_joined() -> None:
    one = columns_of([sending(2), {"received": counts(2)}], copies=1, counted=True)
    assert joined([one, one])["offered"] == (2000,) * 4


# --- while a trial runs ----------------------------------------------------------------------


class Jumping(Clock):
    """A clock that shows the time that was slept."""

    def __init__(self) -> None:
        self.now_ns = 5 * SECOND

    def monotonic_ns(self) -> int:
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * SECOND)


class Counting:
    """Processes that count the same in each interval of a phase."""

    def __init__(self, intervals: int) -> None:
        self.intervals = intervals
        self.asked: list[tuple[int, int]] = []

    def send(
        self, command: str, members: Callable[[Worker | None], Mapping[str, int]]
    ) -> list[dict[str, Any]]:
        assert command == "series"
        span = members(None)
        first, count = span["first"], span["count"]
        number = max(0, min(first + count, self.intervals + 1) - first)
        self.asked.append((first, number))
        return [{"tasks": [sending(number)]}, {"tasks": [{"received": counts(number)}]}]


def reader(processes: Counting, keep: Callable[..., None], **members: Any) -> SeriesReader:
    options = {"copies": 1, "counted": True, "resident": lambda: 5000, "alive": lambda: None}
    return SeriesReader(
        cast(Workers, processes), keep=keep, **{"interval_ns": SECOND, **options, **members}
    )


def test_finished_intervals_are_kept_once_and_in_order() -> None:
    kept: list[Mapping[str, Any]] = []
    processes = Counting(10)
    with clock.replaced_by(Jumping()):
        series = reader(processes, kept.append)
        series.follow(5 * SECOND, 10 * SECOND, PathCounters())
        whole = series.whole()
    assert [(one["first"], len(one["offered"])) for one in kept] == [(n, 1) for n in range(9)]
    assert all(one["switch_rss_kib"] == (5000,) for one in kept)
    assert len(whole.offered) == 11
    assert whole.switch_rss_kib == (*(5000,) * 9, None, None)


def test_short_intervals_are_read_once_a_second() -> None:
    kept: list[Mapping[str, Any]] = []
    with clock.replaced_by(Jumping()):
        series = reader(Counting(300), kept.append, interval_ns=SECOND // 100)
        series.follow(5 * SECOND, 3 * SECOND, PathCounters())
    assert [(one["first"], len(one["offered"])) for one in kept] == [(0, 90), (90, 100)]


def test_a_switch_that_dies_ends_the_trial_within_a_second() -> None:
    times = Jumping()

    def alive() -> None:
        if times.now_ns > 9 * SECOND:
            raise RuntimeError("died")

    with clock.replaced_by(times), pytest.raises(RuntimeError, match="died"):
        reader(Counting(10), lambda one: None, interval_ns=300 * SECOND, alive=alive).follow(
            5 * SECOND, 3600 * SECOND, PathCounters()
        )
    assert times.now_ns <= 11 * SECOND


F0, F1 = PortEnd("f0", at_switch=True), PortEnd("f1", at_switch=True)


def crossed(entered: int, left: int, dropped: int = 0) -> PathCounters:
    """Return the counters of a switch for frames from f0 to f1."""
    counts = PortCounters(entered, 0, dropped, 0), PortCounters(0, left, 0, 0)
    return PathCounters(dict(zip((F0, F1), counts, strict=True)))


def test_counters_are_read_after_each_interval_and_at_the_end() -> None:
    times = Jumping()
    read_s: list[float] = []

    def count() -> PathCounters:
        read_s.append((times.now_ns - 5 * SECOND) / SECOND)
        return crossed(100 * len(read_s), 99 * len(read_s))

    with clock.replaced_by(times):
        series = reader(Counting(4), lambda one: None, interval_ns=10 * SECOND, count=count)
        series.follow(5 * SECOND, 40 * SECOND, crossed(50, 50))
        series.whole(crossed(1000, 990))
    assert read_s == pytest.approx([10.1, 20.1, 30.1])
    assert series.counters == {
        0: crossed(50, 49),
        1: crossed(100, 99),
        2: crossed(100, 99),
        3: crossed(700, 693),
    }


def test_losses_of_an_interval_are_placed_where_counters_show_drops() -> None:
    path = resolve(Test(), prefix="sm0000", run_dir="/run/x")
    columns = {**COLUMNS, "offered": (100,) * 5, "lost": (0, 5, 1, 7, 0)}
    series = TimeSeries(interval_ns=10 * SECOND, **columns)
    trial = SyntheticSwitch()(SPEC).model_copy(update={"series": series})
    counted = {0: crossed(100, 100), 1: crossed(97, 95, dropped=3), 2: crossed(100, 96, dropped=4)}
    with_places = by_interval(path, trial, counted).series
    assert with_places is not None
    assert with_places.lost_at == (
        {},
        {Place.into(F0): 3},
        {Place.into(F0): 1},
        None,
        None,
    )
    again = TimeSeries.model_validate_json(with_places.model_dump_json())
    assert again.lost_at == with_places.lost_at
    assert by_interval(path, trial, {}) == trial


# A child begins with the peak of its parent, and the tests are larger than a report.
PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


@pytest.mark.slow
def test_a_day_stays_small(tmp_path: Path) -> None:
    """All of a day but the traffic: every look, the files, the record and its report."""
    day_s, interval_s = 86_400, 300
    campaign = from_options(
        {"duration": f"{day_s}s", "interval": f"{interval_s}s"}, lambda test: []
    )
    spec = TrialSpec(rate_pps=1e6, duration_s=day_s, warmup_s=0.5)
    sizes = []
    tracemalloc.start()
    with (
        clock.replaced_by(Jumping()),
        RunFolder.create(tmp_path, campaign, {"kernel": "6.1"}) as folder,
    ):

        def keep(intervals: Mapping[str, Any]) -> None:
            folder.append_intervals("k1", 1, spec, intervals)
            sizes.append((folder.path / "intervals.jsonl").stat().st_size)

        series = reader(Counting(day_s // interval_s), keep, interval_ns=interval_s * SECOND)
        series.follow(5 * SECOND, day_s * SECOND, PathCounters())
        every = (10**6,) * (day_s * SECOND // spec.interval_ns + 1)
        trial = SyntheticSwitch()(SPEC).model_copy(
            update={"spec": spec, "series": series.whole(), "intervals": every}
        )
        folder.append_trial("k1", 1, trial)
        record = fresh(test=campaign.tests[0], trials=(trial,))
        folder.append_record(record, {})
        files = sum(path.stat().st_size for path in folder.path.rglob("*") if path.is_file())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(sizes) == day_s // interval_s - 1
    assert max(sizes) < 10 * 10**6
    assert files < 10 * 10**6
    assert peak < 200 * 2**20
    assert not (folder.path / "intervals.jsonl").exists()
    page = tmp_path / "day.html"
    argv = (sys.executable, "-m", "switchmark", "report", str(folder.path), "-o", str(page))
    peak_kib = int(subprocess.check_output((sys.executable, "-c", PEAK, *argv), text=True))
    assert "over time: latency" in page.read_text()
    assert peak_kib < 200 * 2**10


# --- a run that died -------------------------------------------------------------------------

COLUMNS = columns_of([sending(1), {"received": counts(1)}], copies=1, counted=True)


def new(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path, from_options({"burst": "1,2"}, lambda test: []), {})


def test_a_run_that_died_in_a_trial_keeps_its_intervals(tmp_path: Path) -> None:
    with new(tmp_path) as folder:
        for first in range(3):
            folder.append_intervals("k2", 2, SPEC, {"first": first, **COLUMNS})
    with (folder.path / "intervals.jsonl").open("a") as file:
        file.write('{"schema":1,"key"')  # torn
    with RunFolder(folder.path) as again:
        assert again.unfinished is not None
        assert (again.unfinished.number, again.unfinished.intervals) == (2, 3)
        assert again.unfinished.path == folder.path / "intervals-1.jsonl"
        again.append_intervals("k2", 2, SPEC, {"first": 0, **COLUMNS})
    lines = (folder.path / "intervals-1.jsonl").read_text().splitlines()
    assert json.loads(lines[2])["intervals"]["first"] == 2
    with RunFolder(folder.path) as again:
        assert again.unfinished is not None
        assert again.unfinished.path == folder.path / "intervals-2.jsonl"
    with RunFolder(folder.path) as again:
        assert again.unfinished is None


def test_intervals_of_a_stored_trial_are_in_the_trial_only(tmp_path: Path) -> None:
    with new(tmp_path) as folder:
        folder.append_intervals("k1", 1, SPEC, {"first": 0, **COLUMNS})
        folder.append_trial("k1", 1, SyntheticSwitch()(SPEC))
        assert not (folder.path / "intervals.jsonl").exists()
        folder.append_intervals("k2", 2, SPEC, {"first": 0, **COLUMNS})
        folder.append_intervals("k2", 2, SPEC, {"first": 0, **COLUMNS})  # the trial failed
        assert len((folder.path / "intervals.jsonl").read_text().splitlines()) == 1
    with RunFolder(folder.path) as again:
        assert len(again.trials["k1"]) == 1


def test_a_trial_without_a_series_is_written_as_before() -> None:
    trial = SyntheticSwitch()(SPEC)
    assert "series" not in trial.model_dump(mode="json")
    assert "steps" not in trial.model_dump(mode="json")["spec"]
    series = TimeSeries(interval_ns=SECOND, **COLUMNS)
    whole = trial.model_copy(update={"series": series})
    assert TrialResult.model_validate_json(whole.model_dump_json()) == whole


# --- gaps ------------------------------------------------------------------------------------


def gapped(gaps: dict[str, Any] | None, frames: int = 100) -> TimeSeries:
    """Return the series of a trial of two flows, whose receiver reports these gaps."""
    path = resolve(Test(flows=2), prefix="sm0000", run_dir="/run/x")
    workers = [
        Worker(cast(Any, SimpleNamespace(part=player.name)), player) for player in path.processes
    ]
    arrived = received(98, flows=[[49, 0, 0, 0], [49, 0, 0, 0]])
    if gaps is not None:
        arrived["gaps"] = {"earliest": None, "latest": None, "silences": [], **gaps}
    reports = (
        report({"sent": sent(frames, cores=[[2, frames]])}, start_ns=10**12),
        report({"received": arrived}, start_ns=10**12),
    )
    outcome = Outcome(path, workers, {})
    series = TimeSeries(interval_ns=SECOND, **COLUMNS)
    result = outcome.result(SPEC, SECOND, reports, PathCounters(), {}, 0.0, load={}, series=series)
    assert result.series is not None
    return result.series


def test_gaps_have_the_names_of_their_flows_and_times_since_the_start() -> None:
    gap = [1, 7, 2, 10**12 + 600, 10**12 + 650, 10**12 + 900, 10**12 + 950]
    ends = [[50, 10**12 + 4900, 10**12 + 4950]] * 2
    series = gapped({"longest": [gap], "earliest": gap, "latest": gap, "ends": ends})
    assert series.gaps is not None
    (found,) = series.gaps
    assert (found.flow.rpartition("#")[2], found.first, found.lost) == ("1", 7, 2)
    assert (found.before_due_ns, found.after_ns) == (600, 950)
    assert (found.due_ns, found.arrival_ns) == (300, 300)
    assert series.earliest_gap == series.latest_gap == found


def test_a_flow_whose_last_frames_are_missing_ends_with_a_gap() -> None:
    ends = [[50, 10**12 + 4900, 10**12 + 4950], [49, 10**12 + 4800, 10**12 + 4850]]
    series = gapped({"longest": [], "ends": ends})
    assert series.gaps is not None
    (found,) = series.gaps
    assert (found.first, found.lost) == (49, 1)
    assert (found.before_due_ns, found.after_due_ns, found.due_ns) == (4800, None, None)
    assert series.latest_gap == found


def test_a_flow_of_which_nothing_came_is_one_gap() -> None:
    ends = [[50, 10**12 + 4900, 10**12 + 4950], [0, 0, 0]]
    series = gapped({"longest": [], "ends": ends})
    assert series.gaps is not None
    (found,) = series.gaps
    assert (found.first, found.lost, found.before_due_ns) == (0, 50, None)


def test_receivers_on_several_cores_have_no_gaps() -> None:
    assert gapped(None).gaps is None
