"""These tests hold how a lab shares out a campaign, what may describe one, and how testbeds are
compared, without any worker."""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from recorded import fresh
from switchmark.campaign.load import from_options
from switchmark.campaign.rounds import Agenda, Item
from switchmark.campaign.store import RunFolder, key, read_records
from switchmark.cluster import dispatch
from switchmark.cluster.comparison import TestbedRate, differences, groups, rate_of, shared_tests
from switchmark.cluster.description import described
from switchmark.cluster.dispatch import Landed
from switchmark.cluster.wire import Content, as_record, as_request, as_trials, as_visit
from switchmark.errors import Unavailable, UsageError
from switchmark.metrics.repeats import Repeats
from switchmark.model.record import Record, TrialResult
from switchmark.model.search import Goal, SearchResult
from switchmark.model.test import Test
from switchmark.model.visit import Visit
from switchmark.report.answer import answer
from switchmark.report.notes import footnotes
from switchmark.report.sections import sections
from unit.test_campaign_run import Watching

TRIAL = fresh().trials[0]
OPTIONS = {"share_machine": False}
FOUND = SearchResult(name="max", trials=1, goals=(Goal(goal="r+", loss_ratio=0, rate_pps=1000),))


def items(*sizes: int, repeat: int = 1) -> list[Item]:
    return [
        Item(number, Test(frame_size=size, repeat=repeat), f"k{number}", {})
        for number, size in enumerate(sizes)
    ]


def agenda_of(items: Sequence[Item], *, spread: bool = False) -> Agenda:
    return Agenda(items, shared=True, spread=spread)


def number(item: Item | None) -> int | None:
    return None if item is None else item.index


# --- the agenda ------------------------------------------------------------------------------


def test_a_test_is_at_one_testbed_at_a_time() -> None:
    agenda = agenda_of(items(64, 128))
    assert [number(agenda.next(bed, "ab")) for bed in "aba"] == [0, 1, None]


def test_a_lost_visit_is_for_the_next_who_is_free() -> None:
    agenda = agenda_of(items(64, 128))
    first = agenda.next("a", "ab")
    assert first is not None
    agenda.lost(first)
    assert agenda.next("b", "b") is first


def test_what_has_an_r_plus_of_its_own_waits_for_it() -> None:
    reference, one, other = items(64, 64, 64)
    reference.is_reference, one.needs, other.needs = True, (reference,), (reference,)
    agenda = agenda_of([one, other])
    assert agenda.next("a", "ab") is reference
    assert reference.wanted_by is one
    assert agenda.then(reference, "ab") == one.test
    assert agenda.next("b", "ab") is None
    agenda.landed(reference, is_done=True)
    assert agenda.next("a", "ab") is one


def test_an_r_plus_that_was_not_found_is_looked_for_again_by_the_next_test() -> None:
    reference, one, other = items(64, 64, 64)
    reference.is_reference, one.needs, other.needs = True, (reference,), (reference,)
    agenda = agenda_of([one, other])
    assert agenda.next("a", "ab") is reference
    agenda.landed(reference, is_done=False)
    agenda.landed(one, is_done=True)
    assert agenda.next("b", "ab") is reference
    assert reference.wanted_by is other


def test_repeats_stay_at_the_testbed_that_began_them_while_it_lives() -> None:
    first, last = items(64, 128, repeat=3)
    agenda = agenda_of([first, last])
    assert agenda.next("a", "ab") is first
    first.repeats["a"] += 1
    agenda.landed(first, is_done=False)
    assert agenda.next("a", "ab") is last
    assert agenda.next("b", "ab") is None
    assert agenda.next("b", "b") is first  # the other one is gone


def test_spread_repeats_are_as_many_on_each_testbed() -> None:
    agenda = agenda_of(items(64, repeat=9), spread=True)
    testbeds = []
    for _ in range(3):
        for bed in "abc":
            if (item := agenda.next(bed, "abc")) is not None:
                testbeds.append(bed)
                item.repeats[bed] += 1
                agenda.landed(item, is_done=False)
    assert testbeds == list("abcabcabc")


def test_rounds_go_one_after_another_and_paths_stay_up() -> None:
    switches = ("ovs", "linux-bridge")
    tests = [Test(switch=switch, frame_size=size) for size in (64, 128) for switch in switches]
    agenda = agenda_of([Item(n, test, f"k{n}", {}) for n, test in enumerate(tests)])
    first = agenda.next("a", "ab")
    assert first is not None
    assert agenda.then(first, "ab") == tests[2]  # of the same switch
    second = agenda.next("b", "ab")
    assert number(second) == 1  # not where the path of the other one is up
    agenda.landed(first, is_done=True)
    assert number(agenda.next("a", "ab")) == 2


def test_what_is_measured_last_leaves_its_path_up_for_its_own_repeats() -> None:
    item, other = items(64, 128, repeat=2)
    agenda = agenda_of([item, other])
    agenda.landed(other, is_done=True)
    agenda.next("a", "a")
    assert agenda.then(item, "a") == item.test
    item.repeats["a"] += 1
    assert agenda.then(item, "a") is None


# --- the run ---------------------------------------------------------------------------------


class FakeLab:
    """This lab gives its answers at once. `dies` are the testbeds that are lost with their first
    visit; what `loses` names is lost each time."""

    def __init__(
        self, names: Sequence[str], dies: Collection[str] = (), loses: Collection[int] = ()
    ) -> None:
        self.names, self.dies, self.loses = list(names), set(dies), loses
        self.sent: list[tuple[str, Content]] = []
        self._waiting: list[Landed] = []

    def testbeds(self) -> Collection[str]:
        return tuple(self.names)

    def shares(self, testbed: str) -> bool:
        return testbed == "a"

    def send(self, item: Item, request: Content) -> None:
        testbed = item.testbed
        assert testbed is not None
        self.sent.append((testbed, request))
        if testbed in self.dies or item.index in self.loses:
            self.names = [name for name in self.names if name not in self.dies]
            self._waiting.append(Landed(item, testbed, lost="it is dead", fault=1))
            return
        visit = as_visit(request, lambda trial: None)
        trials = [TRIAL.model_dump(mode="json")]
        short = visit.limit is not None and len(visit.stored) + 1 < visit.test.repeat
        record = fresh(
            key=visit.key,
            number=visit.number,
            test=visit.test,
            trials=(*visit.stored, TRIAL),
            search=FOUND if visit.test.search == "max" else None,
            r_plus_pps=visit.r_plus_pps,
        )
        content = None if short else record.model_dump(mode="json")
        answer = {"record": content, "trials": trials, "logs": {"steps.sh": f"# {testbed}\n"}}
        self._waiting.append(Landed(item, testbed, answer))

    def landed(self, timeout_s: float) -> Landed | None:
        return self._waiting.pop(0) if self._waiting else None


def new(tmp_path: Path, **axes: str) -> RunFolder:
    return RunFolder.create(tmp_path, from_options(axes, lambda test: []), {})


def go(folder: RunFolder, lab: FakeLab, **options: Any) -> list[str]:
    watching = Watching()
    versions: list[dict[str, str]] = [{} for _ in folder.campaign.tests]
    dispatch.run(folder, lab, watching, versions, OPTIONS, **options)
    return watching.seen


def test_a_run_folder_of_a_lab_is_that_of_a_local_run(tmp_path: Path) -> None:
    with new(tmp_path, frame_size="64,128", repeat="2") as folder:
        visits = go(folder, FakeLab("ab"))
        assert [record.number for record in folder.latest] == [1, 2]
        assert [record.key for record in folder.latest] == [
            key(test, {}) for test in folder.campaign.tests
        ]
    assert visits.count("ok") == 2
    assert visits.count("trial") == 4
    records = read_records(folder.path)
    assert {record.testbeds for record in records} == {("a",), ("b",)}
    lines = (folder.path / "trials.jsonl").read_text().splitlines()
    testbeds = [json.loads(line)["trial"]["evidence"]["testbed"] for line in lines]
    assert sorted(testbeds) == ["a", "a", "b", "b"]
    assert (folder.path / "logs/a/steps.sh").read_text() == "# a\n" * 2


@pytest.mark.parametrize("name", ["../../evil", "..", "/evil", "a/b"])
def test_logs_of_a_testbed_stay_in_its_folder(tmp_path: Path, name: str) -> None:
    with new(tmp_path) as folder:
        before = {*tmp_path.rglob("*")}
        folder.append_logs("a", {name: "evil", "steps.sh": "# fine"})
        created = {path.relative_to(folder.path) for path in {*tmp_path.rglob("*")} - before}
    assert {str(path) for path in created} <= {"logs", "logs/a", "logs/a/steps.sh"}
    assert (folder.path / "logs/a/steps.sh").read_text() == "# fine"


def test_the_repeats_of_a_single_test_are_spread_too(tmp_path: Path) -> None:
    with new(tmp_path, repeat="3") as folder:
        go(folder, FakeLab("abc"), spread=True)
        assert [record.testbeds for record in folder.latest] == [("a", "b", "c")]


def test_a_test_of_a_lost_testbed_begins_anew_elsewhere(tmp_path: Path) -> None:
    with new(tmp_path, frame_size="64,128,256", repeat="2") as folder:
        lab = FakeLab("ab", dies="b")
        go(folder, lab)
        assert [record.testbeds for record in folder.latest] == [("a",)] * 3
        assert all(record.status == "ok" for record in folder.latest)
    lines = (folder.path / "records.jsonl").read_text().splitlines()
    assert len(lines) == 3  # each landed once


def test_a_resumed_run_goes_on_with_the_trials_of_the_same_testbed(tmp_path: Path) -> None:
    with new(tmp_path, frame_size="64,128", repeat="2") as folder:
        keys = [key(test, {}) for test in folder.campaign.tests]
        for name, test_key in zip("ab", keys, strict=True):
            evidence = TRIAL.evidence.model_copy(update={"testbed": name})
            folder.append_trial(test_key, 1, TRIAL.model_copy(update={"evidence": evidence}))
        lab = FakeLab("ac")
        go(folder, lab)
    stored = {(testbed, request["number"]): len(request["stored"]) for testbed, request in lab.sent}
    assert stored["a", 1] == 1
    assert stored["c", 2] in (0, 1)  # b is gone: it begins anew
    first = next(request for testbed, request in lab.sent if request["number"] == 2)
    assert first["stored"] == []


def test_an_r_plus_is_found_once_for_all_of_its_shares(tmp_path: Path) -> None:
    with new(tmp_path, rate="20%,50%") as folder:
        lab = FakeLab("ab")
        go(folder, lab)
        requests = [(request["test"]["rate"], request["r_plus_pps"]) for _, request in lab.sent]
        assert requests[0] == ("max", None)
        assert {rate for rate, _ in requests[1:]} == {"20%", "50%"}
        assert all(r_plus for _, r_plus in requests[1:])
        assert len(folder.latest) == 2  # the R+ is no test of its own


def test_a_test_that_ends_testbeds_is_given_up(tmp_path: Path) -> None:
    with new(tmp_path, frame_size="64,128") as folder:
        lab = FakeLab("ab", loses={0})
        go(folder, lab)
        assert [record.status for record in folder.latest] == ["failed", "ok"]
        assert "3 testbeds were lost" in str(folder.latest[0].error)


def test_a_lab_without_testbeds_ends_the_run_and_says_how_to_go_on(tmp_path: Path) -> None:
    with new(tmp_path) as folder:
        folder.cluster = "lab.toml"
        with pytest.raises(Unavailable, match="--cluster lab.toml") as stopped:
            go(folder, FakeLab(""), wait_s=0.0)
        assert "no testbed any more" in stopped.value.message


def test_only_testbeds_that_share_a_machine_are_told_so(tmp_path: Path) -> None:
    OPTIONS["share_machine"] = True
    try:
        with new(tmp_path, frame_size="64,128") as folder:
            lab = FakeLab("ab")
            go(folder, lab)
    finally:
        OPTIONS["share_machine"] = False
    assert {testbed: r["options"]["share_machine"] for testbed, r in lab.sent} == {
        "a": True,
        "b": False,
    }


def test_a_visit_survives_its_way_to_a_testbed_and_back() -> None:
    visit = Visit(Test(frame_size=128), 3, "k", (TRIAL,), then=Test(), r_plus_pps=7.0, limit=1)
    request = json.loads(json.dumps(as_request(visit, OPTIONS)))
    trials: list[TrialResult] = []
    again = as_visit(request, trials.append)
    assert (again.test, again.number, again.key, again.then) == (visit.test, 3, "k", Test())
    assert (again.stored, again.r_plus_pps, again.limit) == ((TRIAL,), 7.0, 1)
    answer = {"record": fresh().model_dump(mode="json"), "trials": []}
    record = as_record(json.loads(json.dumps(answer)), "a")
    assert record is not None
    assert record.testbeds == ("a",)
    assert as_record({"record": None, "trials": []}, "a") is None
    assert as_trials({"trials": [TRIAL.model_dump(mode="json")]}, "b")[0].evidence.testbed == "b"


# --- what describes a lab --------------------------------------------------------------------


def test_a_scheduler_with_tls_is_taken() -> None:
    assert described("tls://lab:8786").address == "tls://lab:8786"


@pytest.mark.parametrize(
    "address", ["tcp://10.0.0.1:8786", "lab:8786", "tcp://127.0.0.1:8786", "localhost:1"]
)
def test_without_tls_no_scheduler_is_taken_be_it_on_this_host(address: str) -> None:
    with pytest.raises(UsageError, match="is reached without TLS"):
        described(address)


@pytest.mark.parametrize("address", ["ws://127.0.0.1:1", "nothing", "lab.toml", "inproc://a:1"])
def test_what_is_neither_an_address_nor_a_file_is_refused(address: str) -> None:
    with pytest.raises(UsageError):
        described(address)


TLS = '\n[tls]\nca = "ca"\ncert = "c"\nkey = "k"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "give exactly one of"),
        ('address = "tcp://127.0.0.1:1"\n[local]\n', "give exactly one of"),
        ("[local]\ntestbeds = 0\n", "local.testbeds"),
        ("[local]\nbeds = 2\n", "local.beds"),
        ("[ssh]\nhosts = []\n", "ssh.hosts"),
        (
            '[ssh]\nhosts = ["a"]\noptions = ["StrictHostKeyChecking=no"]\n',
            "would let anybody be that host",
        ),
        ('[ssh]\nhosts = ["-oProxyCommand=touch x"]\n', "is no name of a host"),
        ('[ssh]\nhosts = ["root@-oProxyCommand=x"]\n', "is no name of a host"),
        ('[ssh]\nhosts = ["bed1", "root@../bed2"]\n', "'root@../bed2' is no name of a host"),
        ('[local]\nlisten = "0.0.0.0"\n', "'0.0.0.0' is all addresses of this host"),
        ('[local]\nlisten = "::"\n', "is all addresses"),
        ('[local]\nlisten = ""\n', "is all addresses"),
        ('address = "tcp://127.0.0.1:1"' + TLS, "is reached without TLS"),
        ("[local\n", "lab.toml"),
    ],
)
def test_a_file_that_describes_no_lab_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "lab.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        described(str(path))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("lab.toml", "a = " + "9" * 5000, "4300"),
        ("lab.toml", "a = " + "[" * 3000, "nested too deeply"),
        ("lab.yaml", "a: " + "9" * 5000, "4300"),
        ("lab.yaml", "a: " + "[" * 1000, "nested too deeply"),
        ("lab.yaml", "a: 2001-99-99", "month"),
    ],
)
def test_what_is_too_large_for_python_is_refused(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=message):
        described(str(tmp_path / name))


def test_a_lab_that_never_ends_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "lab.toml").symlink_to("/dev/zero")
    with pytest.raises(UsageError, match="a device or a pipe"):
        described(str(tmp_path / "lab.toml"))


def test_an_address_without_certificates_is_refused_before_anything_is_tried(
    tmp_path: Path,
) -> None:
    pytest.importorskip("distributed", reason="the extra switchmark[lab] is not installed")
    from switchmark.cluster.start import connected

    lab = described("tls://127.0.0.1:1")
    refused = pytest.raises(UsageError, match="there are none")
    with refused as error, connected(lab, tmp_path, share_machine=False, report=print):
        pass
    assert "[tls]" in str(error.value.hint)


def test_a_certificate_made_for_a_run_is_good_where_clocks_are_behind() -> None:
    x509 = pytest.importorskip("cryptography.x509", reason="switchmark[lab] is not installed")
    from switchmark.cluster.certificates import made_for_a_run

    first, second = made_for_a_run(), made_for_a_run()
    assert first.key != second.key
    begins = x509.load_pem_x509_certificate(first.cert.encode()).not_valid_before_utc
    assert datetime.now(UTC) - begins > timedelta(hours=12)


@pytest.mark.parametrize("name", ["..", "../..", "/etc", "...hidden"])
def test_the_name_that_a_worker_gives_itself_leads_nowhere_else(name: str) -> None:
    pytest.importorskip("distributed", reason="the extra switchmark[lab] is not installed")
    from switchmark.cluster.dask_lab import DaskLab

    lab = DaskLab(Mock(), share_machine=False, report=print)
    assert not set(lab._new_name(name, "tls://10.0.0.1:1")[:1]) & {".", "/"}


def test_a_lab_is_described_in_toml_or_yaml(tmp_path: Path) -> None:
    toml, text = tmp_path / "lab.toml", tmp_path / "lab.yaml"
    toml.write_text('[ssh]\nhosts = ["a", "b"]\nlisten = "10.0.0.1"\n' + TLS)
    text.write_text("ssh: {hosts: [a, b], listen: 10.0.0.1}\ntls: {ca: ca, cert: c, key: k}\n")
    assert described(str(toml)) == described(str(text))
    found = described(str(toml)).ssh
    assert found is not None
    assert found.hosts == ("a", "b")


# --- what is shown ---------------------------------------------------------------------------


def of_two_testbeds(tmp_path: Path, *testbeds: str, groups: list[list[str]]) -> list[Record]:
    """Return the records of two switches, each measured on one of these testbeds."""
    with new(tmp_path, switch="linux-bridge,ovs") as folder:
        folder.keep_lab(
            {
                "testbeds": {name: {"facts": {"kernel": f"6.{name}"}} for name in "ab"},
                "groups": groups,
                "differences": ["testbeds differ: a is faster"] if len(groups) > 1 else [],
            }
        )
        for number, (name, test) in enumerate(zip(testbeds, folder.campaign.tests, strict=True), 1):
            reply = {"record": fresh(number, test=test).model_dump(mode="json"), "trials": []}
            record = as_record(reply, name)
            assert record is not None
            folder.append_record(record, {})
    return read_records(folder.path)


def test_figures_of_testbeds_that_differ_are_kept_apart(tmp_path: Path) -> None:
    records = of_two_testbeds(tmp_path, "a", "b", groups=[["a"], ["b"]])
    first, second = sections(records)
    assert "testbed a" in first.caption
    assert "testbed b" in second.caption
    text = " ".join(answer(records))
    assert "on a: " in text
    assert "times" not in text  # nothing is compared across
    assert "testbeds differ: a is faster" in footnotes(records)
    assert [record.origin and record.origin.host["kernel"] for record in records] == ["6.a", "6.b"]


def test_figures_of_testbeds_that_are_alike_stand_in_one_table(tmp_path: Path) -> None:
    records = of_two_testbeds(tmp_path, "a", "b", groups=[["a", "b"]])
    (section,) = sections(records)
    (column,) = (column for column in section.columns if column.heading == "testbed")
    assert column.cells == ("a", "b")
    assert "testbed" not in section.caption
    assert not [footnote for footnote in footnotes(records) if "testbeds" in footnote]


# --- the comparison --------------------------------------------------------------------------


def rate(*mpps: float) -> TestbedRate:
    return TestbedRate(Repeats(tuple(1e6 * rate for rate in mpps)))


def test_testbeds_that_are_shown_to_differ_are_named_and_grouped() -> None:
    rates = {
        "raw": {
            "a": rate(1.9, 2.0, 2.1, 1.95, 2.05),
            "b": rate(2.02, 2.12, 2.22, 2.07, 2.17),
            "c": rate(2.14, 2.24, 2.34, 2.19, 2.29),  # like b, which is like a
            "d": rate(0.95, 1.0, 1.05, 0.98, 1.02),
        }
    }
    assert groups("abcd", rates) == [["a", "b", "c"], ["d"]]
    (difference,) = differences("abcd", rates)
    assert difference.startswith(
        "testbeds differ: on a cable with raw c 2.24 [2.14, 2.34] Mpps, b 2.12"
    )
    assert groups("ac", {"raw": {name: rates["raw"][name] for name in "ac"}}) == [["a"], ["c"]]
    assert differences("abc", rates) == []


def test_intervals_that_lie_apart_by_chance_part_no_testbeds() -> None:
    """Of ten alike two often do."""
    draw = random.Random(8)
    names = "abcdefghij"
    rates = {name: rate(*(draw.gauss(2, 0.1) for _ in range(5))) for name in names}
    assert max(rate.low for rate in rates.values()) > min(rate.high for rate in rates.values())
    assert groups(names, {"raw": rates}) == [list(names)]


def test_a_testbed_that_was_not_measured_is_apart_from_none() -> None:
    rates = {"raw": {"a": rate(2, 2, 2, 2, 2)}}
    assert groups("ab", rates) == [["a", "b"]]


def test_testbeds_are_compared_by_the_engines_of_the_campaign() -> None:
    engines = ("raw-mmsg", "udp-mmsg")
    found = shared_tests([Test(engine=engine) for engine in (*engines, *engines)])
    assert [test.engine for test in found] == list(engines)
    assert {(test.repeat, test.search) for test in found} == {(5, "max")}


def test_the_rate_of_a_testbed_is_a_median_with_its_interval() -> None:
    record = fresh()
    found = rate_of(record)
    assert found is not None
    assert found.low <= found.pps <= found.high
    assert rate_of(fresh(status="failed", trials=())) is None
