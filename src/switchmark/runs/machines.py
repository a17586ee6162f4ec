"""A host of the host file may be a machine that is booted when it is first used, and then reached
by ssh as any other. It ends with the command that uses it.

The machines of a process are shared by all that it asks of them; two that a cable joins each have a
socket for it.
"""

from __future__ import annotations

import atexit
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from switchmark.errors import HostLost, UsageError
from switchmark.hosts.carried import Carried
from switchmark.hosts.host_file import HostEntry, host_entries
from switchmark.hosts.remote_shell import RemoteShell
from switchmark.hosts.ssh import SshHost
from switchmark.hosts.ssh_sockets import new_folder
from switchmark.runs.guest_machine import Machine

_EMULATED_PATIENCE = 6.0
"""Programs took four to thirty times as long on an emulated processor of a busy host."""

_up: dict[str, Machine] = {}
"""The machines of this process, by the names of the host file."""

_hosts: dict[str, MachineHost] = {}
"""The hosts that they are: one for all that this process asks of a machine, as a connection to an
emulated processor took five seconds."""

_folders: list[Path] = []
"""Where the sockets of their cables are."""


class MachineHost(SshHost):
    """This host is a machine; it is booted when something is first asked of it. Should it end, that
    is said once, and then it is booted anew."""

    is_machine = True

    def __init__(
        self,
        name: str,
        entry: HostEntry,
        folder: Path | None = None,
        *,
        there: Mapping[str, str] = {},
        carried: Sequence[Carried] = (),
    ) -> None:
        super().__init__(name, folder=folder, there=there, carried=carried, cpus=entry.cpus)
        self._entry = entry
        self._at_first = (dict(there), tuple(carried))
        self._machine: Machine | None = None

    def is_for(self, entry: HostEntry, there: Mapping[str, str]) -> bool:
        """Say whether it is the host of such an entry."""
        return (entry, there) == (self._entry, self._at_first[0])

    @property
    def up(self) -> bool:
        """Say whether it runs: there is nothing on a machine that does not."""
        machine = _up.get(self.name)
        return machine is not None and machine.lives()

    @property
    def emulated(self) -> str:
        """Return what emulates its processor; nothing on KVM. It is booted if need be."""
        self._shell()
        assert self._machine is not None
        return self._machine.emulated

    def begin(self) -> None:
        """Begin to boot it, unless it is up: others can be booted meanwhile."""
        if self.name not in _up:
            _up[self.name] = Machine(self.name, self._entry, _cables(self.name))

    def undo_run(self, run: str, folder: str) -> None:
        if self.up:
            super().undo_run(run, folder)

    def _shell(self) -> RemoteShell:
        machine = _up.get(self.name)
        if machine is not None and machine.was_lost():
            words = machine.last_words()
            del _up[self.name]
            machine.end()
            raise HostLost(
                f"the machine {self.name} ended"
                + "".join(f"\n  {line}" for line in words.splitlines())
            )
        self.begin()
        machine = _up[self.name]
        try:
            machine.wait()
        except BaseException:
            del _up[self.name]
            raise
        if machine is not self._machine:
            self.close()
            self._machine = machine
            self.patience = _EMULATED_PATIENCE if machine.emulated else 1.0
            self.address, self._options = machine.address, machine.options
            self._named, self._carried = dict(self._at_first[0]), list(self._at_first[1])
            self._there = {}
        return super()._shell()


def machine_host(
    name: str, entry: HostEntry, there: Mapping[str, str], carried: Sequence[Carried]
) -> MachineHost:
    """Return the host that a machine is. Its connection ends with the machine."""
    known = _hosts.get(name)
    if known is None or not known.is_for(entry, there):
        known = _hosts[name] = MachineHost(name, entry, there=there, carried=carried)
    return known


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
            raise UsageError(
                f"the cable {cable} joins the machine {name} with {host}, which is none"
            )
    return ends[0] if ends else None


def end_machines() -> None:
    """End the machines of this process, and what joins them."""
    while _hosts:
        _hosts.popitem()[1].close()
    for name in list(_up):
        _up.pop(name).end()
    while _folders:
        shutil.rmtree(_folders.pop(), ignore_errors=True)
    atexit.unregister(end_machines)


def _cables(name: str) -> Mapping[str, tuple[Path, Path]]:
    """Return the sockets of a machine's cables: its own and the other machine's, by NIC."""
    if not _folders:
        _folders.append(new_folder())
        atexit.register(end_machines)
    cabled = {nic.name: nic.cable for nic in host_entries()[name].nics.values() if nic.cable}
    return {
        nic: (_socket(name, nic), _socket(*peer))
        for nic, cable in cabled.items()
        if (peer := cable_peer(name, cable)) is not None
    }


def _socket(name: str, nic: str) -> Path:
    return _folders[0] / f"{name}.{nic}"
