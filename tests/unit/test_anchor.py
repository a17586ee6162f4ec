"""These tests check with which privileges a run works, and what becomes of a command that works in
a user namespace."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from switchmark.errors import CommandFailed, Interrupted, Unavailable
from switchmark.hosts.base import Completed
from switchmark.hosts.recording import RecordingHost
from switchmark.runs import anchor

ADMIN = 1 << 12 | 1 << 21
UNSHARED = (
    *("setpriv", "--pdeathsig", "KILL", "unshare", "--user", "--map-root-user", "--net"),
    *("--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
)


class Machine(RecordingHost):
    """This host, where `unshare` and `mount` end like this."""

    ends = Completed(0, b"", b"")
    missing = False

    def answer(self, argv: tuple[str, ...]) -> Completed:
        if self.missing:
            raise CommandFailed("the program 'setpriv' is not installed")
        return self.ends


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(anchor, "LocalHost", lambda: made)
    monkeypatch.delenv("SWITCHMARK_ANCHORED", raising=False)
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "switchmark", "run it"])
    return made


def as_user(monkeypatch: pytest.MonkeyPatch, user: int, capabilities: int = ADMIN) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    status = f"Name:\tpython\nCapPrm:\t0\nCapEff:\t{capabilities:016x}\nCapBnd:\t0\n"
    monkeypatch.setattr(Path, "read_text", lambda path, encoding: status)


def test_root_works_as_root_if_it_may_do_all(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_user(monkeypatch, 0, ADMIN | 1)
    assert anchor.privileges() == "root"
    anchor.anchor()
    assert machine.ran == []
    for lacking in (1 << 12, 1 << 21):  # root of a container
        as_user(monkeypatch, 0, ADMIN & ~lacking)
        assert anchor.privileges() == "user-namespace"
    as_user(monkeypatch, 1000)
    assert anchor.privileges() == "user-namespace"
    probe = "mount -t tmpfs tmpfs /run && ip link add name sm-probe type bridge"
    assert set(machine.ran) == {(*UNSHARED, "sh", "-c", probe)}


@pytest.mark.parametrize(
    ("ends", "missing", "reason"),
    [
        (
            Completed(1, b"", b"a warning\nunshare: not permitted\n"),
            False,
            "unshare: not permitted",
        ),
        (Completed(1, b"", b""), False, "unshare fails"),
        (Completed(0, b"", b""), True, "the program 'setpriv' is not installed"),
    ],
)
def test_who_can_have_no_privileges_is_told_why(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    ends: Completed,
    missing: bool,
    reason: str,
) -> None:
    as_user(monkeypatch, 1000)
    machine.ends, machine.missing = ends, missing
    with pytest.raises(Unavailable) as refused:
        anchor.privileges()
    assert refused.value.message == (
        f"this needs root or a user namespace, and this user can have neither\n  {reason}"
    )
    assert refused.value.hint == f"sudo {sys.executable} -m switchmark 'run it'"


def test_a_command_in_its_namespace_gets_a_run_folder_once(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWITCHMARK_ANCHORED", "unprepared")
    assert anchor.privileges() == "user-namespace"
    for _ in range(2):
        anchor.anchor()
    assert machine.ran == [("mount", "-t", "tmpfs", "tmpfs", "/run")]
    assert os.environ["SWITCHMARK_ANCHORED"] == "prepared"
    monkeypatch.setenv("SWITCHMARK_ANCHORED", "unprepared")
    machine.ends = Completed(32, b"", b"mount: denied\n")
    with pytest.raises(Unavailable, match="no private /run can be mounted\n  mount: denied"):
        anchor.anchor()


class Child:
    """The anchored command, which ends with this status, after a signal perhaps."""

    pid = 77

    def __init__(self, status: int, raised: int | None) -> None:
        self.status, self.raised = status, raised

    def wait(self) -> int:
        if self.raised is not None:
            signal.raise_signal(self.raised)
        return self.status


@pytest.mark.parametrize(
    ("status", "raised", "ends"),
    [
        (0, None, 0),
        (3, None, 3),
        (-9, None, 137),
        (130, signal.SIGINT, 130),
        (-15, signal.SIGTERM, "interrupted by SIGTERM"),
        (-9, signal.SIGTERM, 137),
    ],
)
def test_a_command_ends_as_its_anchor_ends(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    status: int,
    raised: int | None,
    ends: int | str,
) -> None:
    as_user(monkeypatch, 1000)
    started: list[Any] = []
    sent: list[tuple[int, int]] = []

    def popen(argv: list[str], **options: Any) -> Child:
        started.append((argv, options["env"]["SWITCHMARK_ANCHORED"], options["start_new_session"]))
        return Child(status, raised)

    monkeypatch.setattr(subprocess, "Popen", popen)
    monkeypatch.setattr(os, "killpg", lambda pid, number: sent.append((pid, number)))
    handlers = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        for number in handlers:
            signal.signal(number, signal.SIG_DFL)
        with pytest.raises((SystemExit, Interrupted)) as ended:
            anchor.anchor()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    raised_here = ended.value
    outcome = raised_here.code if isinstance(raised_here, SystemExit) else str(raised_here)
    assert outcome == ends
    argv = [*UNSHARED, sys.executable, "-m", "switchmark", "run it"]
    assert started == [(argv, "unprepared", True)]
    assert sent == ([] if raised is None else [(77, raised)])
    text = "switchmark: not root: working in a separate user namespace\n"
    assert capsys.readouterr().err == text


def test_a_signal_that_is_ignored_stays_ignored(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_user(monkeypatch, 1000)
    monkeypatch.setattr(subprocess, "Popen", lambda *arguments, **options: Child(0, signal.SIGHUP))
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    others = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        with pytest.raises(SystemExit):
            anchor.anchor()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
        for number, handler in others.items():
            signal.signal(number, handler)
