"""These tests hold every kind of host to one contract: commands that end, processes that live on,
how both are ended, and files. A test host is reached by ssh; a cell is a kind of host that this
file adds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ssh_hosts
from piped_hosts import PipedHost
from switchmark.errors import CommandFailed, CommandTimedOut, SetupFailed, Unavailable
from switchmark.hosts.agent_messages import variables
from switchmark.hosts.base import Call, Completed, Host, Process
from switchmark.hosts.local import LocalHost
from switchmark.model.plan import Check, Folder, Node, Run, Spawn, Wait, Write
from switchmark.observe.cpus import read_cpus
from switchmark.observe.facts import host_facts
from switchmark.observe.taken import taken_at_once
from switchmark.runs.clean import clean
from switchmark.runs.executor import Executor
from switchmark.runs.workspace import Workspace


class Cell(Host):
    """A cell is a mount namespace of this machine: that of the process `init`. This class is all
    that a new kind of host takes."""

    def __init__(self, name: str, init: int) -> None:
        self.name = name
        self._here = LocalHost()
        self._root = f"/proc/{init}/root"
        self._way = ("nsenter", f"--mount=/proc/{init}/ns/mnt", "--")

    def run(
        self,
        argv: tuple[str, ...],
        *,
        stdin: bytes | None = None,
        env: Mapping[str, str] = {},
        timeout_s: float = 10.0,
    ) -> Completed:
        completed = self._here.run((*self._way, *argv), stdin=stdin, env=env, timeout_s=timeout_s)
        if completed.stderr.startswith(f"nsenter: failed to execute {argv[0]}: ".encode()):
            why = "may not be executed" if completed.status == 126 else "is not installed"
            raise Unavailable(f"the program '{argv[0]}' {why} in the cell {self.name}")
        return completed

    def spawn(
        self, argv: tuple[str, ...], *, stderr_path: str, env: Mapping[str, str] = {}
    ) -> Process:
        if self.run(("sh", "-c", 'command -v "$1"', "sh", argv[0])).status:
            raise Unavailable(f"the program '{argv[0]}' is not installed in the cell {self.name}")
        return self._here.spawn((*self._way, *argv), stderr_path=stderr_path, env=env)

    def end(self, pid: int, started: int, number: int, grace_s: float) -> bool:
        return self._here.end(pid, started, number, grace_s)

    def read(self, path: str) -> bytes:
        return self._here.read(self._root + path)

    def write(self, path: str, content: bytes) -> None:
        self._here.write(self._root + path, content)

    def exists(self, path: str) -> bool:
        return self._here.exists(self._root + path)

    def remove(self, path: str) -> None:
        self._here.remove(self._root + path)

    def read_all(self, *patterns: str) -> Mapping[str, bytes]:
        files = self._here.read_all(*(self._root + pattern for pattern in patterns))
        return {path.removeprefix(self._root): content for path, content in files.items()}

    def inodes(self, *patterns: str) -> Mapping[str, int]:
        numbers = self._here.inodes(*(self._root + pattern for pattern in patterns))
        return {path.removeprefix(self._root): number for path, number in numbers.items()}


@contextmanager
def opened_cell() -> Iterator[Cell]:
    """Make a cell, which has a separate /mnt."""
    if os.geteuid() != 0:
        pytest.skip("mount namespaces are made as root")
    script = "mount -t tmpfs tmpfs /mnt && echo up && exec cat"
    with subprocess.Popen(
        ("unshare", "--mount", "sh", "-c", script),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as init:
        assert init.stdout is not None
        assert init.stdout.readline() == b"up\n"
        yield Cell("cell", init.pid)
        assert init.stdin is not None
        init.stdin.close()


@pytest.fixture(scope="module", params=("local", "pipe", "ssh", "cell"))
def host(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Host]:
    if request.param == "local":
        yield LocalHost()
        return
    if request.param == "cell":
        with opened_cell() as cell:
            yield cell
        return
    if request.param == "pipe":
        piped = PipedHost("a")
        yield piped
        piped.close()
        return
    ssh_hosts.require()
    with ssh_hosts.one_host(tmp_path_factory.mktemp("hosts")) as remote:
        reached = remote.connect()
        yield reached
        reached.close()


def lives(host: Host, pid: int) -> bool:
    try:
        stat = host.read(f"/proc/{pid}/stat")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(b")")[2].split()[0] != b"Z"


def wait_for_the_end(host: Host, *pids: int) -> None:
    deadline = time.monotonic() + 20
    while any(lives(host, pid) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def spawned() -> Iterator[list[Process]]:
    """Gather the processes that a test spawned; all are ended behind it."""
    processes: list[Process] = []
    yield processes
    for process in processes:
        process.stop(signal.SIGKILL, 1.0)


def spawn(host: Host, spawned: list[Process], tmp_path: Path, *argv: str) -> Process:
    spawned.append(host.spawn(argv, stderr_path=str(tmp_path / "stderr")))
    return spawned[-1]


# --- commands --------------------------------------------------------------------------------


def test_a_command_gives_its_status_and_both_outputs(host: Host) -> None:
    completed = host.run(("sh", "-c", "cat; echo why >&2; exit 3"), stdin=b"in\0put")
    assert completed == Completed(3, b"in\0put", b"why\n")


def test_a_signal_is_a_negative_status(host: Host) -> None:
    assert host.run(("sh", "-c", "kill -9 $$")).status == -signal.SIGKILL


def test_words_are_never_split_or_expanded(host: Host) -> None:
    assert host.run(("printf", "%s|", "a b", "$HOME", "*")).stdout == b"a b|$HOME|*|"


def test_a_command_without_input_reads_the_end_at_once(host: Host) -> None:
    assert host.run(("cat",), timeout_s=5).stdout == b""


def test_variables_are_added_and_messages_are_untranslated(host: Host) -> None:
    script = "echo $MINE $LC_ALL; test -n $HOME"
    assert host.run(("sh", "-c", script), env={"MINE": "a"}).stdout == b"a C\n"


def test_a_command_that_outlives_its_limit_is_ended_with_all_it_started(
    host: Host, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    script = f"sleep 60 & echo $$ $! >{pids}; echo stuck >&2; wait"
    started = time.monotonic()
    with pytest.raises(CommandTimedOut, match=r"0\.2 s(?s:.*)stuck"):
        host.run(("sh", "-c", script), timeout_s=0.2)
    assert time.monotonic() - started < 20
    wait_for_the_end(host, *map(int, pids.read_text().split()))


def test_a_daemon_left_behind_does_not_hold_its_command_up(host: Host, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    started = time.monotonic()
    completed = host.run(("sh", "-c", f"setsid sleep 60 & echo $! >{pid}; echo up"), timeout_s=30)
    assert completed == Completed(0, b"up\n", b"")
    assert time.monotonic() - started < 20
    assert host.run(("sh", "-c", f"kill -9 $(cat {pid})")).status == 0


def test_a_missing_program_is_unavailable_by_name(host: Host) -> None:
    with pytest.raises(Unavailable, match="'no-such-program' is not installed"):
        host.run(("no-such-program", "--version"))


def test_a_file_that_is_no_program_is_unavailable(host: Host, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("no program")
    with pytest.raises(Unavailable, match="may not be executed"):
        host.run((str(tmp_path / "plain"),))


def test_the_terminals_ctrl_c_does_not_reach_a_command(host: Host) -> None:
    own_session = os.getsid(0)
    script = "import os; print(os.getsid(0), os.getpgrp(), os.getpid())"
    session, group, pid = host.run((sys.executable, "-c", script)).stdout.split()
    assert session == group == pid
    assert int(session) != own_session


def test_programs_of_the_administrator_are_found(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert host.run(("sh", "-c", "echo $PATH")).stdout.strip().endswith(b"/usr/sbin:/sbin")


def test_behind_a_command_that_fails_none_is_begun(host: Host, tmp_path: Path) -> None:
    calls = [
        Call(("echo", "first"), ok=(0,)),
        Call(("sh", "-c", "exit 3"), ok=(0, 1)),
        Call(("touch", f"{tmp_path}/third")),
    ]
    assert [completed.status for completed in host.run_all(calls)] == [0, 3]
    assert not (tmp_path / "third").exists()
    failing = [Call(("sh", "-c", f"exit {status}")) for status in (3, 0)]
    assert [completed.status for completed in host.run_all(failing)] == [3, 0]


# --- processes -------------------------------------------------------------------------------


def test_a_process_is_talked_to_in_lines(
    host: Host, spawned: list[Process], tmp_path: Path
) -> None:
    process = spawn(host, spawned, tmp_path, "cat")
    process.send('{"do": "open"}')
    process.send("zwölf")
    assert process.receive(5) == '{"do": "open"}'
    assert process.receive(5) == "zwölf"
    assert process.receive(0.01) is None
    assert process.poll() is None


def test_a_line_that_comes_in_pieces_is_put_together(
    host: Host, spawned: list[Process], tmp_path: Path
) -> None:
    script = "printf 'one\\ntw'; sleep 0.2; printf 'o\\nthree'; read wait"
    process = spawn(host, spawned, tmp_path, "sh", "-c", script)
    assert process.receive(5) == "one"
    assert process.receive(0.01) is None
    assert process.receive(5) == "two"
    assert process.receive(0.05) is None
    process.send("go on")
    assert process.receive(5) == "three"


def test_an_end_is_told_after_the_last_line(
    host: Host, spawned: list[Process], tmp_path: Path
) -> None:
    process = spawn(host, spawned, tmp_path, "sh", "-c", "echo last; echo too bad >&2; exit 7")
    assert process.receive(5) == "last"
    assert process.receive(5) is None
    assert process.poll() == 7
    assert process.last_words() == "too bad"
    with pytest.raises(CommandFailed, match="(?s)does not read.*too bad"):
        for _ in range(2):
            process.send("hello?")


def test_nothing_is_received_of_a_process_that_closed_its_output(
    host: Host, spawned: list[Process], tmp_path: Path
) -> None:
    process = spawn(host, spawned, tmp_path, "sh", "-c", "exec >&-; sleep 60")
    assert process.receive(0.2) is None
    assert process.poll() is None


def test_a_process_that_nobody_listens_to_does_not_block(
    host: Host, spawned: list[Process], tmp_path: Path
) -> None:
    script = "head -c 300000 /dev/zero | tr '\\0' x; exit 0"
    process = spawn(host, spawned, tmp_path, "sh", "-c", script)
    deadline = time.monotonic() + 10
    while process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    assert process.receive(1) == "x" * 300000


def test_last_words_are_the_last_lines_alone(
    host: Host, spawned: list[Process], tmp_path: Path
) -> None:
    process = spawn(host, spawned, tmp_path, "sh", "-c", "seq 1 9999 >&2; echo >&2")
    assert process.receive(5) is None
    assert process.last_words() == "9995\n9996\n9997\n9998\n9999"


def test_a_stop_grants_time_to_end_well(host: Host, tmp_path: Path) -> None:
    script = "trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.01; done"
    process = host.spawn(("sh", "-c", script), stderr_path=str(tmp_path / "stderr"))
    assert process.receive(5) == "up"
    assert process.stop(signal.SIGTERM, 5.0) == 5
    assert process.receive(0) == "bye"
    assert process.poll() == 5
    assert process.stop(signal.SIGTERM, 5.0) == 5


def test_a_deaf_process_is_killed_with_all_it_started(host: Host, tmp_path: Path) -> None:
    script = "trap '' TERM; sleep 60 & echo $!; while :; do sleep 0.01; done"
    process = host.spawn(("sh", "-c", script), stderr_path=str(tmp_path / "stderr"))
    child = int(process.receive(5) or 0)
    assert process.stop(signal.SIGTERM, 0.1) == -signal.SIGKILL
    wait_for_the_end(host, child)


def test_a_stop_ends_the_input_first(host: Host, tmp_path: Path) -> None:
    script = "trap '' TERM; echo up; cat >/dev/null; exit 3"
    process = host.spawn(("sh", "-c", script), stderr_path=str(tmp_path / "stderr"))
    assert process.receive(5) == "up"
    assert process.stop(signal.SIGTERM, 5.0) == 3


def test_a_process_is_known_by_its_start_time(
    host: Host, spawned: list[Process], tmp_path: Path
) -> None:
    process = spawn(host, spawned, tmp_path, "sleep", "60")
    stat = host.read(f"/proc/{process.pid}/stat").rpartition(b")")[2].split()
    assert process.started == int(stat[19]) > 0


def test_many_processes_live_at_once(host: Host, spawned: list[Process], tmp_path: Path) -> None:
    # By default, OpenSSH's server allows ten sessions per connection.
    for number in range(12):
        spawn(host, spawned, tmp_path, "sh", "-c", f"read word; echo $word {number}")
    for process in spawned:
        process.send("me")
    assert [process.receive(10) for process in spawned] == [f"me {n}" for n in range(12)]


def test_the_program_that_is_missing_is_named_when_it_is_spawned(
    host: Host, tmp_path: Path
) -> None:
    with pytest.raises(Unavailable, match="'no-such-program' is not installed"):
        host.spawn(("no-such-program",), stderr_path=str(tmp_path / "stderr"))


def test_a_spawned_program_has_its_variables(
    host: Host, spawned: list[Process], tmp_path: Path
) -> None:
    argv = ("sh", "-c", "echo $MINE-$LC_ALL")
    env = {"MINE": "a b'c"}
    spawned.append(host.spawn(argv, stderr_path=str(tmp_path / "stderr"), env=env))
    assert spawned[-1].receive(5) == "a b'c-C"


def test_a_spawned_program_sees_no_secret_of_the_shell(
    host: Host, spawned: list[Process], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SECRET", "LD_PRELOAD", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "")
    argv = ("sh", "-c", "env; echo end")
    env = {"SWITCHMARK_RUN": "sm0000"}
    spawned.append(host.spawn(argv, stderr_path=str(tmp_path / "stderr"), env=env))
    lines = list(iter(lambda: spawned[-1].receive(5), "end"))
    names = {line.partition("=")[0] for line in lines if line is not None}
    assert "SWITCHMARK_RUN=sm0000" in lines
    assert {"PATH", "HOME"} <= names
    assert not names & {"SECRET", "LD_PRELOAD", "AWS_SESSION_TOKEN"}


def test_a_spawned_program_finds_what_the_user_configured(
    spawned: list[Process], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = {
        "TMPDIR": str(tmp_path),
        "SWITCHMARK_VPP": "/opt/vpp",
        "ASAN_OPTIONS": "verbosity=0",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    script = "echo $TMPDIR $SWITCHMARK_VPP $ASAN_OPTIONS"
    process = spawn(LocalHost(), spawned, tmp_path, "sh", "-c", script)
    assert process.receive(5) == " ".join(variables.values())


# --- files ------------------------------------------------------------------------------------


def test_files_are_read_written_and_removed(host: Host, tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    assert not host.exists(path)
    host.write(path, b"content")
    assert host.exists(path)
    assert host.read(path) == b"content"
    host.remove(path)
    host.remove(path)
    assert not host.exists(path)


def test_an_error_of_a_file_has_its_number(host: Host, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        host.read(str(tmp_path / "nowhere"))
    with pytest.raises(IsADirectoryError):
        host.read(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        host.write(str(tmp_path / "no-folder/file"), b"content")
    with pytest.raises(OSError, match="(?i)directory"):
        host.remove(str(tmp_path))


def test_a_large_file_is_written_and_read(host: Host, tmp_path: Path) -> None:
    content = bytes(range(256)) * 2000
    host.write(str(tmp_path / "file"), content)
    assert host.read(str(tmp_path / "file")) == content
    assert (
        host.run(("sha256sum",), stdin=content).stdout[:64]
        == (host.run(("sha256sum", str(tmp_path / "file"))).stdout[:64])
    )


def test_many_files_are_read_at_once(host: Host, tmp_path: Path) -> None:
    contents = {
        "a": b"",
        "b": b"no end",
        "c": b"\0\n\n",
        "d e": b"'x'\n",
        "$(e)": bytes(range(256)),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder").mkdir()
    pattern, nowhere = f"{tmp_path}/*", f"{tmp_path}/nowhere"
    found = host.read_all(pattern, nowhere, f"{tmp_path}/*/x")
    assert found == {f"{tmp_path}/{name}": content for name, content in contents.items()}
    assert host.read_all("/proc/[1-9]/comm", "/no/such*") == host.read_all("/proc/[1-9]/comm")
    assert list(host.read_all(f"{tmp_path}/b", f"{tmp_path}/a")) == [
        f"{tmp_path}/b",
        f"{tmp_path}/a",
    ]
    assert host.read_all() == {}


def test_inodes_are_those_of_what_a_path_leads_to(host: Host, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "broken").symlink_to("nowhere")
    inode = (tmp_path / "file").stat().st_ino
    assert host.inodes(f"{tmp_path}/*", f"{tmp_path}/nowhere") == {
        f"{tmp_path}/file": inode,
        f"{tmp_path}/link": inode,
    }
    assert host.inodes("/proc/[0-9]*/ns/net")


# --- hostile words ---------------------------------------------------------------------------

HOSTILE = st.text(
    st.characters(exclude_characters="\0", codec=None, exclude_categories=["Cs"]), max_size=20
) | st.text(st.sampled_from("'\"\\$`!*?[]{}()<>|&;~#\n\t -=%\x81\x88\u2028é"), max_size=20)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arguments=st.lists(HOSTILE, max_size=5), value=HOSTILE, stdin=st.binary(max_size=200))
def test_hostile_words_arrive_as_they_are(
    host: Host, arguments: list[str], value: str, stdin: bytes
) -> None:
    script = 'printf "%s\\0" "$@" "$VALUE"; cat'
    completed = host.run(("sh", "-c", script, "sh", *arguments), env={"VALUE": value}, stdin=stdin)
    assert (
        completed.stdout == b"".join(f"{word}\0".encode() for word in (*arguments, value)) + stdin
    )
    assert completed.stderr == b""


def test_bytes_that_are_no_text_arrive_as_they_are(host: Host) -> None:
    content = bytes(range(1, 256))
    word = content.decode(errors="surrogateescape")
    assert host.run(("printf", "%s", word)).stdout == content


def test_a_hostile_output_is_an_output(host: Host) -> None:
    script = "cat /proc/$PPID/cmdline; printf '<%032d>\\n' 0 1; yes | head -c 200000"
    completed = host.run(("sh", "-c", script))
    assert completed.status == 0
    assert completed.stdout.endswith(b"y\n" * 100_000)


def test_a_nul_in_a_word_is_refused(host: Host) -> None:
    with pytest.raises(ValueError, match="null"):
        host.run(("echo", "a\0b"))


def test_a_name_of_a_variable_is_no_command() -> None:
    with pytest.raises(ValueError, match="no name"):
        variables({"A;touch /tmp/x;B": "1"})


def test_patterns_are_words_of_a_shell_but_for_their_stars(host: Host, tmp_path: Path) -> None:
    (tmp_path / "a $(touch x)b").write_text("1")
    assert host.read_all(f"{tmp_path}/a $(touch x)*") == {f"{tmp_path}/a $(touch x)b": b"1"}
    assert len(list(tmp_path.iterdir())) == 1


# --- a new kind of host ------------------------------------------------------------------------


@pytest.fixture
def cell() -> Iterator[Cell]:
    with opened_cell() as host:
        yield host


def test_a_new_kind_of_host_has_facts_and_cpus(cell: Cell) -> None:
    facts, here = host_facts(cell), host_facts(LocalHost())
    for found in (facts, here):
        del found["hugepages"]["free"]  # others take some meanwhile, and add some
        del found["hugepages"]["total"]
    of_switchmark = {"versions"}
    assert {key: facts[key] for key in here.keys() - of_switchmark} == {
        key: here[key] for key in here.keys() - of_switchmark
    }
    assert facts["versions"]["python"] is None  # switchmark is not run there
    assert cell.allowed_cpus() == LocalHost().allowed_cpus()
    assert read_cpus(cell) == read_cpus(LocalHost())


def test_files_of_several_kinds_of_hosts_are_taken_at_once(cell: Cell) -> None:
    cell.write("/mnt/own", b"of the cell")
    taken = taken_at_once({cell: ["/mnt/*"], LocalHost(): ["/mnt/own"]})
    assert [dict(reads.read_all("/mnt/*")) for reads in taken.values()] == [
        {"/mnt/own": b"of the cell"},
        {},
    ]


def test_a_plan_is_carried_out_and_undone_on_a_new_kind_of_host(cell: Cell, tmp_path: Path) -> None:
    cell_node = Node("cell", "host", host="cell")
    cell.write("/mnt/old", b"before")
    with Workspace(tmp_path / "runs") as workspace:
        executor = Executor(
            {"cell": cell}, workspace, inside=lambda node, argv: argv, logs_dir=tmp_path / "logs"
        )
        executor.execute(
            (
                Folder("a folder", "/mnt/a/b", at=cell_node),
                Run("a file", ("touch", "/mnt/a/b/c"), cell_node, undo=("rm", "/mnt/a/b/c")),
                Run("its name", ("ls", "/mnt/a/b"), cell_node, save="name"),
                Write("a file that was there", "/mnt/old", b"now: ${name}", at=cell_node),
                Spawn("a process", "echo", ("cat",), cell_node),
                Wait("it is there", Check(("test", "-e", "/mnt/a/b/${name}"), cell_node)),
            )
        )
        assert cell.read("/mnt/old") == b"now: c"
        assert not Path("/mnt/a").exists()
        process = executor.process("echo")
        process.send("to the cell")
        assert process.receive(5) == "to the cell"
        with pytest.raises(SetupFailed, match=r"on cell: ls /nowhere"):
            executor.execute((Run("none", ("ls", "/nowhere"), cell_node),))
        assert executor.unwind() == ()
    assert cell.read("/mnt/old") == b"before"
    assert not cell.exists("/mnt/a")
    assert not lives(cell, process.pid)
    assert not list((tmp_path / "runs").glob("sm*"))


def test_what_a_dead_run_left_on_a_new_kind_of_host_is_cleaned(cell: Cell, tmp_path: Path) -> None:
    cell_node = Node("cell", "host", host="cell")
    hosts = {"cell": cell}
    workspace = Workspace(tmp_path / "runs")
    executor = Executor(
        hosts, workspace, inside=lambda node, argv: argv, logs_dir=tmp_path / "logs"
    )
    executor.execute((Run("a file", ("touch", "/mnt/c"), cell_node, undo=("rm", "/mnt/c")),))
    workspace.close()
    (cleaned,) = clean(tmp_path / "runs", hosts=hosts)
    assert (cleaned.state, cleaned.actions) == ("cleaned", ("rm /mnt/c",))
    assert not cell.exists("/mnt/c")
