"""These tests prepare recorded hosts for a measurement, and restore them: every value is what it
was after the end, after a death, and when two runs share it."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from recorded_roots import CPU, ROOTS, RecordedRoot
from switchmark.campaign.load import from_options, parse
from switchmark.cli import doctor
from switchmark.cli.listing import Thing, listed
from switchmark.errors import Unavailable, UsageError
from switchmark.hosts.host_file import VARIABLE
from switchmark.hosts.hosts import Hosts
from switchmark.lab import host_preparation
from switchmark.lab.host_preparation import HostPreparation, planned, spoiling
from switchmark.lab.prepare import prepare
from switchmark.lab.probes import Probes
from switchmark.metrics.doubts import TABLE as DOUBTS
from switchmark.model.choice import chosen
from switchmark.model.preparation import ALL, TABLE, named, parse_preparations
from switchmark.model.record import Origin, PreparedValue, Record
from switchmark.model.test import Test
from switchmark.model.topology import Findings
from switchmark.papers.library import names as experiments
from switchmark.path.path import Path as PathOfTest
from switchmark.report.headline import circumstances, host_words, method
from switchmark.report.json import to_object
from switchmark.report.matrix import RunSide
from switchmark.runs import leases
from switchmark.runs.clean import clean
from switchmark.runs.own_run import OwnRun

EVERY = ",".join(TABLE)
SOURCES = Path(host_preparation.__file__).parents[1]


@pytest.fixture(autouse=True)
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put runs and leases below the folder of the test, and let this process be root."""
    base = tmp_path / "runs"
    monkeypatch.setattr(leases, "MACHINE_WIDE", tmp_path / "machine-leases")
    monkeypatch.setattr("switchmark.runs.workspace.default_base", lambda: base)
    monkeypatch.setattr(host_preparation, "privileges", lambda: "root")
    return base


Made = Callable[..., RecordedRoot]


@pytest.fixture
def recorded(tmp_path: Path) -> Made:
    def made(name: str, **more: object) -> RecordedRoot:
        return RecordedRoot(name, tmp_path / f"root-{name}", **more)  # type: ignore[arg-type]

    return made


class Run:
    """A run that prepares a host for tests."""

    def __init__(self, host: RecordedRoot, logs: Path) -> None:
        self.host = host
        self.hosts = Hosts(OwnRun, {"local": host})
        self.probes = Probes(self.hosts)
        self.preparation = HostPreparation(self.hosts, logs)

    def path(self, test: Test) -> PathOfTest:
        return prepare(
            self.host, test, Findings(), prefix="smtest", run_dir="/run", can=lambda _: True
        )

    def begin(self, names: str, **axes: object) -> None:
        """Prepare the host for a test, as the lab does."""
        test = Test.model_validate({"prepare": names, "placement": "1", **axes})
        location = self.probes.locate(test)
        self.preparation.prepare(location)
        self.preparation.make_room(location, self.path(test))

    def values(self, names: str) -> list[tuple[str, int, str, str, str]]:
        location = self.probes.locate(Test(prepare=names))
        return [
            (value.preparation, value.count, value.was, value.asked, value.now)
            for value in self.preparation.values(location)
        ]

    def die(self) -> None:
        """End without restoring anything, as by SIGKILL."""
        assert self.preparation._run is not None
        workspace, _ = self.preparation._run
        workspace.leases.close()
        workspace.journal.close()


@pytest.fixture
def run(recorded: Made, tmp_path: Path) -> Callable[..., Run]:
    made: list[Run] = []

    def one(host: RecordedRoot | str) -> Run:
        host = recorded(host) if isinstance(host, str) else host
        made.append(Run(host, tmp_path / "logs" / str(len(made))))
        return made[-1]

    return one


# --- the table and the axis --------------------------------------------------------------------


def test_names_are_written_once_and_in_the_order_of_the_table() -> None:
    assert parse_preparations("thp, governor,thp") == "governor,thp"
    assert parse_preparations(ALL) == parse_preparations(f"aslr,{ALL}") == EVERY
    assert [each.name for each in named("governor,thp")] == ["governor", "thp"]
    assert named(None) == ()


@pytest.mark.parametrize("text", ["governors", "governor,governors", ""])
def test_an_unknown_name_is_refused_with_those_there_are(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_preparations(text)
    assert all(name in raised.value.message for name in (*TABLE, ALL))
    assert ("did you mean 'governor'?" in raised.value.message) == bool(text)


@pytest.mark.parametrize("written", ["turbo,governor", "[turbo, governor]", "[governor, turbo]"])
def test_a_campaign_file_names_preparations_in_a_list_or_with_commas(written: str) -> None:
    text = f"prepare: {written}\nframe-size: [64, 128]"
    campaign = parse(text, {}, lambda test: [], source="x.yaml", name="x")
    assert [test.prepare for test in campaign.tests] == ["governor,turbo"] * 2


def test_a_campaign_is_prepared_once_for_all_its_tests() -> None:
    text = "tests:\n- {prepare: aslr}\n- {frame-size: 128}"
    with pytest.raises(UsageError, match="'prepare' is the whole campaign's"):
        parse(text, {}, lambda test: [], source="x.yaml", name="x")
    options = {"prepare": "aslr,thp", "frame_size": "64,128"}
    campaign = from_options(options, lambda test: [])
    assert [test.prepare for test in campaign.tests] == ["aslr,thp"] * 2


def test_another_preparation_is_another_test_and_none_is_that_of_earlier_versions() -> None:
    from switchmark.campaign.store import key

    keys = {key(Test(prepare=names), {}) for names in (None, "aslr", "aslr,thp")}
    assert len(keys) == 3
    assert "prepare" not in Test().model_dump(exclude_defaults=True)


def test_papers_of_the_table_are_those_of_the_experiments() -> None:
    works = {name.partition("/")[0] for name in experiments()}
    assert {paper for each in TABLE.values() for paper in each.papers} <= works
    assert len(works) > 3


def test_doubts_name_the_preparation_that_prevents_them() -> None:
    for each in TABLE.values():
        for doubt in each.cures:
            assert each.name in DOUBTS[doubt].cure
    frequency = DOUBTS["frequency-changed"].cure
    assert frequency.startswith("use --prepare governor,turbo, or ")
    assert "--prepare" not in DOUBTS["clock"].cure


SAME_WORDS = {
    "observe/facts.py": "the facts about a host have their own names, which records keep",
    "observe/softirq.py": "`irq` is a kind of CPU time there",
    "runs/nics.py": "it spreads the interrupts of a NIC of the test over CPUs",
}
"""Files other than the table with the same words for something else."""


def test_only_the_table_knows_names_and_files() -> None:
    files = {setting.files for each in TABLE.values() for setting in each.settings}
    known = {*TABLE, *files, *(file.rpartition("/")[2] for file in files)}
    naming = {
        str(path.relative_to(SOURCES))
        for path in SOURCES.rglob("*.py")
        for text in (path.read_text(),)
        if any(name in text for name in known)  # to parse all takes a second
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if any(f"/{name}" in node.value or name == node.value for name in known)
        or any(f"--prepare {name}" in node.value for name in TABLE)
    }
    assert naming == {"model/preparation.py", *SAME_WORDS}


# --- values --------------------------------------------------------------------------------------


def test_a_server_is_prepared_and_is_afterwards_what_it_was(run: Callable[..., Run]) -> None:
    server = run("server")
    host = server.host
    before = host.contents
    server.begin(ALL)
    after = host.contents
    assert after[f"{CPU}/smt/control"] == "off\n"
    assert after[f"{CPU}/online"] == "0-3\n"
    for cpu in range(4):
        policy = f"{CPU}/cpufreq/policy{cpu}"
        assert after[f"{policy}/scaling_governor"] == "performance\n"
        assert after[f"{policy}/energy_performance_preference"] == "performance\n"
    assert after[f"{CPU}/intel_pstate/no_turbo"] == "1\n"
    assert after["/proc/irq/default_smp_affinity"] == "0000000d\n"
    for number in (9, 24, 25, 26):
        assert after[f"/proc/irq/{number}/smp_affinity_list"] == "0,2-3\n"
    assert after["/proc/irq/0/smp_affinity_list"] == "0-7\n"
    assert after["/proc/sys/kernel/randomize_va_space"] == "0\n"
    assert after["/sys/kernel/mm/transparent_hugepage/enabled"] == "always madvise [never]\n"
    assert server.preparation.restore() == ()
    assert host.contents == before


def test_smt_is_the_first_to_go_and_the_last_to_come_back(run: Callable[..., Run]) -> None:
    server = run("server")
    server.begin(ALL)
    begun = [path for path, _ in server.host.written]
    server.host.written.clear()
    server.preparation.restore()
    ended = [path for path, _ in server.host.written]
    assert begun[0] == ended[-1] == f"{CPU}/smt/control"
    assert begun == ended[::-1]


def test_other_frequency_drivers_have_other_files(run: Callable[..., Run]) -> None:
    amd = run("amd")
    before = amd.host.contents
    amd.begin("governor,turbo,smt")
    after = amd.host.contents
    assert after[f"{CPU}/cpufreq/boost"] == "0\n"
    assert {after[f"{CPU}/cpufreq/policy{cpu}/scaling_governor"] for cpu in range(4)} == {
        "performance\n"
    }
    assert amd.preparation.restore() == ()
    assert amd.host.contents == before


def test_records_keep_what_was_set_and_what_it_was(run: Callable[..., Run]) -> None:
    server = run("server")
    server.begin(ALL)
    assert server.values(ALL) == [
        ("smt", 1, "on", "off", "off"),
        ("governor", 4, "balance_performance", "performance", "performance"),
        ("governor", 4, "powersave", "performance", "performance"),
        ("turbo", 1, "0", "1", "1"),
        ("irq", 1, "ff", "0000000d", "0000000d"),
        ("irq", 1, "0-7", "0,2-3", "0-7"),
        ("irq", 2, "0-7", "0,2-3", "0,2-3"),
        ("irq", 1, "1", "0,2-3", "0,2-3"),
        ("irq", 1, "3", "0,2-3", "0,2-3"),
        ("aslr", 1, "2", "0", "0"),
        ("thp", 1, "madvise", "never", "never"),
    ]
    assert server.values("aslr") == [("aslr", 1, "2", "0", "0")]


def test_what_is_so_already_stays_and_is_leased_all_the_same(run: Callable[..., Run]) -> None:
    guest = run("guest")
    guest.begin("smt")
    assert guest.host.written == []  # no thread to take offline
    assert guest.values("smt") == [("smt", 1, "notsupported", "off", "notsupported")]
    amd = run("amd")
    amd.begin("smt")
    assert amd.host.written == [(f"{CPU}/smt/control", "off")]


@pytest.mark.parametrize(
    ("host", "names"), [("guest", ["governor", "turbo", "thp"]), ("bare", [*TABLE])]
)
def test_a_host_without_it_is_refused_with_the_reason_and_a_fix(
    run: Callable[..., Run], host: str, names: list[str]
) -> None:
    lacking = run(host)
    before = lacking.host.contents
    for name in names:
        with pytest.raises(Unavailable) as raised:
            lacking.begin(name)
        first, evidence = raised.value.message.splitlines()
        assert first == f"--prepare {name} is not possible on host local: {TABLE[name].lacking}"
        assert evidence == f"  there is no {TABLE[name].settings[-1].files}"
        can = "--prepare smt,irq,aslr" if host == "guest" else "no --prepare"
        assert raised.value.hint == f"{TABLE[name].fix}; this host can have {can}"
    lacking.preparation.restore()
    assert lacking.host.contents == before


def test_a_host_that_lacks_one_gets_none_of_the_rest(run: Callable[..., Run]) -> None:
    guest = run("guest")
    with pytest.raises(Unavailable, match="--prepare thp is not possible"):
        guest.begin("aslr,thp")
    assert guest.host.written == []


def test_a_value_that_the_kernel_refuses_is_an_error_with_its_reason(
    run: Callable[..., Run], recorded: Made
) -> None:
    host = recorded("server")
    host.refused.add("/proc/sys/kernel/randomize_va_space")
    refused = run(host)
    with pytest.raises(Unavailable) as raised:
        refused.begin("aslr")
    assert raised.value.message == (
        "--prepare aslr is not possible on host local now\n"
        "  /proc/sys/kernel/randomize_va_space cannot be set: Input/output error"
    )
    assert refused.preparation.restore() == ()


def test_what_was_set_before_a_refusal_is_restored_at_once(
    run: Callable[..., Run], recorded: Made
) -> None:
    host = recorded("server")
    before = host.contents
    host.refused.add(f"{CPU}/cpufreq/policy2/scaling_governor")
    with pytest.raises(Unavailable, match="policy2/scaling_governor cannot be set"):
        run(host).begin("governor")
    assert len(host.written) > 2
    assert host.contents == before


def test_a_user_namespace_cannot_prepare_the_host(
    run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_preparation, "privileges", lambda: "user-namespace")
    with pytest.raises(Unavailable, match="needs real root") as raised:
        run("server").begin("aslr")
    assert raised.value.hint == "run it with sudo"


def test_a_test_without_preparations_touches_nothing(run: Callable[..., Run], base: Path) -> None:
    server = run("server")
    location = server.probes.locate(Test())
    server.preparation.prepare(location)
    server.preparation.make_room(location, server.path(Test()))
    assert (server.host.written, server.preparation.values(location)) == ([], ())
    assert server.preparation.restore() == ()
    assert not base.exists()


# --- CPUs of a test ------------------------------------------------------------------------------


def test_cpus_that_go_offline_cannot_be_named(run: Callable[..., Run]) -> None:
    server = run("server")
    for axes in ({"placement": "1+5"}, {"placement": "1", "noise": "cpu:5"}):
        with pytest.raises(Unavailable) as raised:
            server.begin("smt", **axes)
        axis = "noise" if "noise" in axes else "placement"
        assert raised.value.message == (
            f"--prepare smt is not possible on host local: it takes CPU 5 offline, which --{axis} "
            "names\n  CPUs that stay: 0-3"
        )
    assert server.host.written == []


def test_interrupts_need_a_cpu_that_no_part_uses(run: Callable[..., Run]) -> None:
    guest = run("guest")
    for placement in ("0+1", "unpinned"):
        with pytest.raises(Unavailable, match="the parts of the test use all of its CPUs"):
            guest.begin("irq", placement=placement)
    assert guest.host.written == []


def test_interrupts_keep_off_the_cpus_of_all_paths_of_the_run(run: Callable[..., Run]) -> None:
    server = run("server")
    affinity = "/proc/irq/24/smp_affinity_list"
    server.begin("irq", placement="1")
    assert server.host.contents[affinity] == "0,2-7\n"
    server.begin("irq", placement="2")
    assert server.host.contents[affinity] == "0,3-7\n"
    server.host.written.clear()
    server.begin("irq", placement="1")
    assert server.host.written == []
    # A test may use all CPUs that the tests before it left.
    server.begin("irq", placement="0+3-7", pairs=4)
    assert server.host.contents[affinity] == "1-2\n"
    assert server.values("irq")[0] == ("irq", 1, "ff", "00000006", "00000006")
    assert server.preparation.restore() == ()
    assert server.host.contents[affinity] == "0-7\n"


def test_interrupts_that_a_path_has_moved_since_are_left_to_it(run: Callable[..., Run]) -> None:
    server = run("server")
    server.begin("irq", placement="1")
    server.host.write("/proc/irq/25/smp_affinity_list", b"1")
    server.begin("irq", placement="2")
    after = server.host.contents
    assert after["/proc/irq/24/smp_affinity_list"] == "0,3-7\n"
    assert after["/proc/irq/25/smp_affinity_list"] == "1\n"


def test_interrupts_avoid_isolated_cpus_as_long_as_others_are_left(run: Callable[..., Run]) -> None:
    amd = run("amd")
    amd.begin("irq", placement="0")
    assert amd.host.contents["/proc/irq/24/smp_affinity_list"] == "1\n"
    amd.preparation.restore()
    amd.begin("irq", placement="0+1")
    assert amd.host.contents["/proc/irq/24/smp_affinity_list"] == "2-3\n"


# --- several runs, and deaths --------------------------------------------------------------------


def test_two_runs_that_ask_the_same_share_it(run: Callable[..., Run], recorded: Made) -> None:
    host = recorded("server")
    before, first, second = host.contents, run(host), run(host)
    first.begin(ALL)
    second.begin(ALL)
    during = host.contents
    assert first.preparation.restore() == ()
    assert host.contents == during
    assert second.preparation.restore() == ()
    assert host.contents == before


def test_a_run_that_asks_another_value_is_refused_with_the_reason(
    run: Callable[..., Run], recorded: Made
) -> None:
    host = recorded("server")
    first, second = run(host), run(host)
    first.begin("irq", placement="1")
    during = host.contents
    with pytest.raises(Unavailable) as raised:
        second.begin("irq", placement="2")
    assert first.preparation._run is not None
    holder = first.preparation._run[0].run
    assert raised.value.message == (
        "--prepare irq is not possible on host local now\n"
        "  /proc/irq/default_smp_affinity cannot be set to 000000fb:"
        f" run {holder} needs it to be 000000fd"
    )
    assert raised.value.hint == "run again when that run has ended"
    assert host.contents == during
    assert second.preparation.restore() == ()
    assert host.contents == during


def test_clean_restores_what_a_killed_run_set(
    run: Callable[..., Run], recorded: Made, base: Path
) -> None:
    host = recorded("server")
    before, killed = host.contents, run(host)
    killed.begin(ALL)
    killed.begin(ALL, placement="2")
    assert host.contents != before
    killed.die()
    cleaned = clean(base, hosts={"local": host})
    assert [each.state for each in cleaned] == ["cleaned"]
    assert host.contents == before


def test_a_run_goes_on_where_another_one_was_killed(
    run: Callable[..., Run], recorded: Made, base: Path
) -> None:
    host = recorded("server")
    before, killed, second = host.contents, run(host), run(host)
    killed.begin("thp,irq", placement="1")
    killed.die()
    second.begin("thp,irq", placement="2")
    assert second.preparation.restore() == ()
    clean(base, hosts={"local": host})
    assert host.contents == before


def test_a_far_host_that_has_restored_itself_is_prepared_again(
    run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = run("server")
    server.begin("aslr,irq")
    lost = server.host.contents
    for path in ("/proc/sys/kernel/randomize_va_space", "/proc/irq/24/smp_affinity_list"):
        server.host.write(path, b"2" if "random" in path else b"0-7")
    server.begin("aslr,irq")
    assert server.values("aslr") == [("aslr", 1, "2", "0", "2")]  # the record is honest
    monkeypatch.setattr(RecordedRoot, "is_far", True)
    monkeypatch.setattr("switchmark.runs.workspace.Workspace.reach", lambda *_: None)
    server.begin("aslr,irq")
    assert server.host.contents == lost


def test_both_hosts_of_a_remote_test_are_prepared_and_restored(
    recorded: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "host.toml"
    file.write_text(
        "[hosts.left]\nnics.up = {name = 'a', cable = 'c'}\n"
        "[hosts.right]\nnics.up = {name = 'b', cable = 'c'}\n"
    )
    monkeypatch.setenv(VARIABLE, str(file))
    hosts = {"left": recorded("server"), "right": recorded("amd")}
    for name, host in hosts.items():
        host.name = name
        (host.root / "proc/sys/kernel/random/boot_id").write_text(f"boot of {name}\n")
    before = {name: host.contents for name, host in hosts.items()}
    every = Hosts(OwnRun, hosts)
    preparation = HostPreparation(every, tmp_path / "logs")
    test = Test(locality="remote", hosts="left,right", prepare="aslr")
    location = Probes(every).locate(test)
    preparation.prepare(location)
    assert [(value.host, value.was, value.now) for value in preparation.values(location)] == [
        ("left", "2", "0"),
        ("right", "2", "0"),
    ]
    assert preparation.restore() == ()
    assert {name: host.contents for name, host in hosts.items()} == before


# --- what is shown -------------------------------------------------------------------------------


@pytest.mark.parametrize("host", [path.name for path in ROOTS.iterdir()])
def test_doctor_says_what_would_be_done(recorded: Made, host: str) -> None:
    machine = recorded(host)
    findings = {finding.name: finding for finding in doctor._preparations(machine)}
    assert [*findings] == [*TABLE]
    for name, each in TABLE.items():
        finding = findings[name]
        lacks = not host_preparation.state_on(machine, each)
        assert finding.found == each.lacking if lacks else finding.found != each.lacking
        if not lacks:
            would = f"--prepare {name} sets: {each.effect}"
            assert finding.ok == (would not in f"{finding.mend}") or each.of_test
    marks = "".join(finding.mark for finding in findings.values())
    assert marks == {"server": "-!-✓--", "amd": "✓!-✓--", "guest": "✓--✓--", "bare": "------"}[host]


def test_a_governor_to_be_prepared_is_no_reason_to_warn(recorded: Made) -> None:
    server, guest = recorded("server"), recorded("guest")
    assert spoiling(server) == ["the frequency governor is powersave"]
    assert spoiling(server, ("governor",)) == []
    assert spoiling(guest) == []


def test_the_list_says_what_this_host_lacks_and_how_far_each_was_verified(recorded: Made) -> None:
    entries = {each["name"]: each for each in listed(Thing.PREPARATIONS, host=recorded("guest"))}
    assert [name for name, each in entries.items() if each["usable"]] == ["smt", "irq", "aslr"]
    assert {name: each["verified"] for name, each in entries.items()} == {
        name: each.verified for name, each in TABLE.items()
    }
    assert entries["turbo"]["why_not"] == TABLE["turbo"].lacking
    assert entries["turbo"]["hint"] == TABLE["turbo"].fix


def test_a_plan_has_the_steps_or_the_reason(recorded: Made) -> None:
    shown = planned(recorded("guest"), Test(prepare=ALL))
    by_name = {each.name: steps for each, steps in shown}
    assert [*by_name] == [name for name, each in TABLE.items() if not each.of_test]
    assert isinstance(by_name["governor"], Unavailable)
    assert by_name["smt"] == []


def stored(**members: object) -> Record:
    lines = (Path(__file__).parent / "data/records-0.1.0.jsonl").read_text().splitlines()
    record = Record.model_validate(json.loads(lines[0])["record"])
    facts = {"cpu_model": "Xeon", "cores_usable": 8}
    origin = Origin.model_validate({"run": "r", "host": facts, "versions": {}})
    return record.model_copy(update={"origin": origin, **members})


def prepared(record: Record, names: str, *values: tuple[str, str, str]) -> Record:
    made = tuple(
        PreparedValue(preparation=name, files="x", count=1, was=was, asked=now, now=now)
        for name, was, now in values
    )
    test = record.test.model_copy(update={"prepare": names})
    return record.model_copy(update={"test": test, "prepared": made})


def test_reports_name_the_preparation_and_what_was_before() -> None:
    plain = stored()
    fixed = prepared(
        plain,
        "smt,governor,turbo",
        ("smt", "notsupported", "notsupported"),
        ("governor", "powersave", "performance"),
        ("governor", "schedutil", "performance"),
        ("turbo", "0", "1"),
    )
    assert host_words([plain]) == ["Xeon", "8 CPUs"]
    assert host_words([fixed])[2:] == ["prepared: smt, governor and turbo"]
    assert host_words([plain, fixed])[2:] == ["prepared: smt, governor and turbo (some tests)"]
    assert "prepared" not in method([plain])
    assert (
        "The host was prepared for the run: one thread per core; governor performance on all CPUs "
        "(before: powersave, schedutil); no turbo frequencies (before: 0)."
    ) in method([fixed])
    assert "prepared: smt" in circumstances([fixed])


def test_runs_of_a_prepared_host_have_a_column_of_their_own() -> None:
    plain, fixed = stored(), prepared(stored(), "aslr", ("aslr", "2", "0"))
    sides = [RunSide("A", ("r",), {"cpu_model": "Xeon"}, [record]) for record in (plain, fixed)]
    assert sides[0].machine != sides[1].machine
    assert [side.host_words for side in sides] == ["Xeon", "Xeon, prepared: aslr"]


def test_a_record_keeps_what_was_set_over_a_round_trip() -> None:
    fixed = prepared(stored(), "aslr", ("aslr", "2", "0"))
    again = Record.model_validate(json.loads(fixed.model_dump_json()))
    assert again.prepared == fixed.prepared
    assert to_object(fixed)["prepared"] == [
        {"preparation": "aslr", "files": "x", "count": 1, "was": "2", "asked": "0", "now": "0"}
    ]
    assert (stored().prepared, stored().test.prepare) == (None, None)


def test_the_value_in_brackets_is_the_present_one() -> None:
    assert chosen(b"always [madvise] never\n") == b"madvise"
    assert chosen(b"performance\n") is None
    assert chosen(b"a[1] = 2\n") is None
