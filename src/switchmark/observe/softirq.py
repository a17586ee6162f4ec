"""This module reads what the kernel says of its CPUs: how long each was at work, how long in
interrupts, and what of that is within the CPU time of threads already: not to be counted twice, nor
forgotten."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache

from switchmark.hosts.base import Host
from switchmark.model.cost import InterruptCost, InterruptTimes
from switchmark.observe.facts import kernel_config
from switchmark.observe.noise import (
    HZ,
    IDLE,
    IOWAIT,
    IRQ,
    SOFTIRQ,
    STAT,
    STEAL,
    parse_cpu_times,
    stolen,
)
from switchmark.observe.taken import Reads

_CMDLINE = "/proc/cmdline"
_OPTION = re.compile(r"^(?:# )?CONFIG_IRQ_TIME_ACCOUNTING(=y| is not set)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SoftirqTimes:
    """These are the ticks of each CPU up to a moment, by what it did, and its interrupts in
    seconds: of devices (`irq`), of the kernel's deferred work such as packets (`softirq`), and that
    of it which ksoftirqd did, None where its thread cannot be seen (from within a pid
    namespace)."""

    at_s: float
    ticks: Mapping[int, tuple[int, ...]]
    irq: Mapping[int, float]
    softirq: Mapping[int, float]
    daemon: Mapping[int, float | None]
    whole: tuple[int, ...] = ()
    """The ticks of all CPUs of the host together."""

    @classmethod
    def read(cls, host: Host, cpus: Collection[int], taken: Reads) -> SoftirqTimes:
        """Read the times of some CPUs of a host from its files that were taken."""
        daemons = _daemons(host)
        files = taken.read_all(*softirq_files(host, cpus))
        times = parse_cpu_times(files.get(STAT, b""), cpus)
        return cls(
            time.monotonic(),
            {cpu: times[cpu] for cpu in cpus if cpu in times},
            {cpu: times[cpu][IRQ] / HZ for cpu in cpus if cpu in times},
            {cpu: times[cpu][SOFTIRQ] / HZ for cpu in cpus if cpu in times},
            {cpu: _ran_s(files.get(daemons.get(cpu, ""), b"")) for cpu in cpus if cpu in times},
            times.get(-1, ()),
        )

    def stolen_since(self, before: SoftirqTimes) -> float:
        """Return the share of all CPU time in between that the hypervisor kept."""
        return stolen(before.whole, self.whole)

    def loads_since(self, before: SoftirqTimes) -> dict[str, float]:
        """Return by CPU the share of the time in between that it was at work, as the scheduler
        tells it: not idle, nor kept by the hypervisor."""
        loads: dict[str, float] = {}
        for cpu in self.ticks.keys() & before.ticks.keys():
            spent = [
                now - then for now, then in zip(self.ticks[cpu], before.ticks[cpu], strict=True)
            ]
            if sum(spent):
                rest = sum(spent[kind] for kind in (IDLE, IOWAIT, STEAL) if kind < len(spent))
                loads[str(cpu)] = 1 - rest / sum(spent)
        return loads

    def since(self, before: SoftirqTimes, *, within: bool | None) -> InterruptCost:
        """Return what happened in between. `within` is the answer of `within_threads`; without one
        nobody knows what is `outside`, unless there was nothing."""
        elapsed = max(self.at_s - before.at_s, 1e-9)
        cpus: dict[str, InterruptTimes] = {}
        outside: list[float | None] = []
        for cpu in self.softirq.keys() & before.softirq.keys():
            irq = (self.irq[cpu] - before.irq[cpu]) / elapsed
            softirq = (self.softirq[cpu] - before.softirq[cpu]) / elapsed
            then, now = before.daemon[cpu], self.daemon[cpu]
            daemon = None if then is None or now is None else (now - then) / elapsed
            cpus[str(cpu)] = InterruptTimes(irq=irq, softirq=softirq, ksoftirqd=daemon)
            if within:  # a thread pays for what interrupts it; for ksoftirqd nobody else does
                outside.append(daemon if softirq else 0.0)
            else:
                outside.append(irq + softirq if within is False or not irq + softirq else None)
        known = [cores for cores in outside if cores is not None]
        return InterruptCost(
            cpus=cpus,
            within_threads=within,
            outside=sum(known) if len(known) == len(outside) else None,
        )


def softirq_files(host: Host, cpus: Collection[int]) -> list[str]:
    """Return the files in which the times of some CPUs are."""
    daemons = _daemons(host)
    return [STAT, *(daemons[cpu] for cpu in cpus if cpu in daemons)]


@cache
def within_threads(host: Host) -> bool | None:
    """Say whether the CPU time of a thread has that of the interrupts in it which came meanwhile.

    So it is unless the kernel tells them apart: CONFIG_IRQ_TIME_ACCOUNTING, but for
    `tsc=noirqtime`. Without it /proc/stat has samples, a tick each. None where neither the kernel's
    configuration nor the pressure of interrupts (PSI, 6.1) tells.
    """
    if b"tsc=noirqtime" in host.read_all(_CMDLINE).get(_CMDLINE, b"").split():
        return True
    if host.exists("/proc/pressure/irq"):
        return False
    match = _OPTION.search(kernel_config(host))
    return match[1] != "=y" if match else None


@cache
def _daemons(host: Host) -> Mapping[int, str]:
    """Return the file in /proc with the CPU time of the ksoftirqd of each CPU."""
    paths = {}
    for path, content in host.read_all("/proc/[0-9]*/comm").items():
        name, _, cpu = content.decode(errors="replace").strip().partition("/")
        if name == "ksoftirqd" and cpu.isdecimal():
            paths[int(cpu)] = f"{path.removesuffix('comm')}schedstat"
    return paths


def _ran_s(schedstat: bytes) -> float | None:
    words = schedstat.split()
    return int(words[0]) / 1e9 if words else None
