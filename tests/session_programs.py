"""The programs of recorded sessions (`sessions`): recorders around the programs of a switch, and
fakes that speak the same protocols with the recorded answers.

A session is a file of JSON lines. A fake takes only the commands and files of its session, and ends
on everything else. It uses the standard library alone, as it runs as a process of a switch.
"""

from __future__ import annotations

import ctypes
import difflib
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

Entry = dict[str, Any]

RUN = "/run/x"
"""The folder of a run in a session."""
UNRECORDED = 70
"""The exit status of a fake that was given what its session does not have."""

_SHIM = """\
#!{python}
import sys
sys.path.insert(0, {tests!r})
import session_programs
session_programs.main({name!r}, {folder!r})
"""
_PDEATHSIG = 1
_STOPS = {signal.SIGTERM, signal.SIGINT}


# --- folders of programs ----------------------------------------------------------------------


def install(folder: Path, name: str, **settings: Any) -> None:
    """Make a program that records or speaks a session, as `settings` say: `session` is the file,
    `run` the folder of the run; `real` has the path of the program to record, by its name."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.json").write_text(json.dumps(settings))
    words = {"python": sys.executable, "tests": str(Path(__file__).parent), "folder": str(folder)}
    (folder / name).write_text(_SHIM.format(name=name, **words))
    (folder / name).chmod(0o755)


class Folder:
    """A folder of programs: its session, and the names of the run."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.settings = json.loads(Path(path, "settings.json").read_text())
        self.run: str = self.settings["run"]
        self.real: dict[str, str] = self.settings.get("real", {})
        self.session = Path(self.settings["session"])

    def plain(self, text: str) -> str:
        """Return a text with the names of a session."""
        for name, path in self.real.items():
            text = text.replace(path, f"/programs/{name}")
        return text.replace(self.run, RUN).replace(self.path, "/programs")

    def own(self, text: str) -> str:
        """Return a text of a session with the names of this run."""
        return text.replace(RUN, self.run).replace("/programs", self.path)

    def note(self, **entry: Any) -> None:
        """Add an entry to the session that is recorded."""
        line = json.dumps(entry, ensure_ascii=False) + "\n"
        with self.session.open("a") as file:
            file.write(line)

    def entries(self, kind: str) -> list[Entry]:
        """Return the entries of the session that have this member."""
        lines = map(json.loads, self.session.read_text().splitlines())
        return [entry for entry in lines if kind in entry]


def as_text(content: bytes) -> str:
    return content.decode(errors="surrogateescape").encode(errors="backslashreplace").decode()


# --- what both do -----------------------------------------------------------------------------


def main(name: str, folder: str) -> None:
    """Be the program of this name, in the folder of a session."""
    programs = Folder(folder)
    argv = [Path(name).name, *sys.argv[1:]]
    (record if programs.real else fake)(programs, name, argv)


def _given(programs: Folder, argv: list[str]) -> Entry:
    """Return what a program that stays was given: its arguments, the variables that name the run,
    and the files that its arguments name."""
    files = {word: Path(word) for word in argv if word.startswith(programs.run)}
    env = {key: value for key, value in os.environ.items() if programs.run in value}
    return {
        "started": [programs.plain(word) for word in argv],
        "env": {key: programs.plain(value) for key, value in sorted(env.items()) if key != "PWD"},
        "files": {
            programs.plain(word): programs.plain(path.read_text())
            for word, path in files.items()
            if path.is_file()
        },
    }


def _stays(argv: list[str]) -> bool:
    """Return whether a command starts the switch: the others tell a version, or ask."""
    return "snsh" in argv


# --- recorders --------------------------------------------------------------------------------


def record(programs: Folder, name: str, argv: list[str]) -> None:
    """Run the real program, and note what it was given and what it answered."""
    real = programs.real[name]
    if not _stays(argv):
        done = subprocess.run([real, *argv[1:]], capture_output=True, check=False)
        programs.note(
            ran=[programs.plain(word) for word in argv],
            status=done.returncode,
            out=programs.plain(as_text(done.stdout)),
            err=programs.plain(as_text(done.stderr)),
            files=_given(programs, argv)["files"],
        )
        sys.stdout.buffer.write(done.stdout)
        sys.stderr.buffer.write(done.stderr)
        sys.exit(done.returncode)
    programs.note(**_given(programs, argv))

    def die_with_parent() -> None:
        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)

    child = subprocess.Popen([real, *argv[1:]], preexec_fn=die_with_parent)
    programs.note(pid=child.pid)
    ended: list[int] = []

    def forward(number: int, _: Any) -> None:
        ended.append(number)
        child.send_signal(number)

    for number in _STOPS:
        signal.signal(number, forward)
    status = child.wait()
    programs.note(ended=[*map(int, ended)], status=status)
    sys.exit(128 - status if status < 0 else status)


# --- fakes ------------------------------------------------------------------------------------


def unrecorded(programs: Folder, about: str, given: Any, recorded: Any = "") -> str:
    """Return the words for what a session does not have, and keep them for the test."""
    old, new = (
        json.dumps(each, indent=1, ensure_ascii=False).replace("\\n", "\n").splitlines()
        for each in (recorded, given)
    )
    difference = list(difflib.unified_diff(old, new, n=1, lineterm=""))[2:]
    text = f"the session {programs.session.name} has no such {about}:\n" + "\n".join(difference)
    with Path(programs.path, "unrecorded").open("a") as file:
        file.write(text + "\n")
    return text


def fake(programs: Folder, name: str, argv: list[str]) -> None:
    """Answer a command as recorded, or be the switch."""
    if not _stays(argv):
        _fake_command(programs, argv)
    given = _given(programs, argv)
    starts = programs.entries("started")
    known = next((start for start in starts if {**start, **given} == start), None)
    if known is None:
        recorded = {key: starts[0][key] for key in given} if starts else ""
        sys.exit(_failed(unrecorded(programs, "command", given, recorded)))
    (entry,) = programs.entries("made")
    _Fake(programs, entry["made"]).serve()


def _failed(text: str) -> int:
    print(text, file=sys.stderr)
    return UNRECORDED


def _fake_command(programs: Folder, argv: list[str]) -> None:
    plain = [programs.plain(word) for word in argv]
    ran = programs.entries("ran")
    done = next((entry for entry in ran if entry["ran"] == plain), None)
    if done is None:
        known = [entry["ran"] for entry in ran]
        sys.exit(_failed(unrecorded(programs, "command", plain, known)))
    sys.stdout.write(programs.own(done["out"]))
    sys.stderr.write(programs.own(done["err"]))
    sys.exit(done["status"])


class _Fake:
    """A process of a switch: the files and links that it makes."""

    def __init__(self, programs: Folder, made: Entry) -> None:
        self.programs = programs
        self.made = made

    def serve(self) -> None:
        """Make everything, and live until a signal comes."""
        made, own = self.made, self.own
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
        for path, text in made["files"].items():
            Path(own(path)).parent.mkdir(parents=True, exist_ok=True)
            Path(own(path)).write_bytes(own(text).encode("latin-1"))
        for path, target in made["links"].items():
            Path(own(path)).parent.mkdir(parents=True, exist_ok=True)
            Path(own(path)).unlink(missing_ok=True)
            Path(own(path)).symlink_to(own(target))
        for path in made["last"]:
            Path(own(path)).touch()
        number = signal.sigwait(_STOPS)
        for path in (*made["files"], *made["links"], *made["last"]):
            if path not in made["left"]:
                with suppress(OSError):
                    Path(own(path)).unlink()
        os._exit(made["status"] if number == signal.SIGTERM else 1)

    def own(self, text: str) -> str:
        """Return a text of the session with the names and the pid of this process."""
        return self.programs.own(text).replace("${pid}", str(os.getpid()))
