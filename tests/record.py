"""This program records real runs for the tests of tests/replay, as root: `make record`.

    python tests/record.py [NAME...]    all cases, or those whose name contains a word

A case is tried again while its records do not show what they must, as a busy host may be the
reason. A recording replaces the old one if its replay gives the same records.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import traceback
from pathlib import Path

import pytest

from recorded import RECORDINGS
from replay_cases import CASES
from replay_runs import Case, measured, names_of, replay, stored_lines
from replaying import RecordedClock, RecordedHost, Tape, differences
from switchmark.errors import SwitchmarkError
from truths import preferred

TRIES = 10


def record(case: Case) -> None:
    """Record a case, check it, and keep the recording with the records."""
    with tempfile.TemporaryDirectory(prefix="switchmark-record-") as name:
        folder = Path(name)
        tape = Tape(names_of(folder))
        with preferred(), pytest.MonkeyPatch.context() as patch:
            case.disturb(patch)
            host = RecordedHost(case.host(), tape)
            run = measured(case, host, RecordedClock(tape), folder)
        lines = list(tape.lines(case=case.name, axes=dict(case.axes)))
        case.check(run)
        again = replay(case, folder / "replayed", lines)
        stored = stored_lines(run)
        differing = list(differences(_parsed(stored), _parsed(stored_lines(again))))
        assert not differing, "the replay gives other records: " + "; ".join(differing[:5])
    RECORDINGS.mkdir(parents=True, exist_ok=True)
    case.recording.write_text("".join(lines))
    case.records.write_text("".join(stored))


def _parsed(lines: list[str]) -> list[object]:
    return [json.loads(line) for line in lines]


def main() -> None:
    arguments = sys.argv[1:]
    chosen = [
        case for case in CASES if not arguments or any(word in case.name for word in arguments)
    ]
    failed = [case.name for case in chosen if not is_recorded(case)]
    print(f"{len(chosen) - len(failed)} recorded, {len(failed)} not: {', '.join(failed)}")
    sys.exit(bool(failed))


def is_recorded(case: Case) -> bool:
    """Try to record a case; say what came of each try."""
    for attempt in range(1, TRIES + 1):
        began = time.monotonic()
        try:
            record(case)
        except (AssertionError, SwitchmarkError) as error:
            *_, frame = traceback.extract_tb(error.__traceback__)
            print(f"{case.name}: try {attempt}: {frame.name}: {frame.line}\n  {error}", flush=True)
        else:
            size = case.recording.stat().st_size + case.records.stat().st_size
            took = time.monotonic() - began
            print(f"{case.name}: recorded, {size // 1000} kB, {took:.1f} s", flush=True)
            return True
    return False


if __name__ == "__main__":
    main()
