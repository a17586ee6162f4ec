"""These tests check the file with the verified combinations of switches, and its use."""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from recorded import fresh, gap, interrupted_trial
from switchmark.hosts.base import Completed
from switchmark.hosts.recording import RecordingHost
from switchmark.lab import verifying
from switchmark.model.record import Record
from switchmark.model.test import Test
from switchmark.model.topology import PortKind, Semantics
from switchmark.path.refusals import check
from switchmark.scenarios import TABLE as SCENARIOS
from switchmark.switches import TABLE as SWITCHES
from switchmark.switches import verified as reading
from switchmark.switches.verified import FILE, Verification, verifications, verified
from switchmark.switches.versions import probe_asked

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(TOOLS))
    return importlib.import_module("verify")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Read another file in the place of the package's."""
    path = tmp_path / "verified.toml"
    monkeypatch.setattr(reading, "FILE", path)
    verifications.cache_clear()
    yield path
    verifications.cache_clear()


def entry(**options: Any) -> Verification:
    usual = {"state": "verified", "date": date(2026, 1, 2), "version": "1", "host": "Linux"}
    return Verification.model_validate({**usual, "passed": ("patch p2p",), **options})


def test_what_is_in_the_file_is_what_its_tool_writes(tool: ModuleType) -> None:
    assert FILE.read_text() == tool.text_of(verifications())


def test_the_file_names_what_there_is() -> None:
    for name, kinds in verifications().items():
        for kind, verification in kinds.items():
            assert PortKind(kind.partition(",")[0]) in SWITCHES[name].port_kinds
            if verification.state == "plan-only":
                assert verification.why
                assert (verification.passed, verification.failed) == ((), ())
                continue
            assert not verification.why
            assert (verification.state == "not verified") is bool(
                verification.failed or not verification.passed
            )
            for combination in (*verification.passed, *verification.failed):
                semantics, scenario, *_ = combination.split()
                assert Semantics(semantics) in SWITCHES[name].semantics
                assert scenario in SCENARIOS


def test_a_switch_is_as_verified_as_its_best_ports_and_says_which_are_less(
    file: Path, tool: ModuleType
) -> None:
    content = {
        "testpmd": {
            "memif": entry(),
            "nic-pci": entry(state="verified in a VM"),
            "vhost-user": entry(state="not verified", failed=("patch v2v",)),
        }
    }
    file.write_text(tool.text_of(content))
    assert verifications() == content
    kinds = SWITCHES["testpmd"].port_kinds
    less = {"nic-pci": "verified in a VM", "vhost-user": "not verified"}
    assert verified("testpmd", kinds) == ("verified", less)
    assert verified("testpmd@22.11", kinds) == ("verified", less)
    assert verified("l2fwd", kinds) == ("not verified", {})
    assert verified("none", ()) == ("not verified", {})


def test_a_mode_that_was_tried_apart_is_as_verified_as_it_was_then(
    file: Path, tool: ModuleType
) -> None:
    kinds = {"veth": entry(), "tap": entry(), "veth, kernel": entry(state="verified in a VM")}
    file.write_text(tool.text_of({"ovs": kinds}))
    assert verifications() == {"ovs": kinds}
    assert verified("ovs", ("veth", "tap"), "userspace") == ("verified", {})
    less = {"tap": "not verified"}
    assert verified("ovs", ("veth", "tap"), "kernel") == ("verified in a VM", less)


def test_a_probe_tells_how_far_a_switch_is_verified(file: Path, tool: ModuleType) -> None:
    class Dpdk(RecordingHost):
        def answer(self, argv: tuple[str, ...]) -> Completed:
            return Completed(0, b"RTE Version: 'DPDK 22.11.5'", b"")

    file.write_text(tool.text_of({"testpmd": {"memif": entry()}}))
    version = probe_asked(SWITCHES["testpmd"], Dpdk())
    assert version.verified == "verified"
    assert version.verified_ports == {"vhost-user": "not verified", "nic-pci": "not verified"}


def test_no_driver_of_a_switch_says_it_itself() -> None:
    for switch in SWITCHES.values():
        module = inspect.getmodule(type(switch))
        assert module is not None
        keywords = {
            word.arg
            for node in ast.walk(ast.parse(inspect.getsource(module)))
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Version"
            for word in node.keywords
        }
        assert not {"verified", "verified_ports"} & keywords, switch.name


@pytest.mark.parametrize("name", SWITCHES)
def test_the_matrix_has_every_semantics_and_scenario_that_can_be(
    tool: ModuleType, name: str
) -> None:
    switch = SWITCHES[name]
    for kind in switch.port_kinds:
        tests = dict(verifying.matrix(switch, kind))
        assert all(check(test) == [] for test in tests.values())
        assert {test.switch for test in tests.values()} <= {name}
        if switch.joins:  # it exists between hosts, and this host has none of them
            assert tests == {}
        elif kind not in (PortKind.NIC_PCI, PortKind.NIC_KERNEL):
            assert {test.split()[0] for test in tests} == set(switch.semantics)
            assert {f"{mode} v2v" for mode in switch.semantics} <= set(tests)


def test_the_matrix_has_every_event_of_a_switch_once() -> None:
    ends = (verifying.ENDS[0],)
    tests = dict(verifying.matrix(SWITCHES["ovs-dpdk"], PortKind.VHOST_USER, (), ends))
    events = [name for name, test in tests.items() if test.events]
    assert events == [
        f"learning v2v {event}" for event in ("restart", "kill", "pause", "reconfigure")
    ]
    links = dict(verifying.matrix(SWITCHES["linux-bridge"], PortKind.VETH, (), ends))
    assert links["learning v2v port-down"].dimension == "outage"
    assert links["learning v2v port-down"].duration == 8
    slow = dict(verifying.matrix(SWITCHES["ovs"], PortKind.VETH, (), ends, verifying.EMULATED))
    assert slow["learning v2v kill"].duration == verifying.OUTAGE_EMULATED_S


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({}, None),
        ({"corrupted": 2}, "corrupted 2"),
        ({"gaps": (gap(290.0, None, 700),)}, "no frame arrived after the event"),
        ({"failure": "no answer\nin 10 s"}, "no answer"),
    ],
)
def test_frames_must_arrive_again_after_an_event(
    changes: dict[str, Any], fault: str | None
) -> None:
    gaps = changes.pop("gaps", (gap(299.0, 500.0, 200),))
    trial = interrupted_trial(gaps, gaps, lost=200)
    (event,) = trial.evidence.events
    failed = event.model_copy(update={"failure": changes.pop("failure", None)})
    evidence = trial.evidence.model_copy(update={"events": (failed,)})
    trial = trial.model_copy(update={"evidence": evidence, **changes})
    test = Test(switch="ovs", dimension="outage", event="kill")
    assert verifying.fault_of(fresh(test=test, trials=(trial,))) == fault


def test_each_test_has_what_a_host_that_is_slow_asks_for(tool: ModuleType) -> None:
    there = {"hosts": "m1", **verifying.EMULATED}
    netns, _ = verifying.ENDS
    switch = SWITCHES["linux-bridge"]
    tests = dict(verifying.matrix(switch, PortKind.VETH, ("docker",), (netns,), there))
    assert {(test.hosts, test.rate) for test in tests.values()} == {("m1", "500")}
    assert {test.environment for test in tests.values()} == {"netns", "docker"}
    taps = dict(verifying.matrix(switch, PortKind.TAP, (), (netns,), there))
    assert not [name for name in taps if "v2v" in name]  # these take a VM


def test_what_a_vm_shows_is_kept_beside_what_a_host_showed_that_is_none(tool: ModuleType) -> None:
    class Vm(RecordingHost):
        is_machine = True

    class InVm(verifying.Place):
        kernel = "Linux 6.1.0"

    here, there = verifying.Place(), InVm("m1", Vm())
    content = {
        "veth": entry(version="3.1 userspace"),
        "tap": entry(version="3.1 kernel"),
        "nic-kernel": entry(state="plan-only", passed=(), why="no module"),
    }
    for kind, key in (
        ("veth", "veth, kernel"),
        ("tap", "tap, Linux 6.1.0"),
        ("nic-kernel", "nic-kernel"),
        ("vf", "vf"),
    ):
        assert tool.key_there(content, kind, "kernel", there) == key
        assert tool.key_there(content, kind, "kernel", here) == kind
    assert tool.key_there(content, "veth", None, there) == "veth, Linux 6.1.0"


@pytest.mark.parametrize("arguments", [[], ["--write"]])
def test_the_file_is_written_only_where_that_is_asked_for(
    tool: ModuleType,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
) -> None:
    monkeypatch.setattr(tool, "FILE", file)
    monkeypatch.setattr(tool, "verify", lambda *_, **__: iter([{"veth": entry()}]))
    monkeypatch.setattr("sys.argv", ["verify.py", *arguments, "linux-bridge"])
    file.write_text(before := tool.text_of({}))
    with pytest.raises(SystemExit) as ended:
        tool.main()
    assert ended.value.code == 0
    text = tool.text_of({"linux-bridge": {"veth": entry()}})
    assert file.read_text() == (text if arguments else before)
    printed = capsys.readouterr().out
    assert ("[linux-bridge.veth]" in printed) is not bool(arguments)


@pytest.mark.parametrize(
    ("word", "message"),
    [("hub", "no switch named 'hub'"), ("vpp.tap", "vpp has no ports of kind 'tap': vhost-user")],
)
def test_what_there_is_not_is_not_verified(tool: ModuleType, word: str, message: str) -> None:
    assert tool.asked("vpp") == ("vpp", "")
    assert tool.asked("vpp.memif") == ("vpp", "memif")
    with pytest.raises(argparse.ArgumentTypeError, match=message):
        tool.asked(word)


def test_what_passed_since_yesterday_is_known_on_the_same_host_of_the_same_version(
    tool: ModuleType,
) -> None:
    day = timedelta(days=1)
    recent, older = entry(date=tool.today()), entry(date=tool.today() - 2 * day)
    for verification in (
        recent,
        entry(date=tool.today() - day),
    ):  # it takes hours where it is emulated
        assert tool.still_known(verification, "1", "Linux") is verification
    others = ((None, "1", "Linux"), (recent, "2", "Linux"), (recent, "1", "Linux 7"))
    for other in (*others, (older, "1", "Linux")):
        assert tool.still_known(*other) is None


def test_a_frame_that_is_nowhere_is_a_fault(tool: ModuleType) -> None:
    stored = (Path(__file__).parent / "data/records-schema-1.jsonl").read_text()
    record = Record.model_validate_json(stored.partition('"record":')[2].strip()[:-1])
    assert verifying.fault_of(record) == "unaccounted 303, reordered 6, stray 12, foreign 9"
    whole = {"lost": 0, "lost_at": {}, "reordered": 0, "stray": 0, "foreign": 0}
    trial = record.trials[0].model_copy(update=whole)
    for faults, message in (({}, None), ({"lost": 2}, "unaccounted 2"), ({"stray": 1}, "stray 1")):
        wrong = trial.model_copy(update=faults)
        assert verifying.fault_of(record.model_copy(update={"trials": (wrong,)})) == message
    silent = trial.model_copy(update={"rx_frames": 0})
    assert "0 received" in str(verifying.fault_of(record.model_copy(update={"trials": (silent,)})))
    slow = record.model_copy(update={"trials": (trial,), "doubts": ("slow-path",)})
    assert verifying.fault_of(slow) == "frames took the slow path"
    failed = record.model_copy(update={"status": "failed", "error": "no link\n  in b0"})
    assert verifying.fault_of(failed) == "no link"


def test_a_kernel_is_named_as_everybody_names_it(tool: ModuleType) -> None:
    assert verifying.own_words("6.1.0-23-amd64") == "6.1.0"
    assert verifying.own_words("3.1.0 (DPDK 22.11.5) userspace") == "3.1.0 (DPDK 22.11.5) userspace"
