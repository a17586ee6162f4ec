"""These tests hold what becomes of a command's output: on a full disk, with nobody who reads it, on
a terminal, and when the command is interrupted."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import switchmark.cli
from switchmark.campaign.load import from_options
from switchmark.campaign.store import RunFolder
from switchmark.cli import main
from switchmark.errors import Exit, Interrupted, RecordFailed
from switchmark.model.printable import last_lines, printable
from switchmark.report.files import write_file


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of a shell, in which `switchmark` is the command under test."""
    source = str(Path(switchmark.__file__).parents[1])
    program = f'switchmark() {{ "{sys.executable}" -m switchmark "$@"; }}; {command}'
    return subprocess.run(
        ["bash", "-c", program],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": source},
    )


@pytest.fixture
def ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[Callable[[], int]], tuple[int, str]]:
    """Run a function in place of a command, and return its exit status and its messages."""

    def call(command: Callable[[], int]) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["switchmark"])
        monkeypatch.setattr(switchmark.cli, "_run", lambda arguments: command())
        with pytest.raises(SystemExit) as caught:
            main()
        return int(caught.value.code or 0), capsys.readouterr().err

    return call


@pytest.mark.parametrize("command", ["version", "schema", "--help"])
def test_a_full_disk_is_told_and_makes_four(tmp_path: Path, command: str) -> None:
    completed = shell(f"switchmark {command} >/dev/full", tmp_path)
    assert completed.stderr == "error: the output cannot be written: No space left on device\n"
    assert completed.returncode == Exit.INCOMPLETE


@pytest.mark.parametrize(
    ("closed", "status"),
    [
        ("version >&-", 0),
        ("version 2>&-", 0),
        ("version <&-", 0),
        ("version <&- >&- 2>&-", 0),
        ("nosuch >&- 2>&-", Exit.USAGE),
        ("nosuch 2>/dev/full", Exit.USAGE),
    ],
)
def test_a_stream_that_is_closed_leads_to_nowhere(tmp_path: Path, closed: str, status: int) -> None:
    assert shell(f"switchmark {closed}", tmp_path).returncode == status


def test_a_bug_is_told_where_no_file_can_be_written(ended, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    status, message = ended(lambda: 1 // 0)
    assert status == Exit.BUG
    assert "ZeroDivisionError" in message
    assert "the traceback stands above" in message


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_any_command_with_130(ended, number: signal.Signals) -> None:
    def interrupted() -> int:
        os.kill(os.getpid(), number)
        raise AssertionError("it went on")

    with caught_by_python(number):
        status, message = ended(interrupted)
    assert (status, message) == (130, f"interrupted by {number.name}\n")


def test_a_library_that_is_interrupted_may_say_so_in_its_own_words(ended) -> None:
    def interrupted() -> int:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except Interrupted:
            raise RuntimeError("Query interrupted") from None
        raise AssertionError("it went on")

    assert ended(interrupted) == (130, "interrupted by SIGTERM\n")


@contextmanager
def caught_by_python(number: signal.Signals) -> Iterator[None]:
    """A shell without job control starts its background deaf to a signal."""
    before = signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def test_a_folder_that_is_removed_is_told_whatever_fails_first(
    ended, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    status, message = ended(lambda: 1 // 0)
    assert status == Exit.USAGE
    assert "the folder that this was started in was removed" in message


@pytest.mark.parametrize("error", [MemoryError(), OSError(24, "Too many open files")])
def test_a_limit_that_is_reached_is_no_bug(ended, error: Exception) -> None:
    def limited() -> int:
        raise error

    status, message = ended(limited)
    assert status == Exit.INCOMPLETE
    assert "hint: ulimit -a" in message


@pytest.mark.parametrize(
    "arguments",
    [["report"], ["query"], ["gallery"], ["compare"], ["bundle"], ["export"], ["resume"]],
)
def test_a_name_that_no_file_can_have_is_a_usage_error(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["switchmark", *arguments, "9" * 300, "x" * 300])
    if arguments[0] in ("bundle", "resume"):
        sys.argv.pop()
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == Exit.USAGE
    assert "a bug" not in capsys.readouterr().err


# --- what is shown ---------------------------------------------------------------------------

HOSTILE = "a\x1b]0;title\x07\x1b[31mb\x9bc\rd\u202ee\tf\r\ng"
SHOWN = "a\\x1b]0;title\\x07\\x1b[31mb\\x9bc\\x0dd\\u202ee\tf\ng"


def test_what_a_terminal_obeys_is_written_out() -> None:
    assert printable(HOSTILE) == SHOWN


PRINTING = """
from switchmark.cli.output import open_streams
open_streams()
print({text!r}, end="")
"""


def test_a_terminal_gets_text_alone_and_a_pipe_what_is_written() -> None:
    argv = [sys.executable, "-c", PRINTING.format(text=HOSTILE)]
    env = {**os.environ, "PYTHONPATH": str(Path(switchmark.__file__).parents[1])}
    piped = subprocess.run(argv, capture_output=True, env=env, check=True)
    assert piped.stdout.decode() == HOSTILE
    master, terminal = os.openpty()
    subprocess.run(argv, stdout=terminal, env=env, check=True)
    output = os.read(master, 4096).decode().replace("\r\n", "\n")
    os.close(master)
    os.close(terminal)
    assert output == SHOWN


def test_what_a_switch_says_is_kept_as_text() -> None:
    output = b"\x1b[1;31mfailed\x1b[0m \x1b]0;x\x07at \x07port\r\n\x1b[2Kagain\x08\n"
    assert last_lines(output) == "failed at \\x07port\nagain\\x08"


# --- files -----------------------------------------------------------------------------------


@contextmanager
def no_room(limit: int) -> Iterator[None]:
    """Let no file become larger, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_file_is_written_whole_or_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    for before in (None, "old"):
        if before is not None:
            path.write_text(before)
        with no_room(1000), pytest.raises(RecordFailed, match="report.html cannot be written"):
            write_file(path, "x" * 5000)
        assert (path.read_text() if path.exists() else None) == before
        assert len(list(tmp_path.iterdir())) == (before is not None)


def test_a_run_folder_for_which_there_is_no_room_is_taken_away(tmp_path: Path) -> None:
    campaign = from_options({"frame_size": "64..1..200"}, lambda test: [])
    with no_room(500), pytest.raises(RecordFailed, match="cannot be made"):
        RunFolder.create(tmp_path / "runs", campaign, {}, "named")
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_file_is_replaced_behind_its_link_with_its_permissions(tmp_path: Path) -> None:
    path, link = tmp_path / "a.md", tmp_path / "b.md"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    write_file(link, "new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640
    write_file(Path(os.devnull), "gone")
    assert not Path(os.devnull).is_file()
