"""What a run could leave on the host, and runs as a user starts them. Other runs may live
beside a test's: what is theirs is not compared."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from switchmark.machine.clean import clean
from switchmark.machine.journal import is_locked
from switchmark.machine.leases import Leases

__all__ = [
    "COMMAND",
    "hugepages",
    "left_as_it_was",
    "marked",
    "of_run",
    "records",
    "start",
    "state_of_the_host",
    "traffic_processes",
    "wait_for",
]

_RUNS = Path("/run/switchmark")
COMMAND = [sys.executable, "-m", "switchmark"]


def state_of_the_host() -> dict[str, str]:
    """All that a run could leave behind, as text to compare."""

    def out(*argv: str) -> str:
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout

    def files(folder: str, pattern: str) -> str:
        return "\n".join(sorted(map(str, Path(folder).glob(pattern))))

    state = {
        "namespaces": re.sub(r" \(id: \d+\)", "", out("ip", "netns", "list")),
        "links": re.sub(r"^\d+: ", "", out("ip", "-o", "link"), flags=re.M),
        "processes": "\n".join(
            sorted(
                f"{run} {_name(name)}"
                for name in Path("/proc").glob("[0-9]*/comm")
                if (run := _run_of(name.parent))
            )
        ),
        "sysctls": out(
            *("sysctl", "-e", "net.ipv4.ip_forward", "net.bridge.bridge-nf-call-iptables"),
            *("net.ipv4.conf.all.rp_filter", "net.ipv4.conf.all.send_redirects"),
        ),
        "hugepages": str(hugepages()),
        "mapped hugepages": files("/dev/hugepages", "*"),
        "sockets": "\n".join(
            sorted(re.findall(r"\S*/switchmark/\S*", Path("/proc/net/unix").read_text()))
        ),
        "control groups": "\n".join(
            sorted(str(path) for path in Path("/sys/fs/cgroup").rglob("sm[0-9a-f]*-*"))
        ),
        "mounts": "\n".join(
            re.findall(r"^.*/sm[0-9a-f]{4}.*$", Path("/proc/self/mountinfo").read_text(), re.M)
        ),
        "sockets of lxc": "\n".join(
            sorted(set(re.findall(r"@\S*/lxc/sm\S*", Path("/proc/net/unix").read_text())))
        ),
        "sockets of containerd": files("/run/containerd/s", "*"),
        "runs": files("/run/switchmark", "sm*"),
        "tmp": files("/tmp", "*switchmark*"),
    }
    live = [run.name for run in _RUNS.glob("sm*") if is_locked(run / "journal")]
    return {
        what: "\n".join(line for line in text.splitlines() if not any(run in line for run in live))
        for what, text in state.items()
    }


def hugepages() -> int:
    """The count of this machine's hugepages, or the one that the runs which changed it found."""
    with Leases(_RUNS)._locked() as (_, takes):
        found = [take.old for take in takes if take.path.endswith("/nr_hugepages")]
    return int(found[0] if found else Path("/proc/sys/vm/nr_hugepages").read_text())


def _run_of(process: Path) -> str:
    """The run that a process belongs to."""
    try:
        found = re.search(rb"SWITCHMARK_RUN=(\w+)", (process / "environ").read_bytes())
    except OSError:
        return ""
    return found[1].decode() if found else ""


@contextmanager
def left_as_it_was() -> Iterator[None]:
    """A block after which the host must be as it was before, or a moment later."""
    clean()
    before = state_of_the_host()
    yield
    deadline = time.monotonic() + 5  # a namespace goes a moment after its last process
    while (after := state_of_the_host()) != before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert {
        what: (before[what], after[what]) for what in before if before[what] != after[what]
    } == {}


def records(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def start(environment: dict[str, str], cwd: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=cwd,
    )


def wait_for(condition: Callable[[], Any], what: str, limit_s: float = 20) -> Any:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"{what}: not in {limit_s} s")


def marked(name: str, run: subprocess.Popen[str] | None = None) -> list[int]:
    """Processes of any run, or those that this one started, whose name is this: the oldest
    first, unless the numbers have begun anew."""
    return sorted(
        int(comm.parent.name)
        for comm in Path("/proc").glob("[0-9]*/comm")
        if _run_of(comm.parent)
        and _name(comm) == name
        and (run is None or _parent(comm.parent) == run.pid)
    )


def of_run(name: str, run: subprocess.Popen[str]) -> list[int]:
    """Processes of this name that this run started, in whatever node."""
    comms = list(Path("/proc").glob("[0-9]*/comm"))
    ids = {_run_of(comm.parent) for comm in comms if _parent(comm.parent) == run.pid} - {""}
    return [int(c.parent.name) for c in comms if _name(c) == name and _run_of(c.parent) in ids]


def _name(comm: Path) -> str:
    try:
        return comm.read_text().strip()
    except OSError:
        return ""


def _parent(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def traffic_processes(run: subprocess.Popen[str] | None = None) -> list[int]:
    return marked("switchmark-traf", run)
