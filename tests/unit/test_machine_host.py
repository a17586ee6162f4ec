"""These tests check the local host: commands that end, processes that live on, and how both are
ended."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from switchmark.errors import CommandFailed, CommandTimedOut, Unavailable
from switchmark.machine.host import Completed, LocalHost, LocalProcess
from switchmark.machine.processes import open_process, start_time
from switchmark.machine.recording import RecordingHost

HOST = LocalHost()


def lives(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.fixture
def spawned(tmp_path: Path) -> Iterator[list[LocalProcess]]:
    """Gather the processes that a test spawned; all are ended behind it."""
    processes: list[LocalProcess] = []
    yield processes
    for process in processes:
        process.stop(signal.SIGKILL, 1.0)


def spawn(spawned: list[LocalProcess], tmp_path: Path, *argv: str) -> LocalProcess:
    spawned.append(HOST.spawn(argv, stderr_path=str(tmp_path / "stderr")))
    return spawned[-1]


# --- commands --------------------------------------------------------------------------------


def test_a_command_gives_its_status_and_both_outputs() -> None:
    done = HOST.run(("sh", "-c", "cat; echo why >&2; exit 3"), stdin=b"in\0put")
    assert done == Completed(3, b"in\0put", b"why\n")


def test_a_signal_is_a_negative_status() -> None:
    assert HOST.run(("sh", "-c", "kill -9 $$")).status == -signal.SIGKILL


def test_words_are_never_split_or_expanded() -> None:
    assert HOST.run(("printf", "%s|", "a b", "$HOME", "*")).stdout == b"a b|$HOME|*|"


def test_a_command_without_input_reads_the_end_at_once() -> None:
    assert HOST.run(("cat",), timeout_s=5).stdout == b""


def test_variables_are_added_and_messages_are_untranslated() -> None:
    script = "echo $MINE $LC_ALL; test -n $HOME"
    assert HOST.run(("sh", "-c", script), env={"MINE": "a"}).stdout == b"a C\n"


def test_a_command_that_outlives_its_limit_is_ended_with_all_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"sleep 60 & echo $$ $! >{pids}; echo stuck >&2; wait"
    started = time.monotonic()
    with pytest.raises(CommandTimedOut, match=r"0\.2 s(?s:.*)stuck"):
        HOST.run(("sh", "-c", script), timeout_s=0.2)
    assert time.monotonic() - started < 5
    deadline = time.monotonic() + 5
    while any(lives(int(pid)) for pid in pids.read_text().split()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_daemon_left_behind_does_not_hold_its_command_up(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    started = time.monotonic()
    done = HOST.run(("sh", "-c", f"setsid sleep 60 & echo $! >{pid}; echo up"), timeout_s=30)
    assert done == Completed(0, b"up\n", b"")
    assert time.monotonic() - started < 5
    os.kill(int(pid.read_text()), signal.SIGKILL)


def test_a_missing_program_is_unavailable_by_name() -> None:
    with pytest.raises(Unavailable, match="'no-such-program' is not installed"):
        HOST.run(("no-such-program", "--version"))


def test_a_file_that_is_no_program_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("no program")
    with pytest.raises(Unavailable, match="may not be executed"):
        HOST.run((str(tmp_path / "plain"),))


def test_the_terminals_ctrl_c_does_not_reach_a_command() -> None:
    own = os.getsid(0)
    script = "import os; print(os.getsid(0), os.getpgrp(), os.getpid())"
    session, group, pid = HOST.run((sys.executable, "-c", script)).stdout.split()
    assert session == group == pid
    assert int(session) != own


def test_programs_of_the_administrator_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert HOST.run(("sh", "-c", "echo $PATH")).stdout.strip().endswith(b"/usr/sbin:/sbin")


# --- processes -------------------------------------------------------------------------------


def test_a_process_is_talked_to_in_lines(spawned: list[LocalProcess], tmp_path: Path) -> None:
    process = spawn(spawned, tmp_path, "cat")
    process.send('{"do": "open"}')
    process.send("zwölf")
    assert process.receive(5) == '{"do": "open"}'
    assert process.receive(5) == "zwölf"
    assert process.receive(0.01) is None
    assert process.poll() is None


def test_a_line_that_comes_in_pieces_is_put_together(
    spawned: list[LocalProcess], tmp_path: Path
) -> None:
    script = "printf 'one\\ntw'; sleep 0.2; printf 'o\\nthree'; read wait"
    process = spawn(spawned, tmp_path, "sh", "-c", script)
    assert process.receive(5) == "one"
    assert process.receive(0.01) is None
    assert process.receive(5) == "two"
    assert process.receive(0.05) is None
    process.send("go on")
    assert process.receive(5) == "three"


def test_an_end_is_told_after_the_last_line(spawned: list[LocalProcess], tmp_path: Path) -> None:
    process = spawn(spawned, tmp_path, "sh", "-c", "echo last; echo too bad >&2; exit 7")
    assert process.receive(5) == "last"
    assert process.receive(5) is None
    assert process.poll() == 7
    assert process.last_words() == "too bad"
    with pytest.raises(CommandFailed, match="(?s)does not read.*too bad"):
        for _ in range(2):
            process.send("hello?")


def test_nothing_is_received_of_a_process_that_closed_its_output(
    spawned: list[LocalProcess], tmp_path: Path
) -> None:
    process = spawn(spawned, tmp_path, "sh", "-c", "exec >&-; sleep 60")
    assert process.receive(0.2) is None
    assert process.poll() is None


def test_a_process_that_nobody_listens_to_does_not_block(
    spawned: list[LocalProcess], tmp_path: Path
) -> None:
    script = "head -c 300000 /dev/zero | tr '\\0' x; exit 0"
    process = spawn(spawned, tmp_path, "sh", "-c", script)
    deadline = time.monotonic() + 10
    while process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    assert process.receive(1) == "x" * 300000


def test_last_words_are_the_last_lines_alone(spawned: list[LocalProcess], tmp_path: Path) -> None:
    process = spawn(spawned, tmp_path, "sh", "-c", "seq 1 9999 >&2; echo >&2")
    assert process.receive(5) is None
    assert process.last_words() == "9995\n9996\n9997\n9998\n9999"


def test_a_stop_grants_time_to_end_well(tmp_path: Path) -> None:
    script = "trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.01; done"
    process = HOST.spawn(("sh", "-c", script), stderr_path=str(tmp_path / "stderr"))
    assert process.receive(5) == "up"
    assert process.stop(signal.SIGTERM, 5.0) == 5
    assert process.receive(0) == "bye"
    assert process.poll() == 5
    assert process.stop(signal.SIGTERM, 5.0) == 5


def test_a_deaf_process_is_killed_with_all_it_started(tmp_path: Path) -> None:
    script = "trap '' TERM; sleep 60 & echo $!; while :; do sleep 0.01; done"
    process = HOST.spawn(("sh", "-c", script), stderr_path=str(tmp_path / "stderr"))
    child = int(process.receive(5) or 0)
    assert process.stop(signal.SIGTERM, 0.1) == -signal.SIGKILL
    deadline = time.monotonic() + 5
    while lives(child):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_stop_ends_the_input_first(tmp_path: Path) -> None:
    script = "trap '' TERM; echo up; cat >/dev/null; exit 3"
    process = HOST.spawn(("sh", "-c", script), stderr_path=str(tmp_path / "stderr"))
    assert process.receive(5) == "up"
    assert process.stop(signal.SIGTERM, 5.0) == 3


def test_a_process_is_known_by_its_start_time(spawned: list[LocalProcess], tmp_path: Path) -> None:
    process = spawn(spawned, tmp_path, "sleep", "60")
    assert process.started == start_time(process.pid)
    assert open_process(process.pid, process.started - 1) is None
    pidfd = open_process(process.pid, process.started)
    assert pidfd is not None
    os.close(pidfd)


# --- files, and the recording host -----------------------------------------------------------


def test_files_are_read_written_and_removed(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    assert not HOST.exists(path)
    HOST.write(path, b"content")
    assert HOST.exists(path)
    assert HOST.read(path) == b"content"
    HOST.remove(path)
    HOST.remove(path)
    assert not HOST.exists(path)


def test_a_recording_answers_by_the_longest_beginning() -> None:
    host = RecordingHost({("ip",): b"any", ("ip", "link"): Completed(1, b"", b"no link")})
    assert host.run(("ip", "link", "show")).status == 1
    assert host.run(("ip", "route")).stdout == b"any"
    assert host.run(("bridge",)) == Completed(0, b"", b"")
    assert host.ran == [("ip", "link", "show"), ("ip", "route"), ("bridge",)]
