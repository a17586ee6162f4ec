"""QEMU: its path, and whether a guest on this host boots on KVM."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from switchmark.hosts.base import Host, boot_id
from switchmark.hosts.caches import cache_folder
from switchmark.hosts.programs import OTHER_PROGRAMS, program_path, program_variable

_SETTING = "qemu"
QEMU_VARIABLE = program_variable(_SETTING)
"""The environment variable that names a QEMU."""

KVM, EMULATED = "kvm", "emulated (tcg)"
"""The ways to run a guest."""


def qemu() -> str:
    """Return the path of QEMU: the user's choice, otherwise the program on PATH."""
    return program_path(OTHER_PROGRAMS[_SETTING], _SETTING)


def processor(*, kvm: bool, cores: int, megabytes: int) -> tuple[str, ...]:
    """Return the options for the processor and memory of a guest."""
    return (
        *("-accel", "kvm" if kvm else "tcg,thread=multi"),
        *("-cpu", "host" if kvm else "Nehalem,+rdrand"),
        *("-smp", str(cores), "-m", str(megabytes)),
    )


def accelerator(host: Host, boots: Callable[[], bool]) -> str:
    """Return how a guest runs. `boots` tries KVM once for each boot of the host, because a stock
    kernel may fail on it even if /dev/kvm exists."""
    if not host.exists("/dev/kvm"):
        return EMULATED
    cache = cache_folder()
    cached = str(cache / f"kvm-{boot_id(host)}")
    with suppress(OSError):
        return host.read(cached).decode()
    mode = KVM if boots() else EMULATED
    with suppress(OSError):  # without a cache, try again next time
        host.run(("mkdir", "-p", str(cache)))
        host.write(cached, mode.encode())
    return mode
