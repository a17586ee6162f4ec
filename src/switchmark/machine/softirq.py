"""The time that the kernel spends in interrupts, by CPU, and what of it is within the CPU time of
threads already: not to be counted twice, nor forgotten."""

from __future__ import annotations

import gzip
import re
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from switchmark.machine.noise import HZ, IRQ, SOFTIRQ, cpu_times

__all__ = ["SoftirqTimes", "within_threads"]

_OPTION = re.compile(rb"^(?:# )?CONFIG_IRQ_TIME_ACCOUNTING(=y| is not set)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SoftirqTimes:
    """Interrupts up to a moment, in seconds by CPU: of devices (`irq`), of the kernel's deferred
    work such as packets (`softirq`), and that of it which ksoftirqd did, None where its thread
    cannot be seen (from within a pid namespace)."""

    at_s: float
    irq: Mapping[int, float]
    softirq: Mapping[int, float]
    daemon: Mapping[int, float | None]

    @classmethod
    def read(cls, cpus: Collection[int], root: Path = Path("/")) -> SoftirqTimes:
        """Those of some CPUs of this machine; `root` is another one's for tests."""
        times = cpu_times(root, cpus)
        threads = _daemons(root)
        return cls(
            time.monotonic(),
            {cpu: times[cpu][IRQ] / HZ for cpu in cpus if cpu in times},
            {cpu: times[cpu][SOFTIRQ] / HZ for cpu in cpus if cpu in times},
            {cpu: _ran_s(threads.get(cpu)) for cpu in cpus if cpu in times},
        )

    def since(self, before: SoftirqTimes, *, within: bool | None) -> dict[str, Any]:
        """What happened in between, in cores: by CPU, and `outside`, what no other thread's CPU
        time has in it. `within` is the answer of `within_threads`; without one `outside` is None,
        unless there was nothing."""
        elapsed = max(self.at_s - before.at_s, 1e-9)
        cpus: dict[str, dict[str, float | None]] = {}
        outside: list[float | None] = []
        for cpu in self.softirq.keys() & before.softirq.keys():
            irq = (self.irq[cpu] - before.irq[cpu]) / elapsed
            softirq = (self.softirq[cpu] - before.softirq[cpu]) / elapsed
            then, now = before.daemon[cpu], self.daemon[cpu]
            daemon = None if then is None or now is None else (now - then) / elapsed
            cpus[str(cpu)] = {"irq": irq, "softirq": softirq, "ksoftirqd": daemon}
            if within:  # a thread pays for what interrupts it; for ksoftirqd nobody else does
                outside.append(daemon if softirq else 0.0)
            else:
                outside.append(irq + softirq if within is False or not irq + softirq else None)
        known = [cores for cores in outside if cores is not None]
        return {
            "cpus": cpus,
            "within_threads": within,
            "outside": sum(known) if len(known) == len(outside) else None,
        }


@cache
def within_threads(root: Path = Path("/")) -> bool | None:
    """Whether the CPU time of a thread has that of the interrupts in it which came meanwhile.

    So it is unless the kernel tells them apart: CONFIG_IRQ_TIME_ACCOUNTING, but for
    `tsc=noirqtime`. Without it /proc/stat has samples, a tick each. None where neither the
    kernel's configuration nor the pressure of interrupts (PSI, 6.1) tells.
    """
    if b"tsc=noirqtime" in _content(root / "proc/cmdline").split():
        return True
    if (root / "proc/pressure/irq").exists():
        return False
    release = _content(root / "proc/sys/kernel/osrelease").decode().strip()
    for path in (root / "proc/config.gz", root / f"boot/config-{release}"):
        if found := _OPTION.search(_content(path)):
            return found[1] != b"=y"
    return None


@cache
def _daemons(root: Path) -> Mapping[int, Path]:
    """The folder in /proc of the ksoftirqd of each CPU."""
    found = {}
    for path in (root / "proc").glob("[0-9]*/comm"):
        name, _, cpu = _content(path).decode(errors="replace").strip().partition("/")
        if name == "ksoftirqd" and cpu.isdecimal():
            found[int(cpu)] = path.parent
    return found


def _ran_s(folder: Path | None) -> float | None:
    words = _content(folder / "schedstat").split() if folder else []
    return int(words[0]) / 1e9 if words else None


def _content(path: Path) -> bytes:
    try:
        return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except OSError:
        return b""
