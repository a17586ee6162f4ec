"""This module starts dpdk-testpmd as a peer with the devices that engine dpdk would open, and reads
it by its telemetry while it runs."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from bench.bed import Bed, Track
from switchmark.engines import TABLE as ENGINES
from switchmark.errors import TrialFailed
from switchmark.hosts.base import Process
from switchmark.model.plan import Check, Run, Wait

DESCRIPTORS = 1024
"""As engine dpdk has them."""

MBUFS = 5376
"""Of a device: what engine dpdk has at 1024 descriptors."""

_MEGABYTES = 512
_READY_S = 10.0
_ANSWER_BYTES = 1 << 16


def received(answer: bytes) -> int:
    """Return the frames that a port has received, from the answer to `/ethdev/stats,N`. ValueError
    if it does not tell them."""
    try:
        return int(json.loads(answer)["/ethdev/stats"]["ipackets"])
    except (KeyError, TypeError) as missing:
        raise ValueError(f"telemetry told no frames: {answer[:200]!r}") from missing


class Telemetry:
    """This object reads the counters of a DPDK program. `ports` are those that count."""

    def __init__(self, path: str, process: Process, ports: Sequence[int]) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = process
        self._ports = ports
        self._socket.settimeout(_READY_S)
        self._until(lambda: self._connected(path))
        self._answer()  # who it is
        self._until(lambda: all(self._is_up(port) for port in ports))

    def __enter__(self) -> Telemetry:
        return self

    def __exit__(self, *exception: object) -> None:
        self._socket.close()

    def read(self) -> int:
        """Return the frames received so far."""
        return sum(received(self._ask(f"/ethdev/stats,{port}")) for port in self._ports)

    def rate(self, seconds: float) -> float:
        """Return the rate in frames per second over the next seconds."""
        first, start_s = self.read(), time.monotonic()
        time.sleep(seconds)
        last, now = self.read(), time.monotonic()
        return (last - first) / (now - start_s)

    def _ask(self, question: str) -> bytes:
        try:
            self._socket.send(question.encode())
        except OSError as error:
            raise self._failed("does not read questions") from error
        return self._answer()

    def _answer(self) -> bytes:
        try:
            return self._socket.recv(_ANSWER_BYTES)
        except OSError as error:
            raise self._failed("does not answer") from error

    def _connected(self, path: str) -> bool:
        try:
            self._socket.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        return True

    def _is_up(self, port: int) -> bool:
        return b'"UP"' in self._ask(f"/ethdev/link_status,{port}")

    def _until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _READY_S
        while not holds():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise self._failed("does not get ready")
            time.sleep(0.02)

    def _failed(self, what: str) -> TrialFailed:
        self._socket.close()
        return TrialFailed(f"a DPDK program {what}\n{self._process.last_words()}".rstrip())


def devices(track: Track, parts: Sequence[str]) -> list[str]:
    """Return the devices of parts with the arguments that engine dpdk gives them."""
    layout = track.layout
    endpoints = [layout.endpoints[part] for part in parts]
    options = [
        ENGINES["dpdk"].port_options(
            layout.wiring, track.node(part), endpoints, index, layout.test.driver
        )
        for index, part in enumerate(parts)
    ]
    return [str(option["device"]) for option in options]


def eal(
    bed: Bed, name: str, cpu: int, vdevs: Sequence[str], *, megabytes: int = _MEGABYTES
) -> tuple[str, ...]:
    """Return EAL's options: memory as switchmark's engine has it, without hugepages, and one lcore
    that works on a CPU where the main one sleeps. What the program leaves goes with the block that
    this is called in."""
    left = f"{bed.folder}/dpdk/{name}"
    remove = ("rm", "-rf", left)
    bed.executor.execute((Run(f"no files of a {name} before", remove, undo=remove),))
    return (
        *("--main-lcore", "0", "--lcores", f"0@{cpu},1@{cpu}"),
        *("--no-huge", "--single-file-segments", "-m", str(megabytes), "--no-pci"),
        *("--file-prefix", name, "--log-level", "*:warning"),
        *(word for one in vdevs for word in ("--vdev", one)),
    )


def testpmd(
    bed: Bed, track: Track, program: str, mode: str, parts: Sequence[str], options: Sequence[str]
) -> Process:
    """Run dpdk-testpmd in forwarding mode `mode`, with the devices of these parts, at the place and
    on the CPU of the first, until the block that this is called in ends. Where it is to be
    connected to it listens."""
    name = f"testpmd-{parts[0]}"
    node = track.node(parts[0])
    argv = (
        program,
        *eal(bed, name, track.cpu(parts[0]), devices(track, parts)),
        "--",
        *(f"--forward-mode={mode}", "--nb-cores=1"),
        *(f"--rxd={DESCRIPTORS}", f"--txd={DESCRIPTORS}"),
        f"--total-num-mbufs={MBUFS * len(parts)}",
        *("--disable-link-check", "--no-lsc-interrupt"),
        *options,
    )
    with ExitStack() as stack:
        for part in parts:
            stack.enter_context(listening(bed, track, part, name))
        return bed.start(name, argv, node, env={"RUNTIME_DIRECTORY": str(bed.folder)})


@contextmanager
def listening(bed: Bed, track: Track, part: str, name: str) -> Iterator[None]:
    """Start program `name` in the block; after it, the program listens where this part is to be
    connected to. What it leaves goes with the block around this one."""
    end = track.layout.endpoints[part]
    if not end.server:
        yield
        return
    remove = ("rm", "-f", end.path)
    bed.executor.execute((Run("no socket of another before", remove, undo=remove),))
    yield
    listens = ("ss", "--unix", "--no-header", "state", "listening", "src", end.path)
    check = Check(listens, track.node(part), pattern=r"\S")
    bed.executor.execute((Wait(f"{name} listens", check, unless_dead=name),))


def telemetry(bed: Bed, name: str, process: Process, ports: Sequence[int]) -> Telemetry:
    """Return the telemetry of a program whose options `eal` gave, once all its ports have their
    links."""
    return Telemetry(f"{bed.folder}/dpdk/{name}/dpdk_telemetry.v2", process, ports)
