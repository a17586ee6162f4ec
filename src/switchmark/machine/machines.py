"""A host of the host file may be a machine that is booted when it is first used, and then reached
by ssh as any other. It ends with the command that uses it.

The machines of a process are shared by all that it asks of them; two that a cable joins each have a
socket for it.
"""

from __future__ import annotations

import atexit
import shutil
from collections.abc import Mapping
from pathlib import Path

from switchmark.errors import HostLost, UsageError
from switchmark.machine.carried import Carried
from switchmark.machine.guest_machine import Machine
from switchmark.machine.host_file import HostEntry, host_entries
from switchmark.machine.remote_shell import RemoteShell
from switchmark.machine.ssh import SshHost
from switchmark.machine.ssh_sockets import new_folder

__all__ = ["MachineHost", "cable_peer", "end_machines"]

_up: dict[str, Machine] = {}
"""The machines of this process, by the names of the host file."""

_folders: list[Path] = []
"""Where the sockets of their cables are."""


class MachineHost(SshHost):
    """This host is a machine; it is booted when something is first asked of it. Should it end, that
    is said once, and then it is booted anew."""

    def __init__(
        self,
        name: str,
        entry: HostEntry,
        folder: Path | None = None,
        *,
        there: Mapping[str, str] = {},
        carried: Carried | None = None,
    ) -> None:
        super().__init__(name, folder=folder, there=there, carried=carried, cpus=entry.cpus)
        self._entry = entry
        self._at_first = (dict(there), carried)
        self._machine: Machine | None = None

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

    def undo_run(self, run: str, folder: str) -> None:
        if self.up:
            super().undo_run(run, folder)

    def _shell(self) -> RemoteShell:
        machine = _up.get(self.name)
        if machine is not None and not machine.lives():
            words = machine.last_words()
            del _up[self.name]
            machine.end()
            raise HostLost(
                f"the machine {self.name} ended"
                + "".join(f"\n  {line}" for line in words.splitlines())
            )
        if machine is None:
            machine = _up[self.name] = Machine(self.name, self._entry, _cables(self.name))
        if machine is not self._machine:
            self.close()
            self._machine = machine
            self.address, self._options = machine.address, machine.options
            self._there, self._carried = dict(self._at_first[0]), self._at_first[1]
        return super()._shell()


def cable_peer(name: str, cable: str) -> tuple[str, str] | None:
    """Return the machine at the other end of a cable, and its NIC; None where there is none.
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
