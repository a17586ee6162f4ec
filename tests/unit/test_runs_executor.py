"""These tests check the executor: each step, its failures, and that undoing restores whatever came
before."""

from __future__ import annotations

import os
import shlex
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from switchmark.clock import Clock, replaced_by
from switchmark.errors import CommandFailed, Interrupted, NotReady, SetupFailed, Unavailable
from switchmark.hosts import signals
from switchmark.hosts.base import Completed
from switchmark.hosts.local import LocalHost
from switchmark.hosts.processes import start_time
from switchmark.hosts.recording import RecordingHost
from switchmark.hosts.signals import interruptible, shielded
from switchmark.model.plan import Check, End, Folder, Node, Plan, Run, Spawn, Step, Wait, Write
from switchmark.model.test import Test as SwitchmarkTest
from switchmark.path.resolving import resolve
from switchmark.runs.clean import clean
from switchmark.runs.executor import Executor
from switchmark.runs.journal import Far
from switchmark.runs.workspace import Workspace
from switchmark.switches.links import set_sysctls

NODE = Node("sm0000-f0", "netns")


def inside(node: Node, argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return the way into a node of these tests: a variable with the node's name."""
    return argv if node.environment == "host" else ("env", f"NODE={node.name}", *argv)


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    with Workspace(tmp_path / "runs") as run:
        yield run


@pytest.fixture
def executor(workspace: Workspace, tmp_path: Path) -> Iterator[Executor]:
    """Return an executor on this host; whatever a test leaves is undone behind it."""
    instance = Executor(
        {"local": LocalHost()}, workspace, inside=inside, logs_dir=tmp_path / "logs"
    )
    yield instance
    assert instance.unwind() == ()


def recorded(host: RecordingHost, workspace: Workspace) -> Executor:
    logs = workspace.folder / "logs"
    return Executor({"local": host}, workspace, inside=inside, logs_dir=logs)


# --- steps -----------------------------------------------------------------------------------


def test_a_run_saves_what_later_steps_refer_to(executor: Executor, tmp_path: Path) -> None:
    executor.execute(
        (
            Run("a number", ("echo", "  42 "), save="number"),
            Run("its use", ("echo", "<${number}>"), env={"COPY": "${number}"}, save="used"),
            Write("a file", f"{tmp_path}/f-${{number}}", b"n = ${number}\xff\n"),
        )
    )
    assert executor.saved == {"number": "42", "used": "<42>"}
    assert (tmp_path / "f-42").read_bytes() == b"n = 42\xff\n"


def test_a_name_that_no_step_gave_is_refused(executor: Executor) -> None:
    with pytest.raises(SetupFailed, match=r"show it: no earlier step .* \$\{nobody\}"):
        executor.execute((Run("show it", ("echo", "${nobody}")),))


def test_commands_run_in_their_node_with_their_variables(executor: Executor) -> None:
    script = ("sh", "-c", "echo $NODE $A $SWITCHMARK_RUN")
    executor.execute((Run("look", script, at=NODE, env={"A": "b c"}, save="seen"),))
    assert executor.saved["seen"].startswith("sm0000-f0 b c sm")


def test_a_run_returns_its_output(executor: Executor) -> None:
    assert executor.run(Run("counters", ("printf", "1 2"))) == (b"1 2",)


def test_a_failure_names_reason_place_command_status_and_last_lines(executor: Executor) -> None:
    script = "seq 9 >&2; echo 'no room' >&2; exit 4"
    with pytest.raises(CommandFailed) as failed:
        executor.execute((Run("make room", ("sh", "-c", script), at=NODE),))
    assert str(failed.value) == (
        "make room: the command ended with status 4\n"
        "  at sm0000-f0 (netns) on local:"
        f" env NODE=sm0000-f0 sh -c {shlex.quote(script)}\n"
        "  6\n  7\n  8\n  9\n  no room"
    )


def test_why_a_program_ended_is_not_hidden_by_its_stack(executor: Executor) -> None:
    frames = "".join(
        f"\033[31m#{n}  \033[34m0x00007fcc63db0eec\033[39m abort + 0xd3\n     from /lib/libc.so.6\n"
        for n in range(6)
    )
    script = f"printf '%s' {shlex.quote(f'worker thread deadlock{chr(10)}{frames}')} >&2; exit 6"
    with pytest.raises(CommandFailed) as failed:
        executor.execute((Run("forward", ("sh", "-c", script)),))
    assert str(failed.value).splitlines()[-1] == "  worker thread deadlock"


def test_a_process_is_ended_and_the_next_one_has_its_name(
    executor: Executor, workspace: Workspace
) -> None:
    start = Spawn("a switch", "switch", ("sleep", "60"))
    executor.execute((start,))
    first = executor.process("switch")
    executor.execute((End("it dies", "switch", (signal.SIGKILL, 0.0)),))
    assert executor.process("switch") is first
    assert first.poll() == -signal.SIGKILL
    assert workspace.journal.pending == {}
    executor.execute((start, Run("its number", ("echo", "${switch}"), save="number")))
    assert executor.process("switch") is not first
    assert executor.saved["number"] == str(executor.process("switch").pid)


def test_only_a_process_that_runs_is_ended(executor: Executor) -> None:
    ending = (End("it dies", "switch"),)
    with pytest.raises(SetupFailed, match="it dies: no process named switch is running"):
        executor.execute(ending)
    executor.execute((Spawn("a switch", "switch", ("sleep", "60")), *ending))
    with pytest.raises(SetupFailed, match="no process named switch is running"):
        executor.execute(ending)


def test_steps_of_an_earlier_block_stay_when_a_later_one_ends(
    executor: Executor, tmp_path: Path
) -> None:
    """As when an event starts a switch again while counters are read."""
    path = executor.mark()
    executor.execute((Write("a", str(tmp_path / "a"), b""),))
    counters = executor.mark()
    executor.execute((Write("b", str(tmp_path / "b"), b""),))
    executor.execute((Write("c", str(tmp_path / "c"), b""),), since=path)
    assert executor.unwind(to=counters) == ()
    assert sorted(file.name for file in tmp_path.glob("?")) == ["a", "c"]
    assert executor.unwind(to=path) == ()
    assert list(tmp_path.glob("?")) == []


def test_other_statuses_may_be_allowed(executor: Executor) -> None:
    executor.execute((Run("whatever", ("sh", "-c", "exit 3"), ok=(0, 3)),))


def test_a_signal_is_named(executor: Executor) -> None:
    with pytest.raises(CommandFailed, match=r"was ended by signal 9 \(Killed\)"):
        executor.execute((Run("die", ("sh", "-c", "kill -9 $$")),))


def test_a_missing_program_is_unavailable_with_the_reason_of_the_step(executor: Executor) -> None:
    for step in (Run("go", ("no-such",)), Spawn("go", "p", ("no-such",))):
        with pytest.raises(Unavailable, match="go: the program 'no-such' is not installed"):
            executor.execute((step,))


def test_a_host_that_nobody_gave_is_named(executor: Executor) -> None:
    with pytest.raises(SetupFailed, match="no host is named far; there are: local"):
        executor.execute((Run("go", ("true",), at=Node("host", "host", "far")),))


def test_a_process_is_handed_out_and_its_pid_is_a_value(executor: Executor, tmp_path: Path) -> None:
    executor.execute((Spawn("an echo", "echo", ("sh", "-c", "echo begun >&2; exec cat")),))
    process = executor.process("echo")
    process.send("hello")
    assert process.receive(5) == "hello"  # it is `cat` now: on its way there it has no environment
    executor.execute((Run("its mark", ("cat", "/proc/${echo}/environ"), save="environ"),))
    assert process.last_words() == "begun"
    assert executor.saved["echo"] == str(process.pid)
    assert "SWITCHMARK_RUN=sm" in executor.saved["environ"]
    assert (tmp_path / "logs" / "echo.stderr").read_text() == "begun\n"
    with pytest.raises(SetupFailed, match="echo is already running"):
        executor.execute((Spawn("another", "echo", ("cat",)),))
    executor.unwind()
    with pytest.raises(SetupFailed, match="no process named echo"):
        executor.process("echo")


def test_what_was_done_is_kept_as_a_script(executor: Executor, tmp_path: Path) -> None:
    executor.execute((Run("a try", ("true", "a b"), at=NODE),))
    script = tmp_path / "logs" / "steps.sh"
    assert script.read_text() == "# a try\nenv NODE=sm0000-f0 true 'a b'\n"


# --- waiting ---------------------------------------------------------------------------------


def test_a_wait_that_holds_at_once_does_not_sleep(
    executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", pytest.fail)
    executor.execute((Wait("it is so", Check(("true",))),))


class PausingClock(Clock):
    """This clock notes each pause, and shows their sum."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    def monotonic_ns(self) -> int:
        return round(sum(self.pauses) * 1e9)

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


def test_a_wait_pauses_briefly_and_longer_each_time(workspace: Workspace) -> None:
    clock = PausingClock()
    host = RecordingHost({("check",): Completed(1, b"", b"not yet")})
    with (
        replaced_by(clock),
        pytest.raises(NotReady, match="(?s)link up: still not so after 1 s.*not yet"),
    ):
        recorded(host, workspace).execute((Wait("link up", Check(("check",)), 1.0),))
    pauses = clock.pauses
    assert pauses[0] == 0.002
    assert max(pauses) == 0.05
    assert sum(pauses) == pytest.approx(1.0)  # the last check is at the limit, not beyond


def test_a_wait_may_look_for_a_pattern_in_any_line(executor: Executor) -> None:
    check = Check(("printf", "lo: UP\nsw0: UP\n"), pattern=r"^sw0: UP$")
    executor.execute((Wait("link up", check),))


def test_a_wait_tells_the_last_output(executor: Executor) -> None:
    check = Check(("echo", "sw0: DOWN"), pattern="UP")
    with pytest.raises(NotReady, match="(?s)link up: still not so after 0.1 s.*sw0: DOWN"):
        executor.execute((Wait("link up", check, timeout_s=0.1),))


def test_a_wait_for_a_dead_process_gives_up_at_once(executor: Executor) -> None:
    started = time.monotonic()
    with pytest.raises(NotReady, match="^switch ended with status 9\\n.*: socket\\n.*no memory"):
        executor.execute(
            (
                Spawn("a switch", "switch", ("sh", "-c", "echo no memory >&2; exit 9")),
                Wait("socket", Check(("false",)), timeout_s=60, unless_dead="switch"),
            )
        )
    assert time.monotonic() - started < 10


def test_a_check_that_hangs_is_not_ready(executor: Executor) -> None:
    with pytest.raises(NotReady, match="link up: a command did not end"):
        executor.execute((Wait("link up", Check(("sleep", "60")), timeout_s=0.1),))


# --- undoing ---------------------------------------------------------------------------------


def test_files_get_their_old_content_back(executor: Executor, tmp_path: Path) -> None:
    old, new, inner = tmp_path / "old", tmp_path / "new", tmp_path / "inner"
    old.write_bytes(b"old\0\xff")
    inner.write_bytes(b"inner")
    executor.execute(
        (
            Write("change", str(old), b"1"),
            Write("change again", str(old), b"2"),
            Write("make", str(new), b"3"),
            Write("change inside", str(inner), b"4", at=NODE),
            Write("make inside", f"{new}-inside", b"5", at=NODE),
        )
    )
    assert [old.read_bytes(), new.read_bytes(), inner.read_bytes()] == [b"2", b"3", b"4"]
    assert Path(f"{new}-inside").read_bytes() == b"5"
    assert executor.unwind() == ()
    assert [old.read_bytes(), inner.read_bytes()] == [b"old\0\xff", b"inner"]
    assert not new.exists()
    assert not Path(f"{new}-inside").exists()


@pytest.mark.parametrize("node", [Node("host", "host"), NODE], ids=["host", "node"])
def test_a_folder_goes_with_those_above_it_that_were_not_there(
    executor: Executor, tmp_path: Path, node: Node
) -> None:
    (tmp_path / "there").mkdir()
    steps = (
        Folder("locks", f"{tmp_path}/there/new/locks", at=node),
        Folder("there already", f"{tmp_path}/there", at=node),
        Folder("in use at the end", f"{tmp_path}/used/by/others", at=node),
    )
    executor.execute(steps)
    assert (tmp_path / "there/new/locks").is_dir()
    (tmp_path / "used/theirs").touch()
    assert executor.unwind() == ()
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")}
    assert left >= {"there", "used", "used/theirs"}
    assert not left & {"there/new", "used/by"}


@pytest.mark.parametrize("first", [0, 1])
def test_the_last_of_two_runs_removes_a_folder_that_both_need(first: int, tmp_path: Path) -> None:
    workspaces = [Workspace(tmp_path / "runs") for _ in range(2)]
    executors = [
        Executor({"local": LocalHost()}, workspace, inside=inside, logs_dir=tmp_path / "logs")
        for workspace in workspaces
    ]
    for executor in executors:
        executor.execute((Folder("locks", f"{tmp_path}/new/locks"),))
    lock = tmp_path / "new/locks/of-the-other-run"
    lock.touch()
    assert executors[first].unwind() == ()
    assert lock.exists()
    lock.unlink()
    assert executors[1 - first].unwind() == ()
    assert not (tmp_path / "new").exists()
    for workspace in workspaces:
        workspace.close()


def test_a_machine_wide_value_is_leased(workspace: Workspace) -> None:
    host = RecordingHost(files={"/proc/sys/vm/x": b"1\n"})
    executor = recorded(host, workspace)
    executor.execute((Write("more", "/proc/sys/vm/x", b"2", machine_wide=True),))
    assert workspace.leases.held_by(workspace.run) == [("local", "/proc/sys/vm/x")]
    assert executor.unwind() == ()
    assert host.files == {"/proc/sys/vm/x": b"1\n"}


def test_a_further_signal_ends_an_undo_that_hangs_and_only_that(
    executor: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signals, "_HANGS_S", 0)
    begun, other = tmp_path / "begun", tmp_path / "other"
    once = f"[ -e {begun} ] || {{ touch {begun}; exec sleep 30; }}"
    executor.execute(
        (
            Run("other", ("touch", str(other)), undo=("rm", str(other))),
            Run("hangs", ("true",), undo=("sh", "-c", once)),
        )
    )

    def press() -> None:
        for _ in range(2):
            while not begun.exists():
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)  # until the first is taken

    pressing = threading.Thread(target=press)
    with pytest.raises(Interrupted), interruptible(), shielded():
        pressing.start()
        failures = executor.unwind()
    pressing.join()
    assert [failure[-15:] for failure in failures] == ["ended by SIGINT"]
    assert not other.exists()
    (hung,) = executor._journal.pending.values()
    assert "sleep 30" in str(hung)


def test_an_optional_value_that_the_kernel_does_not_have_is_passed_over(
    workspace: Workspace,
) -> None:
    """As those of br_netfilter, where it is not loaded."""
    host = RecordingHost(files={"/x": b"1\n"})
    executor = recorded(host, workspace)
    test = SwitchmarkTest(environment="host", switch_environment="host")
    wiring = resolve(test, prefix="smtest", run_dir="/run/smtest").wiring
    executor.execute(
        set_sysctls(wiring, "no iptables", {"net.bridge.bridge-nf-call-iptables": "0"})
    )
    assert host.files == {"/x": b"1\n"}
    assert executor.unwind() == ()


def test_a_value_that_could_not_be_set_does_not_cost_an_earlier_lease(
    workspace: Workspace,
) -> None:
    host = RecordingHost(files={"/x": b"1\n"}, fault=1)
    executor = recorded(host, workspace)
    executor.execute((Write("more", "/x", b"2", machine_wide=True),))
    mark = executor.mark()
    with pytest.raises(SetupFailed, match="still more: /x cannot be set: injected fault"):
        executor.execute((Write("still more", "/x", b"3", machine_wide=True),))
    assert executor.unwind(to=mark) == ()
    assert workspace.leases.held_by(workspace.run) == [("local", "/x")]
    assert host.files == {"/x": b"2"}
    assert executor.unwind() == ()
    assert host.files == {"/x": b"1\n"}


def test_the_end_of_the_first_block_lets_no_host_go(workspace: Workspace) -> None:
    """The first mark of a run is 0."""
    executor = recorded(RecordingHost(), workspace)
    assert (mark := executor.mark()) == 0
    workspace.journal.intend(Far(host="far", folder="/run/x"))
    executor.execute((Run("do", ("do",), undo=("undo",)),))
    assert executor.unwind(to=mark) == ()
    assert list(workspace.journal.pending.values()) == [Far(host="far", folder="/run/x")]
    workspace.journal.done(0)


def test_a_value_that_cannot_be_set_says_why(executor: Executor) -> None:
    for wide in (False, True):
        step = Write("more", "/proc/no/such", b"1", machine_wide=wide)
        with pytest.raises(SetupFailed, match="more: /proc/no/such cannot be set: No such file"):
            executor.execute((step,))


def test_a_value_that_could_not_be_set_needs_no_undoing(executor: Executor) -> None:
    for wide in (False, True):
        step = Write("another kernel", "/proc/version", b"1", machine_wide=wide)
        with pytest.raises(SetupFailed, match="/proc/version cannot be set"):
            executor.execute((step,))
    assert executor.unwind() == ()


def test_what_was_not_begun_behind_a_failure_is_not_undone(workspace: Workspace) -> None:
    host = RecordingHost({("do", "b"): Completed(1, b"", b"no")})
    executor = recorded(host, workspace)
    with pytest.raises(CommandFailed):
        executor.execute(tuple(Run(n, ("do", n), undo=("undo", n)) for n in "abc"))
    assert executor.unwind() == ()
    assert host.ran == [("do", "a"), ("do", "b"), ("undo", "b"), ("undo", "a")]


def test_undos_run_in_reverse_and_go_on_behind_a_failure(workspace: Workspace) -> None:
    host = RecordingHost({("undo", "b"): Completed(1, b"", b"busy")})
    executor = recorded(host, workspace)
    executor.execute(tuple(Run(n, ("do", n), undo=("undo", n)) for n in "abc"))
    (failure,) = executor.unwind()
    assert failure == ("could not undo (undo b): an undo ended with status 1: undo b\n  busy")
    # A command that fails among others is tried again alone.
    assert host.ran[3:] == [("undo", name) for name in "cbab"]
    assert len(workspace.journal.pending) == 1  # left to `clean`
    workspace.journal.done(1)


def test_what_a_program_refuses_to_undo_is_told_and_done(workspace: Workspace) -> None:
    """The node that the program works in is removed anyway."""
    host = RecordingHost({("refuse",): Completed(3, b"", b"never")})
    executor = recorded(host, workspace)
    step = Run("a node", ("create",), undo=("remove",))
    executor.execute((step, Run("joined", ("join",), undo=("refuse",), undo_refusable=True)))
    assert executor.unwind() == ()
    assert executor.refused == ["refused (refuse): an undo ended with status 3: refuse\n  never"]
    assert host.ran[2:4] == [("refuse",), ("remove",)]
    assert not workspace.journal.pending


@pytest.mark.parametrize(
    "message",
    [
        "Cannot remove namespace file: No such file or directory",
        'Cannot find device "sm0000-a"',
        'Device "x" does not exist.',
        "RTNETLINK answers: No such process",
        "RTNETLINK answers: No such device",
        "Error: No such container: x",
        "lxc-stop: sm0000-f0: x is not running",
    ],
)
def test_what_is_already_gone_counts_as_undone(workspace: Workspace, message: str) -> None:
    host = RecordingHost({("undo",): Completed(1, b"", message.encode())})
    executor = recorded(host, workspace)
    executor.execute((Run("do", ("do",), undo=("undo",)),))
    assert executor.unwind() == ()


def test_a_block_is_undone_while_the_run_goes_on(executor: Executor, tmp_path: Path) -> None:
    run, block = tmp_path / "run", tmp_path / "block"
    executor.execute((Write("for the run", str(run), b""),))
    mark = executor.mark()
    for _ in range(3):
        executor.execute((Write("a block", str(block), b""), Spawn("its part", "p", ("cat",))))
        assert executor.unwind(to=mark) == ()
        assert not block.exists()
        assert run.exists()
    assert executor.unwind() == ()
    assert not run.exists()


def test_a_step_that_fails_is_undone_too(executor: Executor, tmp_path: Path) -> None:
    half = tmp_path / "half"
    with pytest.raises(CommandFailed):
        executor.execute(
            (Run("half", ("sh", "-c", f"touch {half}; false"), undo=("rm", "-f", str(half))),)
        )
    executor.unwind()
    assert not half.exists()


def test_an_interruption_waits_for_the_undoing(executor: Executor, tmp_path: Path) -> None:
    created = tmp_path / "made"
    step = Run("wait", ("true",), undo=("sh", "-c", f"kill -INT {os.getpid()}; sleep 0.1"))
    with interruptible():
        executor.execute((Write("make", str(created), b""), step))
        with pytest.raises(Interrupted):
            executor.unwind()
        assert not created.exists()


def test_a_second_ctrl_c_does_not_break_the_undoing(executor: Executor, tmp_path: Path) -> None:
    created = tmp_path / "made"
    undo = ("sh", "-c", f"kill -INT {os.getpid()}; sleep 0.1")
    with interruptible():
        with pytest.raises(Interrupted):
            executor.execute(
                (
                    Write("make", str(created), b""),
                    Run("a first", ("true",), undo=undo),
                    Run("a second", ("sh", "-c", f"kill -INT {os.getpid()}; sleep 60")),
                )
            )
        assert executor.unwind() == ()
    assert not created.exists()


# --- properties ------------------------------------------------------------------------------


class SimulatedHost(RecordingHost):
    """On this host things are made and unmade by commands; undoing twice is harmless."""

    def __init__(self, fault: int | None = None) -> None:
        super().__init__(files={"/a": b"old a", "/wide": b"1\n"}, fault=fault)
        self.things: set[str] = {"foreign"}

    def answer(self, argv: tuple[str, ...]) -> Completed:
        match argv:
            case ("make", name) if name not in self.things:
                self.things.add(name)
            case ("unmake", name) if name in self.things:
                self.things.remove(name)
            case ("make" | "unmake", _):
                return Completed(1, b"", b"it does not exist, or does")
        return Completed(0, b"", b"")

    def state(self) -> tuple[dict[str, bytes], set[str], int]:
        alive = sum(process.status is None for process in self.processes)
        return dict(self.files), set(self.things), alive


def steps() -> st.SearchStrategy[Plan]:
    """Draw plans in which every name is made once."""
    number = st.integers(0, 10**6)
    step: st.SearchStrategy[Step] = st.one_of(
        number.map(lambda n: Run("make", ("make", f"t{n}"), undo=("unmake", f"t{n}"))),
        number.map(lambda n: Spawn("start", f"p{n}", ("serve",))),
        st.sampled_from(["/a", "/b"]).map(lambda path: Write("set", path, b"new")),
        st.just(Write("set for all", "/wide", b"2", machine_wide=True)),
        st.just(Wait("ready", Check(("true",)))),
        st.just(Run("look", ("look",))),
    )
    return st.lists(step, max_size=8, unique_by=repr).map(tuple)


def executed(plan: Plan, base: str, fault: int | None) -> tuple[SimulatedHost, Workspace, Executor]:
    """Carry the plan out to its end, or to the fault."""
    host = SimulatedHost(fault)
    workspace = Workspace(Path(base))
    executor = recorded(host, workspace)
    try:
        executor.execute(plan)
        assert fault is None
    except SetupFailed:
        assert fault is not None
    return host, workspace, executor


@settings(max_examples=30)
@given(steps())
def test_undoing_after_a_failure_at_every_step_restores_the_host(plan: Plan) -> None:
    untouched = SimulatedHost().state()
    # A check that fails once is only asked again; every other step is one action.
    faults = [number for number, step in enumerate(plan) if not isinstance(step, Wait)]
    with tempfile.TemporaryDirectory() as base:
        for fault in (None, *faults):
            host, workspace, executor = executed(plan, base, fault)
            assert executor.unwind() == ()
            assert host.state() == untouched
            workspace.close()
            assert [path.name for path in Path(base).glob("sm*")] == []


@settings(max_examples=12)
@given(steps())
def test_cleaning_after_a_death_at_every_step_restores_the_host(plan: Plan) -> None:
    things = SimulatedHost().state()[:2]
    with tempfile.TemporaryDirectory() as base:
        for length in range(len(plan) + 1):
            host, workspace, _ = executed(plan[:length], base, None)
            workspace.journal.close()  # as the kernel does at a death
            (cleaned,) = clean(Path(base), hosts={"local": host})
            assert cleaned.state == "cleaned"
            assert host.state()[:2] == things
            assert clean(Path(base), hosts={"local": host}) == []


@pytest.mark.parametrize("broken", range(6))
def test_a_real_failure_at_every_step_leaves_no_file_and_no_process(
    tmp_path: Path, broken: int
) -> None:
    created = tmp_path / "made"
    created.mkdir()
    (created / "kept").write_bytes(b"kept")
    plan: list[Step] = [
        Run("a folder", ("mkdir", f"{created}/d"), undo=("rmdir", f"{created}/d")),
        Write("a file in it", f"{created}/d/f", b"1"),
        Write("a change", f"{created}/kept", b"2"),
        Spawn("a process", "p", ("sleep", "60")),
        Run("a copy", ("cp", f"{created}/kept", f"{created}/copy"), undo=("rm", f"{created}/copy")),
        Spawn("another", "q", ("cat",)),
    ]
    plan.insert(broken, Run("the failure", ("false",)))
    with Workspace(tmp_path / "runs") as workspace:
        executor = Executor(
            {"local": LocalHost()}, workspace, inside=inside, logs_dir=tmp_path / "logs"
        )
        with pytest.raises(CommandFailed):
            executor.execute(tuple(plan))
        pids = [int(executor.saved[name]) for name in ("p", "q") if name in executor.saved]
        assert executor.unwind() == ()
    assert [start_time(pid) for pid in pids] == [None] * len(pids)
    assert [path.name for path in created.iterdir()] == ["kept"]
    assert (created / "kept").read_bytes() == b"kept"
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_stop_sends_the_signal_that_the_step_names(executor: Executor, tmp_path: Path) -> None:
    script = f"trap 'echo int >{tmp_path}/got; exit' INT; while :; do sleep 0.01; done"
    ready = Check(("grep", "-q", "SigCgt.*2$", "/proc/${p}/status"))
    executor.execute(
        (
            Spawn("a process", "p", ("sh", "-c", script), stop=(signal.SIGINT, 5.0)),
            Wait("it listens", ready),
        )
    )
    executor.unwind()
    assert (tmp_path / "got").read_text() == "int\n"


# --- side by side ----------------------------------------------------------------------------


def folders(parent: Path, count: int = 4) -> list[Step]:
    """Return commands with different subjects: each makes a folder with a subfolder."""
    return [
        step
        for path in (f"{parent}/{number}" for number in range(count))
        for step in (
            Run(f"folder {path}", ("mkdir", path), undo=("rmdir", path), subject=path),
            Run("one in it", ("mkdir", f"{path}/in"), undo=("rmdir", f"{path}/in"), subject=path),
        )
    ]


@pytest.mark.parametrize("broken", range(9))
def test_a_failure_amid_commands_side_by_side_is_named_and_all_are_undone(
    executor: Executor, tmp_path: Path, broken: int
) -> None:
    plan = folders(tmp_path / "made")
    (tmp_path / "made").mkdir()
    plan.insert(broken, Run("the failure", ("sh", "-c", "echo no >&2; exit 3"), subject="it"))
    with pytest.raises(CommandFailed, match=r"(?s)^the failure: .*status 3.*exit 3.*\n  no$"):
        executor.execute(tuple(plan))
    assert executor.unwind() == ()
    assert list((tmp_path / "made").iterdir()) == []


def test_commands_side_by_side_are_written_down_in_their_order(
    executor: Executor, tmp_path: Path
) -> None:
    (tmp_path / "made").mkdir()
    plan = folders(tmp_path / "made")
    executor.execute(tuple(plan))
    script = (tmp_path / "logs" / "steps.sh").read_text().splitlines()
    assert [line[2:] for line in script if line.startswith("# ")] == [step.why for step in plan]
    assert len(list((tmp_path / "made").glob("*/in"))) == 4
    assert executor.unwind() == ()
    assert list((tmp_path / "made").iterdir()) == []


def test_an_interruption_amid_commands_side_by_side_is_undone(
    executor: Executor, tmp_path: Path
) -> None:
    (tmp_path / "made").mkdir()
    last = Run("hang", ("sh", "-c", f"kill -INT {os.getpid()}; sleep 60"), subject="it")
    started = time.monotonic()
    with pytest.raises(Interrupted), interruptible():
        executor.execute((*folders(tmp_path / "made"), last))
    assert executor.unwind() == ()
    assert list((tmp_path / "made").iterdir()) == []
    assert time.monotonic() - started < 30


def test_what_is_waited_for_is_looked_at_side_by_side_and_then_each_by_itself(
    executor: Executor, tmp_path: Path
) -> None:
    late = ("sh", "-c", f"mkdir {tmp_path}/seen && exit 1; rmdir {tmp_path}/seen")
    waits = [Wait(f"{n} is so", Check(("true", str(n)))) for n in range(3)]
    executor.execute((*waits, Wait("at the second look", Check(late)), *waits))
    assert not (tmp_path / "seen").exists()
    with pytest.raises(NotReady, match="never so: a command did not end"):
        executor.execute((waits[0], Wait("never so", Check(("sleep", "60")), 0.1), waits[1]))
