"""These tests check the snapshot of the host itself: whatever is changed is found, and named."""

from __future__ import annotations

import ctypes
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from host_snapshot import (
    AREAS,
    VOLATILE,
    Shared,
    differences,
    is_shared,
    left_as_it_was,
    state_of_the_host,
)
from lanes import kept
from switchmark.hosts.processes import MARK
from switchmark.runs.workspace import Workspace

CLONE_NEWNET = 0x40000000

Injection = Callable[[Path], Iterator[tuple[str, str]]]
"""Changes the host until it is told to go on; the area, and what is in the new line."""


@contextmanager
def command(start: str, undone: str) -> Iterator[None]:
    subprocess.run(start.split(), check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(undone.split(), check=True, capture_output=True)


def sysctl(folder: Path) -> Iterator[tuple[str, str]]:
    path = Path("/proc/sys/net/ipv4/ip_forward")
    path.write_text("1")
    yield "sysctls", "net.ipv4.ip_forward = 1"
    path.write_text("0")


def rule(folder: Path) -> Iterator[tuple[str, str]]:
    rule_text = "FORWARD -s 198.18.0.1 -j DROP"
    with command(f"iptables -A {rule_text}", f"iptables -D {rule_text}"):
        yield "firewall", "-A FORWARD -s 198.18.0.1/32 -j DROP"


def link(folder: Path) -> Iterator[tuple[str, str]]:
    with command("ip link add smtest0 type bridge", "ip link del smtest0"):
        yield "network", "smtest0"


def route(folder: Path) -> Iterator[tuple[str, str]]:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with command("ip route add 198.18.0.0/24 dev lo", "ip route del 198.18.0.0/24 dev lo"):
        yield "network", "198.18.0.0/24"


def file_in_run(folder: Path) -> Iterator[tuple[str, str]]:
    path = Path("/run/smtest")
    path.touch()
    yield "files", "/run/smtest"
    path.unlink()


def file_in_var_lib(folder: Path) -> Iterator[tuple[str, str]]:
    path = Path("/var/lib/smtest")
    (path / "a").mkdir(parents=True)
    yield "files", "/var/lib/smtest/a/"
    (path / "a").rmdir()
    path.rmdir()


def control_group(folder: Path) -> Iterator[tuple[str, str]]:
    controllers = (path for path in Path("/sys/fs/cgroup").iterdir() if path.is_dir())
    for hierarchy in (Path("/sys/fs/cgroup"), *controllers):
        group = hierarchy / "smtest"
        with suppress(OSError):
            group.mkdir()
            if (group / "cgroup.procs").exists():
                break
            group.rmdir()
    yield "control groups", f"{group}/"
    group.rmdir()


def mount(folder: Path) -> Iterator[tuple[str, str]]:
    with command(f"mount -t tmpfs tmpfs {folder}", f"umount {folder}"):
        yield "mounts", str(folder)


def shared_memory(folder: Path) -> Iterator[tuple[str, str]]:
    path = Path("/dev/shm/smtest")
    path.write_bytes(b"x")
    yield "shared memory", "/dev/shm/smtest"
    path.unlink()


def namespace(folder: Path) -> Iterator[tuple[str, str]]:
    with command("ip netns add smtest", "ip netns del smtest"):
        yield "namespaces", "/run/netns/smtest"


def process(folder: Path) -> Iterator[tuple[str, str]]:
    run = subprocess.Popen(["sleep", "60"], env={**os.environ, MARK: "smtest"})
    yield "processes", "smtest sleep"
    run.kill()
    run.wait()


def file_in_tmp(folder: Path) -> Iterator[tuple[str, str]]:
    path = Path("/tmp/smtest-podman-run")
    path.touch()
    yield "tmp", "smtest-podman-run"
    path.unlink()


APART = (sysctl, rule, link, route)
"""Changes of a network stack, made in one that ends with the test."""

SHARED = (
    *(file_in_run, file_in_var_lib, control_group, mount, shared_memory, namespace, process),
    file_in_tmp,
)


def in_a_network_of_its_own(work: Callable[[], None]) -> None:
    """Do it in a thread that has left the host's network stack, which the others keep."""

    def apart() -> None:
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "unshare")
        work()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(apart).result()


@pytest.mark.parametrize("inject", [*APART, *SHARED], ids=lambda one: one.__name__)
def test_what_changes_is_found_and_named(inject: Injection, tmp_path: Path) -> None:
    def look() -> None:
        before = state_of_the_host()
        for area, name in inject(tmp_path):
            found = differences(before, state_of_the_host())
            assert any(name in line for line in found[area]["new"]), found

    in_a_network_of_its_own(look) if inject in APART else look()


def test_what_is_left_fails_and_what_goes_a_moment_later_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = Path("/run/smtest")
    clock = iter(range(0, 100, 3))
    with monkeypatch.context() as hurried, ExitStack() as left:
        hurried.setattr(time, "monotonic", lambda: float(next(clock)))
        left.callback(path.unlink)
        with pytest.raises(AssertionError, match="/run/smtest"), left_as_it_was():
            path.touch()
    with left_as_it_was():
        path.touch()
        threading.Timer(0.1, path.unlink).start()


@pytest.fixture
def left() -> Iterator[Path]:
    """Return the name of a file that is left where all lanes see it."""
    path = Path("/var/lib/smtest-left")
    assert is_shared("files", str(path))
    yield path
    path.unlink(missing_ok=True)


@pytest.mark.alone
def test_what_lanes_share_is_compared_while_no_other_lane_runs_a_test(left: Path) -> None:
    @contextmanager
    def others_end() -> Iterator[None]:
        left.unlink()
        yield

    shared = Shared(others_end)
    left.touch()
    shared.check(["files"])
    assert not left.exists()


@pytest.mark.alone
def test_what_is_left_there_fails_where_nobody_else_is_on_the_machine(
    left: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("host_snapshot._LATER_S", 0.1)
    shared = Shared()
    left.touch()
    monkeypatch.setenv("CI", "true")
    with pytest.raises(AssertionError, match="files: new /var/lib/smtest-left"):
        shared.check(["files"])
    shared.check(["files"])  # told once
    left.unlink()
    monkeypatch.delenv("CI")
    with pytest.warns(UserWarning, match="files: gone /var/lib/smtest-left"):
        shared.check(["files"])


@pytest.mark.alone
def test_what_a_file_keeps_between_its_tests_is_left_out(
    left: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("host_snapshot._LATER_S", 0.1)
    monkeypatch.setenv("CI", "true")
    shared = Shared()
    left.touch()
    with kept("smtest-left"):
        shared.check(["files"])
    with pytest.raises(AssertionError, match="files: new /var/lib/smtest-left"):
        shared.check(["files"])


@pytest.mark.alone
def test_what_belongs_to_a_run_that_lives_is_left_out() -> None:
    before = state_of_the_host()
    with Workspace() as run, command(f"ip netns add {run.run}-x", f"ip netns del {run.run}-x"):
        assert differences(before, state_of_the_host()) == {}


def test_every_exception_is_of_an_area_and_has_a_reason() -> None:
    assert set(VOLATILE) <= set(AREAS)
    assert all(reason for patterns in VOLATILE.values() for reason in patterns.values())
