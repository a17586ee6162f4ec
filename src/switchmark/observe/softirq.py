"""The CPU time that the kernel reports: the load of each CPU, the time in interrupts, and the part
of that time that threads' CPU time already includes, so that it is counted exactly once."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache

from switchmark import clock
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
    """The times of each CPU up to a moment."""

    at_s: float
    """The moment."""
    ticks: Mapping[int, tuple[int, ...]]
    """The clock ticks, by CPU and kind."""
    irq: Mapping[int, float]
    """The time in device interrupts, in seconds, by CPU."""
    softirq: Mapping[int, float]
    """The time in the kernel's deferred work, such as packet processing, in seconds, by CPU."""
    daemon: Mapping[int, float | None]
    """The CPU time of ksoftirqd, by CPU; None if its thread is not visible (in a pid namespace)."""
    whole: tuple[int, ...] = ()
    """The ticks of all CPUs of the host together."""

    @classmethod
    def read(cls, host: Host, cpus: Collection[int], taken: Reads) -> SoftirqTimes:
        """Read the times of some CPUs from files that were read earlier."""
        daemons = _daemons(host)
        files = taken.read_all(*softirq_files(host, cpus))
        times = parse_cpu_times(files.get(STAT, b""), cpus)
        return cls(
            clock.monotonic(),
            {cpu: times[cpu] for cpu in cpus if cpu in times},
            {cpu: times[cpu][IRQ] / HZ for cpu in cpus if cpu in times},
            {cpu: times[cpu][SOFTIRQ] / HZ for cpu in cpus if cpu in times},
            {cpu: _ran_s(files.get(daemons.get(cpu, ""), b"")) for cpu in cpus if cpu in times},
            times.get(-1, ()),
        )

    def stolen_since(self, before: SoftirqTimes) -> float:
        """Return the share of all CPU time since `before` that the hypervisor stole."""
        return stolen(before.whole, self.whole)

    def loads_since(self, before: SoftirqTimes) -> dict[str, float]:
        """Return the share of the time since `before` that each CPU worked, according to the
        scheduler: neither idle nor stolen by the hypervisor."""
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
        """Return the interrupt time since `before`. `within` is the result of `within_threads`; if
        it is None, `outside` is unknown unless there was no interrupt time."""
        elapsed = max(self.at_s - before.at_s, 1e-9)
        cpus: dict[str, InterruptTimes] = {}
        outside: list[float | None] = []
        for cpu in self.softirq.keys() & before.softirq.keys():
            irq = (self.irq[cpu] - before.irq[cpu]) / elapsed
            softirq = (self.softirq[cpu] - before.softirq[cpu]) / elapsed
            earlier, now = before.daemon[cpu], self.daemon[cpu]
            daemon = None if earlier is None or now is None else (now - earlier) / elapsed
            cpus[str(cpu)] = InterruptTimes(irq=irq, softirq=softirq, ksoftirqd=daemon)
            if within:  # a thread pays for its interrupts; ksoftirqd's time is extra
                outside.append(daemon if softirq else 0.0)
            else:
                outside.append(irq + softirq if within is False or not irq + softirq else None)
        known_cores = [cores for cores in outside if cores is not None]
        return InterruptCost(
            cpus=cpus,
            within_threads=within,
            outside=sum(known_cores) if len(known_cores) == len(outside) else None,
        )


def softirq_files(host: Host, cpus: Collection[int]) -> list[str]:
    """Return the files with the times of some CPUs."""
    daemons = _daemons(host)
    return [STAT, *(daemons[cpu] for cpu in cpus if cpu in daemons)]


@cache
def within_threads(host: Host) -> bool | None:
    """Return whether the CPU time of a thread includes the interrupts during it.

    It does, unless the kernel has CONFIG_IRQ_TIME_ACCOUNTING and runs without `tsc=noirqtime`.
    Without that option the times in /proc/stat are samples, one per tick. Return None if neither
    the kernel's configuration nor the pressure file of interrupts (PSI, 6.1) answers the question.
    """
    if b"tsc=noirqtime" in host.read_all(_CMDLINE).get(_CMDLINE, b"").split():
        return True
    if host.exists("/proc/pressure/irq"):
        return False
    match = _OPTION.search(kernel_config(host))
    return match[1] != "=y" if match else None


@cache
def _daemons(host: Host) -> Mapping[int, str]:
    """Return the file in /proc with the CPU time of each CPU's ksoftirqd."""
    paths = {}
    for path, content in host.read_all("/proc/[0-9]*/comm").items():
        name, _, cpu = content.decode(errors="replace").strip().partition("/")
        if name == "ksoftirqd" and cpu.isdecimal():
            paths[int(cpu)] = f"{path.removesuffix('comm')}schedstat"
    return paths


def _ran_s(schedstat: bytes) -> float | None:
    fields = schedstat.split()
    return int(fields[0]) / 1e9 if fields else None
