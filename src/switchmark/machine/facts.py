"""What a host is, as far as it matters to a figure: for `host.json` and for `doctor`.

Reads /proc and /sys; starts nothing. What cannot be read is None. Of the kernel's command line
only known parameters are kept: the rest may hold secrets.
"""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Any

from switchmark import __version__
from switchmark.machine.host import Host

__all__ = ["boot_id", "cpu_model", "host_facts"]

_CMDLINE = re.compile(
    r"(isolcpus|nohz|nohz_full|rcu_nocbs|irqaffinity|mitigations|hugepages|hugepagesz"
    r"|default_hugepagesz|transparent_hugepage|intel_pstate|amd_pstate|intel_idle\.max_cstate"
    r"|processor\.max_cstate|idle|nosmt|intel_iommu|amd_iommu|iommu|tsc|clocksource|preempt)"
    r"(=[A-Za-z0-9_,.:-]*)?"
)
_VULNERABILITIES = "sys/devices/system/cpu/vulnerabilities"


def host_facts(root: Path = Path("/")) -> dict[str, Any]:
    """The facts of this machine, as JSON can hold them; `root` is another machine's for tests."""
    memory = _table(root / "proc/meminfo")
    cpu = _table(root / "proc/cpuinfo")
    words = (_read(root / "proc/cmdline") or "").split()
    return {
        "kernel": _read(root / "proc/sys/kernel/osrelease"),
        "machine": platform.machine(),
        "distribution": _table(root / "etc/os-release", "=").get("PRETTY_NAME", "").strip('"')
        or None,
        "cpu_model": cpu.get("model name") or cpu.get("Model"),
        "cores_online": _read(root / "sys/devices/system/cpu/online"),
        "cores_usable": len(os.sched_getaffinity(0)),
        "cores_isolated": _read(root / "sys/devices/system/cpu/isolated"),
        "smt": _read(root / "sys/devices/system/cpu/smt/active"),
        "governor": _read(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "clocksource": _read(
            root / "sys/devices/system/clocksource/clocksource0/current_clocksource"
        ),
        "tsc": sorted({"constant_tsc", "nonstop_tsc"} & set(cpu.get("flags", "").split())),
        "virtual": "hypervisor" in cpu.get("flags", "").split(),
        "memory_kib": _kib(memory.get("MemTotal")),
        "hugepages": {
            "total": _kib(memory.get("HugePages_Total")),
            "free": _kib(memory.get("HugePages_Free")),
            "size_kib": _kib(memory.get("Hugepagesize")),
        },
        "mitigations": {
            file.name: _read(file) for file in sorted((root / _VULNERABILITIES).glob("*"))
        },
        "kernel_parameters": [word for word in words if _CMDLINE.fullmatch(word)],
        "versions": {"switchmark": __version__, "python": platform.python_version()},
    }


def boot_id(host: Host) -> str:
    """The name that the kernel of a host gave itself when it was booted."""
    return host.read("/proc/sys/kernel/random/boot_id").decode().strip()


def cpu_model(host: Host) -> str:
    """The name of a host's processor; empty where the kernel does not know it."""
    found = re.search(
        r"model name[^:\n]*:(.*)", host.read("/proc/cpuinfo").decode(errors="replace")
    )
    return found[1].strip() if found else ""


def _read(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip() or None
    except OSError:
        return None


def _table(path: Path, separator: str = ":") -> dict[str, str]:
    """The first value of each key of a file of `key: value` lines."""
    table: dict[str, str] = {}
    for line in (_read(path) or "").splitlines():
        key, found, value = line.partition(separator)
        if found:
            table.setdefault(key.strip(), value.strip())
    return table


def _kib(text: str | None) -> int | None:
    return int(text.split()[0]) if text else None
