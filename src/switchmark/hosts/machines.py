"""The virtual machines of the host file: the Debian that `make lab-image` builds, under QEMU.

A virtual machine boots on first use; ssh reaches it like any other host. It has its own run with a
journal, so that `switchmark clean` can end it, and it dies with the process that booted it. It
starts from its image, and its writes are lost at its end. Two virtual machines on one cable each
have a socket for it.
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from signal import SIGTERM
from typing import Protocol

from switchmark.errors import HostLost, SetupFailed, SwitchmarkError, Unavailable, UsageError
from switchmark.hosts.agent import Agent
from switchmark.hosts.base import Process
from switchmark.hosts.caches import cache_folder
from switchmark.hosts.carried import Carried
from switchmark.hosts.host_file import HostEntry, MachineEntry, Nic, host_entries
from switchmark.hosts.local import LocalHost
from switchmark.hosts.qemu import EMULATED, KVM, accelerator, processor, qemu
from switchmark.hosts.ssh import SshHost
from switchmark.model.printable import last_lines

_BOOT_S = 600.0  # emulated: 8 s on a quiet host, 100 s on a host that runs eight others
_KVM_BOOT_S = 20.0
_GRACE_S = 5.0
_ADDRESS, _NETWORK_NIC = "127.0.0.1", "10.0.2.15/24"
SSH_NIC = "ssh0"
"""The interface that carries only the ssh connection to a virtual machine."""
_HOST_KEY = "switchmark-machine"
_READY, _BOOTS = b"switchmark: ready", b"switchmark: this kernel boots"
_EMULATED_PATIENCE = 6.0
"""Programs took 4 to 30 times as long on the emulated processor of a busy host."""

_FILES = ("root.img", "kernel", "initramfs", "user_key", "known_hosts")


def image_of(entry: MachineEntry) -> Path:
    """Return the folder of the image that a virtual machine boots; raise Unavailable if it is not
    built."""
    folder = Path(entry.image).expanduser() if entry.image else cache_folder() / "lab-image"
    if missing := [name for name in _FILES if not (folder / name).is_file()]:
        raise Unavailable(
            f"the image of machines is not built: {folder} has no {missing[0]}",
            hint="as root: make lab-image",
        )
    return folder


class MachineRun(Protocol):
    """A run with one process on this host; `clean` ends the process if its owner died."""

    @property
    def folder(self) -> Path:
        """Return the folder of the run, which `end` removes."""
        ...

    def spawn(self, name: str, argv: tuple[str, ...], stop: tuple[int, float]) -> Process:
        """Start the process. `stop` is the signal that ends it and the seconds until SIGKILL. The
        process dies with this one."""
        ...

    def end(self) -> None:
        """Stop the process and end the run."""
        ...


class Machine:
    """A virtual machine: booting, then running once `wait` has returned, until `end`.

    `emulated` names the emulator of its processor; it is empty on KVM. `cables` maps the names of
    cabled NICs to two sockets: this machine's and its peer's.
    """

    def __init__(
        self,
        name: str,
        entry: HostEntry,
        cables: Mapping[str, tuple[Path, Path]],
        begin_run: Callable[[], MachineRun],
    ) -> None:
        """Start to boot a virtual machine. Raise Unavailable if it cannot be booted."""
        assert entry.vm is not None
        self.name = name
        image = image_of(entry.vm)
        if shutil.which(qemu()) is None:
            raise Unavailable(
                f"QEMU is not installed, on which the machine {name} runs",
                hint="make setup PARTS=vm",
            )
        mode = accelerator(LocalHost(), partial(_boots_on_kvm, image))
        self.emulated = "" if mode == KVM else EMULATED
        port = _free_port()
        self.address = f"ssh://root@{_ADDRESS}:{port}"
        self.options = (
            f"IdentityFile={image}/user_key",
            *("IdentitiesOnly=yes", "StrictHostKeyChecking=yes", f"HostKeyAlias={_HOST_KEY}"),
            *(f"UserKnownHostsFile={image}/known_hosts", "GlobalKnownHostsFile=/dev/null"),
            # The default, against quantum computers, takes seconds on an emulated processor.
            "KexAlgorithms=curve25519-sha256",
        )
        argv = machine_argv(name, entry, image, kvm=mode == KVM, port=port, cables=cables)
        self._run = begin_run()
        self._console = self._run.folder / "console"
        self._ready = False
        atexit.register(self.end)
        try:
            self._process = self._run.spawn(
                f"machine {name}", (*argv, *_console(self._console)), (SIGTERM, _GRACE_S)
            )
        except BaseException:
            self.end()
            raise
        self._deadline = time.monotonic() + _BOOT_S

    def wait(self) -> None:
        """Wait until it has booted. Raise SetupFailed if it does not; it has ended then."""
        if self._ready:
            return
        try:
            self._wait()
        except BaseException:
            self.end()
            raise
        self._ready = True

    def lives(self) -> bool:
        """Return whether it runs."""
        return self._process.poll() is None

    def was_lost(self) -> bool:
        """Return whether it was running and has ended since."""
        return self._ready and not self.lives()

    def last_words(self) -> str:
        """Return the last output of QEMU or of the console."""
        with suppress(OSError):
            return self._process.last_words() or last_lines(self._console.read_bytes())
        return ""

    def end(self) -> None:
        """End it like a power cut, and remove everything that it left."""
        atexit.unregister(self.end)
        self._run.end()

    def _wait(self) -> None:
        while not self._is_ready():
            if not self.lives():
                raise SetupFailed(f"the machine {self.name} did not boot{self._evidence()}")
            if time.monotonic() > self._deadline:
                raise SetupFailed(
                    f"the machine {self.name} was not up after {_BOOT_S:g} s{self._evidence()}"
                )
            time.sleep(0.05)

    def _is_ready(self) -> bool:
        with suppress(OSError):
            return _READY in self._console.read_bytes()
        return False

    def _evidence(self) -> str:
        return "".join(f"\n  {line}" for line in self.last_words().splitlines())


class MachineHost(SshHost):
    """A host that is a virtual machine. The first request boots it; `close` ends it.

    If it ends before `close`, the next request reports the loss once, and the request after that
    boots it again. `folder` holds the sockets of the cables between virtual machines.
    """

    is_machine = True

    def __init__(
        self,
        name: str,
        entry: HostEntry,
        begin_run: Callable[[], MachineRun],
        folder: Path,
        *,
        there: Mapping[str, str] = {},
        carried: Carried | None = None,
    ) -> None:
        super().__init__(name, there=there, carried=carried, cpus=entry.cpus)
        self._entry = entry
        self._begin_run = begin_run
        self._cables = folder
        self._at_first = (dict(there), carried)
        self._machine: Machine | None = None
        self._reached: Machine | None = None

    @property
    def up(self) -> bool:
        return self._machine is not None and self._machine.lives()

    @property
    def emulated(self) -> str:
        """Return the emulator of its processor; empty on KVM. Boot it if necessary."""
        self._agent()
        assert self._machine is not None
        return self._machine.emulated

    def begin(self) -> None:
        if self._machine is None:
            cables = _sockets(self.name, self._cables)
            self._machine = Machine(self.name, self._entry, cables, self._begin_run)

    def close(self) -> None:
        """End the connection and the virtual machine."""
        super().close()
        if self._machine is not None:
            self._machine.end()
            self._machine = None

    def undo_run(self, run: str, folder: str) -> None:
        if self.up:
            super().undo_run(run, folder)

    def _agent(self) -> Agent:
        if self._machine is not None and self._machine.was_lost():
            output = self._machine.last_words()
            self.close()
            raise HostLost(
                f"the machine {self.name} ended"
                + "".join(f"\n  {line}" for line in output.splitlines())
            )
        self.begin()
        machine = self._machine
        assert machine is not None
        try:
            machine.wait()
        except BaseException:
            self._machine = None
            raise
        if machine is not self._reached:
            super().close()
            self._reached = machine
            self.patience = _EMULATED_PATIENCE if machine.emulated else 1.0
            self.address, self.options = machine.address, machine.options
            self._named, self._carried = dict(self._at_first[0]), self._at_first[1]
            self._there = {}
        return super()._agent()


def cable_peer(name: str, cable: str) -> tuple[str, str] | None:
    """Return the virtual machine at the other end of a cable, and its NIC; None if there is none.
    Raise UsageError if the other end is not a virtual machine, or there are several ends."""
    ends = [
        (host, nic.name)
        for host, entry in host_entries().items()
        for nic in entry.nics.values()
        if nic.cable == cable and host != name
    ]
    if len(ends) > 1:
        raise UsageError(f"the cable {cable} has more than two ends in the host file")
    for host, _ in ends:
        if host_entries()[host].vm is None:
            raise UsageError(f"the cable {cable} joins the VM {name} with {host}, which is no VM")
    return ends[0] if ends else None


def _sockets(name: str, folder: Path) -> Mapping[str, tuple[Path, Path]]:
    """Return the sockets of a virtual machine's cables, its own and its peer's, by NIC."""
    cabled = {nic.name: nic.cable for nic in host_entries()[name].nics.values() if nic.cable}
    return {
        nic: (folder / f"{name}.{nic}", folder / ".".join(peer))
        for nic, cable in cabled.items()
        if (peer := cable_peer(name, cable)) is not None
    }


def machine_argv(
    name: str,
    entry: HostEntry,
    image: Path,
    *,
    kvm: bool,
    port: int,
    cables: Mapping[str, tuple[Path, Path]],
) -> tuple[str, ...]:
    """Return the argv of QEMU for a virtual machine with its sshd at `port` of the loopback
    address."""
    assert entry.vm is not None
    ssh = Nic(name=SSH_NIC)
    nics = [ssh, *entry.nics.values()]
    argv = [
        *("console=ttyS0", "quiet", "panic=-1", "cryptomgr.notests", "random.trust_cpu=on"),
        *(f"switchmark.nic={_mac(name, nic)},{nic.name}" for nic in nics),
        f"switchmark.address={SSH_NIC},{_NETWORK_NIC}",
        # Mitigations cost much on an emulated processor and protect nothing there. On a busy host
        # its timer may be too late for the kernel's check, which panics then.
        *["mitigations=off", "no_timer_check"] * (not kvm),
        *["intel_iommu=on"] * entry.vm.iommu,
    ]
    # The IOMMU covers the devices behind it. On KVM, QEMU has to remap its interrupts.
    iommu = ("-device", "intel-iommu,intremap=on") if entry.vm.iommu else ()
    split = ("-machine", "kernel-irqchip=split") if iommu and kvm else ()
    disk = _escaped(image / "root.img")
    devices: list[str] = []
    labels = [nic.cable or nic.name for nic in entry.nics.values()]
    for slot, nic in enumerate(entry.nics.values(), start=1):
        # A hub connects the NICs of one virtual machine that share a cable.
        hub = labels.index(nic.cable or nic.name) + 1
        devices += _device(slot, nic, _mac(name, nic), cables.get(nic.name) or hub)
    return (
        *_machine(image, argv, kvm=kvm, cores=entry.vm.cores, megabytes=entry.vm.memory_mb),
        *(*split, *iommu),
        *("-drive", f"if=none,id=disk,format=raw,snapshot=on,file={disk}"),
        *("-device", "virtio-blk-pci,drive=disk"),
        *("-netdev", f"user,id=ssh,restrict=on,hostfwd=tcp:{_ADDRESS}:{port}-:22"),
        *("-device", f"virtio-net-pci,netdev=ssh,romfile=,mac={_mac(name, ssh)}"),
        *devices,
    )


def _machine(
    image: Path, options: Sequence[str], *, kvm: bool, cores: int, megabytes: int
) -> tuple[str, ...]:
    """Return the argv of QEMU for a virtual machine without devices."""
    return (
        *(qemu(), "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
        *("-machine", "q35", *processor(kvm=kvm, cores=cores, megabytes=megabytes)),
        *("-kernel", f"{image}/kernel", "-initrd", f"{image}/initramfs"),
        *("-append", " ".join(options)),
    )


def _device(
    slot: int, nic: Nic, mac: str, cable: tuple[Path, Path] | int
) -> tuple[str, str, str, str, str, str]:
    """Return the options for a NIC behind its own PCIe port, and for its other end: the sockets of
    a cable, or a hub."""
    netdev = f"nic{slot}"
    if isinstance(cable, int):
        net = f"hubport,id={netdev},hubid={cable}"
    else:
        here, there = map(_escaped, cable)
        ends = f"local.type=unix,local.path={here},remote.type=unix,remote.path={there}"
        net = f"dgram,id={netdev},{ends}"
    model = nic.model or "virtio-net-pci"
    port = f"pcie-root-port,id=port{slot},chassis={slot},slot={slot}"
    device = f"{model},bus=port{slot},netdev={netdev},mac={mac},romfile="
    return ("-netdev", net, "-device", port, "-device", device)


def _console(path: Path) -> tuple[str, ...]:
    return (
        *("-chardev", f"file,id=console,path={_escaped(path)}"),
        *("-serial", "chardev:console"),
    )


def _mac(machine: str, nic: Nic) -> str:
    """Return a MAC address from QEMU's range for a NIC: the same at every boot."""
    digest = hashlib.sha256(f"{machine}/{nic.name}".encode()).hexdigest()
    return ":".join(("52:54:00", digest[:2], digest[2:4], digest[4:6]))


def _escaped(path: Path) -> str:
    """Escape a path for an option of QEMU."""
    return str(path).replace(",", ",,")


def _free_port() -> int:
    with socket.socket() as one:
        one.bind((_ADDRESS, 0))
        port: int = one.getsockname()[1]
        return port


def _boots_on_kvm(image: Path) -> bool:
    kernel_options = ("console=ttyS0", "quiet", "panic=-1", "switchmark.boots")
    argv = (*_machine(image, kernel_options, kvm=True, cores=1, megabytes=256), "-serial", "stdio")
    with suppress(SwitchmarkError):
        return _BOOTS in LocalHost().run(argv, timeout_s=_KVM_BOOT_S).stdout
    return False
