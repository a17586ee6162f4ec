"""A host of the host file may be a virtual machine of this one: the Debian that `make lab-image`
builds, under QEMU. It is booted when it is first used, and then reached by ssh as any other.

It has a run of its own, with a journal, so that `switchmark clean` ends it should nobody else; it
dies with the process that booted it. It begins as its image is: what it writes goes with it. Two
that a cable joins each have a socket for it.
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
from switchmark.hosts.base import LocalHost, Process
from switchmark.hosts.caches import cache_folder
from switchmark.hosts.carried import Carried
from switchmark.hosts.host_file import HostEntry, MachineEntry, Nic, host_entries
from switchmark.hosts.local_process import last_lines
from switchmark.hosts.qemu import EMULATED, KVM, accelerator, processor, qemu
from switchmark.hosts.ssh import SshHost

_BOOT_S = 600.0  # emulated: 8 s on a quiet host, 100 s on one that eight others keep busy
_KVM_BOOT_S = 20.0
_GRACE_S = 5.0
_ADDRESS, _NETWORK_NIC = "127.0.0.1", "10.0.2.15/24"
SSH_NIC = "ssh0"
"""The interface of a machine by which it is reached, and nothing else."""
_HOST_KEY = "switchmark-machine"
_READY, _BOOTS = b"switchmark: ready", b"switchmark: this kernel boots"
_EMULATED_PATIENCE = 6.0
"""Programs took four to thirty times as long on an emulated processor of a busy host."""

_FILES = ("root.img", "kernel", "initramfs", "user_key", "known_hosts")


def image_of(entry: MachineEntry) -> Path:
    """Return the folder of the image that a machine boots; Unavailable where it is not built."""
    folder = Path(entry.image).expanduser() if entry.image else cache_folder() / "lab-image"
    if missing := [name for name in _FILES if not (folder / name).is_file()]:
        raise Unavailable(
            f"the image of machines is not built: {folder} has no {missing[0]}",
            hint="as root: make lab-image",
        )
    return folder


class OwnRun(Protocol):
    """A run that has one process of this host: `clean` ends it should nobody else."""

    @property
    def folder(self) -> Path:
        """Return the folder of the run, which goes with it."""
        ...

    def spawn(self, name: str, argv: tuple[str, ...], stop: tuple[int, float]) -> Process:
        """Start the process, which is stopped by a signal, and killed after so many seconds. It
        ends with this one, however this one dies."""
        ...

    def end(self) -> None:
        """Stop the process, and end the run."""
        ...


class Machine:
    """A machine is booting, or up once `wait` has returned, until `end`; `emulated` says by what,
    or nothing on KVM.

    `cables` are the sockets of the NICs that are cabled, its own and the other machine's, by the
    names of the NICs.
    """

    def __init__(
        self,
        name: str,
        entry: HostEntry,
        cables: Mapping[str, tuple[Path, Path]],
        begin_run: Callable[[], OwnRun],
    ) -> None:
        """Begin to boot a machine. Unavailable where it cannot be booted."""
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
            # The usual one, against computers of the future, takes seconds on an emulated one.
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
        """Wait until it is up. SetupFailed where it does not come up; it has ended then."""
        if self._ready:
            return
        try:
            self._wait()
        except BaseException:
            self.end()
            raise
        self._ready = True

    def lives(self) -> bool:
        """Say whether it runs."""
        return self._process.poll() is None

    def was_lost(self) -> bool:
        """Say whether it was up and runs no more."""
        return self._ready and not self.lives()

    def last_words(self) -> str:
        """Return what QEMU, or the machine's console, said last."""
        with suppress(OSError):
            return self._process.last_words() or last_lines(self._console.read_bytes())
        return ""

    def end(self) -> None:
        """End it as a power cut does; nothing of it is left."""
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
    """This host is a machine; it is booted when something is first asked of it, and ends with
    `close`. Should it end before, that is said once, and then it is booted anew.

    The sockets of its cables are in `folder`, where those of the other machines are.
    """

    is_machine = True

    def __init__(
        self,
        name: str,
        entry: HostEntry,
        begin_run: Callable[[], OwnRun],
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
        """Return what emulates its processor; nothing on KVM. It is booted if need be."""
        self._agent()
        assert self._machine is not None
        return self._machine.emulated

    def begin(self) -> None:
        if self._machine is None:
            cables = _sockets(self.name, self._cables)
            self._machine = Machine(self.name, self._entry, cables, self._begin_run)

    def close(self) -> None:
        """End the connection, and the machine."""
        super().close()
        if self._machine is not None:
            self._machine.end()
            self._machine = None

    def undo_run(self, run: str, folder: str) -> None:
        if self.up:
            super().undo_run(run, folder)

    def _agent(self) -> Agent:
        if self._machine is not None and self._machine.was_lost():
            words = self._machine.last_words()
            self.close()
            raise HostLost(
                f"the machine {self.name} ended"
                + "".join(f"\n  {line}" for line in words.splitlines())
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
    """Return the machine at the other end of a cable, and its NIC; None where there is no other.
    UsageError where that is no machine, or there are several."""
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
    """Return the sockets of a machine's cables: its own and the other machine's, by NIC."""
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
    """Return the argv of QEMU for a machine whose sshd is at `port` of the loopback address."""
    assert entry.vm is not None
    ssh = Nic(name=SSH_NIC)
    nics = [ssh, *entry.nics.values()]
    words = [
        *("console=ttyS0", "quiet", "panic=-1", "cryptomgr.notests", "random.trust_cpu=on"),
        *(f"switchmark.nic={_mac(name, nic)},{nic.name}" for nic in nics),
        f"switchmark.address={SSH_NIC},{_NETWORK_NIC}",
        # What they guard against is not on an emulated processor, and they cost much there.
        *["mitigations=off"] * (not kvm),
        *["intel_iommu=on"] * entry.vm.iommu,
    ]
    # It sees the devices that come after it. With KVM its interrupts are QEMU's to remap.
    iommu = ("-device", "intel-iommu,intremap=on") if entry.vm.iommu else ()
    split = ("-machine", "kernel-irqchip=split") if iommu and kvm else ()
    disk = _escaped(image / "root.img")
    devices: list[str] = []
    own = [nic.cable or nic.name for nic in entry.nics.values()]
    for slot, nic in enumerate(entry.nics.values(), start=1):
        # NICs of one machine that a cable joins are at one hub.
        hub = own.index(nic.cable or nic.name) + 1
        devices += _device(slot, nic, _mac(name, nic), cables.get(nic.name) or hub)
    return (
        *_machine(image, words, kvm=kvm, cores=entry.vm.cores, megabytes=entry.vm.memory_mb),
        *(*split, *iommu),
        *("-drive", f"if=none,id=disk,format=raw,snapshot=on,file={disk}"),
        *("-device", "virtio-blk-pci,drive=disk"),
        *("-netdev", f"user,id=ssh,restrict=on,hostfwd=tcp:{_ADDRESS}:{port}-:22"),
        *("-device", f"virtio-net-pci,netdev=ssh,romfile=,mac={_mac(name, ssh)}"),
        *devices,
    )


def _machine(
    image: Path, words: Sequence[str], *, kvm: bool, cores: int, megabytes: int
) -> tuple[str, ...]:
    """Return the argv of QEMU for a machine without devices."""
    return (
        *(qemu(), "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
        *("-machine", "q35", *processor(kvm=kvm, cores=cores, megabytes=megabytes)),
        *("-kernel", f"{image}/kernel", "-initrd", f"{image}/initramfs"),
        *("-append", " ".join(words)),
    )


def _device(
    slot: int, nic: Nic, mac: str, cable: tuple[Path, Path] | int
) -> tuple[str, str, str, str, str, str]:
    """Return the options for a NIC, behind a port of its own, and what is at its other end: the
    sockets of a cable, or a hub."""
    own = f"nic{slot}"
    if isinstance(cable, int):
        net = f"hubport,id={own},hubid={cable}"
    else:
        here, there = map(_escaped, cable)
        net = (
            f"dgram,id={own},local.type=unix,local.path={here},remote.type=unix,remote.path={there}"
        )
    model = nic.model or "virtio-net-pci"
    port = f"pcie-root-port,id=port{slot},chassis={slot},slot={slot}"
    device = f"{model},bus=port{slot},netdev={own},mac={mac},romfile="
    return ("-netdev", net, "-device", port, "-device", device)


def _console(path: Path) -> tuple[str, ...]:
    return (
        *("-chardev", f"file,id=console,path={_escaped(path)}"),
        *("-serial", "chardev:console"),
    )


def _mac(machine: str, nic: Nic) -> str:
    """Return an address of QEMU's for a NIC: the same whenever the machine is booted."""
    digest = hashlib.sha256(f"{machine}/{nic.name}".encode()).hexdigest()
    return ":".join(("52:54:00", digest[:2], digest[2:4], digest[4:6]))


def _escaped(path: Path) -> str:
    """Return a path as an option of QEMU has it."""
    return str(path).replace(",", ",,")


def _free_port() -> int:
    with socket.socket() as one:
        one.bind((_ADDRESS, 0))
        port: int = one.getsockname()[1]
        return port


def _boots_on_kvm(image: Path) -> bool:
    words = ("console=ttyS0", "quiet", "panic=-1", "switchmark.boots")
    argv = (*_machine(image, words, kvm=True, cores=1, megabytes=256), "-serial", "stdio")
    with suppress(SwitchmarkError):
        return _BOOTS in LocalHost().run(argv, timeout_s=_KVM_BOOT_S).stdout
    return False
