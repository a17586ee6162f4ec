"""These tests check how one undo is executed: what counts as undone, what is tried again, and what
the user is told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import pytest

from switchmark import clock
from switchmark.errors import CommandTimedOut, SetupFailed, UsageError
from switchmark.hosts.base import Completed
from switchmark.hosts.recording import RecordingHost
from switchmark.runs.journal import Command, Far, Lease, Restore, Stop, Undo
from switchmark.runs.leases import Leases
from switchmark.runs.undo import Refused, carry_out, in_words, undone_together

DELETE = Command(host="local", argv=("ip", "link", "del", "sm1a2b br"))


class Frozen(clock.Clock):
    """A clock that moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.slept: list[float] = []

    def monotonic_ns(self) -> int:
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_ns += round(seconds * 1e9)


class Given:
    """Leases that note what is given back."""

    def __init__(self, error: OSError | None = None) -> None:
        self.error = error
        self.calls: list[tuple[object, ...]] = []

    def give_back(self, run: str, host: RecordingHost, path: str) -> None:
        self.calls.append(("give_back", run, host.name, path))
        if self.error is not None:
            raise self.error

    def forget(self, run: str, host: str, path: str) -> None:
        self.calls.append(("forget", run, host, path))


class Undoing(RecordingHost):
    """A host on which processes end or not, which was shut down or not, and whose files can be
    written or not."""

    def __init__(self, *answers: Completed, ends: bool = True, up: bool = True, **options: Any):
        super().__init__(**options)
        self.left, self.ends, self.is_up = list(answers), ends, up
        self.ended: list[tuple[object, ...]] = []
        self.wrong: OSError | None = None

    @property
    def up(self) -> bool:
        return self.is_up

    def answer(self, argv: tuple[str, ...]) -> Completed:
        return self.left.pop(0) if len(self.left) > 1 else self.left[0]

    def end(self, pid: int, started: int, number: int, grace_s: float) -> bool:
        self.ended.append((pid, started, number, grace_s))
        return self.ends

    def undo_run(self, run: str, folder: str) -> None:
        self.ended.append((run, folder))

    def write(self, path: str, content: bytes) -> None:
        if self.wrong:
            raise self.wrong
        super().write(path, content)

    def remove(self, path: str) -> None:
        if self.wrong:
            raise self.wrong
        super().remove(path)


def undo(one: Undo, host: RecordingHost, leases: Given | None = None) -> None:
    hosts = {"local": host}
    carry_out(one, run="sm1a2b", hosts=hosts, leases=cast(Leases, leases or Given()))


@pytest.fixture
def frozen() -> Iterator[Frozen]:
    now = Frozen()
    with clock.replaced_by(now):
        yield now


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (DELETE, "ip link del 'sm1a2b br'"),
        (Restore(host="local", path="/a", content=None), "remove /a"),
        (Restore(host="local", path="/a", content=b""), "restore /a"),
        (Stop(name="vpp", number=15, grace_s=1), "stop vpp"),
        (Stop(name="vpp", number=15, grace_s=1, pid=7, start=1), "stop vpp (process 7)"),
        (Lease(host="local", path="/proc/a"), "give back /proc/a"),
        (Far(host="left", folder="/run/x"), "end the run on host left"),
    ],
)
def test_an_undo_reads_as_what_it_does(one: Undo, words: str) -> None:
    assert in_words(one) == words


# --- commands --------------------------------------------------------------------------------


def test_what_is_busy_is_tried_again_for_three_seconds(frozen: Frozen) -> None:
    busy, done = (
        Completed(1, b"", b"umount: target\nDevice or resource busy\n"),
        Completed(0, b"", b""),
    )
    host = Undoing(busy, busy, done)
    undo(DELETE, host)
    assert (len(host.ran), frozen.slept) == (3, [0.05, 0.05])
    host = Undoing(busy)
    with pytest.raises(SetupFailed) as failed:
        undo(DELETE, host)
    assert sum(frozen.slept) == pytest.approx(0.1 + 3.0, abs=0.11)
    assert str(failed.value) == (
        "an undo ended with status 1: ip link del 'sm1a2b br'\n"
        "  umount: target\nDevice or resource busy"
    )


def test_a_failure_of_another_kind_is_told_at_once(frozen: Frozen) -> None:
    host = Undoing(Completed(2, b"", b"resource busy, says the kernel\n"))
    with pytest.raises(SetupFailed, match="ended with status 2") as failed:
        undo(DELETE, host)
    assert not isinstance(failed.value, Refused)
    assert (host.ran, frozen.slept) == ([DELETE.argv], [])


def test_a_program_may_refuse_what_goes_with_its_node() -> None:
    host = Undoing(Completed(2, b"", b"no\n"))
    with pytest.raises(Refused):
        undo(DELETE.model_copy(update={"refusable": True}), host)


@pytest.mark.parametrize(
    "message",
    [
        b"No such device",
        b"Cannot find device",
        b"container does not exist",
        b"sm1 is not running",
        b"sm1 is not defined",
    ],
)
def test_what_is_gone_is_undone(message: bytes) -> None:
    undo(DELETE, Undoing(Completed(1, b"", message)))


def test_an_undo_has_its_input_and_its_time() -> None:
    class Timed(Undoing):
        limits: list[float] = []  # noqa: RUF012

        def run(self, argv: tuple[str, ...], *, timeout_s: float = 10.0, **rest: Any) -> Completed:
            self.limits.append(timeout_s)
            return super().run(argv, timeout_s=timeout_s, **rest)

    host = Timed(Completed(0, b"", b""))
    undo(DELETE.model_copy(update={"stdin": b"yes", "timeout_s": 33.0}), host)
    assert (host.stdins, host.limits) == ([b"yes"], [33.0])


# --- processes, files, leases and hosts --------------------------------------------------------


def test_a_process_is_ended_as_its_step_says() -> None:
    host = Undoing()
    undo(Stop(name="vpp", number=2, grace_s=4, pid=7, start=99), host)
    undo(Stop(name="vpp", number=2, grace_s=4), host)  # it was never started
    assert host.ended == [(7, 99, 2, 4.0)]
    with pytest.raises(CommandTimedOut, match=r"process 7 \(vpp\) survives SIGKILL"):
        undo(Stop(name="vpp", number=2, grace_s=4, pid=7, start=99), Undoing(ends=False))


def test_a_file_gets_back_what_it_held() -> None:
    host = Undoing(files={"/new": b"1", "/old": b"2"})
    undo(Restore(host="local", path="/new", content=None), host)
    undo(Restore(host="local", path="/old", content=b"0"), host)
    assert host.files == {"/old": b"0"}
    host.wrong = FileNotFoundError()
    undo(Restore(host="local", path="/gone", content=b"0"), host)


def test_a_file_that_cannot_be_restored_is_told_unless_it_holds_the_content() -> None:
    host = Undoing(files={"/old": b"2"})
    host.wrong = OSError(30, "Read-only file system")
    with pytest.raises(SetupFailed, match="cannot restore /old: Read-only file system"):
        undo(Restore(host="local", path="/old", content=b"0"), host)
    undo(Restore(host="local", path="/old", content=b"2"), host)
    with pytest.raises(SetupFailed, match="cannot restore /none"):
        undo(Restore(host="local", path="/none", content=b"2"), host)


def test_a_lease_is_given_back_or_says_why_not() -> None:
    leases = Given()
    undo(Lease(host="local", path="/proc/a"), Undoing(), leases)
    assert leases.calls == [("give_back", "sm1a2b", "local", "/proc/a")]
    broken = Given(OSError(13, "Permission denied"))
    with pytest.raises(SetupFailed, match="cannot restore /proc/a: Permission denied"):
        undo(Lease(host="local", path="/proc/a"), Undoing(), broken)


def test_a_far_host_undoes_the_run_by_itself() -> None:
    host = Undoing()
    undo(Far(host="local", folder="/run/far"), host)
    assert host.ended == [("sm1a2b", "/run/far")]


def test_nothing_is_left_on_a_machine_that_has_ended() -> None:
    host, leases = Undoing(up=False), Given()
    undo(DELETE, host, leases)
    undo(Lease(host="local", path="/proc/a"), host, leases)
    assert host.ran == []
    assert leases.calls == [("forget", "sm1a2b", "local", "/proc/a")]
    assert undone_together([DELETE, DELETE], {"local": host}) == [False]


def test_a_host_that_is_not_known_is_told_with_those_that_are() -> None:
    with pytest.raises(UsageError, match="the host moon is not known here; known: local"):
        undo(DELETE.model_copy(update={"host": "moon"}), Undoing())


# --- together --------------------------------------------------------------------------------


def about(*subjects: str) -> list[Command]:
    return [Command(host="local", argv=("del", name), about=name) for name in subjects]


def test_commands_with_subjects_are_undone_together_up_to_the_first_without() -> None:
    class Parallel(Undoing):
        in_order = False

    def together(undos: Sequence[Undo], *answers: Completed) -> list[bool]:
        return undone_together(undos, {"local": Parallel(*answers)})

    good, gone, bad = (Completed(n and 1, b"", b"no such " * (n == 1)) for n in range(3))
    assert together(about("a", "b", "c"), good, gone, bad) == [True, True, False]
    assert together([*about("a", "b"), DELETE], good) == [True, True]
    assert together([*about("a"), DELETE, *about("b")], good) == [False]
    assert undone_together(about("a", "b"), {}) == [False]
