"""What a run could leave on the host, and runs as a user starts them."""

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

__all__ = [
    "COMMAND",
    "left_as_it_was",
    "marked",
    "records",
    "start",
    "state_of_the_host",
    "traffic_processes",
    "wait_for",
]

COMMAND = [sys.executable, "-m", "switchmark"]


def state_of_the_host() -> dict[str, str]:
    """All that a run could leave behind, as text to compare."""

    def out(*argv: str) -> str:
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout

    def files(folder: str, pattern: str) -> str:
        return "\n".join(sorted(map(str, Path(folder).glob(pattern))))

    return {
        "namespaces": out("ip", "netns", "list"),
        "links": re.sub(r"^\d+: ", "", out("ip", "-o", "link"), flags=re.M),
        "processes": "\n".join(
            sorted(
                name.read_text()
                for name in Path("/proc").glob("[0-9]*/comm")
                if _is_ours(name.parent)
            )
        ),
        "sysctls": out(
            *("sysctl", "-e", "net.ipv4.ip_forward", "net.bridge.bridge-nf-call-iptables"),
            *("net.ipv4.conf.all.rp_filter", "net.ipv4.conf.all.send_redirects"),
        ),
        "hugepages": Path("/proc/sys/vm/nr_hugepages").read_text(),
        "mapped hugepages": files("/dev/hugepages", "*"),
        "sockets": "\n".join(
            sorted(re.findall(r"\S*/switchmark/\S*", Path("/proc/net/unix").read_text()))
        ),
        "runs": files("/run/switchmark", "sm*"),
        "tmp": files("/tmp", "*switchmark*"),
    }


def _is_ours(process: Path) -> bool:
    try:
        return b"SWITCHMARK_RUN=" in (process / "environ").read_bytes()
    except OSError:
        return False


@contextmanager
def left_as_it_was() -> Iterator[None]:
    """A block after which the host must be as it was before, or a moment later."""
    subprocess.run([*COMMAND, "clean"], check=True, capture_output=True)
    before = state_of_the_host()
    yield
    deadline = time.monotonic() + 5  # a namespace goes a moment after its last process
    while (after := state_of_the_host()) != before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert after == before


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


def marked(name: str) -> list[int]:
    """Processes of a run whose name is this."""
    return [
        int(comm.parent.name)
        for comm in Path("/proc").glob("[0-9]*/comm")
        if _is_ours(comm.parent) and _name(comm) == name
    ]


def _name(comm: Path) -> str:
    try:
        return comm.read_text().strip()
    except OSError:
        return ""


def traffic_processes() -> list[int]:
    return marked("switchmark-traf")
