"""These tests reserve hugepages of this host, and give them back. It may have some already, so
counts are compared with those just before, and more is reserved than is free."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from host_state import clean
from switchmark.errors import Unavailable
from switchmark.hosts.local import LocalHost
from switchmark.model.plan import Node, Plan, Reserve
from switchmark.runs.executor import Executor
from switchmark.runs.hugepages import Pool, can_reserve, find_pool
from switchmark.runs.workspace import Workspace

pytestmark = pytest.mark.alone  # pages of a run in another lane count, too

ADDED_MB = 64


def inside(node: Node, argv: tuple[str, ...]) -> tuple[str, ...]:
    return argv


@pytest.fixture
def pool() -> Pool:
    """Return the pages of node 0."""
    try:
        found = find_pool(LocalHost(), 0)
    except Unavailable as error:
        pytest.skip(error.message)
    if found.page_kib > 1024 * ADDED_MB:
        pytest.skip(f"hugepages of {found.page_kib} KiB are too large for this test")
    return found


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "runs"
    clean(tmp_path / "runs")


def count(pool: Pool) -> int:
    return int(Path(pool.total).read_text())


def free(pool: Pool) -> int:
    return int(Path(pool.free).read_text())


def plan(pool: Pool) -> Plan:
    """Return a plan whose steps add so many MB each to the host's."""
    free_mb = free(pool) * pool.page_kib // 1024
    return (Reserve("memory", free_mb + ADDED_MB), Reserve("more of it", ADDED_MB))


def started(base: Path) -> tuple[Workspace, Executor]:
    workspace = Workspace(base)
    logs = base.parent / "logs" / workspace.run
    return workspace, Executor({"local": LocalHost()}, workspace, inside=inside, logs_dir=logs)


def test_pages_are_there_while_the_run_is_and_go_with_it(base: Path, pool: Pool) -> None:
    assert can_reserve(LocalHost(), 0)
    before, free_before, added = count(pool), free(pool), pool.pages(ADDED_MB)
    first, second = plan(pool)
    workspace, executor = started(base)
    try:
        executor.execute((first,))
        assert (count(pool), free(pool)) == (before + added, free_before + added)
        executor.execute((second,))
        assert (count(pool), free(pool)) == (before + 2 * added, free_before + 2 * added)
    finally:
        assert executor.unwind() == ()
        workspace.close()
    assert count(pool) == before


def test_clean_gives_the_pages_of_a_killed_run_back(base: Path, pool: Pool) -> None:
    before, steps = count(pool), plan(pool)
    pid = os.fork()
    if pid == 0:
        try:
            started(base)[1].execute(steps)
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    assert count(pool) == before + 2 * pool.pages(ADDED_MB)
    (cleaned,) = clean(base)
    assert (cleaned.state, cleaned.actions) == ("cleaned", (f"give back {pool.total}",) * 2)
    assert count(pool) == before
