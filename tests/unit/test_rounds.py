"""These tests say which tests of a campaign are compared in turn, and in which order."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import pytest

from switchmark.campaign.load import from_options
from switchmark.campaign.rounds import groups, not_in_turn, order_of_round
from switchmark.campaign.run import run
from switchmark.campaign.store import RunFolder
from switchmark.errors import Interrupted
from switchmark.lab.outcome import _is_short
from switchmark.model.record import Record, TrialResult, TrialSpec
from switchmark.model.test import Test
from switchmark.model.visit import Visit
from switchmark.observe.noise import stolen
from switchmark.searches import TABLE as SEARCHES

STORED = Path(__file__).parent / "data/records-schema-1.jsonl"
RECORD = Record.model_validate(json.loads(STORED.read_text())["record"])
TRIAL = RECORD.trials[0]


class Watching:
    def begin(self, test: Test, position: int, total: int, left_s: float | None) -> None:
        assert 1 <= position <= total

    def trial(self, result: TrialResult) -> None:
        pass

    def end(self, record: Record) -> None:
        pass


def compared(**options: str) -> Sequence[Test]:
    return from_options(options, lambda test: []).tests


def test_the_second_round_of_each_pair_has_the_order_of_the_first_mirrored() -> None:
    orders = [order_of_round(4, round_, seed=7) for round_ in range(1, 41)]
    assert all(sorted(order) == [0, 1, 2, 3] for order in orders)
    for first, second in zip(orders[::2], orders[1::2], strict=True):
        assert second == first[::-1]


def test_the_order_is_drawn_anew_for_each_pair_from_the_seed() -> None:
    orders = [tuple(order_of_round(4, round_, seed=7)) for round_ in range(1, 41, 2)]
    assert len(set(orders)) > 10
    assert orders == [tuple(order_of_round(4, round_, seed=7)) for round_ in range(1, 41, 2)]
    assert orders != [tuple(order_of_round(4, round_, seed=8)) for round_ in range(1, 41, 2)]
    firsts = Counter(order[0] for order in orders)
    assert max(firsts.values()) < 12, "nobody always comes first"


def test_without_a_seed_the_first_round_is_as_written() -> None:
    assert order_of_round(3, 1, seed=0) == [0, 1, 2]
    assert order_of_round(3, 2, seed=0) == [2, 1, 0]


def test_tests_that_are_alike_but_for_the_switch_are_a_group() -> None:
    tests = compared(switch="a,b", frame_size="64,1500", repeat="5")
    found = [[(tests[i].switch, tests[i].frame_size) for i in group] for group in groups(tests)]
    assert sorted(map(sorted, found)) == [[("a", 64), ("b", 64)], [("a", 1500), ("b", 1500)]]


def test_one_switch_is_compared_with_none() -> None:
    tests = compared(switch="a", frame_size="64,1500", repeat="5")
    assert groups(tests) == []
    assert not_in_turn(tests) == {}


def test_each_switch_may_have_an_engine_that_suits_it() -> None:
    a, b = (Test(switch="a", engine="dpdk", repeat=5), Test(switch="b", engine="memif", repeat=5))
    assert groups([a, b]) == [(0, 1)]
    tests = [
        a,
        b,
        a.model_copy(update={"engine": "memif"}),
        b.model_copy(update={"engine": "dpdk"}),
    ]
    assert groups(tests) == [(0, 3), (1, 2)]


def test_groups_of_both_kinds_are_found_in_one_campaign() -> None:
    """The second frame size has two tests of each switch, the first has one."""
    pairs = [
        Test(switch=switch, engine=engine, frame_size=size, repeat=5)
        for size, engines in ((64, "dpdk memif"), (1500, "dpdk dpdk memif memif"))
        for switch, engine in zip("abab", engines.split(), strict=False)
    ]
    assert groups(pairs) == [(0, 1), (2, 3), (4, 5)]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"hosts": "near", "repeat": "5"}, "its switch is on another host"),
        ({"search": "ndr"}, "it is measured once"),
    ],
)
def test_what_takes_no_turns_says_why(options: dict[str, str], why: str) -> None:
    tests = compared(switch="a,b", **options)
    assert groups(tests) == []
    assert not_in_turn(tests) == dict.fromkeys(tests, why)


def test_by_itself_a_test_of_several_switches_has_many_short_trials() -> None:
    before_s = 3 * 3.0
    for test in compared(switch="a,b"):
        assert test.repeat >= 5
        assert 0.1 <= test.duration <= 0.3
        assert test.repeat * test.duration <= before_s
        assert test.repeat * test.duration >= 1, "short"


def test_a_lab_and_other_hosts_have_fewer_and_longer_trials() -> None:
    for tests in (
        from_options({"switch": "a,b"}, lambda test: [], in_turn=False).tests,
        compared(switch="a,b", hosts="near"),
    ):
        assert {(test.repeat, test.duration, test.warmup) for test in tests} == {(5, 1.6, 0.5)}


@pytest.mark.parametrize(
    ("axes", "repeat", "duration", "warmup"),
    [
        ({"repeat": "4"}, 4, 10.0, 0.5),
        ({"repeat": "4", "duration": "2"}, 4, 2.0, 0.5),
        ({"duration": "2"}, 5, 2.0, 0.05),
        ({"warmup": "1"}, 20, 0.3, 1.0),
    ],
)
def test_what_is_asked_for_keeps_its_meaning(
    axes: dict[str, str], repeat: int, duration: float, warmup: float
) -> None:
    for test in compared(switch="a,b", **axes):
        assert (test.repeat, test.duration, test.warmup) == (repeat, duration, warmup)


class TurnsLab:
    """This lab measures nothing; it notes who was visited in which round."""

    def __init__(self, stop_after: int | None = None, fails: str = "") -> None:
        self.rounds: list[tuple[int | None, str]] = []
        self.set_up: list[str] = []
        self.among: set[tuple[str, ...]] = set()
        self.then: list[tuple[str, int | str, Test | None]] = []
        self._left, self._fails = stop_after, fails

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def versions(self, test: Test) -> Mapping[str, str]:
        return {}

    def visit(self, visit: Visit) -> Record | None:
        test = visit.test
        self.among.add(tuple(test.switch for test in visit.among))
        if visit.limit == 0:
            self.set_up.append(test.switch)
            return None
        if test.switch == self._fails:
            return RECORD.model_copy(
                update={"test": test, "key": visit.key, "number": visit.number, "status": "failed"}
            )
        if self._left == 0:
            raise Interrupted("interrupted")
        self._left = None if self._left is None else self._left - 1
        self.rounds.append((visit.round, test.switch))
        trial = TRIAL.model_copy(update={"round": visit.round})
        visit.on_trial(trial)
        trials = (*visit.stored, trial)
        if len(trials) < test.repeat:
            return None
        self.then.append((test.switch, test.frame_size, visit.then))
        return RECORD.model_copy(
            update={"test": test, "key": visit.key, "number": visit.number, "trials": trials}
        )


def folder_of(tmp_path: Path, **options: str) -> RunFolder:
    return RunFolder.create(tmp_path, from_options(options, lambda test: []), {})


def test_rounds_go_through_all_compared_tests_whose_paths_come_up_before(tmp_path: Path) -> None:
    lab = TurnsLab()
    with folder_of(tmp_path, switch="linux-bridge,ovs,vpp", repeat="4") as folder:
        run(folder, lab, Watching())
        assert [sorted(t.round or 0 for t in record.trials) for record in folder.latest] == [
            [1, 2, 3, 4]
        ] * 3
    assert lab.set_up == ["linux-bridge", "ovs", "vpp"]
    assert lab.among == {("linux-bridge", "ovs", "vpp")}
    orders = ["".join(s[0] for r, s in lab.rounds if r == round_) for round_ in (1, 2, 3, 4)]
    assert orders[:2] == ["lov", "vol"]
    assert orders[3] == orders[2][::-1]


def test_groups_are_run_one_after_the_other_and_keep_what_the_next_one_needs(
    tmp_path: Path,
) -> None:
    lab = TurnsLab()
    with folder_of(tmp_path, switch="linux-bridge,ovs", frame_size="64,128", repeat="2") as folder:
        run(folder, lab, Watching())
    assert len(lab.rounds) == 8
    first = [(switch, following and following.frame_size) for switch, _, following in lab.then[:2]]
    assert sorted(first) == [("linux-bridge", 128), ("ovs", 128)]
    assert [following for _, _, following in lab.then[2:]] == [None, None]


def test_a_resumed_run_begins_a_new_round(tmp_path: Path) -> None:
    """The trial that one test has of the round that was interrupted has no partner: what comes
    after the break was not measured a moment after it."""
    with (
        folder_of(tmp_path, switch="linux-bridge,ovs", repeat="4") as folder,
        pytest.raises(Interrupted),
    ):
        run(folder, TurnsLab(stop_after=3), Watching())
    lab = TurnsLab()
    with RunFolder(folder.path) as folder:
        run(folder, lab, Watching())
        rounds = {
            record.test.switch: sorted(t.round or 0 for t in record.trials)
            for record in folder.latest
        }
    assert rounds == {"linux-bridge": [1, 3, 4, 5], "ovs": [1, 2, 3, 4]}
    assert min(round_ or 0 for round_, _ in lab.rounds) == 3


def test_one_that_fails_leaves_the_others_their_rounds(tmp_path: Path) -> None:
    lab = TurnsLab(fails="ovs")
    with folder_of(tmp_path, switch="linux-bridge,ovs,vpp", repeat="3") as folder:
        run(folder, lab, Watching())
        statuses = {record.test.switch: record.status for record in folder.latest}
    assert statuses == {"linux-bridge": "ok", "ovs": "failed", "vpp": "ok"}
    assert Counter(switch for _, switch in lab.rounds) == {"linux-bridge": 3, "vpp": 3}


def test_searches_that_are_repeated_take_turns_whole(tmp_path: Path) -> None:
    lab = TurnsLab()
    with folder_of(tmp_path, switch="linux-bridge,ovs", search="ndr", repeat="2") as folder:
        run(folder, lab, Watching())
    assert [round_ for round_, _ in lab.rounds] == [1, 1, 2, 2]


def test_the_record_says_why_tests_took_no_turns(tmp_path: Path) -> None:
    with folder_of(tmp_path, switch="linux-bridge,ovs", search="ndr") as folder:
        run(folder, TurnsLab(), Watching())
        turns = [record.turns for record in folder.latest]
    assert [(turn and turn.kept, turn and turn.why) for turn in turns] == [
        ("one-at-a-time", "it is measured once")
    ] * 2


@pytest.mark.parametrize(
    ("axes", "duration_s", "short"),
    [
        ({"duration": 0.3, "repeat": 20}, 0.3, False),
        ({"duration": 0.3, "repeat": 3}, 0.3, True),
        ({"duration": 0.05, "repeat": 1000}, 0.05, True),
        ({"duration": 1.0}, 1.0, False),
        ({"duration": 0.2, "until_certain": 0.01}, 0.2, False),
        ({"duration": 0.3, "repeat": 20, "search": "ndr"}, 0.3, True),
        ({"duration": 0.3, "repeat": 20}, 0.4, True),  # such as one on a cable
    ],
)
def test_what_is_short_is_the_sum_of_the_rounds(
    axes: dict[str, float], duration_s: float, short: bool
) -> None:
    spec = TrialSpec(rate_pps=None, duration_s=duration_s, warmup_s=0.05)
    test = Test.model_validate(axes)
    assert _is_short(test, SEARCHES[test.search], spec) is short


def test_a_tick_that_may_be_of_the_time_before_is_not_said_to_be_stolen() -> None:
    counts = (0, 0, 0, 0, 0, 0, 0, 0)
    assert stolen(counts, (59, 0, 0, 0, 0, 0, 0, 1)) == 0
    assert stolen(counts, (58, 0, 0, 0, 0, 0, 0, 2)) == 1 / 60
