"""The host's noise certificate, which measures other activity on the cores of a test, and the
kernel's counts around each trial. Values that a host does not publish are None."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from switchmark import clock
from switchmark.errors import Unavailable
from switchmark.hosts.base import Host
from switchmark.model.cpus import format_cpus
from switchmark.model.noise import BUSY, HostActivity, Jitter, NoiseCertificate
from switchmark.observe.cpus import read_cpus
from switchmark.observe.facts import steady_tsc
from switchmark.observe.taken import Reads

JITTER_MS = 10
NEEDED_CPUS = 3
"""The CPUs of a test: for the sender, the receiver and the switch."""
LONG_JITTER_MS = 100
"""Several time slices of the scheduler, which last 4 ms or longer."""
HZ = 100  # of /proc/stat, independent of the kernel's own HZ
IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL = 3, 4, 5, 6, 7
STAT = "/proc/stat"
_COUNTS = (STAT, "/proc/interrupts", "/proc/pressure/cpu")
_FREQUENCY = "/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq"


def certificate(
    host: Host, program: str, cpus: Collection[int], ms: int = JITTER_MS
) -> NoiseCertificate:
    """Measure the noise on some CPUs now: run the traffic program's jitter probe, and read the
    kernel's counts before and after it. This takes some 10 ms more than the probe."""
    before = Snapshot.read(host, cpus)
    jitter = probe_jitter(host, program, cpus, ms)
    meanwhile = Snapshot.read(host, cpus).since(before)
    return NoiseCertificate(
        at=clock.stamp(),
        jitter=jitter,
        **dict(meanwhile),
        tsc=tuple(steady_tsc(host)),
    )


def probe_jitter(
    host: Host,
    program: str,
    cpus: Collection[int],
    ms: int = JITTER_MS,
    before: tuple[str, ...] = (),
) -> dict[str, Jitter] | None:
    """Return the CPU time that a busy loop on each CPU lost; None if the host cannot run the
    program. `before` is a prefix of the command, for parallel work."""
    if not cpus:
        return None
    try:
        completed = host.run(
            (*before, program, "jitter", "--cpus", format_cpus(cpus), "--ms", str(ms))
        )
    except Unavailable:
        return None
    if completed.status:
        return None
    return {
        str(cpu["cpu"]): Jitter(
            lost=round(cpu["lost_ns"] / cpu["elapsed_ns"], 6) if cpu["elapsed_ns"] else None,
            max_ns=cpu["max_ns"],
            gaps=cpu["histogram"],
            skew_ns=cpu.get("skew_ns"),
            skew_within_ns=cpu.get("skew_within_ns"),
        )
        for cpu in json.loads(completed.stdout)["cpus"]
    }


def busy_cpus(host: Host, program: str) -> dict[str, float]:
    """Return the share of each busy CPU that other processes use, if too few quiet CPUs remain for
    a test; empty if enough CPUs are quiet or the program cannot run. This takes 0.1 s."""
    cpus = [cpu.id for cpu in read_cpus(host)]
    jitter = probe_jitter(host, program, cpus, LONG_JITTER_MS) or {}
    lost = {cpu: jitter_.lost or 0.0 for cpu, jitter_ in jitter.items()}
    taken = {cpu: share for cpu, share in lost.items() if share > BUSY}
    return taken if len(cpus) - len(taken) < min(NEEDED_CPUS, len(cpus)) else {}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The kernel's counts at one moment."""

    at_s: float
    """The time of the reading."""
    times: Mapping[int, tuple[int, ...]]
    """The clock ticks by CPU and kind; CPU -1 is the whole host."""
    interrupts: Mapping[int, int]
    """The interrupts of devices, by CPU."""
    frequency_khz: Mapping[int, int]
    """The frequency, by CPU."""
    waited_us: int | None
    """The time that processes waited for a CPU (PSI); None if the kernel does not count it."""

    @classmethod
    def read(cls, host: Reads, cpus: Collection[int]) -> Snapshot:
        """Read the counts of some CPUs, from a host or from files that were read earlier."""
        files = host.read_all(*snapshot_files(cpus))
        stat, interrupts, pressure = (files.get(path, b"") for path in _COUNTS)
        return cls(
            clock.monotonic(),
            parse_cpu_times(stat, cpus),
            _interrupts(interrupts, cpus),
            {
                cpu: int(files[path])
                for cpu in sorted(cpus)
                if files.get(path := _FREQUENCY.format(cpu=cpu), b"").strip()
            },
            _pressure(pressure),
        )

    def since(self, before: Snapshot) -> HostActivity:
        """Return the activity between two snapshots."""
        elapsed = max(self.at_s - before.at_s, 1e-9)
        all_now, all_then = self.times.get(-1, ()), before.times.get(-1, ())
        spent = [now - then for now, then in zip(all_now, all_then, strict=False)]
        waited = None
        if self.waited_us is not None and before.waited_us is not None:
            waited = (self.waited_us - before.waited_us) / elapsed / 1e6
        return HostActivity(
            elapsed_s=round(elapsed, 4),
            stolen=spent[STEAL] / max(sum(spent), 1) if len(spent) > STEAL else None,
            softirq_cores=round(spent[SOFTIRQ] / HZ / elapsed, 4) if spent else None,
            interrupts_per_s={
                str(cpu): round((count - before.interrupts.get(cpu, 0)) / elapsed, 1)
                for cpu, count in self.interrupts.items()
            },
            frequency_khz={
                str(cpu): (before.frequency_khz.get(cpu), khz)
                for cpu, khz in self.frequency_khz.items()
            }
            or None,
            pressure=None if waited is None else round(waited, 4),
        )


def snapshot_files(cpus: Collection[int]) -> list[str]:
    """Return the files with the counts of some CPUs."""
    return [*_COUNTS, *(_FREQUENCY.format(cpu=cpu) for cpu in cpus)]


def cpu_times(host: Host, cpus: Collection[int] = ()) -> Mapping[int, tuple[int, ...]]:
    """Return the clock ticks of a host's CPUs (see `parse_cpu_times`)."""
    return parse_cpu_times(host.read(STAT), cpus)


def parse_cpu_times(stat: bytes, cpus: Collection[int]) -> Mapping[int, tuple[int, ...]]:
    """Return clock ticks from /proc/stat by CPU, with the whole host under -1, and by kind, such as
    IRQ and SOFTIRQ."""
    times = {}
    for line in stat.decode().splitlines():
        name, *fields = line.split()
        if name == "cpu":
            times[-1] = tuple(map(int, fields[:8]))
        elif name.startswith("cpu") and int(name[3:]) in cpus:
            times[int(name[3:])] = tuple(map(int, fields[:8]))
    return times


def stolen(earlier: Sequence[int], now: Sequence[int]) -> float:
    """Return a lower bound of the share of CPU time that the hypervisor stole between two readings:
    the first tick may belong to the time before them."""
    spent = [after - before for after, before in zip(now, earlier, strict=True)]
    return max(0, spent[STEAL] - 1) / max(sum(spent), 1)


class Steal:
    """A function object that returns the share of a host's CPU time that its hypervisor stole since
    the last call."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._last = self._read()

    def __call__(self) -> float:
        before, self._last = self._last, self._read()
        return stolen(before, self._last)

    def _read(self) -> tuple[int, ...]:
        return cpu_times(self._host)[-1]


def _interrupts(text: bytes, cpus: Collection[int]) -> Mapping[int, int]:
    """Return the interrupts of devices, whose names are numbers; timers and interrupts between CPUs
    have other names."""
    head, *rows = text.decode(errors="replace").splitlines() or [""]
    columns = [int(name.removeprefix("CPU")) for name in head.split()]
    counts = {cpu: 0 for cpu in columns if cpu in cpus}
    for row in rows:
        name, *fields = row.split()
        if name.rstrip(":").isdecimal():
            for cpu, count in zip(columns, fields, strict=False):
                if cpu in counts and count.isdecimal():
                    counts[cpu] += int(count)
    return counts


def _pressure(text: bytes) -> int | None:
    for line in text.decode().splitlines():
        if line.startswith("some"):
            return int(line.rpartition("total=")[2])
    return None
