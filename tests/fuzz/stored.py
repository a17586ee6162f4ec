"""This module fuzzes what is stored: run folders, by every command that reads them, and journals
and leases, by `clean` in a folder of its own."""

from __future__ import annotations

import base64
import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, NoReturn

import switchmark.runs.anchor
import switchmark.runs.clean
from fuzz.harness import Ended, command
from fuzz.odd import TEXTS, any_value, endless, spoilt_bytes, spoilt_json, spoilt_text
from recorded import (
    RECORDINGS,
    fresh,
    latency_trial,
    lines_run,
    recorded_lines,
    stored_lines_run,
    stored_run,
)
from switchmark.errors import SetupFailed
from switchmark.hosts.base import boot_id
from switchmark.hosts.local import LocalHost
from switchmark.lab.measure import Lab
from switchmark.model.record import Record
from switchmark.model.test import Test

_LAB = {
    "testbeds": {"bed1": {"facts": {"kernel": "6.1", "cpu_model": "a"}, "versions": {}}},
    "rates_pps": {"raw": {"bed1": [1.0, 2.0, 3.0]}},
    "groups": [["bed1"], ["bed2"]],
    "differences": ["bed1 is faster than bed2"],
}

_READERS: tuple[tuple[str, ...], ...] = (
    ("report", "run"),
    ("report", "run", "--wide"),
    ("report", "run", "--json"),
    ("report", "run", "-o", "r.html"),
    ("report", "run", "-o", "r.md"),
    ("report", "run", "-o", "r.csv"),
    ("report", "run", "-o", "r.svg"),
    ("compare", "run", "sound", "--junit", "r.xml", "--markdown", "r.md"),
    ("trend", "run", "sound", "-o", "r.html", "--fail-on", "slower:2%,loss", "--junit", "r.xml"),
    ("trend", ".", "--json", "--x", "version"),
    ("compare", "run", "--base", "linux-bridge"),
    ("compare", "--good", ".", "run"),
    ("compare", "sound", "run", "--json", "--fail-on", "slower:3%,latency:5%,loss"),
    ("export", "run"),
    ("export", "run", "--format", "latex"),
    ("export", "run", "-o", "r.parquet"),
    ("export", "run", "--format", "csit", "-o", "csit"),
    ("query", "run"),
    ("query", "run", "select * from tests", "--json"),
    ("query", "run", "select * from trials", "--csv"),
    ("query", "run", "select * from all_trials"),
    ("query", "run", "select * from flows, goals"),
    ("bundle", "run", "-o", "r.tar.gz"),
    ("bundle", "run", "-o", "r.zip"),
    ("resume", "run"),
    ("gallery", "."),
)


def _recorded_run(recording: Path, parent: Path) -> Path:
    return lines_run(parent, recorded_lines(recording))


_SOUND: Mapping[str, Callable[[Path], Path]] = {
    "fresh": lambda parent: stored_run(parent, _fresh_records()),
    "lines": stored_lines_run,
    **{
        path.name: partial(_recorded_run, path)
        for path in sorted(RECORDINGS.glob("*.records.jsonl"))
    },
}
"""The functions that make a sound run folder in an existing folder, by name."""

_OF_A_LAB = "lines"


def _fresh_records() -> list[Record]:
    latency = tuple(latency_trial(1e5, [900 + number for number in range(200)]) for _ in range(3))
    return [
        fresh(1),
        fresh(2, test=Test(search="max", switch="ovs", frame_size=128), verdict="sender"),
        fresh(3, status="failed", trials=(), error="it did not come up\n  line 2"),
        fresh(4, trials=latency, test=Test(dimension="latency", search="fixed", rate="1M")),
    ]


@cache
def _sound_folder(name: str) -> Mapping[str, bytes]:
    """Return the content of a run folder that is as it should be, by the names of its files."""
    with tempfile.TemporaryDirectory(prefix="switchmark-fuzz-") as scratch:
        path = _SOUND[name](Path(scratch))
        (path / "logs/steps.sh").write_text("ip link add a\n")
        if name == _OF_A_LAB:
            (path / "testbeds.json").write_text(json.dumps(_LAB))
        return {
            entry.relative_to(path).as_posix(): entry.read_bytes()
            for entry in sorted(path.rglob("*"))
            if entry.is_file()
        }


def _put(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def put_sound_run(folder: Path) -> None:
    """Put a run folder that is as it should be below a folder, as `run`."""
    _put(folder / "run", _sound_folder("fresh"))


def spoil(draw: random.Random, path: Path) -> None:
    """Spoil a file: a value of one of its lines where it is JSON, else its text or its bytes."""
    if not path.is_file() or (chance := draw.random()) < 0.05:
        if path.is_dir():  # rmtree would wait for the other end of a pipe
            shutil.rmtree(path)
        endless(draw, path)
        return
    content = path.read_bytes()
    if chance < 0.15:
        path.write_bytes(spoilt_bytes(draw, content))
    elif path.suffix == ".jsonl":
        lines = content.splitlines() or [b"{}"]
        number = draw.randrange(len(lines))
        lines[number] = _json_line(draw, lines[number])
        path.write_bytes(b"\n".join(lines) + b"\n")
    elif path.suffix == ".json":
        path.write_bytes(_json_line(draw, content))
    else:
        text = spoilt_text(draw, content.decode(errors="replace"))
        path.write_bytes(text.encode(errors="surrogatepass"))


def _json_line(draw: random.Random, line: bytes) -> bytes:
    try:
        content = json.loads(line)
    except ValueError:
        return spoilt_bytes(draw, line)
    return json.dumps(spoilt_json(draw, content, draw.choice((1, 1, 1, 3)))).encode()


def run_folders(draw: random.Random, folder: Path) -> Iterator[Ended]:
    """Spoil a run folder, and have it read by some commands. Nothing is measured by `resume`."""
    _put(folder / "sound", _sound_folder("fresh"))
    spoilt = folder / "run"
    _put(spoilt, _sound_folder(draw.choice((*_SOUND, *["fresh", "lines"] * 10))))
    names = [*["records.jsonl"] * 6, *["trials.jsonl"] * 2, "host.json", "testbeds.json"]
    names += ["campaign.yaml", "logs/steps.sh", "asked.yaml"]
    for _ in range(draw.choice((1, 1, 2))):
        spoil(draw, spoilt / draw.choice(names))
    for argv in draw.sample(_READERS, 4):
        yield command(*argv, folder=folder, before=measure_nothing)


def _no_lab(lab: Lab) -> NoReturn:
    raise SetupFailed("nothing is measured here")


def measure_nothing() -> None:
    """Let no command measure, in whichever module it imported the lab."""
    Lab.__enter__ = _no_lab  # type: ignore[method-assign]
    switchmark.runs.anchor.anchor = lambda: None
    os.environ["SWITCHMARK_MACHINE_LOCK"] = os.devnull


# --- journals and leases ---------------------------------------------------------------------

_NOBODY = 65534


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _undos(draw: random.Random, folder: Path) -> Iterator[Mapping[str, Any]]:
    """Yield undos that are harmless even if they are damaged: they only touch the folder."""
    value, created = str(folder / "value"), str(folder / "made")
    yield {"kind": "command", "host": "local", "argv": ["true"], "timeout_s": 5.0}
    yield {"kind": "command", "host": "local", "argv": ["false", "a"], "stdin": _b64("x")}
    yield {"kind": "command", "host": "far", "argv": ["true"]}
    yield {"kind": "restore", "host": "local", "path": value, "content": _b64("1\n")}
    yield {"kind": "restore", "host": "local", "path": created, "content": None}
    endings = draw.choice(("/dev/zero", "/dev/full", str(folder), value + "/x"))
    yield {"kind": "restore", "host": "local", "path": endings, "content": _b64("1\n")}
    yield {"kind": "stop", "name": "x", "number": 15, "grace_s": 0.1, "pid": 4194000, "start": 1}
    yield {"kind": "lease", "host": "local", "path": value}
    yield {"kind": "far", "host": "far", "folder": str(folder)}


def _lines_of_journal(draw: random.Random, run: str, folder: Path) -> Iterator[Mapping[str, Any]]:
    yield {"entry": "begin", "run": run, "boot": boot_id(LocalHost()), "pid": 4194000, "start": 1}
    undos = list(_undos(draw, folder))
    for number, undo in enumerate(draw.sample(undos, draw.randrange(1, len(undos)))):
        yield {"entry": "undo", "number": number, "undo": undo}
        if undo["kind"] == "stop":
            yield {"entry": "started", "number": number, "pid": 4194000, "start": 1}
        if draw.random() < 0.2:
            yield {"entry": "done", "number": number}


def _lines_of_leases(draw: random.Random, runs: list[str], folder: Path) -> Iterator[Any]:
    for run in runs:
        take = {"entry": "take", "boot": boot_id(LocalHost()), "run": run, "host": "local"}
        take |= {"path": str(folder / "value"), "old": _b64("1\n"), "content": _b64("2\n")}
        yield {**take, "added": draw.choice((None, 0, 1, 5))}
        if draw.random() < 0.2:
            yield {"entry": "give", "run": run, "host": "local", "path": str(folder / "value")}


_HARMLESS = [text for text in TEXTS if "/" not in text]


def _spoilt_lines(draw: random.Random, lines: Iterator[Any]) -> bytes:
    """Return lines of JSON, some of them spoilt. The words of commands stay as they are: they are
    carried out."""
    encoded = []
    for line in lines:
        spoilt = spoilt_json(draw, line) if draw.random() < 0.3 else line
        text = json.dumps(spoilt)
        argv = spoilt.get("undo", {}) if isinstance(spoilt, dict) else {}
        argv = argv.get("argv") if isinstance(argv, dict) else None
        if isinstance(argv, list) and draw.random() < 0.2:
            argv.append(draw.choice(_HARMLESS))
            text = json.dumps(spoilt)
        encoded.append(text.encode())
    content = b"\n".join(encoded) + b"\n"
    return spoilt_bytes(draw, content) if draw.random() < 0.15 else content


def journals(draw: random.Random, folder: Path) -> Iterator[Ended]:
    """Clean up after runs whose journals and leases are spoilt, as nobody."""
    base = folder / "base"
    base.mkdir()
    (folder / "value").write_text(draw.choice(("2\n", "7\n", "words\n", "")))
    runs = [f"sm{draw.randrange(1 << 16):04x}" for _ in range(draw.choice((1, 2, 3)))]
    for run in dict.fromkeys(runs):
        (base / run).mkdir(exist_ok=True)
        lines = _lines_of_journal(draw, run, folder)
        (base / run / "journal").write_bytes(_spoilt_lines(draw, lines))
        if draw.random() < 0.15:
            endless(draw, base / run / "journal")
    if draw.random() < 0.6:
        (base / "leases").write_bytes(_spoilt_lines(draw, _lines_of_leases(draw, runs, folder)))
        if draw.random() < 0.1:
            endless(draw, base / "leases")
    if draw.random() < 0.1:
        (base / "smffff").write_text(json.dumps(any_value(draw)), errors="replace")
    if os.geteuid() == 0:
        for path in (folder.parent, folder, *folder.rglob("*")):
            os.chown(path, _NOBODY, _NOBODY, follow_symlinks=False)
    options = draw.choice(((), (), ("--dry-run",), ("--forget", "far"), (runs[0],)))
    for _ in range(2):
        yield command("clean", *options, folder=folder, before=partial(_own_base, base))


def _own_base(base: Path) -> None:
    """Let `clean` look into a folder of its own, and have no more rights than nobody."""
    switchmark.runs.clean.default_base = lambda: base  # type: ignore[attr-defined]
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)
