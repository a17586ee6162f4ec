"""A virtual machine by QEMU: a kernel of its own, reached over one virtio port.

The guest is Debian's kernel with an image that `tools/guest.sh` makes; its first process is the
traffic program, which starts what `inside` sends (traffic/src/guest.c).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from switchmark.engines.base import traffic_program
from switchmark.environments.base import Attachment, Needs
from switchmark.environments.interfaces import set_up
from switchmark.errors import CommandTimedOut, Unavailable
from switchmark.machine.host import Host
from switchmark.machine.journal import boot_id
from switchmark.model.plan import Check, Node, Plan, Spawn, Wait
from switchmark.model.topology import Endpoint, PortKind
from switchmark.model.version import Version

QEMU_VARIABLE = "SWITCHMARK_QEMU"
BOOT_S = 60.0
_KVM_BOOT_S = 20.0
_KVM, _EMULATED, _VHOST = "kvm", "emulated (tcg)", ", vhost-net"
_FD = 3  # BOOT_FD of traffic/src/machine.h
_OFFLOADS = (
    *("csum", "gso", "guest_csum", "guest_tso4", "guest_tso6", "guest_ecn", "guest_ufo"),
    *("host_tso4", "host_tso6", "host_ecn", "host_ufo"),
)


class Vm:
    """One machine a node, with one CPU, entered by a UNIX socket in the run's folder."""

    name = "vm"
    port_kinds = frozenset({PortKind.TAP})
    isolated = True
    own_kernel = True
    images = False

    def probe(self, host: Host) -> Version:
        """QEMU's version. Its mode is `kvm` where a guest boots on it, else `emulated (tcg)`, and
        says whether frames pass by the host's vhost-net."""
        for file in (_guest("kernel"), _guest("initramfs")):
            if not host.exists(file):
                raise Unavailable(
                    f"the guest of environment vm is not made: no {file}", hint="make setup"
                )
        try:
            done = host.run((qemu(), "--version"))
        except Unavailable as missing:
            raise Unavailable(
                f"{qemu()} is not installed", hint="apt-get install qemu-system-x86"
            ) from missing
        words = done.stdout.decode(errors="replace").split()
        if done.status or "version" not in words:
            raise Unavailable(
                f"{qemu()} does not tell its version", hint="apt-get install qemu-system-x86"
            )
        vhost = _VHOST if host.exists("/dev/vhost-net") else ""
        return Version(words[words.index("version") + 1], _accelerator(host) + vhost)

    def create(self, node: Node, needs: Needs) -> Plan:
        """Started where the switch is, whose taps it opens."""
        source = needs.attachments[0].source
        pinned = ("taskset", "--cpu-list", ",".join(map(str, needs.cpus))) if needs.cpus else ()
        nics = [a.endpoint for a in needs.attachments]
        return (
            Spawn(
                f"the virtual machine {node.name}",
                _process_name(node),
                (
                    *pinned,
                    *(traffic_program(), "boot", _socket(node), "--"),
                    *_machine(needs.mode, needs.megabytes, nics),
                ),
                at=source,
            ),
        )

    def attach(self, node: Node, attachments: Sequence[Attachment]) -> Plan:
        up = Wait(
            f"the virtual machine {node.name} is up",
            Check(("true",), at=node),
            timeout_s=BOOT_S,
            unless_dead=_process_name(node),
        )
        return (up, *(step for a in attachments for step in set_up(node, a)))

    def inside(self, node: Node, argv: tuple[str, ...]) -> tuple[str, ...]:
        # The guest has a traffic program of its own.
        words = ("switchmark-traffic", *argv[1:]) if argv[0] == traffic_program() else argv
        return (traffic_program(), "enter", _socket(node), "--", *words)

    def netns(self, node: Node) -> str | None:
        return None


def qemu() -> str:
    """The program: $SWITCHMARK_QEMU, or that on PATH."""
    return os.environ.get(QEMU_VARIABLE) or "qemu-system-x86_64"


def _guest(file: str) -> str:
    """A file of the guest that setup made."""
    return str(Path(sys.prefix, "share/switchmark/guest", file))


def _process_name(node: Node) -> str:
    return f"vm-{node.name}"


def _socket(node: Node) -> str:
    return f"{node.run_dir}/{node.name}.sock"


def _machine(
    mode: str | None, megabytes: int, nics: Sequence[Endpoint], then: str = "init"
) -> tuple[str, ...]:
    """The argv of QEMU. The console is its stdout, its end of the port the descriptor `_FD`."""
    kvm = (mode or "").startswith(_KVM)
    # A guest without RDRAND gathers randomness for a second; the kernel's tests of its own
    # ciphers take another when emulated.
    words = [
        *("console=ttyS0", "quiet", "panic=-1", "ipv6.disable=1", "cryptomgr.notests"),
        *("random.trust_cpu=on", "rdinit=/usr/bin/switchmark-traffic"),
        *(f"switchmark.nic={nic.mac},{nic.ifname}" for nic in nics),
        *("--", then),
    ]
    devices = [word for index, nic in enumerate(nics) for word in _nic(index, nic, mode)]
    if then == "init":
        devices += [
            *("-device", "virtio-serial-pci", "-chardev", f"socket,id=control,fd={_FD}"),
            *("-device", "virtserialport,chardev=control,name=switchmark"),
        ]
    return (
        *(qemu(), "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
        *("-serial", "stdio", "-machine", "q35", "-accel", "kvm" if kvm else "tcg,thread=multi"),
        *("-cpu", "host" if kvm else "Nehalem,+rdrand", "-smp", "1", "-m", str(megabytes)),
        *("-kernel", _guest("kernel"), "-initrd", _guest("initramfs"), "-append", " ".join(words)),
        *devices,
    )


def _nic(index: int, nic: Endpoint, mode: str | None) -> tuple[str, ...]:
    off = ",".join(f"{offload}=off" for offload in _OFFLOADS)
    vhost = "on" if _VHOST in (mode or "") else "off"
    mtu = f",host_mtu={nic.mtu}" if nic.mtu > 1500 else ""
    return (
        "-netdev",
        f"tap,id=net{index},ifname={nic.switch_ifname},script=no,downscript=no,vhost={vhost}",
        "-device",
        f"virtio-net-pci,netdev=net{index},mac={nic.mac},romfile={mtu},{off}",
    )


def _accelerator(host: Host) -> str:
    """Whether a guest boots on KVM, found out once for each boot of the host: /dev/kvm may be
    there, and a stock kernel still not run on it."""
    if not host.exists("/dev/kvm"):
        return _EMULATED
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "switchmark")
    known = str(cache / f"kvm-{boot_id()}")
    with suppress(OSError):
        return host.read(known).decode()
    accelerator = _KVM if _boots_on_kvm(host) else _EMULATED
    with suppress(OSError):  # what could not be kept is found out again
        host.run(("mkdir", "-p", str(cache)))
        host.write(known, accelerator.encode())
    return accelerator


def _boots_on_kvm(host: Host) -> bool:
    try:
        done = host.run(_machine(_KVM, 256, (), then="version"), timeout_s=_KVM_BOOT_S)
    except CommandTimedOut:
        return False
    return b"switchmark-traffic " in done.stdout


ENVIRONMENT = Vm()
