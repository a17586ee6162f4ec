"""These tests check that `make demo` shows figures past the kernel wherever it can, and says why
where it cannot."""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from switchmark.hosts.base import Completed
from switchmark.hosts.recording import RecordingHost

REPOSITORY = Path(__file__).parents[2]
MACHINE = "/sys/kernel/mm/hugepages/hugepages-2048kB"
POOL = "/sys/devices/system/node/node0/hugepages/hugepages-2048kB"


@pytest.fixture
def demo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("demo", REPOSITORY / "tools/demo.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def host(*, free_pages: int, available_mb: int, writable: bool = True) -> RecordingHost:
    status = 0 if writable else 1
    return RecordingHost(
        {("test", "-w"): Completed(status, b"", b"")},
        files={
            "/proc/meminfo": b"MemAvailable: %d kB\nHugepagesize: 2048 kB\n"
            % (available_mb * 1024),
            f"{POOL}/nr_hugepages": b"600\n",
            f"{POOL}/free_hugepages": b"%d\n" % free_pages,
            f"{MACHINE}/resv_hugepages": b"0\n",
        },
    )


def test_memory_that_is_there_or_may_be_had_is_enough(demo: ModuleType) -> None:
    assert list(demo.missing_memory(host(free_pages=600, available_mb=10, writable=False))) == []
    assert list(demo.missing_memory(host(free_pages=100, available_mb=2000))) == []


def test_memory_that_cannot_be_had_is_named(demo: ModuleType) -> None:
    (reason,) = demo.missing_memory(host(free_pages=100, available_mb=300))
    assert reason == "hugepages: 1000 MB are needed, 500 MB of memory are free"
    (reason,) = demo.missing_memory(host(free_pages=0, available_mb=9000, writable=False))
    assert reason.startswith(f"hugepages: none are free, and {POOL}/nr_hugepages is not writable")
    (reason,) = demo.missing_memory(RecordingHost())
    assert reason.startswith("the kernel of local has no hugepages")


def test_a_switch_that_is_missing_is_named_with_its_cure(
    demo: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = {"usable": False, "why_not": "it is not installed", "hint": "apt-get install it"}
    there = {"usable": True, "why_not": None, "hint": None}
    monkeypatch.setattr(
        demo,
        "listed",
        lambda thing: [
            {"name": "dpdk", **there},
            {"name": "ovs-dpdk", **entry},
            {"name": "x", **entry},
        ],
    )
    rich = host(free_pages=600, available_mb=9000)
    assert list(demo.missing(demo.CAMPAIGNS / "bypass.yaml", rich)) == [
        "switch ovs-dpdk: it is not installed\n  hint: apt-get install it"
    ]


@pytest.mark.parametrize(
    ("reasons", "statuses", "status"),
    [
        ([], {"demo": 0, "bypass": 0}, 0),
        ([], {"demo": 0, "bypass": 3}, 3),  # refused, though nothing is missing
        (["no DPDK"], {"demo": 0}, 0),
        ([], {"demo": 1}, 1),
    ],
)
def test_the_second_campaign_must_succeed_where_nothing_is_missing(
    demo: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    reasons: list[str],
    statuses: dict[str, int],
    status: int,
) -> None:
    def missing(campaign: Path, host: object) -> Iterator[str]:
        yield from reasons

    ran = []

    def run(campaign: Path) -> int:
        ran.append(campaign.stem)
        return statuses[campaign.stem]

    monkeypatch.setattr(demo, "missing", missing)
    monkeypatch.setattr(demo, "run", run)
    assert demo.main() == status
    assert ran == list(statuses)
    output = capsys.readouterr().out
    assert ("this host cannot measure user-space switches" in output) == bool(reasons)
    assert all(f"  {reason}" in output for reason in reasons)


@pytest.mark.parametrize("verb", ["test", "bench", "fix"])
def test_a_verb_installs_the_parts_that_it_needs(verb: str) -> None:
    completed = subprocess.run(
        ("make", "--dry-run", "--always-make", verb),
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    parts = "check" if verb == "fix" else "all"
    assert f"tools/setup.sh {parts}" in completed.stdout.splitlines()
