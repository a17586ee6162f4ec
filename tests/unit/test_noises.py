"""These tests check what the axes `noise` and `cpu-limit` make of a text and of a host."""

from __future__ import annotations

import os
import time
from pathlib import Path
from signal import SIGTERM
from typing import Any

import pytest

from switchmark.cli.steps import plan
from switchmark.errors import Unavailable, UsageError
from switchmark.hosts.base import Completed
from switchmark.hosts.local import LocalHost
from switchmark.model.cgroups import V1, V2, limited_group
from switchmark.model.plan import Spawn, Write
from switchmark.model.test import Test
from switchmark.noises import TABLE, parse_noise
from switchmark.noises.base import Site
from switchmark.observe.cgroups import check_cpu_limit, cpu_root
from switchmark.observe.cpus import read_cpus


@pytest.mark.parametrize(
    ("text", "kind", "cpus"),
    [
        ("cpu", "cpu", ()),
        ("web:0+2-3", "web", (0, 2, 3)),
        ("io:switch", "io", "switch"),
        ("cache:functions", "cache", "functions"),
    ],
)
def test_a_noise_is_a_kind_and_its_cpus(text: str, kind: str, cpus: Any) -> None:
    assert parse_noise(text) == (kind, cpus)


@pytest.mark.parametrize("text", ["", "drums", "cpu:", "cpu:all", "cpu:0:1"])
def test_what_is_no_noise_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_noise(text)


@pytest.mark.parametrize("kind", TABLE)
def test_every_process_of_a_noise_is_named_after_its_run(kind: str) -> None:
    site = Site("sm0000", "/run/x y", (), 2)
    spawned = [step for step in TABLE[kind].start(site) if isinstance(step, Spawn)]
    assert spawned
    assert all(step.name.startswith("sm0000-") for step in spawned)
    assert not any("taskset" in step.argv for step in spawned)


@pytest.mark.parametrize("fails", [False, True])
def test_the_clients_of_the_web_server_last_until_they_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """A search may take any time, so clients that have sent all of their requests start again."""
    client = tmp_path / "ab"
    requests = tmp_path / "asked"
    end = f"[ $(wc -l <{requests}) -lt 9 ]" if fails else "sleep 0.01"
    client.write_text(f"#!/bin/sh\necho >>{requests}\n{end}\n")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    step = TABLE["web"].start(Site("sm0000", str(tmp_path), (), 1))[-1]
    assert isinstance(step, Spawn)
    process = LocalHost().spawn(step.argv, stderr_path=str(tmp_path / "log"))
    try:
        deadline = time.monotonic() + 20
        while not requests.exists() or len(requests.read_text()) < 9:
            assert time.monotonic() < deadline
        assert process.wait(20 if fails else 0) == fails
    finally:
        process.stop(SIGTERM, 2.0)


class Machine:
    """A host with these files, which this user may write or not."""

    name = "local"

    def __init__(self, files: dict[str, str], writable: bool = True) -> None:
        self.files, self.writable = files, writable

    def exists(self, path: str) -> bool:
        return path in self.files

    def read(self, path: str) -> bytes:
        return self.files[path].encode()

    def run(self, argv: tuple[str, ...], **_: Any) -> Completed:
        return Completed(0 if self.writable else 1, b"", b"")


OLD = {f"{V1}/tasks": ""}
NEW = {f"{V2}/cgroup.subtree_control": "cpu memory"}


@pytest.mark.parametrize(
    ("files", "root", "file", "content"),
    [
        (OLD, V1, "cpu.cfs_quota_us", b"12500"),
        (NEW, V2, "cpu.max", b"12500 100000"),
        ({**OLD, **NEW}, V1, "cpu.cfs_quota_us", b"12500"),
    ],
    ids=["v1", "v2", "hybrid"],
)
def test_a_quota_is_written_as_the_version_takes_it(
    files: dict[str, str], root: str, file: str, content: bytes
) -> None:
    host: Any = Machine(files)
    check_cpu_limit(host)
    assert cpu_root(host) == root
    folder, steps = limited_group(root, "sm0000-sw", 12.5)
    assert folder == str(Path(root, "sm0000-sw"))
    (write,) = (step for step in steps if isinstance(step, Write))
    assert (write.path, write.content) == (f"{folder}/{file}", content)


@pytest.mark.parametrize(
    ("files", "writable", "hint"),
    [
        ({}, True, "echo +cpu"),
        ({f"{V2}/cgroup.subtree_control": "memory cpuset"}, True, "echo +cpu"),
        (OLD, False, "sudo"),
    ],
)
def test_a_machine_without_quotas_is_told_what_mends_it(
    files: dict[str, str], writable: bool, hint: str
) -> None:
    host: Any = Machine(files, writable)
    with pytest.raises(Unavailable) as refused:
        check_cpu_limit(host)
    assert hint in (refused.value.hint or "")


def test_a_plan_says_which_noise_this_machine_cannot_make() -> None:
    beyond = max(cpu.id for cpu in read_cpus(LocalHost())) + 1
    quiet, noisy = plan(Test()), plan(Test(noise=f"cpu:{beyond}"))
    assert noisy[: len(quiet)] == quiet
    assert noisy[len(quiet)].startswith(f"# not possible here: noise cpu:{beyond}: there is no CPU")
