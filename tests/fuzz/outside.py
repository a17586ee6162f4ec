"""This module fuzzes what is around a command: its outputs, its environment, its limits, and the
moment at which a signal comes. Each command is a separate process."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import switchmark
from fuzz.harness import HANG_S, Ended, environment
from fuzz.stored import put_sound_run

_SOURCE = str(Path(switchmark.__file__).parents[1])

_COMMANDS: tuple[tuple[str, ...], ...] = (
    ("version",),
    ("--help",),
    ("run", "--help"),
    ("schema",),
    ("list", "scenarios"),
    ("plan", "--frame-size", "64,128"),
    ("plan", "--burst", "0"),
    ("run", "absent.yaml"),
    ("resume", "absent"),
    ("report", "run"),
    ("report", "run", "-o", "r.html"),
    ("report", "run", "-o", "r.md"),
    ("compare", "run", "run", "--junit", "r.xml"),
    ("export", "run"),
    ("export", "run", "-o", "r.parquet"),
    ("query", "run", "select * from tests"),
    ("query", "run", "select sum(a.range) from range(100000) a, range(20000) b"),
    ("bundle", "run", "-o", "r.zip"),
)


def _started(argv: Sequence[str], folder: Path, **options: object) -> subprocess.Popen[bytes]:
    arguments = {"env": environment({"PYTHONPATH": _SOURCE}), **options}
    return subprocess.Popen(  # type: ignore[call-overload, no-any-return]
        [sys.executable, "-m", "switchmark", *argv], cwd=folder, start_new_session=True, **arguments
    )


def _ended(
    process: subprocess.Popen[bytes],
    argv: Sequence[str],
    output: IO[bytes],
    allowed: frozenset[int] = frozenset(),
) -> Ended:
    """Wait for a process, whose standard error is a file; kill it where it does not end."""
    killed = ""
    try:
        process.wait(HANG_S)
    except subprocess.TimeoutExpired:
        killed = f"no end within {HANG_S:g} s"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    output.seek(0)
    return Ended(
        tuple(argv), process.returncode, output.read().decode(errors="replace"), killed, allowed
    )


# --- around it -------------------------------------------------------------------------------

_NOWHERE = "/proc/nowhere"
"""A folder that not even root can make."""

_VARIABLES: tuple[dict[str, str | None], ...] = (
    {"HOME": None},
    {"HOME": _NOWHERE},
    {"HOME": "", "XDG_CACHE_HOME": "/dev/null", "XDG_CONFIG_HOME": "/dev/null"},
    {"TMPDIR": _NOWHERE},
    {"PATH": None},
    {"PATH": ""},
    {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"},
    {"LC_ALL": "nowhere", "LANG": "x" * 300},
    {"COLUMNS": "0"},
    {"COLUMNS": "1"},
    {"COLUMNS": "many", "LINES": "-1"},
    {"TERM": None, "NO_COLOR": "1"},
    {"TERM": "nosuch", "FORCE_COLOR": "1"},
    {"SWITCHMARK_HOST_FILE": _NOWHERE},
    {"SWITCHMARK_HOST_FILE": "/dev/zero"},
    {"SWITCHMARK_HOST_FILE": ""},
    {"XDG_RUNTIME_DIR": _NOWHERE},
    {"PYTHONDEVMODE": "0", "TZ": "Nowhere/Nothing"},
)

_LIMITS = (
    (resource.RLIMIT_NOFILE, (8, 10, 12, 16, 32, 64)),
    (resource.RLIMIT_FSIZE, (0, 1, 4096, 100_000)),
    (resource.RLIMIT_STACK, (1 << 18, 1 << 20)),
    (resource.RLIMIT_CORE, (0,)),
)


def surroundings(draw: random.Random, folder: Path) -> Iterator[Ended]:
    """Run a command with outputs, an environment and limits that are not the usual ones."""
    put_sound_run(folder)
    argv = draw.choice(_COMMANDS)
    place, removed = folder, draw.random() < 0.1
    if removed:
        place = folder / "gone"
        place.mkdir()
        argv = tuple(str(folder / word) if word == "run" != argv[0] else word for word in argv)
    variables = draw.choice(_VARIABLES) if draw.random() < 0.6 else {}
    limited, values = draw.choice(_LIMITS)
    limit = draw.choice(values) if draw.random() < 0.4 else None
    outputs = [draw.choice(("file", "file", "/dev/full", "closed", "pipe")) for _ in range(2)]

    def prepare() -> None:
        if removed:
            place.rmdir()
        for number, output in enumerate(outputs, 1):
            if output == "closed":
                os.close(number)
        if draw.random() < 0.1:
            os.close(0)
        if limit is not None:
            resource.setrlimit(limited, (limit, limit))

    with (
        open(folder / "out.txt", "w+b") as out,  # noqa: PTH123
        open(folder / "err.txt", "w+b") as err,  # noqa: PTH123
    ):
        streams = [_output(kind, file) for kind, file in zip(outputs, (out, err), strict=True)]
        env = environment({"PYTHONPATH": _SOURCE, **variables})
        process = _started(
            argv, place, stdout=streams[0], stderr=streams[1], env=env, preexec_fn=prepare
        )
        for stream in streams:
            if isinstance(stream, int):
                os.close(stream)
        description = (
            *argv,
            f"out: {outputs[0]}",
            f"err: {outputs[1]}",
            f"{variables}",
            f"limit {limit}",
        )
        # Python itself needs some files to start with: below that it does not come to this program.
        allowed = frozenset({-signal.SIGABRT, 1, 120}) if limit is not None and limit < 12 else None
        yield _ended(process, description, err, allowed or frozenset())


def _output(kind: str, file: IO[bytes]) -> IO[bytes] | int:
    """Return an output: a file, a device that takes nothing, or a pipe that nobody reads."""
    if kind == "/dev/full":
        return os.open(kind, os.O_WRONLY)
    if kind == "pipe":
        reader, writer = os.pipe()
        os.close(reader)
        return writer
    return file


# --- signals ---------------------------------------------------------------------------------

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LONGEST_S = 2.5


def interruptions(draw: random.Random, folder: Path) -> Iterator[Ended]:
    """Send a signal to a command at some moment. One that comes while the interpreter starts or
    ends, when nothing of this program runs, kills it, which is right."""
    put_sound_run(folder)
    argv, number = draw.choice(_COMMANDS), draw.choice(_SIGNALS)
    wait_s = draw.random() ** 2 * _LONGEST_S
    with (folder / "err.txt").open("w+b") as err:
        process = _started(
            argv, folder, stdout=subprocess.DEVNULL, stderr=err, preexec_fn=_as_from_a_terminal
        )
        with suppress(subprocess.TimeoutExpired):
            process.wait(wait_s)
        caught = True
        if process.poll() is None:
            caught = _interrupted(process, number)
        # Python that is interrupted while it starts may end with 1, too.
        allowed = frozenset() if caught else frozenset({-number, 1})
        yield _ended(process, (*argv, f"{number.name} after {wait_s:.3f} s"), err, allowed)


def _as_from_a_terminal() -> None:
    """Let signals do what they usually do: a shell starts its background deaf to Ctrl-C."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def _interrupted(process: subprocess.Popen[bytes], number: int) -> bool:
    """Send a signal to a process; say whether it catches the signal at this moment."""
    process.send_signal(signal.SIGSTOP)
    caught = False
    with suppress(OSError):
        status = Path(f"/proc/{process.pid}/status")
        while (text := status.read_text()).partition("State:\t")[2][:1] not in "TZX":
            time.sleep(0.001)
        mask = int(text.partition("SigCgt:\t")[2].split()[0], 16)
        caught = bool(mask >> (number - 1) & 1) and not _is_starting(process.pid)
    process.send_signal(number)
    process.send_signal(signal.SIGCONT)
    return caught


def _is_starting(pid: int) -> bool:
    """Say only whether Python still catches SIGINT itself."""
    text = Path(f"/proc/{pid}/status").read_text()
    return not int(text.partition("SigCgt:\t")[2].split()[0], 16) >> (signal.SIGTERM - 1) & 1
