"""VALE, the netmap switch: it learns MACs, and forwards in the sender's system call.

A VALE switch exists while it has ports; as a patch, every pair of ports gets a separate switch. A
port of kind netmap is ephemeral: a function opens it through /dev/netmap, in the network namespace
of the switch, and it disappears with the function. Persistent ports may fail to detach. Interfaces
attach in netmap mode, natively or with netmap's emulation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from switchmark.errors import Unavailable
from switchmark.hosts.base import Host
from switchmark.hosts.programs import hint_for, how_to_name, on_other
from switchmark.model.addresses import mac_address
from switchmark.model.plan import Check, Plan, Run, Wait
from switchmark.model.topology import Endpoint, Port, PortKind, Semantics, Wiring
from switchmark.model.units import LAYER_2_BYTES
from switchmark.model.version import Version
from switchmark.observe.facts import kernel_release
from switchmark.switches import links
from switchmark.switches.base import Counters, Counting, wire_refusal

_DEVICE = "/dev/netmap"
_BUILD = "/sys/module/netmap/notes/.note.gnu.build-id"
_BUILD_BYTES = 20
_BUFFER = 2048
"""The default size of netmap's buffers, in bytes; a module parameter changes it."""
_SWITCHES = 8
"""The default number of switches per network namespace; a module parameter changes it
(`max_bridges`)."""


def _counted(wiring: Wiring) -> tuple[Run, ...]:
    """Return the commands that read the links of attached interfaces; VALE has no counters."""
    return links.link_counters(wiring) if _attached(wiring) else ()


def _parsed(wiring: Wiring, outputs: tuple[bytes, ...]) -> Counters:
    return links.kernel_counters(wiring, outputs) if outputs else Counters()


class Vale(links.KernelSwitch):
    """`vale-ctl` attaches interfaces and lists ports. Network namespaces have separate switches:
    functions open their ports in the namespace of the switch's node."""

    name = "vale"
    program = "vale-ctl"
    semantics = (Semantics.LEARNING, Semantics.PATCH)
    function_kinds = frozenset({PortKind.VETH})
    port_kinds = (PortKind.NETMAP, PortKind.VETH, PortKind.NIC_KERNEL)
    counters = Counting(_counted, _parsed)
    private_stack = True
    devices = (_DEVICE,)

    def probe(self, host: Host) -> Version:
        """Return the build of netmap's module. Unavailable if the module is not loaded."""
        if not host.exists(_DEVICE):
            raise Unavailable(
                f"there is no {_DEVICE}: netmap's module is not loaded",
                hint="insmod netmap.ko, built from netmap's source for this kernel",
            )
        try:
            host.run((self.path,))  # it lists all ports and exits with 1
        except Unavailable as error:
            message = f"{self.path} is not installed{on_other(host)}"
            raise Unavailable(message, hint=hint_for(host, how_to_name(self.name))) from error
        release = kernel_release(host)
        if not host.exists(_BUILD):
            return Version(release)
        return Version(f"{release}, netmap.ko {host.read(_BUILD)[-_BUILD_BYTES:].hex()[:12]}")

    def accepts(self, wiring: Wiring) -> str | None:
        if wiring.mtu + LAYER_2_BYTES > _BUFFER:
            return f"vale has buffers of {_BUFFER} bytes: frames of {wiring.mtu} do not fit"
        if wiring.semantics is not Semantics.PATCH:
            return None
        if (count := len(_wires(wiring))) > _SWITCHES:
            return (
                f"a network namespace has {_SWITCHES} VALE switches, and {count} wires "
                "need one each"
            )
        return wire_refusal(wiring, self.name)

    def endpoints(self, wiring: Wiring) -> Mapping[str, Endpoint]:
        attached = links.kernel_endpoints(wiring)
        return {
            port.id: attached[port.id]
            if _is_attached(wiring, port)
            else Endpoint(
                kind=PortKind.NETMAP,
                mac=mac_address(port.index),
                path=_port_name(wiring, port),
                mtu=wiring.mtu,
            )
            for port in wiring.ports
        }

    def start(self, wiring: Wiring) -> Plan:
        steps: Plan = (
            Wait("netmap's device is there", Check(("test", "-c", _DEVICE), at=wiring.node)),
        )
        for port in _attached(wiring):
            steps += links.add_port(wiring, port)
        return steps + self._attach(wiring) if wiring.given else steps

    def join(self, wiring: Wiring) -> Plan:
        return self._attach(wiring)

    def _attach(self, wiring: Wiring) -> Plan:
        return tuple(
            Run(
                f"{name} is a port of the switch",
                (wiring.program, "-a", name),
                at=wiring.node,
                undo=(wiring.program, "-d", name),
            )
            for name in (_port_name(wiring, port) for port in _attached(wiring))
        )

    def link(self, wiring: Wiring, port: Port) -> str | None:
        return super().link(wiring, port) if _is_attached(wiring, port) else None

    def settled(self, wiring: Wiring) -> Plan:
        near = [links.switch_ifname(wiring, port) for port in _attached(wiring)]
        return links.wait_running(wiring, near) + tuple(
            Wait(
                f"the switch has the port {name}",
                Check((wiring.program, "-l", name), at=wiring.node),
            )
            for name in (_port_name(wiring, port) for port in wiring.ports)
        )


def _is_attached(wiring: Wiring, port: Port) -> bool:
    """Return whether a port is a kernel interface."""
    return port.nic is not None or wiring.kind is not PortKind.NETMAP


def _attached(wiring: Wiring) -> list[Port]:
    return [port for port in wiring.ports if _is_attached(wiring, port)]


def _port_name(wiring: Wiring, port: Port) -> str:
    """Return the full name of a port, including its switch, in letters, digits and `_`."""
    attached = _is_attached(wiring, port)
    name = links.switch_ifname(wiring, port) if attached else f"e{port.index}"
    number = ""
    if wiring.semantics is Semantics.PATCH:
        wires = enumerate(_wires(wiring))
        number = next((f"_{index}" for index, wire in wires if port.id in wire), "")
    return f"vale{re.sub('[^A-Za-z0-9]', '_', wiring.prefix)}{number}:{name}"


def _wires(wiring: Wiring) -> list[frozenset[str]]:
    """Return the pairs of ports that exchange frames."""
    pairs = (frozenset((one, other)) for one, sinks in wiring.ways.items() for other in sinks)
    return list(dict.fromkeys(pairs))


SWITCH = Vale()
