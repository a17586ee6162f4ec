"""These tests check a process with a run of its own, and the command in a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from switchmark.hosts.processes import MARK
from switchmark.hosts.recording import RecordingHost, RecordingProcess
from switchmark.runs import command, own_run
from switchmark.runs.clean import Cleaned, clean
from switchmark.runs.command import run_command
from switchmark.runs.own_run import OwnRun

# --- a process with a run of its own ----------------------------------------------------------


class Spawning(RecordingHost):
    """A host that keeps what a process starts with, and how it is stopped."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[Any, ...]] = []

    def spawn(
        self, argv: tuple[str, ...], *, stderr_path: str, env: Mapping[str, str] = {}
    ) -> RecordingProcess:
        told = self.told

        class Stopping(RecordingProcess):
            def stop(self, number: int, grace_s: float) -> int:
                told.append((number, grace_s))
                return super().stop(number, grace_s)

        told.append((argv, stderr_path, env))
        return Stopping(71, argv, started=7100)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Spawning:
    made = Spawning()
    monkeypatch.setattr(own_run, "LocalHost", lambda: made)
    return made


def journal_of(run: OwnRun) -> list[dict[str, Any]]:
    lines = (run.folder / "journal").read_text().splitlines()
    return [json.loads(line) for line in lines[1:]]


def test_a_process_of_an_own_run_carries_its_mark_and_is_in_its_journal(
    tmp_path: Path, host: Spawning
) -> None:
    run = OwnRun(tmp_path / "runs")
    assert run.folder.parent == tmp_path / "runs"
    process = run.spawn("ssh", ("ssh", "far"), (signal.SIGTERM, 2.5))
    folder = run.folder
    started = (
        ("setpriv", "--pdeathsig", "KILL", "ssh", "far"),
        f"{folder}/process.stderr",
        {MARK: folder.name},
    )
    assert host.told == [started]
    assert process.pid == 71
    undo = {"kind": "stop", "host": "local", "name": "ssh", "number": 15, "grace_s": 2.5}
    assert journal_of(run) == [
        {"entry": "undo", "number": 0, "undo": {**undo, "pid": None, "start": None}},
        {"entry": "started", "number": 0, "pid": 71, "start": 7100},
    ]
    assert clean(tmp_path / "runs") == [Cleaned(folder.name, "live")]
    run.end()
    assert host.told == [started, (15, 2.5)]
    assert not folder.exists()
    run.end()
    assert host.told == [started, (15, 2.5)]


def test_a_run_whose_process_cannot_be_stopped_leaves_it_to_clean(
    tmp_path: Path, host: Spawning
) -> None:
    run = OwnRun(tmp_path / "runs")
    process: Any = run.spawn("ssh", ("ssh", "far"), (0, 1.0))
    stopped = process.stop

    def fails(number: int, grace_s: float) -> int:
        raise KeyError("it hangs")

    process.stop = fails
    with pytest.raises(KeyError):
        run.end()
    assert (run.folder / "journal").exists()
    process.stop = stopped
    run.end()
    assert not run.folder.exists()


def test_a_run_without_a_process_ends_once(tmp_path: Path, host: Spawning) -> None:
    run = OwnRun(tmp_path / "runs")
    run.end()
    run.end()
    assert host.told == []
    assert list((tmp_path / "runs").glob("sm*")) == []


# --- the command in a process of its own ------------------------------------------------------


class Commanded:
    """A process that says this, or is interrupted while it works."""

    def __init__(self, argv: tuple[str, ...], **options: Any) -> None:
        self.argv, self.options = argv, options
        self.returncode = 3
        self.signals: list[int] = []
        self.waits = 0
        self.interrupted = self.gone = False

    def __enter__(self) -> Commanded:
        return self

    def __exit__(self, *ended: object) -> None:
        pass

    def communicate(self) -> tuple[None, str]:
        self.waits += 1
        if self.interrupted and self.waits == 1:
            raise KeyboardInterrupt
        return None, "it cannot be\n"

    def send_signal(self, number: int) -> None:
        self.signals.append(number)
        if self.gone:
            raise ProcessLookupError


@pytest.mark.parametrize("how", ["", "interrupted", "gone"])
def test_the_command_is_run_to_its_end(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    processes: list[Commanded] = []

    def started(argv: tuple[str, ...], **options: Any) -> Commanded:
        process = Commanded(argv, **options)
        process.interrupted, process.gone = bool(how), how == "gone"
        processes.append(process)
        return process

    numbers = {name: getattr(subprocess, name) for name in ("DEVNULL", "PIPE")}
    monkeypatch.setattr(command, "subprocess", SimpleNamespace(Popen=started, **numbers))
    if how:
        with pytest.raises(KeyboardInterrupt):
            run_command(["run", "--demo"])
    else:
        assert run_command(["run", "--demo"]) == (3, "it cannot be\n")
    (process,) = processes
    assert process.argv == (sys.executable, "-m", "switchmark", "run", "--demo")
    assert process.options == {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.PIPE,
        "errors": "replace",
        "encoding": "utf-8",
    }
    assert process.signals == [signal.SIGINT] * bool(how)
    assert process.waits == 1 + bool(how)
