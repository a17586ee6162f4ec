"""These tests check what a run leaves on a host that is reached by ssh: nothing, however it
ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ssh_hosts import SshdHost, write_host_file
from switchmark.environments import inside
from switchmark.errors import CommandTimedOut, HostLost, Interrupted, Unavailable
from switchmark.hosts.base import Call, Host
from switchmark.hosts.host_file import VARIABLE
from switchmark.hosts.hosts import Hosts
from switchmark.hosts.local import LocalHost
from switchmark.hosts.ssh import SshHost
from switchmark.model.plan import Node, Run, Spawn, Write
from switchmark.runs.clean import clean, clean_there
from switchmark.runs.executor import Executor
from switchmark.runs.own_run import OwnRun
from switchmark.runs.workspace import Workspace

AT = Node("host", "host", host="a")


@pytest.fixture
def host(ssh_host: SshdHost) -> Iterator[SshHost]:
    host = ssh_host.connect()
    yield host
    host.close()


@pytest.fixture
def host_file(ssh_host: SshdHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = write_host_file(tmp_path / "host.toml", [ssh_host])
    monkeypatch.setenv(VARIABLE, str(path))
    return path


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


FORWARD = "/proc/sys/net/ipv4/conf/lo/forwarding"  # of the host's own network


def steps(run: str, folder: Path) -> tuple[Run | Spawn | Write, ...]:
    """Return steps that make a namespace, a file and a process on the host, and that set one of its
    values."""
    node = f"{run}-f0"
    return (
        Run("a node", ("ip", "netns", "add", node), AT, undo=("ip", "netns", "del", node)),
        Write("a file", f"{folder}/file", b"new", AT),
        Write("a value", FORWARD, b"1\n", AT, machine_wide=True),
        Spawn(
            *("a process", "deaf", ("sh", "-c", "trap '' TERM; sleep 60; sleep 60"), AT),
            stop=(signal.SIGTERM, 0.2),
        ),
    )


DAEMON = Run("a daemon", ("sh", "-c", "setsid sleep 60 >/dev/null 2>&1 &"), AT)


def left_there(host: SshHost, run: str) -> list[str]:
    """Return what of a run is on a host: namespaces, processes, its folder."""
    marked = f"grep -lszx SWITCHMARK_RUN={run} /proc/[0-9]*/environ"
    spaces = host.run(("ip", "netns")).stdout.decode().split()
    processes = host.run(("sh", "-c", marked)).stdout.decode().split()
    folders = [f"/run/switchmark/{run}"] if host.exists(f"/run/switchmark/{run}") else []
    return [*(name for name in spaces if name.startswith(run)), *processes, *folders]


def drop(host: SshHost) -> None:
    """End the connection, as a broken link does: by the server's process for it."""
    host.run(("sh", "-c", "kill -9 $(cut -d' ' -f4 /proc/$PPID/stat)"))


def test_a_plan_is_carried_out_and_undone_there(host: SshHost, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    with Workspace() as workspace:
        hosts: dict[str, Host] = {"local": LocalHost(), "a": host}
        executor = Executor(hosts, workspace, inside=inside, logs_dir=tmp_path / "logs")
        executor.execute(steps(workspace.run, tmp_path))
        assert (tmp_path / "file").read_text() == "new"
        left = left_there(host, workspace.run)
        assert f"{workspace.run}-f0" in left
        assert len(left) > 2
        journal = host.read(f"/run/switchmark/{workspace.run}/journal").decode().splitlines()
        assert len(journal) == 6  # its beginning, three undos, a Stop, and whose it is
        assert host.read(FORWARD) == b"1\n"
        assert executor.unwind() == ()
        until(lambda: not host.exists(f"/run/switchmark/{workspace.run}"))
    assert (tmp_path / "file").read_text() == "old"
    assert host.read(FORWARD) == b"0\n"
    until(lambda: left_there(host, workspace.run) == [])


def test_commands_that_are_sent_at_once_are_run_in_order(host: SshHost, tmp_path: Path) -> None:
    count = 60
    script = f"cat >>{tmp_path}/order; cat {tmp_path}/order | wc -l"
    calls = [Call(("sh", "-c", script), stdin=b"line\n") for _ in range(count)]
    output = [int(completed.stdout) for completed in host.run_all(calls)]
    assert output == list(range(1, count + 1))


@pytest.mark.parametrize(
    ("failing", "error"),
    [
        (("sh", "-c", "exit 3"), None),
        (("sh", "-c", "kill -9 $$"), None),
        (("no-such-program",), Unavailable),
        (("sleep", "60"), CommandTimedOut),
    ],
)
def test_what_comes_after_a_failure_is_not_run(
    host: SshHost, tmp_path: Path, failing: tuple[str, ...], error: type[Exception] | None
) -> None:
    calls = [
        Call(("echo", "before"), ok=(0,)),
        Call(failing, ok=(0, 1), timeout_s=0.3),
        Call(("touch", str(tmp_path / "after")), ok=(0,)),
    ]
    outcomes = host.run_all(calls)
    assert next(outcomes).stdout == b"before\n"
    if error is None:
        assert len(list(outcomes)) == 1
    else:
        with pytest.raises(error):
            next(outcomes)
    assert not (tmp_path / "after").exists()
    assert host.run(("echo", "next")).stdout == b"next\n"


LEADER = """
import sys, time
sys.path.insert(0, {tests!r})
from pathlib import Path
from test_ssh import *
host = SshHost("a", {address!r}, {options!r})
workspace = Workspace()
executor = Executor({{"a": host}}, workspace, inside=inside, logs_dir=Path({logs!r}))
executor.execute((*steps(workspace.run, Path({logs!r})), DAEMON))
print(workspace.run, flush=True)
time.sleep(60)
"""


def led(ssh_host: SshdHost, tmp_path: Path) -> tuple[subprocess.Popen[str], str]:
    """Start another process that leads a run on the host; return it, and the run's id."""
    (tmp_path / "file").write_text("old")
    source = LEADER.format(
        tests=str(Path(__file__).parent),
        address=f"root@{ssh_host.address}",
        options=ssh_host.options,
        logs=str(tmp_path),
    )
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    leader = subprocess.Popen(
        (sys.executable, "-c", source), stdout=subprocess.PIPE, text=True, env=environ
    )
    assert leader.stdout is not None
    return leader, leader.stdout.readline().strip()


def test_a_dead_orchestrator_leaves_nothing_there(
    ssh_host: SshdHost, host: SshHost, host_file: Path, tmp_path: Path
) -> None:
    leader, run = led(ssh_host, tmp_path)
    assert [result.state for result in clean_there(host)] == ["live"]
    assert len(left_there(host, run)) > 3
    leader.send_signal(signal.SIGKILL)
    leader.wait()
    until(lambda: left_there(host, run) == [])
    assert (tmp_path / "file").read_text() == "old"
    assert host.read(FORWARD) == b"0\n"
    with Hosts(OwnRun) as hosts:
        (cleaned,) = clean(runs=[run], hosts=hosts)
    assert cleaned.failures == ()
    assert cleaned.state == "cleaned"


def test_an_orchestrator_whose_computer_was_rebooted_leaves_nothing_there(
    ssh_host: SshdHost, host_file: Path, tmp_path: Path
) -> None:
    leader, run = led(ssh_host, tmp_path)
    links = ssh_host.exec("ip", "-o", "link").splitlines()
    (link,) = [line.split(": ")[1].split("@")[0] for line in links if ": lo:" not in line]
    time.sleep(1)  # what is under way would be sent again, and refused
    ssh_host.exec("ip", "link", "set", link, "down")
    try:
        # A power cut: nothing says that the connection ended, and no socket of it is left here.
        leader.send_signal(signal.SIGKILL)
        leader.wait()
        drop = ("ss", "-K", "dst", ssh_host.address, "dport", "=", ":22")
        subprocess.run(drop, check=True, stdout=subprocess.DEVNULL)
    finally:
        ssh_host.exec("ip", "link", "set", link, "up")
    host = ssh_host.connect()
    until(lambda: left_there(host, run) == [])
    assert (tmp_path / "file").read_text() == "old"
    assert host.read(FORWARD) == b"0\n"
    host.close()
    with Hosts(OwnRun) as hosts:
        assert [result.state for result in clean(runs=[run], hosts=hosts)] == ["cleaned"]


def test_clean_undoes_what_an_agent_that_was_killed_left(
    ssh_host: SshdHost, host: SshHost, host_file: Path, tmp_path: Path
) -> None:
    leader, run = led(ssh_host, tmp_path)
    agent, _ = host.read(f"/run/switchmark/{run}/agent").split()
    host.run(("kill", "-9", agent.decode()))
    leader.send_signal(signal.SIGKILL)
    leader.wait()
    until(lambda: [result.state for result in clean_there(host, dry_run=True)] == ["dead"])
    (cleaned,) = clean_there(host)
    assert (cleaned.run, cleaned.state) == (run, "cleaned")
    assert left_there(host, run) == []
    with Hosts(OwnRun) as hosts:
        assert [result.state for result in clean(runs=[run], hosts=hosts)] == ["cleaned"]


def test_what_is_asked_after_an_interruption_gets_its_own_answer(host: SshHost) -> None:
    host.run(("true",))

    def interrupt(*_: object) -> None:
        raise Interrupted("interrupted")

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(Interrupted):
            host.run(("sh", "-c", "sleep 0.4; echo of before"))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert host.run(("echo", "of now")).stdout == b"of now\n"


def test_a_connection_that_drops_is_told_and_made_again(
    ssh_host: SshdHost, host: SshHost, tmp_path: Path
) -> None:
    with Workspace() as workspace:
        executor = Executor({"a": host}, workspace, inside=inside, logs_dir=tmp_path / "logs")
        executor.execute(steps(workspace.run, tmp_path))
        process = executor.process("deaf")
        with pytest.raises(HostLost, match="host a was lost"):
            drop(host)
        until(lambda: process.poll() is not None)
        assert "host a was lost" in process.last_words()
        assert executor.unwind() == ()
        until(lambda: left_there(host, workspace.run) == [])
