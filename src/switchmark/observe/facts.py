"""The facts about a host that influence a figure, for `host.json` and `doctor`.

Unreadable facts are None. The kernel's command line may hold secrets, so only known parameters are
kept.
"""

from __future__ import annotations

import gzip
import platform
import re
import zlib
from collections.abc import Mapping
from contextlib import suppress
from fnmatch import fnmatch
from typing import Any

from switchmark import __version__
from switchmark.errors import Unavailable
from switchmark.hosts.base import Host
from switchmark.hosts.commit import own_commit
from switchmark.model.choice import chosen
from switchmark.observe.firmware import firmware_facts

_CMDLINE = re.compile(
    r"(isolcpus|nohz|nohz_full|rcu_nocbs|irqaffinity|mitigations|hugepages|hugepagesz"
    r"|default_hugepagesz|transparent_hugepage|intel_pstate|amd_pstate|intel_idle\.max_cstate"
    r"|processor\.max_cstate|idle|nosmt|intel_iommu|amd_iommu|iommu|tsc|clocksource|preempt)"
    r"(=[A-Za-z0-9_,.:-]*)?"
)
FIGURE_OPTIONS = (
    "CONFIG_IRQ_TIME_ACCOUNTING",
    "CONFIG_NO_HZ_FULL",
    "CONFIG_PREEMPT",
    "CONFIG_PREEMPT_VOLUNTARY",
    "CONFIG_RPS",
)
"""The build options of a kernel that influence figures."""

_CPU = "/sys/devices/system/cpu"
_CPUINFO, _MEMINFO, _COMMANDS = "/proc/cpuinfo", "/proc/meminfo", "/proc/cmdline"
_RELEASE, _DISTRIBUTION = "/proc/sys/kernel/osrelease", "/etc/os-release"
_CONFIG = "/proc/config.gz"
_MACHINE_ID = "/etc/machine-id"
_CLOCK = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
_KERNEL_BUILD, _NODES = "/proc/sys/kernel/version", "/sys/devices/system/node/online"
_TRANSPARENT = "/sys/kernel/mm/transparent_hugepage/enabled"
_BOOST, _NO_TURBO = f"{_CPU}/cpufreq/boost", f"{_CPU}/intel_pstate/no_turbo"
_DPDK = ("/usr/lib*/*/pkgconfig/libdpdk.pc", "/usr/local/lib*/*/pkgconfig/libdpdk.pc")
_VULNERABILITIES = f"{_CPU}/vulnerabilities/*"


def host_facts(host: Host) -> dict[str, Any]:
    """Return the facts about a host, as values for JSON."""
    single = (_CPUINFO, _MEMINFO, _COMMANDS, _RELEASE, _DISTRIBUTION, _CLOCK)
    paths = (_KERNEL_BUILD, _NODES, _TRANSPARENT, _BOOST, _NO_TURBO, *_DPDK)
    scaling = ("online", "isolated", "smt/active", "cpu0/cpufreq/scaling_governor")
    content = host.read_all(
        *single, *paths, *(f"{_CPU}/{name}" for name in scaling), _VULNERABILITIES
    )
    files = {path: data.decode(errors="replace").strip() for path, data in content.items()}
    online, isolated, smt, governor = (files.get(f"{_CPU}/{name}") or None for name in scaling)
    options = kernel_options(host)
    memory, cpu = (_table(files.get(path, "")) for path in (_MEMINFO, _CPUINFO))
    return {
        "kernel": files.get(_RELEASE) or None,
        "kernel_build": files.get(_KERNEL_BUILD) or None,
        "kernel_options": sorted(options.intersection(FIGURE_OPTIONS)) if options else None,
        "machine": platform.machine() if host.is_local else _output_of(host, "uname", "-m"),
        "distribution": _table(files.get(_DISTRIBUTION, ""), "=").get("PRETTY_NAME", "").strip('"')
        or None,
        "cpu_model": cpu.get("model name") or cpu.get("Model"),
        "microcode": cpu.get("microcode"),
        "numa_nodes": files.get(_NODES) or None,
        "cores_online": online,
        "cores_usable": len(host.allowed_cpus()),
        "cores_isolated": isolated,
        "smt": smt,
        "governor": governor,
        "boost": _boost(files),
        "clocksource": files.get(_CLOCK) or None,
        "tsc": _steady_tsc(cpu),
        "virtual": "hypervisor" in cpu.get("flags", "").split(),
        "memory_kib": _kib(memory.get("MemTotal")),
        "hugepages": {
            "total": _kib(memory.get("HugePages_Total")),
            "free": _kib(memory.get("HugePages_Free")),
            "size_kib": _kib(memory.get("Hugepagesize")),
        },
        **firmware_facts(host),
        "transparent_hugepages": (chosen(content.get(_TRANSPARENT, b"")) or b"").decode() or None,
        "mitigations": {
            path.rpartition("/")[2]: text or None
            for path, text in files.items()
            if fnmatch(path, _VULNERABILITIES)
        },
        "kernel_parameters": [
            word for word in files.get(_COMMANDS, "").split() if _CMDLINE.fullmatch(word)
        ],
        "versions": {
            "switchmark": __version__,
            "commit": own_commit() if host.is_local else None,
            "python": platform.python_version() if host.is_local else None,
            "dpdk": _dpdk(files),
        },
    }


def _output_of(host: Host, *argv: str) -> str:
    return host.run(argv).stdout.decode(errors="replace").strip()


def _boost(files: Mapping[str, str]) -> bool | None:
    """Return whether cores may exceed their base frequency, according to either frequency
    driver."""
    meanings = {_BOOST: {"1": True, "0": False}, _NO_TURBO: {"0": True, "1": False}}
    return next((means.get(files[path]) for path, means in meanings.items() if path in files), None)


def _dpdk(files: Mapping[str, str]) -> str | None:
    """Return the version of the installed DPDK development files."""
    texts = (text for path, text in files.items() if path.endswith("/libdpdk.pc"))
    return next((_table(text)["Version"] for text in texts if "Version" in _table(text)), None)


def identity(host: Host) -> str:
    """Return the identity of a host as far as it influences figures: its processor, its kernel and
    its machine id."""
    named = host.read_all(_MACHINE_ID, _RELEASE)
    texts = {path: content.decode(errors="replace").strip() for path, content in named.items()}
    return ", ".join(filter(None, (cpu_model(host), texts.get(_RELEASE), texts.get(_MACHINE_ID))))


def kernel_release(host: Host) -> str:
    """Return the release of a host's kernel. Raise Unavailable if it cannot be read."""
    try:
        return host.read(_RELEASE).decode(errors="replace").strip()
    except OSError as error:
        raise Unavailable(f"the kernel does not tell its release: {error}") from error


def kernel_options(host: Host) -> frozenset[str]:
    """Return the build options of a host's kernel, such as `CONFIG_RPS`; empty if the host does not
    publish them."""
    lines = kernel_config(host).splitlines()
    return frozenset(line.partition("=")[0] for line in lines if line.endswith(("=y", "=m")))


def kernel_config(host: Host) -> str:
    """Return the build configuration of a host's kernel: the kernel's own copy, otherwise the file
    in /boot; empty if both are missing."""
    stored = "/boot/config"
    with suppress(Unavailable):
        stored = f"/boot/config-{kernel_release(host)}"
    files = host.read_all(_CONFIG, stored)
    content = files.get(stored, b"")
    with suppress(KeyError, OSError, EOFError, zlib.error):  # missing, not gzip, or truncated
        content = gzip.decompress(files[_CONFIG])
    return content.decode(errors="replace")


def cpu_model(host: Host) -> str:
    """Return the name of a host's processor; empty if the kernel does not know it."""
    return _table(host.read(_CPUINFO).decode(errors="replace")).get("model name", "")


def steady_tsc(host: Host) -> list[str]:
    """Return the flags `constant_tsc` and `nonstop_tsc` of a host's processor, if set."""
    return _steady_tsc(_table(host.read_all(_CPUINFO).get(_CPUINFO, b"").decode(errors="replace")))


def _steady_tsc(cpu: Mapping[str, str]) -> list[str]:
    return sorted({"constant_tsc", "nonstop_tsc"} & set(cpu.get("flags", "").split()))


def _table(text: str, separator: str = ":") -> dict[str, str]:
    """Return the first value of each key in lines `key: value`."""
    table: dict[str, str] = {}
    for line in text.splitlines():
        key, separated, value = line.partition(separator)
        if separated:
            table.setdefault(key.strip(), value.strip())
    return table


def _kib(text: str | None) -> int | None:
    return int(text.split()[0]) if text else None
