"""QEMU virtual machines: they have their own kernel, and switchmark reaches them over a virtio
port.

The guest is Debian's kernel with an image that `tools/guest.sh` builds; its first process is the
agent, which runs the commands that `inside` sends (agent/src/guest.c).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

from switchmark.environments.base import Attachment, Environment, Needs
from switchmark.environments.interfaces import set_up
from switchmark.errors import CommandTimedOut, Unavailable, UsageError
from switchmark.hosts.base import Host
from switchmark.hosts.programs import AGENT, probe_version, program_path
from switchmark.hosts.qemu import KVM, QEMU_VARIABLE, accelerator, processor, qemu
from switchmark.model.plan import PORTS_DIR, Check, Node, Plan, Run, Spawn, Wait
from switchmark.model.topology import Endpoint, PortKind
from switchmark.model.version import Version

BOOT_S = 60.0
_KVM_BOOT_S = 20.0
_VHOST = ", vhost-net"
_SHARES_FROM = 10  # 7.2 crashes when an emulated guest's vhost-user port starts; 10.0 does not
_HINT = "make setup PARTS=vm"
_FIRST_SLOT = 0x10  # the first PCI slot that the machine's other devices leave free
_FD = 3  # BOOT_FD of agent/src/machine.h
_OFFLOADS = (
    *("csum", "gso", "guest_csum", "guest_tso4", "guest_tso6", "guest_ecn", "guest_ufo"),
    *("host_tso4", "host_tso6", "host_ecn", "host_ufo"),
)


class Vm(Environment):
    """A node is a virtual machine with one CPU, reached through a UNIX socket in the run's
    folder."""

    name = "vm"
    port_kinds = frozenset({PortKind.TAP, PortKind.VHOST_USER})
    without = MappingProxyType(
        {PortKind.NETMAP: "Debian's QEMU has no ptnet, which gives a virtual machine a netmap port"}
    )
    separate_kernel = True
    create_s = 8.0  # emulated; less with KVM
    images = True

    def probe(self, host: Host) -> Version:
        """Return QEMU's version. The mode is `kvm` if a guest boots with it, else `emulated (tcg)`,
        and shows whether frames pass the host's vhost-net. Old QEMU versions without KVM have no
        vhost-user ports."""
        for file in (_guest("kernel"), _guest("initramfs")):
            if not host.exists(file):
                raise Unavailable(
                    f"the guest of environment vm was not built: {file} is missing", hint=_HINT
                )
        version, *_ = probe_version(host, (qemu(), "--version"), r"\bversion (\S+)", hint=_HINT)
        mode = accelerator(host, partial(_boots_on_kvm, host))
        vhost = _VHOST if host.exists("/dev/vhost-net") else ""
        return Version(
            version,
            mode + vhost,
            verified="verified",
            missing=_missing(version, mode),
        )

    def seen_inside(self, end: Endpoint, index: int, ifname: str, *, past_kernel: bool) -> Endpoint:
        if past_kernel:
            return replace(end, ifname="", guest_device=f"0000:00:{_FIRST_SLOT + index:02x}.0")
        return replace(end, ifname=end.ifname or ifname)

    def create(self, node: Node, needs: Needs) -> Plan:
        """Start the virtual machine in the switch's node, whose taps it opens. UsageError for an
        image that is not a kernel with its initramfs."""
        source = needs.attachments[0].source
        pinned = ("taskset", "--cpu-list", ",".join(map(str, needs.cpus))) if needs.cpus else ()
        nics = [a.endpoint for a in needs.attachments]
        return (
            Spawn(
                f"the virtual machine {node.name}",
                _process_name(node),
                (
                    *pinned,
                    *(program_path(AGENT), "boot", _socket(node), "--"),
                    *_machine(needs.mode, needs.megabytes, nics, image=_image(needs.image)),
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
        folder = Run(
            f"a folder in {node.name} for the run's files",
            ("mkdir", "-p", f"{node.run_dir}/{PORTS_DIR}"),
            at=node,
        )
        return (up, folder, *(step for a in attachments for step in set_up(node, a)))

    def inside(self, node: Node, argv: tuple[str, ...]) -> tuple[str, ...]:
        # The guest has its own copies of our programs.
        name = Path(argv[0]).name
        command = (name, *argv[1:]) if name.startswith("switchmark-") else argv
        return (program_path(AGENT), "enter", _socket(node), "--", *command)


def _guest(file: str) -> str:
    """Return the path of a guest file from the set-up."""
    return str(Path(sys.prefix, "share/switchmark/guest", file))


def _process_name(node: Node) -> str:
    return f"vm-{node.name}"


def _socket(node: Node) -> str:
    return f"{node.run_dir}/{node.name}.sock"


def _image(named: str | None) -> tuple[str, str]:
    """Return the kernel and the initramfs: the user's, or those from the set-up."""
    if named is None:
        return _guest("kernel"), _guest("initramfs")
    kernel, _, initramfs = named.partition(":")
    if not kernel or not initramfs:
        raise UsageError(
            f"the image of a virtual machine must be KERNEL:INITRAMFS, not '{named}': a disk "
            "cannot be booted, because the first process must be switchmark-agent",
            hint=f"--image KERNEL:{_guest('initramfs')}, with a kernel that needs no modules",
        )
    return kernel, initramfs


def _machine(
    mode: str | None,
    megabytes: int,
    nics: Sequence[Endpoint],
    *,
    image: tuple[str, str],
    command: str = "init",
) -> tuple[str, ...]:
    """Return the argv of QEMU. The console is its stdout; descriptor `_FD` is its end of the virtio
    port."""
    kvm = (mode or "").startswith(KVM)
    # A guest without RDRAND collects randomness for a second; the kernel's cipher self-tests take
    # another second under emulation.
    parameters = [
        *("console=ttyS0", "quiet", "panic=-1", "ipv6.disable=1", "cryptomgr.notests"),
        *("random.trust_cpu=on", "rdinit=/usr/bin/switchmark-agent"),
        *(f"switchmark.nic={nic.mac},{nic.ifname}" for nic in nics if nic.ifname),
        *("--", command),
    ]
    devices = [word for index, nic in enumerate(nics) for word in _nic(index, nic, mode)]
    machine = "q35"
    if any(nic.kind is PortKind.VHOST_USER for nic in nics):
        # The switch reads and writes the guest's memory.
        machine += ",memory-backend=ram"
        devices += ["-object", f"memory-backend-memfd,id=ram,size={megabytes}M,share=on"]
    if command == "init":
        devices += [
            *("-device", "virtio-serial-pci", "-chardev", f"socket,id=control,fd={_FD}"),
            *("-device", "virtserialport,chardev=control,name=switchmark"),
        ]
    return (
        *(qemu(), "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
        *("-serial", "stdio", "-machine", machine),
        *processor(kvm=kvm, cores=1, megabytes=megabytes),
        *("-kernel", image[0], "-initrd", image[1], "-append", " ".join(parameters)),
        *devices,
    )


def _nic(index: int, nic: Endpoint, mode: str | None) -> tuple[str, ...]:
    off = ",".join(f"{offload}=off" for offload in _OFFLOADS)
    mtu = f",host_mtu={nic.mtu}" if nic.mtu > 1500 else ""
    slot = f",addr={nic.guest_device.partition(':')[2][3:]}" if nic.guest_device else ""
    return (
        *_backend(index, nic, mode),
        "-device",
        f"virtio-net-pci,netdev=net{index}{slot},mac={nic.mac},romfile={mtu},{off}",
    )


def _backend(index: int, nic: Endpoint, mode: str | None) -> tuple[str, ...]:
    """Return the option for the host's side of a NIC. If QEMU is the server of a vhost-user port,
    it does not start the device before the switch connects."""
    if nic.kind is PortKind.VHOST_USER:
        server = ",server=on,wait=off" if nic.server else ""
        socket = f"socket,id=port{index},path={nic.path}{server}"
        return ("-chardev", socket, "-netdev", f"vhost-user,id=net{index},chardev=port{index}")
    vhost = "on" if _VHOST in (mode or "") else "off"
    tap = f"tap,id=net{index},ifname={nic.switch_ifname},script=no,downscript=no,vhost={vhost}"
    return ("-netdev", tap)


def _missing(version: str, mode: str) -> dict[str, tuple[str, str]]:
    """Return the kinds of ports that this QEMU cannot give to a guest, with the reason and a
    hint."""
    major = version.partition(".")[0]
    if mode == KVM or (major.isdigit() and int(major) >= _SHARES_FROM):
        return {}
    reason = (
        f"QEMU {version} crashes when it emulates a guest with a vhost-user port, and guests do "
        f"not boot on KVM here; QEMU {_SHARES_FROM}.0 works"
    )
    hint = f"{QEMU_VARIABLE}=/path/to/qemu-system-x86_64 names another, such as that of Debian 13"
    return {PortKind.VHOST_USER: (reason, hint)}


def _boots_on_kvm(host: Host) -> bool:
    try:
        argv = _machine(KVM, 256, (), image=_image(None), command="version")
        completed = host.run(argv, timeout_s=_KVM_BOOT_S)
    except CommandTimedOut:
        return False
    return b"switchmark-agent " in completed.stdout


ENVIRONMENT = Vm()
