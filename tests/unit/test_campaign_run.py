"""These tests run the loop of a run, with a lab that is a table of outcomes."""

from __future__ import annotations

import json
import math
import os
import random
import signal
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import ClassVar, Self

import pytest

from switchmark.campaign.load import from_options
from switchmark.campaign.run import run, time_left
from switchmark.campaign.store import RunFolder
from switchmark.errors import Interrupted, RecordFailed, Unavailable, UsageError
from switchmark.lab.searching import next_stored
from switchmark.metrics.difference import Difference
from switchmark.metrics.family import Results, further_repeats
from switchmark.model.evidence import Evidence
from switchmark.model.record import Record, TrialResult, TrialSpec, TurnsRecord
from switchmark.model.search import Goal, SearchResult
from switchmark.model.test import Test
from switchmark.model.visit import Visit
from switchmark.searches.base import LoadBounds
from switchmark.searches.fixed import SEARCH as FIXED

STORED = Path(__file__).parent / "data/records-schema-1.jsonl"
RECORD = Record.model_validate(json.loads(STORED.read_text())["record"])
TRIAL = RECORD.trials[0]
R_PLUS = Goal(goal="r+", loss_ratio=0.0, rate_pps=1000.0)
FOUND = SearchResult(name="max", trials=1, goals=(R_PLUS,))


class FakeLab:
    """This lab measures nothing: `fails` are the bursts whose test fails, `stop_at` the one during
    which the user interrupts."""

    def __init__(self, fails: Sequence[int] = (), stop_at: int | None = None) -> None:
        self.fails, self.stop_at = fails, stop_at
        self.version = "1"
        self.ran: list[int] = []
        self.given: list[int] = []
        self.then: list[Test | None] = []
        self.asked: list[tuple[str, float | None]] = []
        self.closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True

    def versions(self, test: Test) -> Mapping[str, str]:
        if test.burst == 4096:
            raise Unavailable("no such switch here")
        if test.burst == 4095:
            raise UsageError("this switch has no ports of that kind any more")
        return {"switch": self.version}

    def visit(self, visit: Visit) -> Record | None:
        test, number = visit.test, visit.number
        if visit.limit is not None and len(visit.stored) + visit.limit < test.repeat:
            self.ran.append(number)
            for _ in range(visit.limit):
                visit.on_trial(TRIAL)
            return None
        self.then.append(visit.then)
        self.asked.append((test.rate, visit.r_plus_pps))
        self.ran.append(number)
        self.given.append(len(visit.stored))
        visit.on_trial(TRIAL)
        if test.burst == self.stop_at:
            os.kill(os.getpid(), signal.SIGINT)
        status = "failed" if test.burst in self.fails else "ok"
        search = FOUND if test.search == "max" else None
        return RECORD.model_copy(
            update={
                "number": number,
                "key": visit.key,
                "test": test,
                "status": status,
                "search": search,
                "r_plus_pps": visit.r_plus_pps,
            }
        )


class Watching:
    def __init__(self) -> None:
        self.seen: list[str] = []

    def begin(self, test: Test, position: int, total: int, left_s: float | None) -> None:
        self.seen.append(f"{position}/{total}")

    def trial(self, result: TrialResult) -> None:
        self.seen.append("trial")

    def end(self, record: Record) -> None:
        self.seen.append(record.status)


def new(tmp_path: Path, **options: str) -> RunFolder:
    return RunFolder.create(tmp_path, from_options(options, lambda test: []), {})


def go(folder: RunFolder, lab: FakeLab) -> list[str]:
    watching = Watching()
    run(folder, lab, watching, further_repeats)
    return watching.seen


def test_every_test_is_run_and_kept(tmp_path: Path) -> None:
    with new(tmp_path, burst="1,2") as folder:
        lab = FakeLab()
        assert go(folder, lab) == ["1/2", "trial", "ok", "2/2", "trial", "ok"]
        assert lab.closed
        assert [record.test.burst for record in folder.latest] == [1, 2]


def test_trials_and_their_intervals_are_stored_with_the_number_of_their_test(
    tmp_path: Path,
) -> None:
    def numbers(file: Path) -> list[int]:
        return [json.loads(line)["number"] for line in file.read_text().splitlines()]

    class Dying(FakeLab):
        def visit(self, visit: Visit) -> Record | None:
            visit.on_intervals(TRIAL.spec, {"first": 0, "offered": [1]})
            if visit.test.burst == 3:
                raise Interrupted("killed")
            return super().visit(visit)

    with new(tmp_path, burst="1,2,3") as folder:
        with suppress(Interrupted):
            go(folder, Dying())
        assert numbers(folder.path / "trials.jsonl") == [1, 2]
        assert numbers(folder.path / "intervals.jsonl") == [3]


def test_a_resumed_run_skips_what_is_done_and_repeats_what_failed(tmp_path: Path) -> None:
    with new(tmp_path, burst="1,2,3") as folder:
        go(folder, FakeLab(fails=[2]))
    with RunFolder(folder.path) as folder:
        lab = FakeLab()
        assert go(folder, lab) == ["1/1", "trial", "ok"]
        assert lab.ran == [2]
        assert lab.given == [1]
        assert {record.status for record in folder.latest} == {"ok"}
    with RunFolder(folder.path) as folder:
        assert go(folder, FakeLab()) == []


def test_another_version_is_another_result(tmp_path: Path) -> None:
    with new(tmp_path, burst="1") as folder:
        go(folder, FakeLab())
    with RunFolder(folder.path) as folder:
        lab = FakeLab()
        lab.version = "2"
        go(folder, lab)
        assert lab.ran == [1]
        assert len(folder.latest) == 1


@pytest.mark.parametrize("burst", ["4096", "4095"], ids=["is not there", "cannot be drawn"])
def test_what_cannot_be_run_is_left_to_the_lab_to_refuse(tmp_path: Path, burst: str) -> None:
    with new(tmp_path, burst=f"{burst},1") as folder:
        lab = FakeLab()
        assert go(folder, lab)[-1] == "ok"
        assert sorted(lab.ran) == [1, 2]


def test_repeats_are_interleaved_in_an_order_that_changes(tmp_path: Path) -> None:
    with new(tmp_path, burst="1,2,3,4", repeat="6") as folder:
        lab = FakeLab()
        visits = go(folder, lab)
        rounds = [lab.ran[i : i + 4] for i in range(0, 24, 4)]
        assert rounds[0] == [1, 2, 3, 4]
        assert all(sorted(one) == [1, 2, 3, 4] for one in rounds)
        assert len({tuple(one) for one in rounds}) > 2
        assert lab.given == [5, 5, 5, 5]
        assert [word for word in visits if "/" in word] == [f"{n}/24" for n in range(1, 25)]
        assert len(folder.latest) == 4
    with new(tmp_path, burst="1,2,3,4", repeat="6") as folder:
        again = FakeLab()
        go(folder, again)
        assert again.ran == lab.ran


def test_a_trial_of_another_r_plus_does_not_keep_a_test_from_its_end() -> None:
    """Each visit may measure one trial more; the trials of all visits are kept, the first is of
    a rate that is no longer asked for."""
    trials = [TRIAL.model_copy(update={"spec": TRIAL.spec.model_copy(update={"rate_pps": 1.0})})]
    bounds = LoadBounds(None, TRIAL.spec.duration_s, TRIAL.spec.warmup_s, repeat=3)

    def visit() -> int:
        """How many trials the search has before it wants a second new one."""
        stored, had = list(trials), 0

        def measure(spec: TrialSpec) -> TrialResult:
            nonlocal had
            found = next_stored(stored, spec)
            if found is None:
                if len(trials) > before:
                    raise InterruptedError
                found = TRIAL.model_copy(update={"spec": spec})
                trials.append(found)
            had += 1
            return found

        before = len(trials)
        with suppress(InterruptedError):
            FIXED.find(measure, bounds)
        return had

    assert [visit() for _ in range(4)] == [1, 2, 3, 3]
    assert len(trials) == 4


def test_searches_take_turns_as_trials_do(tmp_path: Path) -> None:
    with new(tmp_path, burst="1,2", repeat="3", search="ndr") as folder:
        lab = FakeLab()
        go(folder, lab)
        assert [sorted(lab.ran[i : i + 2]) for i in (0, 2, 4)] == [[1, 2]] * 3


def test_a_test_alone_has_its_repeats_in_one_visit(tmp_path: Path) -> None:
    with new(tmp_path, burst="1", repeat="6") as folder:
        lab = FakeLab()
        go(folder, lab)
        assert lab.ran == [1]


def test_the_seed_changes_the_order_but_not_the_numbers(tmp_path: Path) -> None:
    with new(tmp_path, burst="1..1..20", seed="7") as folder:
        lab = FakeLab()
        go(folder, lab)
        assert lab.ran != sorted(lab.ran)
        assert [record.test.burst for record in folder.latest] == list(range(1, 21))


def test_an_interruption_says_how_to_go_on(tmp_path: Path) -> None:
    with new(tmp_path, burst="1,2,3") as folder:
        lab = FakeLab(stop_at=2)
        with pytest.raises(Interrupted) as caught:
            go(folder, lab)
        assert lab.closed
    assert caught.value.exit_code == 130
    assert ": kept are 1 of 3 tests and 1 trial of others\n" in str(caught.value)
    assert f"resume with: switchmark resume {folder.path}" in str(caught.value)
    with RunFolder(folder.path) as folder:
        lab = FakeLab()
        go(folder, lab)
        assert (lab.ran, lab.given) == ([2, 3], [1, 0])


def test_a_record_that_cannot_be_kept_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise RecordFailed("No space left on device")

    with new(tmp_path, burst="1,2") as folder:
        monkeypatch.setattr(folder, "append_record", full)
        lab = FakeLab()
        with pytest.raises(RecordFailed, match="No space left"):
            go(folder, lab)
        assert lab.closed
        assert lab.ran == [1]


def test_the_time_left_is_unknown_until_a_test_has_ended() -> None:
    assert time_left([], [Test()]) is None


def test_the_time_left_is_judged_by_searches_of_the_same_kind() -> None:
    short = Test(duration=1, warmup=0)
    search = short.model_copy(update={"search": "ndr"})
    spent = [(short, 2.0), (search, 20.0)]
    assert time_left(spent, [short, short]) == 4
    assert time_left(spent, [search]) == 20
    assert time_left(spent, [short.model_copy(update={"search": "other"})]) == 11
    assert time_left(spent, []) == 0


def test_the_set_up_of_a_short_trial_does_not_stretch_a_long_one() -> None:
    short, long = Test(duration=10, warmup=0), Test(duration=1800, warmup=0)
    assert time_left([(short, 16.0)], [long]) == 1806


def test_a_lab_is_told_which_test_is_next(tmp_path: Path) -> None:
    with new(tmp_path, burst="1,2,3") as folder:
        lab = FakeLab()
        go(folder, lab)
    assert [following and following.burst for following in lab.then] == [2, 3, None]


def test_shares_of_r_plus_are_run_after_it_was_found_once(tmp_path: Path) -> None:
    with new(tmp_path, rate="10%,50%,5k") as folder:
        lab = FakeLab()
        go(folder, lab)
        assert lab.asked == [("max", None), ("10%", 1000.0), ("50%", 1000.0), ("5k", None)]
        assert [record.r_plus_pps for record in folder.latest] == [1000.0, 1000.0, None]


class PathLab(FakeLab):
    """This lab sets a path up for its first visit, in three seconds; all others share it."""

    def visit(self, visit: Visit) -> Record | None:
        is_first = not self.ran
        record = super().visit(visit)
        assert record is not None
        path = {"reused": not is_first, "setup_s": 3.0 if is_first else 0.0}
        return record.model_copy(update=path)


def test_what_an_r_plus_took_to_set_up_is_said_by_the_share_that_it_was_found_for(
    tmp_path: Path,
) -> None:
    with new(tmp_path, rate="10%,50%") as folder:
        go(folder, PathLab())
        found = [(record.reused, record.setup_s) for record in folder.latest]
    assert found == [(False, 3.0), (True, 0.0)]


def test_a_resumed_share_gets_the_trials_that_found_r_plus(tmp_path: Path) -> None:
    with new(tmp_path, rate="10%,50%") as folder, pytest.raises(Interrupted):
        go(folder, FakeLab(stop_at=32))
    with RunFolder(folder.path) as folder:
        lab = FakeLab()
        go(folder, lab)
        assert lab.asked[0] == ("max", None)
        assert lab.given[0] == 1


def test_r_plus_that_the_campaign_measures_itself_is_taken_from_there(tmp_path: Path) -> None:
    with new(tmp_path, rate="max", search="max") as folder:
        go(folder, FakeLab())
        record = folder.latest[0]
    share = from_options({"rate": "50%"}, lambda test: [])
    with RunFolder.create(tmp_path, share, {}) as folder:
        folder.append_record(record, {})
        lab = FakeLab()
        go(folder, lab)
        assert lab.asked == [("50%", 1000.0)]


def test_a_share_of_an_r_plus_that_was_not_found_fails_with_the_reason(tmp_path: Path) -> None:
    with new(tmp_path, rate="10%,50%") as folder:
        lab = FakeLab(fails=[32])
        assert go(folder, lab) == ["1/2", "trial", "failed", "2/2", "trial", "failed"]
        assert lab.asked == [("max", None), ("max", None)]
        assert "R+, of which 10% was asked, was not found" in (folder.latest[0].error or "")


class TwoRates(FakeLab):
    """This lab finds an R+ for each switch, but for one that fails."""

    rates: ClassVar = {"linux-bridge": 1000.0, "ovs": 400.0}
    failing = ""

    def visit(self, visit: Visit) -> Record | None:
        record = super().visit(visit)
        assert record is not None
        if visit.test.search != "max":
            return record
        goal = R_PLUS.model_copy(update={"rate_pps": self.rates[visit.test.switch]})
        status = "failed" if visit.test.switch == self.failing else "ok"
        found = FOUND.model_copy(update={"goals": (goal,)})
        return record.model_copy(update={"search": found, "status": status})


@pytest.mark.parametrize(
    ("failing", "rates"),
    [("", {"linux-bridge": 400.0, "ovs": 400.0}), ("ovs", {"linux-bridge": 1000.0})],
)
def test_compared_outages_have_the_rate_of_the_slowest_switch(
    failing: str, rates: dict[str, float], tmp_path: Path
) -> None:
    axes = {"dimension": "outage", "event": "restart", "engine": "raw-mmsg"}
    with new(tmp_path, rate="10%", switch="linux-bridge,ovs", **axes) as folder:
        lab = TwoRates()
        lab.failing = failing
        go(folder, lab)
        found = {record.test.switch: record.r_plus_pps for record in folder.latest}
        assert {name: pps for name, pps in found.items() if name in rates} == rates
        failed = [record for record in folder.latest if record.status == "failed"]
        assert [record.test.switch for record in failed] == [failing] * bool(failing)
        for record in failed:
            assert "R+, of which 10% was asked, was not found" in (record.error or "")


def test_a_share_is_of_the_r_plus_of_its_own_switch(tmp_path: Path) -> None:
    axes = {"switch": "linux-bridge,ovs", "engine": "raw-mmsg", "repeat": "1"}
    with new(tmp_path, rate="50%", **axes) as folder:
        go(folder, TwoRates())
        found = {record.test.switch: record.r_plus_pps for record in folder.latest}
        assert found == TwoRates.rates


def test_latency_at_a_share_is_of_the_throughputs_r_plus(tmp_path: Path) -> None:
    with new(tmp_path, dimension="latency", rate="50%") as folder:
        lab = FakeLab()
        go(folder, lab)
        assert lab.asked == [("max", None), ("50%", 1000.0)]


class NoisyLab(FakeLab):
    """This lab measures a rate for each switch, with noise of a share of it."""

    def __init__(self, rates: Mapping[str, float], noise: float = 0.03) -> None:
        super().__init__()
        self.rates, self.noise, self.draw = rates, noise, random.Random(7)

    def visit(self, visit: Visit) -> Record | None:
        trials = list(visit.stored)
        while len(trials) < visit.test.repeat:
            if visit.limit is not None and len(trials) - len(visit.stored) >= visit.limit:
                return None
            rate = self.rates[visit.test.switch] * math.exp(self.draw.gauss(0, self.noise))
            frames = round(rate * TRIAL.elapsed_ns / 1e9)
            counts = {
                "rx_frames": frames,
                "tx_frames": frames,
                "doubts": (),
                "evidence": Evidence(),
            }
            trials.append(TRIAL.model_copy(update={**counts, "round": visit.round}))
            visit.on_trial(trials[-1])
        return RECORD.model_copy(
            update={
                "number": visit.number,
                "key": visit.key,
                "test": visit.test,
                "trials": tuple(trials),
                "verdict": "switch",
                "doubts": (),
                "turns": TurnsRecord(kept="idle"),
            }
        )


def decided(tmp_path: Path, other: float, limit: str) -> tuple[Difference, list[Record]]:
    options = {"switch": "linux-bridge,ovs", "repeat": "5", "rate": "max", "until_decided": limit}
    folder = new(tmp_path, engine="raw-mmsg", **options)
    go(folder, NoisyLab({"linux-bridge": 1e6, "ovs": other * 1e6}))
    folder.close()
    before, after = records = folder.latest
    with closing(RunFolder(folder.path)) as resumed:
        assert go(resumed, NoisyLab({})) == []
    return Results.of(records).difference(before, after), records


def test_a_run_goes_on_until_its_switches_are_decided(tmp_path: Path) -> None:
    found, records = decided(tmp_path / "apart", 0.97, "200")
    assert found.word == "slower"
    assert all(len(record.trials) > 5 and record.test.repeat == 5 for record in records)
    assert {record.turns and record.turns.looks for record in records} <= {2, 3}
    rounds = [trial.round for trial in records[0].trials]
    assert rounds == list(range(1, len(rounds) + 1))
    found, records = decided(tmp_path / "clear", 0.5, "200")
    assert (found.word, [len(record.trials) for record in records]) == ("slower", [5, 5])


def test_a_run_goes_on_to_its_limit_and_is_judged_three_times_at_most(tmp_path: Path) -> None:
    found, records = decided(tmp_path / "limit", 0.99, "7")
    assert found.word == "undecided"
    assert [len(record.trials) for record in records] == [7, 7]
    assert all(record.turns and record.turns.looks == 2 for record in records)
    found, records = decided(tmp_path / "same", 1.0, "200")
    assert found.word in ("same", "undecided")
    assert all(record.turns and record.turns.looks <= 3 for record in records)


def test_a_run_that_shows_no_difference_goes_on_to_its_limit(tmp_path: Path) -> None:
    """Two that happen to be alike after five noisy rounds may still differ."""
    path, lab = measured_once(tmp_path, 1.145, noise=0.5)
    with RunFolder(path) as folder:
        before, after = folder.latest
        assert Results.of([before, after]).difference(before, after).needed is None
        folder.until_decided = 60
        go(folder, lab)
        assert [len(record.trials) for record in folder.latest] == [60, 60]


def measured_once(tmp_path: Path, other: float, noise: float = 0.03) -> tuple[Path, NoisyLab]:
    """Run five rounds of two switches, whose campaign says nothing of going on."""
    lab = NoisyLab({"linux-bridge": 1e6, "ovs": other * 1e6}, noise)
    options = {"switch": "linux-bridge,ovs", "repeat": "5", "rate": "max"}
    with new(tmp_path, engine="raw-mmsg", **options) as folder:
        go(folder, lab)
        assert all(len(record.trials) == 5 for record in folder.latest)
    return folder.path, lab


def test_a_stored_run_goes_on_until_its_switches_are_decided(tmp_path: Path) -> None:
    path, lab = measured_once(tmp_path, 0.97)
    with RunFolder(path) as folder:
        before = {record.key: record for record in folder.latest}
        assert go(folder, lab) == []
        folder.until_decided = 200
        go(folder, lab)
        records = folder.latest
    assert Results.of(records).difference(records[0], records[1]).word == "slower"
    for record in records:
        assert record.test == before[record.key].test
        assert len(record.trials) > 5
        assert record.trials[:5] == before[record.key].trials
        assert record.turns is not None
        assert record.turns.looks in (2, 3)


def test_a_stored_run_goes_on_to_its_limit_and_says_how_to_go_on(tmp_path: Path) -> None:
    path, lab = measured_once(tmp_path, 0.99)
    with RunFolder(path) as folder:
        folder.until_decided = 7
        assert folder.resume_command == f"switchmark compare {path} --until-decided 7"
        go(folder, lab)
        assert [len(record.trials) for record in folder.latest] == [7, 7]


def test_a_run_that_went_on_is_judged_as_one_that_was_to_go_on(tmp_path: Path) -> None:
    path, lab = measured_once(tmp_path, 0.97)
    with RunFolder(path) as folder:
        folder.until_decided = 200
        go(folder, lab)
        records = folder.latest
    found = Results.of(records).difference(records[0], records[1])
    once = [record.model_copy(update={"turns": None}) for record in records]
    alone = Results.of(once).difference(once[0], once[1])
    assert found.p is not None
    assert alone.p is not None
    assert found.p == pytest.approx(3 * alone.p)


def test_a_stored_run_of_other_versions_does_not_go_on(tmp_path: Path) -> None:
    path, lab = measured_once(tmp_path, 0.97)
    lab.version = "2"
    with RunFolder(path) as folder:
        folder.until_decided = 200
        with pytest.raises(UsageError, match="with other versions: switch 1, now 2") as refused:
            go(folder, lab)
        assert refused.value.hint == f"a new run: switchmark run {path}/campaign.yaml"
        assert all(len(record.trials) == 5 for record in folder.latest)


def test_a_record_that_is_compared_with_none_needs_no_repeat() -> None:
    assert further_repeats([RECORD], [RECORD], 9) == 0


def test_each_look_has_its_part_of_the_level(tmp_path: Path) -> None:
    """A claim that a single comparison would make needs more evidence if there may be three."""
    found, records = decided(tmp_path, 0.5, "200")
    alone = [
        record.model_copy(update={"test": record.test.model_copy(update={"until_decided": None})})
        for record in records
    ]
    once = Results.of(alone).difference(alone[0], alone[1])
    assert found.p is not None
    assert once.p is not None
    assert found.p == pytest.approx(3 * once.p)
    assert found.interval is not None
    assert once.interval is not None
    assert found.interval[1] > once.interval[1]
