"""These tests compare what a campaign does with stored texts: every visit of its tests at this host
or at the testbeds of a lab that is simulated, in order, with all that a visit is told; estimates of
its duration; and the settings that a search for settings tries."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from recorded import fresh
from switchmark.campaign import run as running
from switchmark.campaign.duration import expected_s
from switchmark.campaign.expand import run_order
from switchmark.campaign.load import Campaign, dump, from_options, load, parse
from switchmark.campaign.rounds import HERE, Item
from switchmark.campaign.run import Rounds, Visited, resumable, saturated
from switchmark.campaign.store import RunFolder
from switchmark.campaign.tuning import expected_tuning_s, to_compare, to_try
from switchmark.errors import Interrupted, SwitchmarkError, Unavailable
from switchmark.model.record import Record, TrialResult, TurnsRecord
from switchmark.model.search import Goal, SearchResult
from switchmark.model.test import AXES, Test
from switchmark.model.visit import Visit
from switchmark.path.refusals import check

Golden = Callable[[str, str], None]

RECORD = fresh()
TRIAL = RECORD.trials[0]


def shown(test: Test | None) -> str:
    """Return the axes of a test that are not the usual ones."""
    if test is None:
        return "-"
    values = {axis: getattr(test, axis) for axis in AXES}
    chosen = [f"{name}={value}" for name, value in values.items() if value != AXES[name].default]
    return " ".join(chosen) or "usual"


@dataclass
class Simulated:
    """Places and an observer that note what happens. `dies` has a place for the number of the visit
    that ends it, `loses` the tests that end each place where they are, `fails` the switches whose
    tests fail, and `rates` the R+ of each switch. Visits end in the order of `last`: the latest
    first, or the earliest."""

    beds: list[str]
    text: list[str]
    dies: Mapping[int, str] = field(default_factory=dict)
    loses: Collection[int] = ()
    fails: Collection[str] = ()
    rates: Mapping[str, float] = field(default_factory=dict)
    last: bool = False
    stops: int | None = None
    sent: int = 0
    waiting: list[tuple[Item, Visit]] = field(default_factory=list)

    # As places.

    def names(self) -> Collection[str]:
        if not self.beds:
            raise Unavailable("no testbed any more")
        return tuple(self.beds)

    def send(self, item: Item, visit: Visit) -> None:
        self.sent += 1
        stored = [f"{t.evidence.testbed or 'here'}{t.round or ''}" for t in visit.stored]
        among = [test.switch for test in visit.among]
        self.text.append(
            f"{item.testbed or 'here'}: {visit.number} {shown(visit.test)}\n"
            f"  then {shown(visit.then)}, R+ {visit.r_plus_pps}, limit {visit.limit}, "
            f"round {visit.round}, among {among}, stored {stored}"
        )
        if self.sent == self.stops:
            raise Interrupted("interrupted")
        self.waiting.append((item, visit))

    def ended(self) -> Visited | None:
        item, visit = self.waiting.pop(-1 if self.last else 0)
        gone = self.dies.get(self.sent)
        if gone in self.beds:
            self.beds.remove(str(gone))
        if item.testbed == gone or item.index in self.loses:
            return Visited(item, lost="it is gone", fault=int(item.index in self.loses))
        test, trials = visit.test, [*visit.stored]
        while len(trials) < test.repeat and visit.limit != 0:
            if visit.limit is not None and len(trials) - len(visit.stored) >= visit.limit:
                break
            evidence = TRIAL.evidence.model_copy(update={"testbed": item.testbed or ""})
            spec = TRIAL.spec.model_copy(update={"repeat": len(trials)})
            changes = {"evidence": evidence, "spec": spec, "round": visit.round}
            trials.append(TRIAL.model_copy(update=changes))
            visit.on_trial(trials[-1])
        if test.switch not in self.fails and len(trials) < test.repeat:
            return Visited(item)
        rate_pps = self.rates.get(test.switch, 1000.0)
        goal = Goal(goal="r+", loss_ratio=0, rate_pps=rate_pps)
        status = "failed" if test.switch in self.fails else "ok"
        content: dict[str, Any] = {
            "key": visit.key,
            "number": visit.number,
            "test": test,
            "trials": tuple(trials),
            "r_plus_pps": visit.r_plus_pps,
            "reused": len(visit.stored) % 2 == 0,
            "setup_s": float(self.sent),
            "start_s": 0.5 * self.sent,
            "status": status,
            "error": "it is too slow" if status == "failed" else None,
            "turns": TurnsRecord(kept="idle") if visit.among else None,
        }
        if test.search == "max":
            content["search"] = SearchResult(name="max", trials=1, goals=(goal,))
        record = RECORD.model_copy(update=content)
        return Visited(item, record)

    # As an observer.

    def begin(self, test: Test, position: int, total: int, left_s: float | None) -> None:
        left = "" if left_s is None else f", {left_s:.3f} s left"
        self.text.append(f"shown as {position} of {total}{left}")

    def trial(self, result: TrialResult) -> None:
        self.text.append(f"  a trial of round {result.round}, repeat {result.spec.repeat}")

    def end(self, record: Record) -> None:
        turns = record.turns and (record.turns.kept, record.turns.why, record.turns.looks)
        self.text.append(
            f"ended: {record.number} {record.status} {shown(record.test)}: {record.error}, trials "
            f"{len(record.trials)}, turns {turns}, reused {record.reused}, set up in "
            f"{record.setup_s}+{record.start_s} s, R+ {record.r_plus_pps}"
        )


SIZES = {"frame_size": "64,128,256", "repeat": "3"}
THREE = {"switch": "linux-bridge,ovs,vpp", "engine": "raw-mmsg", "repeat": "4"}
OUTAGE = {"dimension": "outage", "event": "restart", "engine": "raw-mmsg", "rate": "10%"}
SEVERAL = "engine: raw-mmsg\nrepeat: 3\nseed: 4\ntests:\n- {frame_size: [64, 128]}\n"
SEVERAL += (
    "- {switch: [linux-bridge, ovs], frame_size: 256}\n- {rate: [10%, max], frame_size: 512}\n"
)
SEVERAL += "- {search: ndr, frame_size: 1024}\n"

CASES: Mapping[str, tuple[dict[str, str] | str, dict[str, Any]]] = {
    "sizes": (SIZES, {}),
    "sizes in another order": ({**SIZES, "seed": "9"}, {}),
    "one test": ({"repeat": "3"}, {}),
    "compared": ({**THREE, "frame_size": "64,128"}, {}),
    "compared from a seed": ({**THREE, "repeat": "5", "seed": "2"}, {"fails": ("ovs",)}),
    "compared once": ({**THREE, "search": "ndr", "repeat": "1"}, {}),
    "several": (SEVERAL, {}),
    "shares": ({"rate": "10%,50%,max", "search": "max,fixed", "repeat": "2"}, {}),
    "shares that fail": ({"rate": "10%,50%", "switch": "ovs"}, {"fails": ("ovs",)}),
    "latency at shares": ({"dimension": "latency", "rate": "10%,20%", "duration": "60"}, {}),
    "outages": (
        {**OUTAGE, "switch": "linux-bridge,ovs", "repeat": "2"},
        {"rates": {"linux-bridge": 1000.0, "ovs": 400.0}},
    ),
    "outages of which one fails": ({**OUTAGE, "switch": "linux-bridge,ovs"}, {"fails": ("ovs",)}),
    "a lab": (SIZES, {"beds": "abc"}),
    "a lab, the latest first": (SIZES, {"beds": "ab", "last": True}),
    "a lab with spread repeats": ({**SIZES, "repeat": "4"}, {"beds": "ab", "spread": True}),
    "a lab, compared": ({**THREE, "repeat": "2", "frame_size": "64,128"}, {"beds": "ab"}),
    "a lab with shares": ({"rate": "10%,50%", "frame_size": "64,128"}, {"beds": "ab"}),
    "a lab of which a testbed dies": (SIZES, {"beds": "ab", "dies": {3: "b"}}),
    "a lab of which all die": (SIZES, {"beds": "ab", "dies": {3: "b", 5: "a"}}),
    "a lab and a test that ends testbeds": (SIZES, {"beds": "abc", "loses": (1,)}),
    "a lab and a search for R+ that ends testbeds": (
        {"rate": "10%", "frame_size": "64,128"},
        {"beds": "ab", "loses": (1,)},
    ),
}


def campaign_of(axes: Mapping[str, str] | str) -> Campaign:
    if isinstance(axes, str):
        return parse(axes, {}, lambda test: [], source="c.yaml", name="c")
    return from_options(axes, lambda test: [])


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock of a run shows a second more than the one before it. No line waits for
    the disk."""
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: None)
    seconds = iter(range(10_000))
    clock = SimpleNamespace(
        monotonic=lambda: next(seconds) ** 1.1, strftime=lambda form: "2026-11-28T00:00:00+0000"
    )
    monkeypatch.setattr(running, "time", clock)


def go(folder: RunFolder, text: list[str], **options: Any) -> None:
    """Run a campaign at simulated places, and note how it ends."""
    beds = list(options.pop("beds", (HERE,)))
    spread, needed = options.pop("spread", False), options.pop("needed", None)
    places = Simulated(beds, text, **options)
    shared = beds != [HERE]
    rounds = Rounds(
        *(folder, places, places, lambda test: {"v": test.switch}), shared=shared, spread=spread
    )
    try:
        with resumable(folder, Interrupted, Unavailable):
            rounds.go(rounds.missing())
            while needed and (further := rounds.undecided(needed)):
                rounds.go(further)
    except (Interrupted, SwitchmarkError) as error:
        text.append(error.message.replace(str(folder.path), "RUN"))


@pytest.mark.parametrize("name", CASES)
def test_the_visits_of_a_campaign(name: str, golden: Golden, tmp_path: Path) -> None:
    axes, options = CASES[name]
    text: list[str] = []
    with RunFolder.create(tmp_path, campaign_of(axes), {}) as folder:
        go(folder, text, **options)
    golden(f"campaigns/{name.replace(' ', '-')}.txt", "\n".join([*text, ""]))


def test_the_visits_of_a_resumed_campaign(golden: Golden, tmp_path: Path) -> None:
    text: list[str] = []
    with RunFolder.create(tmp_path, campaign_of({**THREE, "repeat": "3"}), {}) as folder:
        go(folder, text, stops=8)
    for _ in range(2):
        with closing(RunFolder(folder.path)) as folder:
            go(folder, text, fails=("vpp",) if len(text) < 60 else ())
    golden("campaigns/resumed.txt", "\n".join([*text, ""]))


def test_the_visits_until_switches_are_decided(golden: Golden, tmp_path: Path) -> None:
    text: list[str] = []
    asked = {**THREE, "switch": "linux-bridge,ovs", "until_decided": "9", "repeat": "2"}

    def needed(every: Any, records: Any, limit: int) -> int:
        text.append(f"decided? {len(every)} records, {len(records)} of a group, up to {limit}")
        return min(limit, len(records[0].trials) + 1)

    with RunFolder.create(tmp_path, campaign_of({**asked, "frame_size": "64,128"}), {}) as folder:
        go(folder, text, needed=needed)
    golden("campaigns/decided.txt", "\n".join([*text, ""]))


ESTIMATED: tuple[dict[str, Any], ...] = (
    {},
    {"repeat": 5, "duration": 2.0},
    {"until_certain": 0.01},
    {"dimension": "latency", "rate": "1k"},
    {"dimension": "latency", "rate": "20%", "duration": 60},
    {"search": "ndr"},
    {"search": "ndr", "repeat": 3, "finals": 3},
    {"search": "mlr", "duration_sum": 30},
    {"search": "frame-loss", "rate": "1M"},
    {"search": "back-to-back"},
    {"search": "pdr", "precision": 0.001, "loss_ratio": 0.01},
    {"search": "latency-at-load", "loads": "0.9,0.5"},
    {"switch": "ovs", "environment": "lxc"},
    {"switch": "testpmd", "switch_environment": "docker", "engine": "dpdk"},
    {"scenario": "loopback", "chain": 3, "chains": 2, "environment": "docker"},
    {"scenario": "p2v", "pairs": 2, "environment": "lxc"},
    {"scenario": "p2p", "copies": 3, "environment": "podman"},
    {"environment": "vm"},
    {"environment": "nowhere", "switch": "nobody", "scenario": "none"},
    {"rate": "1k", "residual": 0.5, "settle": 2.0, "warmup": 3.0},
)


def test_the_estimates_of_durations(golden: Golden) -> None:
    tests = [Test.model_validate(axes) for axes in ESTIMATED]
    lines = [
        f"{shown(test)}: {expected_s([test]):.4f} s, {expected_s([test], calibrated=False):.4f} s"
        f", R+ by {shown(saturated(test))}"
        for test in tests
    ]
    for name, (axes, _) in CASES.items():
        some = campaign_of(axes).tests
        orders = [run_order(some, seed) for seed in (0, 1, 5)]
        lines.append(f"{name}: {expected_s(some):.4f} s, orders {orders}")
    lines.append(f"all: {expected_s(tests):.4f} s, none: {expected_s([])} s")
    golden("campaigns/estimates.txt", "\n".join([*lines, ""]))


TUNED: tuple[dict[str, str], ...] = (
    {"switch": "testpmd", "engine": "dpdk"},
    {"switch": "testpmd", "engine": "dpdk", "flows": "8", "seed": "3", "repeat": "7"},
    {"switch": "ovs-dpdk,testpmd", "engine": "dpdk", "descriptors": "512", "frame_size": "64,128"},
    {"switch": "linux-bridge", "until_certain": "0.01"},
)


def test_the_settings_that_are_tried(golden: Golden) -> None:
    lines = []
    for axes in TUNED:
        campaign = from_options(axes, check)
        for count in (0, 1, 12):
            tried = to_try(campaign, count, check)
            seconds = expected_tuning_s(campaign, tried)
            lines.append(
                f"{axes}, {count}: {len(tried.tests)} tests of {tried.name}, {seconds:.4f} s"
            )
        lines += [f"  {shown(test)}" for test in tried.tests]
        records = [
            fresh(test=test, status="failed" if place % 5 == 4 else "ok", number=place + 1)
            for place, test in enumerate(tried.tests)
        ]
        compared = to_compare(campaign, records, lambda record: record.number * 37 % 11)
        lines += [f"  compared in {compared.name}: {shown(test)}" for test in compared.tests]
    golden("campaigns/settings.txt", "\n".join([*lines, ""]))


FILES: Mapping[str, str] = {
    "lists": "loads: [0.9, 50%]\nsearch: latency-at-load\nframe-size: [64, 128..64..256]\n",
    "a list in one word": "loads: 0.9,50%\nsearch: latency-at-load\nrepeat: 2\n",
    "names": "name: my.run\nswitch: [vpp, linux-bridge]\nvlan: [null, 5]\nseed: 3\n",
    "compared once": "switch: [ovs, linux-bridge]\nrepeat: 1\nduration: 5s\n",
    "compared for a time": "switch: [ovs, linux-bridge]\nduration: 5s\n",
    "compared apart": "switch: [ovs, linux-bridge]\nhosts: far\n",
    "compared searches": "switch: [ovs, linux-bridge]\nsearch: [ndr, max]\n",
    "blocks": SEVERAL,
    "blocks of switches": "tests:\n- {switch: ovs}\n- {switch: vpp, repeat: 2}\nburst: 8\n",
}


def test_the_tests_of_files(golden: Golden, tmp_path: Path) -> None:
    """A file that is written of a campaign has the same tests."""
    lines = []
    for name, text in FILES.items():
        (tmp_path / "a file.yaml").write_text(text)
        for options, in_turn in (({}, True), ({"burst": "4", "seed": "8"}, False)):
            file = tmp_path / "a file.yaml"
            found = load(file, options, lambda test: [], in_turn=in_turn)
            lines.append(f"# {name}, {options}: {found.name}, seed {found.seed}")
            lines += [f"  {shown(test)}" for test in found.tests]
            file = tmp_path / "written.yaml"
            file.write_text(dump(found))
            assert load(file, {}, lambda test: []) == found
        written = dump(found).splitlines()
        lines += [f"  | {row}" for row in written if name == "blocks" or row.startswith("-")]
    (tmp_path / "!.yaml").write_text("burst: 8")
    (tmp_path / "my file.yaml").write_text("burst: 8")
    lines += [load(file, {}, lambda test: []).name for file in sorted(tmp_path.glob("*.yaml"))]
    golden("campaigns/files.txt", "\n".join([*lines, ""]))
