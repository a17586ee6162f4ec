"""These tests check the command `verify`, with a lab that measures nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from switchmark.errors import CommandFailed
from switchmark.hosts.base import Completed
from switchmark.hosts.hosts import Hosts
from switchmark.hosts.recording import RecordingHost
from switchmark.lab import verifying
from switchmark.lab.verifying import Outcome, Place
from switchmark.model.record import Record
from switchmark.model.test import Test


class Ended(NamedTuple):
    status: int
    out: str
    err: str


Cli = Callable[..., Ended]


@pytest.fixture
def verify(cli: Callable[..., tuple[int, str, str]]) -> Cli:
    return lambda *arguments: Ended(*cli("verify", *arguments))


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the faults by the name of the test, for the tests that fail."""
    faults: dict[str, str] = {}

    def outcomes(tests: Mapping[str, Test], place: Place) -> Iterator[Outcome]:
        for name in tests:
            yield Outcome(name, faults.get(name), "1", None)

    monkeypatch.setattr(verifying, "outcomes", outcomes)
    monkeypatch.setattr("switchmark.runs.anchor.anchor", lambda: None)
    monkeypatch.setattr(Place, "has", lambda self, name: name in ("netns", "podman"))
    return faults


def test_a_switch_that_passes_every_test_ends_with_0(verify: Cli, wrong: dict[str, str]) -> None:
    ended = verify("linux-bridge", "--port", "veth")
    assert ended.status == 0
    first, kind, *tests, blank, last = ended.out.splitlines()
    assert first.startswith("linux-bridge ")
    assert kind == "veth ports"
    names = [line.removeprefix("  ✓ ") for line in tests]
    assert {"learning p2p", "learning v2v bi", "learning v2v in podman"} <= set(names)
    assert (blank, last) == ("", f"All {len(tests)} tests passed.")


def test_a_fault_is_named_and_ends_with_1(verify: Cli, wrong: dict[str, str]) -> None:
    wrong["learning v2v bi"] = "unaccounted 3"
    ended = verify("linux-bridge", "--port", "veth")
    assert ended.status == 1
    assert "  ✗ learning v2v bi: unaccounted 3" in ended.out.splitlines()
    assert ended.out.splitlines()[-1].startswith("1 of ")
    printed = verify("linux-bridge", "--port", "veth", "--json")
    assert printed.status == 1
    faults = {entry["test"]: entry["fault"] for entry in json.loads(printed.out)}
    assert {name for name, fault in faults.items() if fault} == {"learning v2v bi"}


def test_nics_are_left_out(verify: Cli, wrong: dict[str, str]) -> None:
    assert "nic-" not in verify("linux-bridge").out
    assert verify("linux-bridge", "--port", "nic-kernel").status == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["hub"], "there is no switch named 'hub'"),
        (["linux-bridge", "--port", "tapp"], "linux-bridge has no ports of kind 'tapp'"),
        (["vpp@image:"], "names no image"),
    ],
)
def test_what_there_is_not_is_refused(verify: Cli, arguments: list[str], message: str) -> None:
    ended = verify(*arguments)
    assert ended.status == 2
    assert message in ended.err


def test_a_switch_that_is_missing_is_unavailable(verify: Cli, wrong: dict[str, str]) -> None:
    ended = verify("testpmd@/no/such/program")
    assert ended.status == 3
    assert "there is no /no/such/program" in ended.err


class Labs:
    """Labs whose tests have these results in turn; they count what they ran and where."""

    def __init__(self, *records: Record) -> None:
        self.records, self.ran, self.folders = list(records), 0, set[Path]()

    def __call__(self, folder: Path, *, hosts: Hosts) -> Labs:
        assert folder.is_dir()
        self.folders.add(folder)
        self.hosts = hosts
        return self

    def __enter__(self) -> Labs:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run(self, test: Test) -> Record:
        self.ran += 1
        return self.records.pop(0)


def test_a_test_has_several_attempts_and_leaves_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = (Path(__file__).parent / "data/records-schema-1.jsonl").read_text()
    faulty = Record.model_validate_json(stored.partition('"record":')[2].strip()[:-1])
    whole = {"lost": 0, "lost_at": {}, "reordered": 0, "stray": 0, "foreign": 0}
    trial = faulty.trials[0].model_copy(update=whole)
    right = faulty.model_copy(update={"trials": (trial,)})
    refused = faulty.model_copy(update={"status": "refused", "error": "no\nway\nout"})
    labs = Labs(faulty, right, faulty, faulty, faulty, refused)
    monkeypatch.setattr(verifying, "Lab", labs)
    tests = dict.fromkeys(("a", "b", "c"), Test())
    place = Place("far", RecordingHost(name="far"))
    found = list(verifying.outcomes(tests, place))
    assert labs.hosts["far"] is place.host
    version = " ".join(filter(None, (faulty.switch_version, faulty.switch_mode)))
    assert version
    fault = verifying.fault_of(faulty)
    assert fault
    assert found == [
        Outcome("a", None, version, faulty.switch_mode),
        Outcome("b", fault, version, faulty.switch_mode),
        Outcome("c", "no", version, faulty.switch_mode),
    ]
    assert labs.ran == 6, "what is refused is not tried again"
    (folder,) = labs.folders
    assert not folder.exists()


# --- the host --------------------------------------------------------------------------------


def test_nics_are_two_cables_that_go_again() -> None:
    host = RecordingHost()
    with verifying.nics(host):
        made = [" ".join(argv) for argv in host.ran]
    assert made == [
        "ip link add smver0 type veth peer name smver1",
        "ethtool -K smver1 gro on",
        "ip link add smver2 type veth peer name smver3",
        "ethtool -K smver3 gro on",
    ]
    assert [" ".join(argv) for argv in host.ran[4:]] == [
        "ip link del smver0",
        "ip link del smver2",
    ]


def test_a_nic_that_cannot_be_made_says_why_and_leaves_none() -> None:
    host = RecordingHost(fault=1)
    with (
        pytest.raises(CommandFailed, match="ethtool -K smver1 gro on: injected fault"),
        verifying.nics(host),
    ):
        pytest.fail("there are no NICs")
    assert [" ".join(argv) for argv in host.ran[2:]] == [
        "ip link del smver0",
        "ip link del smver2",
    ]


def test_a_reason_for_no_nics_need_not_be_text() -> None:
    host = RecordingHost({("ethtool",): Completed(1, b"", b"\xff!")})
    reason = "ethtool -K smver1 gro on: \N{REPLACEMENT CHARACTER}!"
    with pytest.raises(CommandFailed, match=reason), verifying.nics(host):
        pytest.fail("there are no NICs")


def test_the_tests_of_a_place_have_its_host_and_what_its_processor_sustains() -> None:
    class Emulated(RecordingHost):
        emulated = "TCG"

    emulated = Emulated()
    assert Place(host=RecordingHost()).axes == {}
    assert Place("far", RecordingHost()).axes == {"hosts": "far"}
    slow = {"duration": 0.4, "warmup": 0.1, "rate": "500"}
    assert Place("far", emulated).axes == {"hosts": "far", **slow}
    assert Place("far", emulated).runtimes == []
    assert Place("far", emulated, ("docker",)).runtimes == ("docker",)


FACTS = {
    "kernel": "6.1.0-44-cloud-amd64",
    "distribution": "Debian 12",
    "cores_usable": 2,
    "cpu_model": "Xeon",
}
MODELS = ("igb", "e1000e", "igb", "")


@pytest.mark.parametrize("virtual", [False, True])
def test_a_place_says_on_what_it_verifies(virtual: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    host = RecordingHost()
    facts = {host: {**FACTS, "virtual": virtual}}
    monkeypatch.setattr(verifying, "host_facts", facts.__getitem__)
    words = "Linux 6.1.0, Debian 12, 2 CPUs of Xeon" + ", virtual" * virtual
    assert Place(host=host).words == words


def test_a_place_in_a_machine_names_its_emulator_and_its_nics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Machine(RecordingHost):
        is_machine = True
        emulated = ""

    qemu: dict[tuple[str, ...], bytes] = {}
    qemu["qemu-x", "--version"] = b"QEMU emulator version 10.0.2 (Debian)\nCopyright \xff\n"
    nics = {str(number): SimpleNamespace(model=model) for number, model in enumerate(MODELS)}
    monkeypatch.setattr(verifying, "host_facts", lambda host: FACTS)
    monkeypatch.setattr(verifying, "qemu", lambda: "qemu-x")
    monkeypatch.setattr(verifying, "LocalHost", lambda: RecordingHost(qemu))
    monkeypatch.setattr(verifying, "host_entries", lambda: {"m1": SimpleNamespace(nics=nics)})
    words = "Linux 6.1.0, Debian 12, in a VM, {}, QEMU 10.0.2 (e1000e, igb)"
    assert Place("m1", Machine()).words == words.format("KVM")
    monkeypatch.setattr(Machine, "emulated", "TCG")
    assert Place("m1", Machine()).words == words.format("TCG")
    monkeypatch.setattr(verifying, "host_entries", lambda: {"m1": SimpleNamespace(nics={})})
    assert Place("m1", Machine()).words.endswith("QEMU 10.0.2")
