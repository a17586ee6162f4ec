"""These tests check the kernel's facts about processes and threads, here and on a simulated
host."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from switchmark.hosts.base import Host
from switchmark.hosts.local import LocalHost
from switchmark.hosts.recording import RecordingHost
from switchmark.observe.threads import (
    cpu_ns,
    in_network,
    of_machine,
    stopped,
    switched_since,
    thread_switches,
    thread_times,
    threads,
)

OTHER = RecordingHost(
    files={
        "/proc/7/stat": b"7 (a) b) S 1 7 7",
        "/proc/7/ns/net": b"net:[1]",
        "/proc/8/stat": b"8 (child) S 7 8 8",
        "/proc/8/ns/net": b"net:[2]",
        "/run/netns/sm-f0": b"net:[2]",
        "/proc/8/task/8/comm": b"child\n",
        "/proc/8/task/8/schedstat": b"500 20 3\n",
        "/proc/8/task/8/status": b"voluntary_ctxt_switches:\t4\nnonvoluntary_ctxt_switches:\t1\n",
        "/proc/8/task/8/sched": b"se.nr_migrations : 2\n",
        "/proc/8/task/9/comm": b"poll 1\n",
        "/proc/8/task/9/schedstat": b"900 5 3\n",
        "/proc/8/task/9/status": b"voluntary_ctxt_switches:\t2\nnonvoluntary_ctxt_switches:\t0\n",
        "/proc/8/task/9/sched": b"se.nr_migrations : 1\n",
    }
)


def test_a_host_is_asked_for_its_processes() -> None:
    assert of_machine(OTHER, 7) == {8}
    assert threads(OTHER, (7, 8)) == {8, 9}
    assert cpu_ns(OTHER, (8,)) == (1400, 25)
    assert thread_times(OTHER, (8,)) == {"child/8": 500, "poll 1/9": 900}
    assert thread_switches(OTHER, (8,)) == {8: (5, 2), 9: (2, 1)}
    assert in_network(OTHER, "/run/netns/sm-f0") == {8}


@pytest.mark.parametrize("host", [OTHER, LocalHost()], ids=("another", "this"))
def test_who_is_gone_has_used_nothing(host: Host) -> None:
    assert (
        of_machine(host, 2**22 + 1)
        == stopped(host, (2**22 + 1,))
        == threads(host, (2**22 + 1,))
        == frozenset()
    )
    assert cpu_ns(host, (2**22 + 1,)) == (0, 0)
    assert thread_switches(host, (2**22 + 1,)) == {}
    assert in_network(host, "/run/netns/no-such") == frozenset()


def test_a_machine_has_the_kernels_threads_that_copy_its_frames() -> None:
    """As Linux 6.1 shows them; since 6.4 they are threads of the machine's own process. Other
    threads with this name copy nothing for it."""
    stats = {
        2: "(kthreadd) S 0 0 0",
        40: "(boot (a) S 7) S 1 40 40",
        41: "(qemu-system-x86) S 40 40 40",
        42: "(vhost-41) S 2 0 0",
        43: "(vhost-41) R 2 0 0",
        44: "(vhost-99) S 2 0 0",
        45: "(vhost-41) S 1 0 0",
        46: "(vhost-40) S 2 0 0",
    }
    files = {f"/proc/{pid}/stat": f"{pid} {stat} 0 -1\n".encode() for pid, stat in stats.items()}
    files |= {f"/proc/{pid}/task/{pid}/schedstat": b"100 0 1\n" for pid in stats}
    host = RecordingHost(files=files)
    assert of_machine(host, 40) == {41, 42, 43}
    assert cpu_ns(host, of_machine(host, 40)) == (300, 0)


def test_a_kernel_that_does_not_tell_of_moves() -> None:
    files = {path: text for path, text in OTHER.files.items() if not path.endswith("/sched")}
    counts = thread_switches(RecordingHost(files=files), (8,))
    assert switched_since({}, counts) == (7, None)


def test_a_thread_that_has_ended_takes_nothing_back() -> None:
    before, now = {8: (5, 2), 9: (200, 1)}, {8: (9, 2), 10: (3, 1)}
    assert switched_since(before, now) == (7, 1)


def test_this_host_tells_of_this_process() -> None:
    host, pid = LocalHost(), os.getpid()
    with subprocess.Popen(("sleep", "60")) as child:
        try:
            assert child.pid in of_machine(host, pid)
            assert stopped(host, (pid, child.pid)) == set()
            child.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
            assert stopped(host, (pid, child.pid)) == {child.pid}
            assert {pid, child.pid} <= in_network(host, f"/proc/{pid}/ns/net")
        finally:
            child.kill()
    assert pid in threads(host, (pid,))
    assert cpu_ns(host, (pid,))[0] > 0
    assert sum(thread_times(host, (pid,)).values()) > 0
    assert thread_switches(host, (pid,))[pid][0] > 0


def test_many_files_are_read_at_once_and_those_that_cannot_be_are_left_out() -> None:
    found = LocalHost().read_all(
        "/proc/self/comm", "/no/such/file", "/proc/self/ns/[a-z]*", "/proc"
    )
    assert list(found) == ["/proc/self/comm"]
    inodes = LocalHost().inodes("/proc/self/ns/net", "/proc/thread-self/ns/n*t", "/no/such/file")
    assert len(inodes) == 2
    assert len(set(inodes.values())) == 1
