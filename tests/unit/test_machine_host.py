"""These tests check what is the local host's alone, and the recording host. What every host does is
in tests/contract/test_hosts.py."""

from __future__ import annotations

import os
from pathlib import Path

from switchmark.machine.host import Completed, LocalHost
from switchmark.machine.processes import open_process
from switchmark.machine.recording import RecordingHost


def test_a_process_is_opened_by_its_start_time(tmp_path: Path) -> None:
    process = LocalHost().spawn(("sleep", "60"), stderr_path=str(tmp_path / "stderr"))
    try:
        assert open_process(process.pid, process.started - 1) is None
        pidfd = open_process(process.pid, process.started)
        assert pidfd is not None
        os.close(pidfd)
    finally:
        process.stop(9, 1.0)


def test_a_recording_answers_by_the_longest_beginning() -> None:
    host = RecordingHost({("ip",): b"any", ("ip", "link"): Completed(1, b"", b"no link")})
    assert host.run(("ip", "link", "show")).status == 1
    assert host.run(("ip", "route")).stdout == b"any"
    assert host.run(("bridge",)) == Completed(0, b"", b"")
    assert host.ran == [("ip", "link", "show"), ("ip", "route"), ("bridge",)]
