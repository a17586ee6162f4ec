"""A private Open vSwitch instance with the kernel's datapath if the module is loaded, else with the
userspace datapath. It runs with OVS's defaults; OVS has no settings for packet sockets."""

from __future__ import annotations

from switchmark.errors import Unavailable
from switchmark.hosts.base import Host
from switchmark.hosts.programs import USUAL_FOLDERS, probe_version
from switchmark.model.plan import Check, Plan, Run, Wait
from switchmark.model.topology import Semantics, Wiring
from switchmark.model.version import Version
from switchmark.switches.base import Counters, Counting
from switchmark.switches.changes import Change
from switchmark.switches.links import (
    PORT_KINDS,
    KernelSwitch,
    add_port,
    kernel_counters,
    link_counters,
    parse_socket_counters,
    socket_counters,
    switch_ifname,
)
from switchmark.switches.ovs_instance import (
    COMPANIONS,
    add_static_rules,
    bridge_name,
    configured_again,
    daemon,
    daemon_name,
    database,
    on_host,
    port_number,
    require_instance,
    spare_port,
    static_refusal,
    vsctl,
)

_HINT = "apt-get install openvswitch-switch"


def _counter_commands(wiring: Wiring) -> tuple[Run, ...]:
    # The userspace datapath reads AF_PACKET sockets.
    return link_counters(wiring) if wiring.version.mode == "kernel" else socket_counters(wiring)


def _parse_counters(wiring: Wiring, outputs: tuple[bytes, ...]) -> Counters:
    parse = kernel_counters if wiring.version.mode == "kernel" else parse_socket_counters
    return parse(wiring, outputs)


class Ovs(KernelSwitch):
    """One bridge forwards by the NORMAL action, or by one rule per port. The mode names the
    datapath: `kernel` or `userspace`.

    The kernel's datapath works on the CPUs that frames are spread over. The userspace datapath has
    one thread for packet sockets.
    """

    name = "ovs"
    program = "ovs-vswitchd"
    companions = COMPANIONS
    program_folders = (*USUAL_FOLDERS, "vswitchd")
    semantics = (Semantics.LEARNING, Semantics.STATIC)
    port_kinds = PORT_KINDS
    counters = Counting(_counter_commands, _parse_counters)
    resources = frozenset({"switch_cores", "copies"})

    def probe(self, host: Host) -> Version:
        """Return the daemon's version, and mode `kernel` if the module is loaded, else
        `userspace`."""
        argv = (self.path, "--version")
        version, *_ = probe_version(host, argv, r"Open vSwitch\) (\S+)", hint=_HINT)
        beside = require_instance(host, self.path, _HINT)
        kernel = host.exists("/sys/module/openvswitch")
        if not kernel and host.run(("test", "-w", "/dev/net/tun")).status:
            raise Unavailable(
                "the userspace datapath creates a tap, and /dev/net/tun is not writable",
                hint="run it with sudo",
            )
        return Version(version, "kernel" if kernel else "userspace", beside=beside)

    def dedicated_core(self, mode: str | None) -> bool:
        return mode != "kernel"

    def accepts(self, wiring: Wiring) -> str | None:
        if wiring.version.mode == "userspace" and len(wiring.cores) > 1:
            return (
                "ovs forwards in userspace here, on one thread: several CPUs need its kernel "
                "datapath\n\nhint: modprobe openvswitch, or --switch-cores auto"
            )
        return static_refusal(wiring, self.name) if wiring.semantics is Semantics.STATIC else None

    def _pinned(self, wiring: Wiring, argv: tuple[str, ...]) -> tuple[str, ...]:
        return ("taskset", "-c", ",".join(map(str, wiring.cores)), *argv) if wiring.cores else argv

    def start(self, wiring: Wiring) -> Plan:
        datapath = "system" if wiring.version.mode == "kernel" else "netdev"
        ports: Plan = ()
        for port in wiring.ports:
            ports += add_port(wiring, port)
        static = wiring.semantics is Semantics.STATIC
        bridge = bridge_name(wiring)
        arguments = ["add-br", bridge, "--", "set", "bridge", bridge, f"datapath_type={datapath}"]
        arguments += ["fail-mode=secure"] * static
        for port in wiring.ports:
            name = switch_ifname(wiring, port)
            arguments += ["--", "add-port", bridge, name]
            number = f"ofport_request={port_number(port)}"
            arguments += ["--", "set", "Interface", name, number] * static
        return (
            *ports,
            *on_host(wiring, datapath),
            *database(wiring),
            *self._daemon(wiring),
            Run(
                "a bridge with the interfaces as ports",
                vsctl(wiring, *arguments),
            ),
            *(add_static_rules(wiring) if static else ()),
        )

    def _daemon(self, wiring: Wiring) -> Plan:
        why = f"the switch ({wiring.version.mode or 'userspace'} datapath)"
        return daemon(wiring, why, self._pinned(wiring, (wiring.program,)))

    def revive(self, wiring: Wiring) -> Plan:
        # The database keeps the bridge and its ports. Rules are lost with the daemon.
        static = wiring.semantics is Semantics.STATIC
        rules = add_static_rules(wiring) if static else ()
        return (*self._daemon(wiring), configured_again(wiring), *rules)

    def reconfigured(self, wiring: Wiring) -> Change:
        return spare_port(wiring)

    def settled(self, wiring: Wiring) -> Plan:
        return tuple(
            Wait(
                f"the switch sees the link of {name}",
                Check(vsctl(wiring, "get", "Interface", name, "link_state"), pattern="^up$"),
                unless_dead=daemon_name(wiring),
            )
            for name in (switch_ifname(wiring, port) for port in wiring.ports)
        )


SWITCH = Ovs()
