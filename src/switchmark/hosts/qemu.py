"""This module knows QEMU: where it is, and whether a guest of this host boots on KVM."""

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
"""What a guest runs on."""


def qemu() -> str:
    """Return the path of QEMU: the one that the user names, or that on PATH."""
    return program_path(OTHER_PROGRAMS[_SETTING], _SETTING)


def processor(*, kvm: bool, cores: int, megabytes: int) -> tuple[str, ...]:
    """Return the options for what a guest runs on."""
    return (
        *("-accel", "kvm" if kvm else "tcg,thread=multi"),
        *("-cpu", "host" if kvm else "Nehalem,+rdrand"),
        *("-smp", str(cores), "-m", str(megabytes)),
    )


def accelerator(host: Host, boots: Callable[[], bool]) -> str:
    """Say whether a guest boots on KVM, found out by `boots` once for each boot of the host:
    /dev/kvm may be there, and a stock kernel still not run on it."""
    if not host.exists("/dev/kvm"):
        return EMULATED
    cache = cache_folder()
    known = str(cache / f"kvm-{boot_id(host)}")
    with suppress(OSError):
        return host.read(known).decode()
    mode = KVM if boots() else EMULATED
    with suppress(OSError):  # what could not be kept is found out again
        host.run(("mkdir", "-p", str(cache)))
        host.write(known, mode.encode())
    return mode
