"""These tests read files of a host that were taken at one moment."""

from __future__ import annotations

from collections.abc import Mapping

from switchmark.hosts.recording import RecordingHost
from switchmark.observe.taken import taken_at_once
from switchmark.observe.threads import switch_files, thread_switches

FILES: Mapping[str, bytes] = {
    "/proc/stat": b"cpu 1",
    "/proc/8/task/8/status": b"voluntary_ctxt_switches:\t5\n",
    "/proc/8/task/9/status": b"voluntary_ctxt_switches:\t2\n",
    "/proc/88/task/88/status": b"voluntary_ctxt_switches:\t1\n",
}


def test_what_was_taken_is_found_by_its_patterns() -> None:
    host = RecordingHost(files=FILES)
    taken = taken_at_once({host: ["/proc/stat", *switch_files((8, 88))]})[host]
    assert taken.read_all("/proc/stat") == {"/proc/stat": b"cpu 1"}
    assert set(taken.read_all("/proc/8/task/*/status")) == set(FILES) - {
        "/proc/stat",
        "/proc/88/task/88/status",
    }
    assert taken.read_all("/proc/*/status") == {}
    assert thread_switches(taken, (8,)) == {8: (5, None), 9: (2, None)}


def test_what_was_not_taken_is_not_there() -> None:
    host = RecordingHost(files=FILES)
    taken = taken_at_once({host: ["/proc/stat"]})[host]
    assert taken.read_all("/proc/8/task/*/status") == {}
