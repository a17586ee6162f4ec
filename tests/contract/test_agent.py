"""These tests check how the agent handles runs: it holds their undos, carries them out when its
connection ends, however it does, and leaves them to be found where it was killed."""

from __future__ import annotations

import os
import re
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from piped_hosts import PipedHost
from switchmark.errors import CommandFailed, HostLost, SetupFailed, Unavailable
from switchmark.hosts import agent, agent_process
from switchmark.hosts.agent_messages import Ask, Kind, frame, frames, message, uint32
from switchmark.hosts.base import Call, Held
from switchmark.hosts.processes import MARK, start_time
from switchmark.hosts.programs import AGENT, program_path

RUN = "sm00fe"  # of no other test


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def host() -> Iterator[PipedHost]:
    host = PipedHost("a")
    yield host
    host.close()


def held_by(host: PipedHost, tmp_path: Path) -> Held:
    return host.hold(RUN, str(tmp_path / RUN), ("ports", "switch"))


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def agent_of(tmp_path: Path) -> int:
    return int((tmp_path / RUN / "agent").read_text().split()[0])


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def make(host: PipedHost, held: Held, tmp_path: Path) -> int:
    """Do something of every kind there, with its undo; return the pid of the process to stop."""
    for name in ("written", "old"):
        (tmp_path / name).write_text("old")
    held.restore(1, str(tmp_path / "written"), b"old")
    host.write(str(tmp_path / "written"), b"new")
    held.restore(2, str(tmp_path / "made"), None)
    host.write(str(tmp_path / "made"), b"new")
    held.command(3, ("tee", str(tmp_path / "by a 'command'")), b"in\0put")
    held.lease(4, str(tmp_path / "old"), None)
    host.write(str(tmp_path / "old"), b"new")
    held.restore(5, str(tmp_path / "done"), b"not to be seen")
    held.done(5)
    argv = ("sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.01; done")
    process = host.spawn(argv, stderr_path=str(tmp_path / "stderr"), env={MARK: RUN})
    assert process.receive(5) == "up"
    held.stop(6, process.pid, process.started, signal.SIGTERM, 0.1)
    daemon = ("sh", "-c", "setsid sleep 60 >/dev/null 2>&1 & echo $!")
    (tmp_path / "daemon").write_bytes(host.run(daemon, env={MARK: RUN}).stdout)
    return process.pid


def is_undone(tmp_path: Path, pid: int) -> bool:
    daemon = int((tmp_path / "daemon").read_text())
    return (
        (tmp_path / "written").read_text() == "old"
        and (tmp_path / "old").read_text() == "old"
        and (tmp_path / "by a 'command'").exists()
        and (tmp_path / "by a 'command'").read_bytes() == b"in\0put"
        and not (tmp_path / "made").exists()
        and not (tmp_path / "done").exists()
        and not (tmp_path / RUN).exists()
        and gone(pid)
        and gone(daemon)
    )


def test_what_is_held_is_undone_when_the_connection_ends(host: PipedHost, tmp_path: Path) -> None:
    pid = make(host, held_by(host, tmp_path), tmp_path)
    assert not is_undone(tmp_path, pid)
    host.close()
    until(lambda: is_undone(tmp_path, pid))


def test_what_is_held_is_undone_when_the_agent_is_asked_to_end(
    host: PipedHost, tmp_path: Path
) -> None:
    pid = make(host, held_by(host, tmp_path), tmp_path)
    os.kill(agent_of(tmp_path), signal.SIGTERM)
    until(lambda: is_undone(tmp_path, pid))
    until(lambda: not host.lives())
    assert host.run(("echo", "again")).stdout == b"again\n"


def test_what_a_killed_agent_left_is_undone_by_another(host: PipedHost, tmp_path: Path) -> None:
    held = held_by(host, tmp_path)
    pid = make(host, held, tmp_path)
    os.kill(agent_of(tmp_path), signal.SIGKILL)
    until(lambda: not held.lives())
    assert not is_undone(tmp_path, pid)
    host.undo_run(RUN, str(tmp_path / RUN))
    assert is_undone(tmp_path, pid)
    host.undo_run(RUN, str(tmp_path / RUN))


def test_a_run_that_is_held_again_after_a_kill_undoes_what_was_done_before_it(
    host: PipedHost, tmp_path: Path
) -> None:
    pid = make(host, held_by(host, tmp_path), tmp_path)
    os.kill(agent_of(tmp_path), signal.SIGKILL)
    until(lambda: gone(agent_of(tmp_path)))
    other = PipedHost("a")
    held_by(other, tmp_path)
    assert not is_undone(tmp_path, pid)
    other.close()
    until(lambda: is_undone(tmp_path, pid))


def test_a_record_that_was_cut_off_is_read_up_to_there(host: PipedHost, tmp_path: Path) -> None:
    held = held_by(host, tmp_path)
    pid = make(host, held, tmp_path)
    os.kill(agent_of(tmp_path), signal.SIGKILL)
    until(lambda: not held.lives())
    with (tmp_path / RUN / "undo").open("ab") as record:
        record.write(struct.pack("=III", 1 << 31, 7, 2) + b"/dev/null")
    host.undo_run(RUN, str(tmp_path / RUN))
    assert is_undone(tmp_path, pid)


def test_what_is_let_go_is_not_undone(host: PipedHost, tmp_path: Path) -> None:
    held = held_by(host, tmp_path)
    held.restore(1, str(tmp_path / "made"), None)
    host.write(str(tmp_path / "made"), b"new")
    held.end()
    host.read("/proc/self/stat")
    assert not (tmp_path / RUN).exists()
    host.close()
    assert (tmp_path / "made").exists()


def test_what_is_kept_lives_on_and_is_found(host: PipedHost, tmp_path: Path) -> None:
    held = held_by(host, tmp_path)
    pid = make(host, held, tmp_path)
    agent = agent_of(tmp_path)
    held.end(kept=True)
    host.close()
    until(lambda: gone(agent))
    assert not gone(pid)
    assert (tmp_path / "written").read_text() == "new"
    other = PipedHost("a")
    other.undo_run(RUN, str(tmp_path / RUN))
    other.close()
    assert is_undone(tmp_path, pid)


def test_who_holds_a_run_after_another_waits_for_its_end(host: PipedHost, tmp_path: Path) -> None:
    pid = make(host, held_by(host, tmp_path), tmp_path)
    other = PipedHost("a")
    held = held_by(other, tmp_path)
    assert gone(pid)
    assert (tmp_path / "written").read_text() == "old"
    assert held.folder == str(tmp_path / RUN)
    assert agent_of(tmp_path) == held.pid
    assert start_time(held.pid) == held.started
    other.close()


def test_a_run_has_two_journals_where_its_leader_has_its_folder(
    host: PipedHost, tmp_path: Path
) -> None:
    (tmp_path / RUN).mkdir()
    (tmp_path / RUN / "journal").write_text("of the leader\n")
    held = held_by(host, tmp_path)
    assert held.folder == str(tmp_path / RUN / "far-a")
    held.journal("of the far side")
    host.read("/proc/self/stat")
    assert (tmp_path / RUN / "far-a/journal").read_text() == "of the far side\n"
    host.close()
    until(lambda: not (tmp_path / RUN / "far-a").exists())
    assert (tmp_path / RUN / "journal").read_text() == "of the leader\n"


@pytest.mark.parametrize(
    ("count", "left"),
    [(3, 3), (7, 3), (11, 3), (15, 7), (2, 2)],
    ids=["not yet raised", "raised in part", "raised", "and by another", "lowered since"],
)
def test_what_was_added_to_a_count_is_taken_away_and_only_once(
    host: PipedHost, tmp_path: Path, count: int, left: int
) -> None:
    path = tmp_path / "nr_hugepages"
    path.write_text("3\n")
    held = held_by(host, tmp_path)
    held.lease(4, str(path), 8)
    host.write(str(path), f"{count}\n".encode())
    host.close()
    until(lambda: not (tmp_path / RUN).exists())
    assert path.read_text() == f"{left}\n"


@pytest.mark.parametrize(
    ("shown", "written"),
    [
        ("always [madvise] never\n", "madvise"),
        ("[always] never\n", "always"),
        ("performance\n", "performance\n"),
        ("[open\n", "[open\n"),
        ("]closed[\n", "]closed[\n"),
        ("a[1]\n", "a[1]\n"),
        ("", ""),
    ],
)
def test_of_several_values_that_a_file_shows_the_present_one_is_written_back(
    host: PipedHost, tmp_path: Path, shown: str, written: str
) -> None:
    path = tmp_path / "enabled"
    path.write_text(shown)
    held = held_by(host, tmp_path)
    held.lease(4, str(path), None)
    host.write(str(path), b"never")
    host.close()
    until(lambda: not (tmp_path / RUN).exists())
    assert path.read_text() == written


@pytest.mark.parametrize("folder", ["/tmp/other", "relative/sm00fe", "/tmp/../sm00fe/.."])
def test_only_the_folder_of_a_run_is_held(host: PipedHost, folder: str) -> None:
    with pytest.raises(SetupFailed, match="Invalid argument"):
        host.hold(RUN, folder, ())


def test_an_interrupted_command_is_ended_and_the_next_one_gets_its_own_answer(
    host: PipedHost, tmp_path: Path
) -> None:
    outcomes = host.run_all(
        [
            Call(("true",)),
            Call(("sh", "-c", f"echo $$ >{tmp_path}/pid; exec sleep 60")),
            Call(("touch", str(tmp_path / "after"))),
        ]
    )
    next(outcomes)
    until(lambda: (tmp_path / "pid").exists() and bool((tmp_path / "pid").read_text()))
    outcomes.close()
    assert host.run(("echo", "next")).stdout == b"next\n"
    assert gone(int((tmp_path / "pid").read_text()))
    assert not (tmp_path / "after").exists()


def test_a_command_whose_agent_is_killed_is_told_with_its_host(host: PipedHost) -> None:
    with pytest.raises(HostLost, match="host a was lost"):
        host.run(("sh", "-c", "kill -9 $PPID; sleep 60"))
    assert host.run(("echo", "again")).stdout == b"again\n"


def test_more_than_a_frame_holds_goes_both_ways(host: PipedHost) -> None:
    content = bytes(range(256)) * 40_000
    completed = host.run(("sh", "-c", "cat; head -c 100000 /dev/zero >&2"), stdin=content)
    assert (completed.stdout, completed.stderr) == (content, bytes(100_000))


def test_a_host_without_the_program_here_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWITCHMARK_AGENT", "/no/such/agent")
    with pytest.raises(Unavailable, match="/no/such/agent is not there"):
        PipedHost("a").run(("true",))


def test_a_copy_of_the_agent_that_is_not_whole_is_replaced(tmp_path: Path) -> None:
    content = Path(program_path(AGENT)).read_bytes()
    for found in (None, content[:1000], content + b"more"):
        host = PipedHost("a")
        path = Path(host.path_of(program_path(AGENT)))
        host.close()
        assert path.read_bytes() == content
        if found is not None:
            path.write_bytes(found)
    host = PipedHost("a")
    assert host.path_of(program_path(AGENT)) == str(path)
    host.close()
    assert path.read_bytes() == content
    assert [path.name for path in path.parent.iterdir()] == ["switchmark-agent"]


def test_of_a_process_no_more_is_kept_than_is_received(
    host: PipedHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_process, "_UNREAD_MOST", 1 << 20)
    line = "x" * 999
    script = f"yes {line} | head -n 4000; echo written >&2; exec sleep 60"
    process = host.spawn(("sh", "-c", script), stderr_path=str(tmp_path / "stderr"))
    time.sleep(0.5)
    assert process.last_words() == ""  # it waits
    assert [process.receive(10) for _ in range(4000)] == [line] * 4000
    until(lambda: process.last_words() == "written")
    process.stop(signal.SIGKILL, 1.0)


def test_no_more_than_so_much_of_a_process_is_written_to_this_sides_disk(
    host: PipedHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_process, "_STDERR_MOST", 100_000)
    argv = ("sh", "-c", "head -c 1000000 /dev/zero >&2; echo done")
    process = host.spawn(argv, stderr_path=str(tmp_path / "stderr"))
    assert process.receive(10) == "done"
    until(lambda: process.poll() == 0)
    assert (tmp_path / "stderr").stat().st_size == 100_000


# --- a host that is not to be trusted ----------------------------------------------------------

FALSE_AGENT = """\
#!{python}
import os, struct, sys
def say(channel, kind, stream, payload):
    sys.stdout.buffer.write(struct.pack("=IHBB", len(payload), channel, kind, stream) + payload)
    sys.stdout.flush()
def asked():
    length, *_ = struct.unpack("=IHBB", sys.stdin.buffer.read(8))
    return sys.stdin.buffer.read(length)[:4]
def number(value):
    return struct.pack("=I", value)
try:
{what}
    sys.stdin.buffer.read()
except BrokenPipeError:
    os._exit(0)
"""


def false_host(tmp_path: Path, *messages: str) -> PipedHost:
    """Return a host whose agent does something else."""
    path = tmp_path / "switchmark-agent"
    lines = "".join(f"    {line}\n" for line in messages)
    path.write_text(FALSE_AGENT.format(python=sys.executable, what=lines))
    path.chmod(0o755)
    return PipedHost("a", there={program_path(AGENT): str(path)})


HELLO = "say(0, 0, 0, number(1))"


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        ("say(0, 0, 0, number(2))", "not of this version"),
        ("say(0, 0, 0, number(1 << 24))", "not of this version"),
        ("print('usage: switchmark-agent')", "not of this version"),
        ("sys.exit('no such verb')", "no such verb"),
    ],
    ids=["newer", "of the other byte order", "no agent", "older"],
)
def test_an_agent_of_another_version_is_refused(tmp_path: Path, hello: str, reason: str) -> None:
    host = false_host(tmp_path, hello, "sys.stdout.flush()")
    with pytest.raises(Unavailable, match=f"(?s)does not run on host a.*{reason}") as refused:
        host.run(("true",))
    assert "build this version of switchmark there" in (refused.value.hint or "")


def test_a_host_that_answers_more_than_is_kept_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "_ANSWERS_MOST", 1 << 20)
    monkeypatch.setattr(agent, "_ENDS_S", 0.1)
    endless = "while True: say(0, 8, 1, bytes(65536))"
    with pytest.raises(HostLost, match="its answers are longer than any"):
        false_host(tmp_path, HELLO, endless).run(("true",))


@pytest.mark.parametrize(
    ("answer", "error", "reason"),
    [
        ("say(0, 8, 0, asked())", HostLost, "cut off"),
        ("say(0, 8, 0, asked() + number(0) * 2 + number(9))", HostLost, "cut off"),
        ("say(0, 8, 0, asked() + number(4) * 2)", CommandFailed, "says more than is read"),
        ("say(0, 8, 0, asked() + number(9) * 2)", CommandFailed, "says more than is read"),
        ("say(0, 9, 0, b'')", HostLost, "was lost"),
        ("os.write(1, bytes([255]) * 64)", HostLost, "longer than any"),
        ("os._exit(3)", HostLost, "was lost"),
    ],
)
def test_an_answer_that_is_none_is_told_with_its_host(
    tmp_path: Path, answer: str, error: type[Exception], reason: str
) -> None:
    host = false_host(tmp_path, HELLO, answer)
    with pytest.raises(error, match=f"(?s){reason}") as refused:
        host.run(("true",))
    assert re.search("(host|on) a", str(refused.value))
    host.close()


def test_an_error_that_no_system_has_is_one_of_input(tmp_path: Path) -> None:
    host = false_host(tmp_path, HELLO, "say(0, 8, 0, asked() + number(0xFFFFFFFF))")
    with pytest.raises(OSError, match="Input/output error"):
        host.read("/proc/stat")
    host.close()


def test_runs_whose_folders_are_none_are_not_heeded(tmp_path: Path) -> None:
    folders = (b"/run/switchmark/sm00fe", b"/etc/sm00fe", b"/run/switchmark/\x1b[2J", b"sm00fe")
    request = b"".join(folder + b"\0" + uint32(1) for folder in folders)
    host = false_host(tmp_path, HELLO, f"say(0, 8, 0, asked() + number(0) + {request!r})")
    assert host.runs_there() == [("sm00fe", "/run/switchmark/sm00fe", True)]
    host.close()


def test_a_process_that_says_more_than_it_was_granted_ends_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "_ENDS_S", 0.1)
    spawned = "say(0, 8, 0, asked() + number(0) * 4)"
    host = false_host(tmp_path, HELLO, spawned, "while True: say(0, 2, 1, bytes(65536))")
    # What is granted is granted once; this side grants as much again for what it took.
    most = agent_process._UNREAD_MOST
    process = host.spawn(("true",), stderr_path=str(tmp_path / "stderr"))
    until(lambda: process.poll() == 255)
    assert "host a was lost" in process.last_words()
    assert len(process._unread) <= most + (1 << 18)
    host.close()


def test_errors_of_ssh_are_kept_up_to_a_bound(tmp_path: Path) -> None:
    flood = "sys.stderr.write('first\\n' + 'x' * 65000 + '\\n')"
    last = "sys.stderr.write('y' * 65000 + 'last'); os._exit(3)"
    with pytest.raises(HostLost) as lost:
        false_host(tmp_path, HELLO, flood, "sys.stderr.flush()", last).run(("true",))
    assert "last" not in str(lost.value).replace("was lost", "")


def test_a_login_that_never_ends_is_given_up(tmp_path: Path) -> None:
    class Talker(PipedHost):
        def _session(self) -> tuple[str, ...]:
            return ("sh", "-c", 'yes; exec sh -c "$0"')

    with pytest.raises(Unavailable, match="host a cannot be reached"):
        Talker("a").run(("true",))


@pytest.mark.parametrize(
    ("words", "reason"),
    [("ssh: no such host", "ssh: no such host"), ("", "it gives no shell")],
)
def test_a_host_without_a_session_is_refused_with_the_words_of_ssh_alone(
    tmp_path: Path, words: str, reason: str
) -> None:
    (tmp_path / "agent").touch()
    ssh = ("sh", "-c", f"printf '{words}' >&2; exit 255")
    with pytest.raises(Unavailable) as refused:
        agent.Agent("a", ssh, str(tmp_path / "agent"))
    assert refused.value.message == f"host a cannot be reached\n  {reason}"


def test_what_ssh_says_after_the_answer_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "agent").touch()
    nonce = "printf %s \"$0\" | grep -o '<[0-9a-f]*>' | head -n 1 | tr -d '\\n'"
    ssh = ("sh", "-c", f"{nonce}; echo full; sleep 0.2; echo 'No space left' >&2")
    with pytest.raises(SetupFailed) as refused:
        agent.Agent("a", ssh, str(tmp_path / "agent"))
    assert refused.value.message == "switchmark-agent cannot be copied to host a\n  No space left"


# --- what is no question ---------------------------------------------------------------------


def replies(sent: bytes) -> list[tuple[int, Kind, int, bytes]]:
    """Return the agent's answers to some bytes."""
    completed = subprocess.run(
        (program_path(AGENT), "serve"), input=sent, capture_output=True, timeout=20, check=False
    )
    assert completed.returncode == 0, completed.stderr
    assert completed.stderr == b""
    return list(frames(bytearray(completed.stdout)))


def test_each_question_that_is_cut_off_is_answered_by_an_error() -> None:
    for ask in Ask:
        if ask in (Ask.RUNS, Ask.READ_ALL, Ask.INODES, Ask.CANCEL, Ask.CLEAN):
            continue  # nothing is cut off of these, or they are answered later
        for rest in (b"", b"\xff" * 3, b"no end", uint32(0xFFFFFFFF) * 5):
            _, *answers = replies(message(7, ask, rest))
            (answer,) = [payload for _, kind, _, payload in answers if kind is Kind.ANSWER]
            assert answer[:4] == uint32(7)
            assert answer[4:8] != uint32(0) or ask in (Ask.EXISTS, Ask.END), (ask, rest)


def test_a_message_longer_than_any_and_what_is_no_frame_end_the_agent() -> None:
    huge = frame(0, Kind.ASK, 1, bytes(65536)) * (4096 + 2)
    assert [kind for _, kind, _, _ in replies(huge)] == [Kind.HELLO]
    assert [kind for _, kind, _, _ in replies(b"\xff" * 64)] == [Kind.HELLO]
