"""These tests check what is the local host's alone, and the recording host. Tests of all hosts are
in tests/contract/test_hosts.py."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import UserDict
from collections.abc import Iterator
from pathlib import Path

import pytest

from switchmark.errors import CommandTimedOut, Interrupted, Unavailable
from switchmark.hosts.base import Call, Completed
from switchmark.hosts.local import LocalHost
from switchmark.hosts.processes import open_process
from switchmark.hosts.recording import RecordingHost
from switchmark.hosts.signals import interruptible


def test_a_process_is_opened_by_its_start_time(tmp_path: Path) -> None:
    process = LocalHost().spawn(("sleep", "60"), stderr_path=str(tmp_path / "stderr"))
    try:
        assert open_process(process.pid, process.started - 1) is None
        pidfd = open_process(process.pid, process.started)
        assert pidfd is not None
        os.close(pidfd)
    finally:
        process.stop(9, 1.0)


def test_a_process_that_stands_still_ends_by_its_signal(tmp_path: Path) -> None:
    """As the switch of a run does that was killed while an event paused it."""
    host = LocalHost()
    process = host.spawn(("sleep", "60"), stderr_path=str(tmp_path / "stderr"))
    os.kill(process.pid, signal.SIGSTOP)
    try:
        before = time.monotonic()
        assert host.end(process.pid, process.started, signal.SIGTERM, 50.0)
        assert time.monotonic() - before < 40.0
    finally:
        assert process.stop(signal.SIGKILL, 1.0) == -signal.SIGTERM


def test_a_recording_answers_by_the_longest_beginning() -> None:
    host = RecordingHost({("ip",): b"any", ("ip", "link"): Completed(1, b"", b"no link")})
    assert host.run(("ip", "link", "show")).status == 1
    assert host.run(("ip", "route")).stdout == b"any"
    assert host.run(("bridge",)) == Completed(0, b"", b"")
    assert host.ran == [("ip", "link", "show"), ("ip", "route"), ("bridge",)]


# --- commands side by side -------------------------------------------------------------------


def meets(folder: Path, near: str, other: str) -> tuple[str, ...]:
    """Return a command that ends well only if the other of a pair runs at the same time."""
    there = f"touch {folder}/{near}; for i in $(seq 100); do [ ! -e {folder}/{other} ] || exit 0"
    return ("sh", "-c", f"{there}; sleep 0.05; done; exit 1")


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU runs one command at a time")
def test_commands_about_different_things_are_run_at_once(tmp_path: Path) -> None:
    calls = [Call(meets(tmp_path, *names), subject=names[0]) for names in (("a", "b"), ("b", "a"))]
    assert [completed.status for completed in LocalHost().run_all(calls)] == [0, 0]


def test_commands_about_one_thing_or_nothing_are_run_in_order(tmp_path: Path) -> None:
    def note(number: int, subject: str) -> Call:
        script = f"sleep 0.0{number % 3}; echo {subject}{number} >>{tmp_path}/order"
        return Call(("sh", "-c", script), subject=subject)

    abouts = ("a", "a", "b", "a", "b", "", "b", "a", "a", "", "")
    results = list(LocalHost().run_all([note(*pair) for pair in enumerate(abouts)]))
    assert [completed.status for completed in results] == [0] * len(abouts)
    order = (tmp_path / "order").read_text().split()
    for subject in "ab":
        mine = [line for line in order if line[0] == subject]
        assert mine == sorted(mine)
    assert order[5] == "5"  # all before it had ended, and none behind it had begun
    assert order[8:] == ["a8", "9", "10"]


def test_outputs_come_in_the_order_of_the_commands() -> None:
    calls = [Call(("sh", "-c", f"sleep 0.0{9 - n}; echo {n}"), subject=str(n)) for n in range(9)]
    assert [int(completed.stdout) for completed in LocalHost().run_all(calls)] == list(range(9))


@pytest.mark.parametrize(
    ("failing", "error"),
    [
        (("sh", "-c", "exit 3"), None),
        (("no-such-program",), Unavailable),
        (("sleep", "60"), CommandTimedOut),
    ],
)
def test_what_runs_beside_a_failure_ends_and_no_other_is_begun(
    tmp_path: Path, failing: tuple[str, ...], error: type[Exception] | None
) -> None:
    beside = ("sh", "-c", f"sleep 0.1; touch {tmp_path}/ended")
    calls = [
        Call(("echo", "before"), ok=(0,), subject="a"),
        Call(beside, ok=(0,), subject="b"),
        Call(failing, ok=(0,), timeout_s=0.3, subject="a"),
        Call(("touch", f"{tmp_path}/after"), ok=(0,), subject="a"),
        Call(("touch", f"{tmp_path}/behind"), ok=(0,)),
    ]
    outcomes = LocalHost().run_all(calls)
    assert next(outcomes).stdout == b"before\n"
    assert next(outcomes).status == 0
    if error is None:
        assert [outcome.status for outcome in outcomes] == [3]
    else:
        with pytest.raises(error):
            next(outcomes)
    assert [path.name for path in tmp_path.iterdir()] == ["ended"]


def test_an_interruption_kills_all_that_run(tmp_path: Path) -> None:
    script = f"echo $$ >>{tmp_path}/pids; exec sleep 60"
    calls = [Call(("sh", "-c", script), subject=str(n)) for n in range(2)]
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    before = time.monotonic()
    with pytest.raises(Interrupted), interruptible():
        timer.start()
        list(LocalHost().run_all(calls))
    timer.join()
    assert time.monotonic() - before < 30
    for pid in (tmp_path / "pids").read_text().split():
        assert not Path(f"/proc/{pid}").exists()


class _InterruptsTheStart(UserDict[str, str]):
    """This environment interrupts the run amid the start of the command that has it."""

    def __iter__(self) -> Iterator[str]:
        os.kill(os.getpid(), signal.SIGINT)
        return super().__iter__()


def test_an_interruption_while_a_command_is_started_is_no_failure_of_it(tmp_path: Path) -> None:
    slow, quick = ("sleep", "0.2"), ("true",)
    calls = [
        Call(slow, subject="a"),
        Call(quick, env=_InterruptsTheStart(), subject="b"),
        Call(("touch", f"{tmp_path}/behind"), subject="b"),
    ]
    with pytest.raises(Interrupted), interruptible():
        list(LocalHost().run_all(calls))
    assert not list(tmp_path.iterdir())
