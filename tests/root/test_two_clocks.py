"""These tests measure one-way latency between two hosts with separate clocks: `b` is a test host in
a time namespace, which shows 1000 s more, and each says that it was booted by itself. The cable
between them delays each frame by more than the error of the clocks on a busy host."""

from __future__ import annotations

import select
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import ssh_hosts
from ssh_hosts import SshdHost, write_host_file
from switchmark.cli.steps import plan
from switchmark.hosts.hosts import Hosts
from switchmark.hosts.ssh import SshHost
from switchmark.lab import outcome
from switchmark.lab.measure import Lab
from switchmark.model.record import Record
from switchmark.model.test import Test
from switchmark.runs.own_run import OwnRun

AHEAD_S = 1000
LATE_S = 0.05

_ETH_P_ALL = 3
_SO_RCVBUFFORCE = 33
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


class Machine(SshHost):
    """A host that claims to be a separate machine."""

    def read(self, path: str) -> bytes:
        return self.name.encode() if path == _BOOT_ID else super().read(path)


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SshdHost, SshdHost]]:
    ssh_hosts.require()
    with ssh_hosts.two_hosts(tmp_path_factory.mktemp("hosts"), AHEAD_S) as hosts:
        yield hosts


@contextmanager
def slow_cable(ends: Sequence[str]) -> Iterator[None]:
    """Carry frames between two interfaces of this machine, each frame `LATE_S` after it came."""
    ended, held = threading.Event(), deque[tuple[float, socket.socket, bytes]]()

    def carry(first: socket.socket, second: socket.socket) -> None:
        other = {first: second, second: first}
        while not ended.is_set():
            wait = max(0, held[0][0] - time.monotonic()) if held else 0.01
            for port in select.select([first, second], [], [], wait)[0]:
                frame, (_, _, kind, *_) = port.recvfrom(65536)
                if kind != socket.PACKET_OUTGOING:
                    held.append((time.monotonic() + LATE_S, other[port], frame))
            while held and held[0][0] <= time.monotonic():
                _, port, frame = held.popleft()
                port.send(frame)

    with ExitStack() as stack:
        ports = [
            stack.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW)) for _ in ends
        ]
        for name, port in zip(ends, ports, strict=True):
            port.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 16 * 2**20)
            port.bind((name, _ETH_P_ALL))
        carrier = threading.Thread(target=carry, args=ports)
        carrier.start()
        stack.callback(carrier.join)
        stack.callback(ended.set)
        yield


@pytest.fixture
def cabled(
    machines: tuple[SshdHost, SshdHost], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Mapping[str, Machine]]:
    extra = ""
    with ExitStack() as stack:
        for host in machines:
            near, far = f"cabled{host.name}0", f"cabled{host.name}1"
            ends = ("type", "veth", "peer", "name", far, "netns", host.netns)
            ip("link", "add", near, *ends)
            stack.callback(ip, "link", "del", near)
            ip("link", "set", near, "addrgenmode", "none")
            ip("link", "set", near, "up")
            extra += f'[hosts.{host.name}.nics]\nuplink = {{name = "{far}", cable = "a-b"}}\n\n'
        file = write_host_file(tmp_path / "cabled.toml", machines, extra)
        monkeypatch.setenv("SWITCHMARK_HOST_FILE", str(file))
        reached = {
            host.name: Machine(host.name, f"root@{host.address}", host.options) for host in machines
        }
        for connection in reached.values():
            stack.callback(connection.close)
        with slow_cable(("cableda0", "cabledb0")):
            yield reached


def ip(*arguments: str) -> None:
    subprocess.run(("ip", *arguments), check=True)


def measured(reached: Mapping[str, Machine], folder: Path, hosts: str) -> Record:
    axes = {"locality": "remote", "rate": "2000", "duration": 0.3, "warmup": 0.05, "hosts": hosts}
    with Lab(folder, hosts=Hosts(OwnRun, reached)) as lab:
        record = lab.run(Test.model_validate(axes))
    assert lab.left == ()
    assert record.status == "ok", record.error
    return record


@pytest.mark.parametrize(
    "hosts",
    # Without the correction, and with one of the wrong sign, either has 1000 s or more.
    ["a,b", pytest.param("b,a", marks=pytest.mark.further)],
)
def test_one_way_latency_is_told_between_two_clocks(
    cabled: Mapping[str, Machine],
    traffic_program: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    hosts: str,
) -> None:
    # On a busy host the error of the clocks is too large for the latency of a real path.
    monkeypatch.setattr(outcome, "_CLOCKS_FAIL_NS", 10**9 * LATE_S)
    (trial,) = measured(cabled, tmp_path / "run", hosts).trials
    assert trial.unaccounted == 0
    assert set(trial.evidence.clocks) == {"a", "b"}
    unsure = sum(clock.unsure_ns for clock in trial.evidence.clocks.values())
    assert trial.latency is not None
    assert trial.latency.kind == "one-way"
    assert trial.latency.count == trial.distinct > 0
    assert trial.evidence.unsure_ns == unsure > 0
    # Without the correction it would be 1000 s more, or less.
    assert 10**9 * LATE_S - unsure < trial.latency.min <= trial.latency.mean < 10**9
    assert trial.evidence.early == 0
    assert ("clock" in trial.doubts) == (2 * unsure > trial.latency.mean)


def test_the_plan_shows_the_loan_of_the_nics_of_other_hosts(
    cabled: Mapping[str, Machine], tmp_path: Path
) -> None:
    lines = plan(Test.model_validate({"locality": "remote", "hosts": "a,b"}))
    loans = [number for number, line in enumerate(lines) if "for this run (on " in line]
    assert [lines[number] for number in loans] == [
        f"# the MAC of cabled{name}1 for this run (on {name})" for name in "ab"
    ]
    for number, name in zip(loans, "ab", strict=True):
        assert f"# undo: ip link set cabled{name}1 address" in lines[number + 1]
