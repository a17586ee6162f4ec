"""These tests check the run folder: nothing that was finished is lost, whatever the disk or a death
does."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import resource
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from switchmark.campaign.load import Campaign, from_options
from switchmark.campaign.store import RunFolder, check_name, key, read_campaign, read_records
from switchmark.errors import RecordFailed, UsageError
from switchmark.hosts.local import LocalHost
from switchmark.hosts.recording import RecordingHost
from switchmark.model.latency import Latency
from switchmark.model.record import FlowCounts, PartReport, Record, TrialResult, TrialSpec
from switchmark.model.test import AXES, Test
from switchmark.observe.facts import host_facts
from switchmark.report.json import to_object

DATA = Path(__file__).parent / "data"
STORED = json.loads((DATA / "records-schema-1.jsonl").read_text())["record"]
RECORD = Record.model_validate(STORED)
TRIAL = RECORD.trials[0]
CAMPAIGN = from_options({"burst": "1,2,3"}, lambda test: [])


def new(tmp_path: Path, campaign: Campaign = CAMPAIGN) -> RunFolder:
    return RunFolder.create(tmp_path / "runs", campaign, {"kernel": "6.1"})


def record(number: int, **changes: object) -> Record:
    return RECORD.model_copy(update={"number": number, "key": f"k{number}", **changes})


def stored(records: Iterable[Record]) -> list[Record]:
    """Return records without their origin, which early run folders did not store."""
    return [record.model_copy(update={"origin": None}) for record in records]


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Let no file grow beyond `size` bytes: a full disk, for a process without privileges."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


# --- the folder ------------------------------------------------------------------------------


def test_a_run_folder_holds_campaign_host_and_logs(tmp_path: Path) -> None:
    with new(tmp_path) as folder:
        assert folder.path.parent == tmp_path / "runs"
        assert folder.path.name.startswith("run-2")
        assert (folder.path / "logs").is_dir()
        assert json.loads((folder.path / "host.json").read_text()) == {"kernel": "6.1"}
        assert read_campaign(folder.path) == CAMPAIGN


def test_two_runs_in_one_second_have_two_folders(tmp_path: Path) -> None:
    with new(tmp_path) as one, new(tmp_path) as two, new(tmp_path) as three:
        assert len({one.path, two.path, three.path}) == 3


def test_logs_of_a_testbed_go_on_in_a_folder_of_its_own(tmp_path: Path) -> None:
    with new(tmp_path) as folder:
        folder.append_logs("bed-1", {"switch.stderr": "one\n", "steps.sh": "ip link\n"})
        folder.append_logs(
            "bed-1",
            {"../host.json": "x", "..": "x", ".": "x", "a/b": "x", "switch.stderr": "two\n"},
        )
        logs = folder.path / "logs"
        assert {str(file.relative_to(logs)): file.read_text() for file in logs.glob("*/*")} == {
            "bed-1/switch.stderr": "one\ntwo\n",
            "bed-1/steps.sh": "ip link\n",
        }
        assert json.loads((folder.path / "host.json").read_text()) == {"kernel": "6.1"}
        (logs / "bed-2").write_text("no folder")
        folder.append_logs("bed-2", {"a": "x"})  # the run goes on all the same


def test_records_tell_the_facts_of_the_testbeds_that_measured_them(tmp_path: Path) -> None:
    facts = {"one": {"kernel": "6.6"}, "two": {"kernel": "6.7"}}
    lab = {
        "testbeds": {name: {"facts": found} for name, found in facts.items()},
        "groups": [["one"], ["two"]],
        "differences": ["kernel"],
    }
    with new(tmp_path) as folder:
        folder.keep_lab(lab)
        assert (folder.path / "testbeds.json").read_text() == json.dumps(lab, indent=2) + "\n"
        there = TRIAL.evidence.model_copy(update={"testbed": "two"})
        trial = TRIAL.model_copy(update={"evidence": there})
        stored_now = folder.append_record(record(1, trials=(trial,)), {"switch": "1"})
        origin = stored_now.origin
        assert origin is not None
        assert (origin.host["kernel"], origin.facts) == ("6.7", {"kernel": "6.7"})
        assert (origin.alike, origin.differences) == (("two",), ("kernel",))
        assert origin.versions == {"switch": "1"}
        assert read_records(folder.path)[0].origin == origin
        shutil.rmtree(folder.path)
        with pytest.raises(RecordFailed) as failed:
            folder.keep_lab(lab)
        file = folder.path / "testbeds.json"
        assert failed.value.message == f"{file} cannot be written: No such file or directory"


def test_a_name_that_no_run_can_have_is_refused(tmp_path: Path) -> None:
    check_name(tmp_path, "mine-1")
    with pytest.raises(UsageError) as refused:
        check_name(tmp_path, "../mine")
    assert refused.value.message == (
        "'../mine' cannot name a run: use letters, digits, '.', '-' and '_'"
    )
    (tmp_path / "mine-1").mkdir()
    with pytest.raises(UsageError) as refused:
        check_name(tmp_path, "mine-1")
    assert refused.value.message == f"there is a run named 'mine-1' already: {tmp_path}/mine-1"
    assert refused.value.hint == f"another name, or: switchmark resume {tmp_path}/mine-1"


def test_what_is_kept_of_a_run_is_told_in_words(tmp_path: Path) -> None:
    with new(tmp_path) as folder:
        assert folder.kept == "kept are 0 of 3 tests"
        folder.append_trial("k2", 2, TRIAL)
        assert folder.kept == "kept are 0 of 3 tests and 1 trial of others"
        folder.append_trial("k3", 3, TRIAL)
        folder.append_trial("k1", 1, TRIAL)
        folder.append_record(record(1, status="ok"), {})
        folder.append_record(record(3, status="failed"), {})
        assert folder.kept == "kept are 1 of 3 tests and 2 trials of others"


def test_the_command_that_goes_on_names_all_that_it_needs(tmp_path: Path) -> None:
    with new(tmp_path) as folder:
        folder.resumed_by = Path("my runs/a")
        assert folder.resume_command == "switchmark resume 'my runs/a'"
        folder.cluster = "lab file"
        assert folder.resume_command == "switchmark resume 'my runs/a' --cluster 'lab file'"
        folder.until_decided = 40
        assert folder.resume_command == "switchmark compare 'my runs/a' --until-decided 40"


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(RecordFailed, match="cannot be made"):
        new(tmp_path)


def test_a_folder_that_is_removed_meanwhile_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the working directory, from which the run names it."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    gone = "is gone\n.*was removed"
    with (
        pytest.raises(RecordFailed, match=gone),
        RunFolder.create(Path("runs"), CAMPAIGN, {}) as folder,
    ):
        shutil.rmtree(here)
        with pytest.raises(RecordFailed, match=gone):
            folder.append_record(record(1), {})
        (folder.path / "logs/steps.sh").open("a")


def test_a_folder_elsewhere_outlives_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    with new(tmp_path) as folder:
        here.rmdir()
        folder.append_record(record(1), {})
    assert read_records(folder.path) == folder.latest


def test_a_folder_has_one_writer(tmp_path: Path) -> None:
    folder = new(tmp_path)
    with pytest.raises(UsageError, match="is being written by another switchmark"):
        RunFolder(folder.path)
    folder.close()
    RunFolder(folder.path).close()


def test_a_folder_without_a_campaign_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no run folder"):
        read_records(tmp_path)


def test_the_latest_record_of_a_test_counts(tmp_path: Path) -> None:
    with new(tmp_path) as folder:
        folder.append_record(record(2, status="failed", error="no"), {})
        folder.append_record(record(1), {})
        folder.append_record(record(2), {})
        assert [(stored.number, stored.status) for stored in folder.latest] == [
            (1, "ok"),
            (2, "ok"),
        ]
    assert read_records(folder.path) == folder.latest


def test_a_record_tells_where_it_comes_from(tmp_path: Path) -> None:
    facts = {"kernel": "6.1", "cores_usable": 2, "mitigations": {"x": "y"}}
    with RunFolder.create(tmp_path, CAMPAIGN, facts) as folder:
        stored = folder.append_record(record(1), {"switch a": "1"})
    (found,) = read_records(folder.path)
    assert found == stored
    content = to_object(found)
    assert content["run"] == folder.path.name
    assert content["time"] == RECORD.started
    assert content["versions"] == {"switch a": "1"}
    assert {name: value for name, value in content["host"].items() if value is not None} == {
        "kernel": "6.1",
        "cores_usable": 2,
    }
    assert "origin" not in (folder.path / "records.jsonl").read_text()


def test_a_run_without_facts_of_its_host_is_read(tmp_path: Path) -> None:
    with new(tmp_path) as folder:
        folder.append_record(record(1), {})
    for content in ("", "[]"):
        (folder.path / "host.json").write_text(content)
        assert to_object(read_records(folder.path)[0])["host"] == {}


def test_only_a_good_record_is_done(tmp_path: Path) -> None:
    with new(tmp_path) as folder:
        folder.append_record(record(1, status="failed"), {})
        folder.append_record(record(2), {})
        assert [folder.is_done(f"k{number}") for number in (1, 2, 3)] == [False, True, False]


# --- keys ------------------------------------------------------------------------------------


def test_a_key_depends_on_spec_and_versions() -> None:
    keys = {
        key(Test(), {"switch a": "1"}),
        key(Test(burst=1), {"switch a": "1"}),
        key(Test(), {"switch a": "2"}),
        key(Test(), {}),
    }
    assert len(keys) == 4


def test_keys_of_the_time_when_a_switch_had_one_core_by_itself_stay() -> None:
    cores: tuple[Any, ...] = ("auto", 1, 2)
    keys = [key(Test(switch_cores=core), {}) for core in cores]
    assert len(set(keys)) == len(keys)
    usual = Test().model_dump(mode="json")
    spec = {name: value for name, value in usual.items() if not AXES[name].later}
    spec["switch_cores"] = 1
    content = json.dumps({"spec": spec, "versions": {}}, sort_keys=True)
    assert keys[0] == hashlib.sha256(content.encode()).hexdigest()[:16]


def test_a_key_does_not_depend_on_the_order_of_versions() -> None:
    assert key(Test(), {"a": "1", "b": "2"}) == key(Test(), {"b": "2", "a": "1"})


# --- what a disk or a death does -------------------------------------------------------------


def test_a_torn_last_line_is_cut_off_when_the_run_goes_on(tmp_path: Path) -> None:
    with new(tmp_path) as folder:
        folder.append_trial("k1", 1, TRIAL)
        folder.append_trial("k1", 1, TRIAL)
        folder.append_record(record(1), {})
    for name in ("trials.jsonl", "records.jsonl"):
        with (folder.path / name).open("ab") as file:
            file.write(b'{"schema":1,"key":"k2","tri')
    assert stored(read_records(folder.path)) == [record(1)]
    with RunFolder(folder.path) as again:
        assert len(again.trials["k1"]) == 2
        again.append_trial("k2", 2, TRIAL)
        again.append_record(record(2), {})
    with RunFolder(folder.path) as again:
        assert list(again.trials) == ["k1", "k2"]
        assert stored(again.latest) == [record(1), record(2)]


def test_a_file_cut_anywhere_keeps_its_whole_lines(tmp_path: Path) -> None:
    with new(tmp_path) as folder:
        for number in (1, 2, 3):
            folder.append_record(record(number), {})
    path = folder.path / "records.jsonl"
    whole = path.read_bytes()
    ends = [0, *(at for at, byte in enumerate(whole, 1) if byte == ord("\n"))]
    lengths = {end + by for end in ends for by in (-1, 0, 1)} | {*range(0, len(whole), 251)}
    for length in sorted(lengths & {*range(len(whole) + 1)}):
        path.write_bytes(whole[:length])
        with RunFolder(folder.path) as again:
            assert len(again.latest) == whole.count(b"\n", 0, length)
        assert path.read_bytes() == whole[: whole.rfind(b"\n", 0, length) + 1]


def test_a_full_disk_leaves_whole_lines_and_says_what_is_safe(tmp_path: Path) -> None:
    with new(tmp_path) as folder:
        folder.append_trial("k1", 1, TRIAL)
        folder.append_record(record(1), {})
        size = (folder.path / "records.jsonl").stat().st_size
        with room_for(size + 100), pytest.raises(RecordFailed) as caught:
            folder.append_record(record(2), {})
        assert (folder.path / "records.jsonl").stat().st_size == size
        folder.append_record(record(3), {})
    assert "1 finished tests and 1 finished trials are safe" in str(caught.value)
    assert f"switchmark resume {folder.path}" in str(caught.value)
    assert stored(read_records(folder.path)) == [record(1), record(3)]


def test_no_space_left_is_told_in_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with new(tmp_path) as folder:
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(RecordFailed, match="No space left on device"):
            folder.append_trial("k1", 1, TRIAL)
        assert folder.trials["k1"] == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{}", "records.jsonl:1: not a line of a record"),
        ("garbage", "records.jsonl:1: not a line of a record"),
        ('{"schema":1,"record":{"key":"k"}}', "records.jsonl:1: not readable: number: "),
        ('{"schema":2,"record":{}}', "records.jsonl:1: written by a newer switchmark"),
        ('{"schema":1,"record":[]}', "records.jsonl:1: not readable"),
        ("[]", "records.jsonl:1: not a line of a record"),
    ],
)
def test_a_spoilt_line_is_told_with_its_place(line: str, expected: str, tmp_path: Path) -> None:
    with new(tmp_path) as folder:
        pass
    (folder.path / "records.jsonl").write_text(line + "\n")
    with pytest.raises(UsageError, match=expected):
        read_records(folder.path)


# --- schemas ---------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(DATA.glob("records-schema-*.jsonl")), ids=lambda p: p.stem)
def test_an_old_schema_is_readable(path: Path, tmp_path: Path) -> None:
    with new(tmp_path) as folder:
        pass
    (folder.path / "records.jsonl").write_text(path.read_text())
    assert [record.number for record in read_records(folder.path)] == [3]


def test_the_json_of_a_record_keeps_its_names_and_values() -> None:
    """All members are those of the stored object, except axes that were added later."""
    stored = json.loads((DATA / "object-schema-1.json").read_text())
    content = to_object(RECORD)
    by_json_name = {axis.json_name or name: axis for name, axis in AXES.items()}
    for name in content["test"].keys() - stored["test"].keys():
        assert by_json_name[name].later
        assert content["test"].pop(name) == by_json_name[name].default
    assert [content.pop(name) for name in LATER_OF_JSON] == [[]]
    assert content.pop("refused") is None
    assert content == stored


def lines_of(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text().splitlines()]


LATER = ("cables", "turns", "prepared", "refused", "start_s", "stop_s")
"""Members that records did not have at first."""

LATER_OF_JSON = ("outages",)
"""Lists that the object of a record did not have at first."""

LATER_OF_TRIALS = ("round",)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_record_is_written_again_as_it_was_read(number: int) -> None:
    """With each of its members, in their order: none that was missing is there, but for axes and
    members that came later, with their usual values; none is gone."""
    stored = lines_of("records-0.1.0.jsonl")[number - 1]["record"]
    read = Record.model_validate(stored)
    again, content = read.model_dump(mode="json"), to_object(read)
    for name, axis in AXES.items():
        if axis.later:
            in_json = content["test"].pop(axis.json_name or name)
            assert again["test"].pop(name) == in_json == axis.default
    for name in LATER:
        assert again.pop(name) is content.pop(name) is None
    assert [content.pop(name) for name in LATER_OF_JSON] == [[]]
    for name in LATER_OF_TRIALS:
        assert all(trial.pop(name) is None for trial in again["trials"])
    for part in (part for trial in again["trials"] for part in (trial, *trial["per_flow"])):
        assert part["latency"] is None or part["latency"].pop("earliest") is None
    assert json.dumps(again) == json.dumps(stored)
    assert json.dumps(content) == json.dumps(lines_of("objects-0.1.0.jsonl")[number - 1])


counts = st.integers(0, 2**63)
names = st.text(st.characters(codec="utf-8"), max_size=20)
trials = st.builds(
    TrialResult,
    spec=st.builds(
        TrialSpec,
        rate_pps=st.none() | st.floats(1, 1e9),
        duration_s=st.floats(0.01, 1e5),
        warmup_s=st.floats(0, 1e3),
    ),
    elapsed_ns=st.integers(1, 2**62),
    tx_frames=counts,
    tx_unsent=counts,
    rx_frames=counts,
    rx_bytes=counts,
    lost=counts,
    lost_at=st.dictionaries(names, counts, max_size=3),
    intervals=st.lists(counts, max_size=5).map(tuple),
    latency=st.none()
    | st.builds(
        Latency,
        kind=st.sampled_from(["rtt", "one-way"]),
        count=counts,
        min=counts,
        mean=st.floats(0, 1e18),
        p50=st.none() | counts,
        p90=st.none() | counts,
        p99=st.none() | counts,
        p999=st.none() | counts,
        max=counts,
        histogram=st.none() | names,
    ),
    parts=st.lists(
        st.builds(
            PartReport,
            part=names,
            roles=st.just(("sender",)),
            cpu=st.none() | st.integers(0, 512),
            cores=st.none() | st.floats(0, 512),
        ),
        max_size=2,
    ).map(tuple),
    per_flow=st.lists(
        st.builds(FlowCounts, flow=names, tx=counts, rx=counts, lost=counts), max_size=2
    ).map(tuple),
    doubts=st.lists(names, max_size=2).map(tuple),
)


@settings(max_examples=50)
@given(st.lists(trials, max_size=2).map(tuple), names, names)
def test_a_record_survives_a_round_trip(tmp_path_factory, some, error: str, semantics: str) -> None:
    entry = record(1, trials=some, error=error, semantics=semantics)
    with new(tmp_path_factory.mktemp("run")) as folder:
        folder.append_record(entry, {"switch": "1"})
        for trial in some:
            folder.append_trial("k1", 1, trial)
    with RunFolder(folder.path) as again:
        assert stored(again.latest) == [entry]
        assert tuple(again.trials["k1"]) == some


# --- the host --------------------------------------------------------------------------------


def test_the_facts_of_a_host_hold_no_secret_of_its_command_line() -> None:
    files = {
        "/proc/cmdline": b"root=/dev/x token=abc isolcpus=2-3 nosmt ro\n",
        "/proc/meminfo": b"MemTotal: 1024 kB\nHugePages_Total: 2\n",
        "/sys/devices/system/cpu/vulnerabilities/mds": b"Not affected\n",
    }
    facts = host_facts(RecordingHost(files=files))
    assert facts["kernel_parameters"] == ["isolcpus=2-3", "nosmt"]
    assert facts["memory_kib"] == 1024
    assert facts["kernel_options"] is None
    assert facts["hugepages"] == {"total": 2, "free": None, "size_kib": None}
    assert facts["mitigations"] == {"mds": "Not affected"}
    assert (facts["boost"], facts["microcode"], facts["versions"]["dpdk"]) == (None, None, None)
    assert "abc" not in json.dumps(facts)


def test_what_a_reviewer_asks_of_a_host_is_in_its_facts() -> None:
    files = {
        "/proc/cpuinfo": b"model name : A CPU\nmicrocode : 0x2b\nflags : hypervisor nonstop_tsc\n",
        "/proc/sys/kernel/version": b"#1 SMP PREEMPT_DYNAMIC\n",
        "/proc/sys/kernel/osrelease": b"6.1.0\n",
        "/boot/config-6.1.0": b"CONFIG_RPS=y\nCONFIG_SECRET=y\n# CONFIG_PREEMPT is not set\n",
        "/sys/devices/system/node/online": b"0-1\n",
        "/sys/kernel/mm/transparent_hugepage/enabled": b"always [madvise] never\n",
        "/sys/devices/system/cpu/intel_pstate/no_turbo": b"1\n",
        "/usr/lib/x86_64-linux-gnu/pkgconfig/libdpdk.pc": b"Name: DPDK\nVersion: 22.11.11\n",
    }
    facts = host_facts(RecordingHost(files=files))
    assert facts["microcode"] == "0x2b"
    assert facts["kernel_build"] == "#1 SMP PREEMPT_DYNAMIC"
    assert facts["kernel_options"] == ["CONFIG_RPS"]
    assert facts["numa_nodes"] == "0-1"
    assert facts["transparent_hugepages"] == "madvise"
    assert facts["boost"] is False
    assert facts["versions"]["dpdk"] == "22.11.11"


def test_the_facts_of_this_host_are_json() -> None:
    facts = host_facts(LocalHost())
    assert json.loads(json.dumps(facts)) == facts
    assert facts["kernel"] == os.uname().release
