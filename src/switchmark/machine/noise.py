"""What else happens on the cores of a test: the host's noise certificate, and the counts of the
kernel around each trial. What a host does not tell is None."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from switchmark.errors import Unavailable
from switchmark.machine.cpus import format_cpus
from switchmark.machine.host import Host

__all__ = [
    "HZ",
    "IRQ",
    "JITTER_MS",
    "SOFTIRQ",
    "Snapshot",
    "Steal",
    "certificate",
    "cpu_times",
    "probe_jitter",
    "thread_switches",
    "thread_times",
]

JITTER_MS = 10
HZ = 100  # of /proc/stat, whatever the kernel's own
IRQ, SOFTIRQ, _STEAL = 5, 6, 7


def certificate(host: Host, program: str, cpus: Collection[int], *, root: Path = Path("/")) -> Any:
    """The noise of some CPUs now, as a record keeps it: a jitter probe by the traffic program, and
    what the kernel counted meanwhile. Takes some 20 ms."""
    before = Snapshot.read(cpus, root)
    jitter = probe_jitter(host, program, cpus)
    return {
        "at": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "jitter": jitter,
        **Snapshot.read(cpus, root).since(before),
        "tsc": _tsc(root),
    }


def probe_jitter(host: Host, program: str, cpus: Collection[int], ms: int = JITTER_MS) -> Any:
    """By CPU: the share of its time that a busy loop did not get, the longest gap, and the gaps
    longer than a microsecond as pairs of a least length in ns and how many. None where the
    program cannot be run there."""
    if not cpus:
        return None
    try:
        done = host.run((program, "jitter", "--cpus", format_cpus(cpus), "--ms", str(ms)))
    except Unavailable:
        return None
    if done.status:
        return None
    return {
        str(cpu["cpu"]): {
            "lost": round(cpu["lost_ns"] / cpu["elapsed_ns"], 6) if cpu["elapsed_ns"] else None,
            "max_ns": cpu["max_ns"],
            "gaps": cpu["histogram"],
        }
        for cpu in json.loads(done.stdout)["cpus"]
    }


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The kernel's counts at one moment. `times` are clock ticks by CPU and kind, the whole
    machine's under -1; `interrupts` those of devices by CPU; `frequency_khz` by CPU."""

    at_s: float
    times: Mapping[int, tuple[int, ...]]
    interrupts: Mapping[int, int]
    frequency_khz: Mapping[int, int]
    waited_us: int | None

    @classmethod
    def read(cls, cpus: Collection[int], root: Path = Path("/")) -> Snapshot:
        """Those of some CPUs of this machine; `root` is another one's for tests."""
        return cls(
            time.monotonic(),
            cpu_times(root, cpus),
            _interrupts(root, cpus),
            _frequencies(root, cpus),
            _pressure(root),
        )

    def since(self, before: Snapshot) -> dict[str, Any]:
        """What happened in between: `stolen` share of all CPU time, `softirq_cores` of the whole
        machine, `interrupts_per_s` and `frequency_khz` (then, now) by CPU, and `pressure`, the
        share of time in which somebody waited for a CPU (PSI)."""
        elapsed = max(self.at_s - before.at_s, 1e-9)
        all_now, all_then = self.times.get(-1, ()), before.times.get(-1, ())
        spent = [now - then for now, then in zip(all_now, all_then, strict=False)]
        waited = None
        if self.waited_us is not None and before.waited_us is not None:
            waited = (self.waited_us - before.waited_us) / elapsed / 1e6
        return {
            "elapsed_s": round(elapsed, 4),
            "stolen": spent[_STEAL] / max(sum(spent), 1) if len(spent) > _STEAL else None,
            "softirq_cores": round(spent[SOFTIRQ] / HZ / elapsed, 4) if spent else None,
            "interrupts_per_s": {
                str(cpu): round((count - before.interrupts.get(cpu, 0)) / elapsed, 1)
                for cpu, count in self.interrupts.items()
            },
            "frequency_khz": {
                str(cpu): [before.frequency_khz.get(cpu), khz]
                for cpu, khz in self.frequency_khz.items()
            }
            or None,
            "pressure": None if waited is None else round(waited, 4),
        }


def cpu_times(root: Path, cpus: Collection[int]) -> Mapping[int, tuple[int, ...]]:
    """Clock ticks by CPU, the whole machine's under -1, and by kind, such as IRQ and SOFTIRQ."""
    found = {}
    for line in _lines(root / "proc/stat"):
        name, *words = line.split()
        if name == "cpu":
            found[-1] = tuple(map(int, words[:8]))
        elif name.startswith("cpu") and int(name[3:]) in cpus:
            found[int(name[3:])] = tuple(map(int, words[:8]))
    return found


class Steal:
    """The share of all CPU time of a machine that its hypervisor kept, since the last call."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._last = self._read()

    def __call__(self) -> float:
        then, self._last = self._last, self._read()
        spent = [now - before for now, before in zip(self._last, then, strict=True)]
        return spent[_STEAL] / max(sum(spent), 1)

    def _read(self) -> tuple[int, ...]:
        return cpu_times(self._root, ())[-1]


def _interrupts(root: Path, cpus: Collection[int]) -> Mapping[int, int]:
    """Of devices, which have a number; timers and calls between CPUs have a name."""
    head, *rows = _lines(root / "proc/interrupts") or [""]
    columns = [int(name.removeprefix("CPU")) for name in head.split()]
    found = {cpu: 0 for cpu in columns if cpu in cpus}
    for row in rows:
        name, *words = row.split()
        if name.rstrip(":").isdecimal():
            for cpu, count in zip(columns, words, strict=False):
                if cpu in found and count.isdecimal():
                    found[cpu] += int(count)
    return found


def _frequencies(root: Path, cpus: Collection[int]) -> Mapping[int, int]:
    found = {}
    for cpu in sorted(cpus):
        path = root / f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq"
        for line in _lines(path)[:1]:
            found[cpu] = int(line)
    return found


def _pressure(root: Path) -> int | None:
    for line in _lines(root / "proc/pressure/cpu"):
        if line.startswith("some"):
            return int(line.rpartition("total=")[2])
    return None


def _tsc(root: Path) -> list[str]:
    flags = next((line for line in _lines(root / "proc/cpuinfo") if line.startswith("flags")), "")
    return sorted({"constant_tsc", "nonstop_tsc"} & set(flags.split()))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def thread_times(pids: Collection[int]) -> dict[str, int]:
    """The CPU time, in ns, that each thread of some processes has used, by its name and id."""
    found = {}
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").glob("*"):
            words = " ".join(_lines(task / "schedstat")).split()
            if words:
                name = " ".join(_lines(task / "comm"))
                found[f"{name}/{task.name}"] = int(words[0])
    return found


def thread_switches(pids: Collection[int]) -> tuple[int, int | None]:
    """How often all threads of some processes were taken off a CPU, and moved to another one;
    None where the kernel does not tell (it has no CONFIG_SCHED_DEBUG)."""
    switches, moves = 0, 0
    told = True
    for task in (task for pid in pids for task in Path(f"/proc/{pid}/task").glob("*")):
        status = [line for line in _lines(task / "status") if "_ctxt_switches:" in line]
        switches += sum(int(line.split()[1]) for line in status)
        moved = [line for line in _lines(task / "sched") if line.startswith("se.nr_migrations")]
        moves += sum(int(line.rpartition(":")[2]) for line in moved)
        told = told and bool(moved) == bool(status)
    return switches, moves if told else None
