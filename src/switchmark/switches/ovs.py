"""Open vSwitch in an instance of its own: kernel datapath where the module is, else userspace."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from signal import SIGTERM

from switchmark.errors import Unavailable
from switchmark.machine.host import Host
from switchmark.model.plan import Check, Plan, Run, Spawn, Wait
from switchmark.model.topology import (
    Addressing,
    Endpoint,
    PortKind,
    Semantics,
    Wiring,
    mac_address,
)
from switchmark.model.version import Version
from switchmark.switches.base import Counters
from switchmark.switches.links import (
    add_port,
    bridged_addressing,
    kernel_counters,
    kernel_endpoints,
    link_counters,
    switch_ifname,
)

_SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
_TOOLS = ("ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl", "ovs-appctl")
_SOCKET = re.compile(r"^p_raw\s.*?\s\S+?:(\S+)\s.*\bskmem:\(.*?,d(\d+)\)", re.MULTILINE)
_HINT = "apt-get install openvswitch-switch"


class Ovs:
    """One bridge with the NORMAL action. Mode `kernel` or `userspace` is the datapath."""

    name = "ovs"
    semantics = frozenset({Semantics.LEARNING})
    port_kinds = frozenset({PortKind.VETH, PortKind.NIC_KERNEL})
    # The userspace datapath makes taps of fixed names: one network namespace an instance.
    environments = frozenset({"netns"})

    def probe(self, host: Host) -> Version:
        """The daemon's version; mode `kernel` if the module is loaded, else `userspace`."""
        try:
            done = host.run(("ovs-vswitchd", "--version"))
        except Unavailable as missing:
            raise Unavailable("ovs-vswitchd is not installed", hint=_HINT) from missing
        found = re.search(rb"Open vSwitch\) (\S+)", done.stdout)
        if done.status or not found:
            raise Unavailable("ovs-vswitchd --version does not tell its version", hint=_HINT)
        if not host.exists(_SCHEMA):
            raise Unavailable(f"the schema {_SCHEMA} is missing", hint=_HINT)
        kernel = host.exists("/sys/module/openvswitch")
        if not kernel and host.run(("test", "-w", "/dev/net/tun")).status:
            raise Unavailable(
                "the userspace datapath makes a tap, and /dev/net/tun cannot be written",
                hint="run it with sudo",
            )
        return Version(found[1].decode(), mode="kernel" if kernel else "userspace")

    def own_core(self, mode: str | None) -> bool:
        return mode != "kernel"

    def accepts(self, w: Wiring) -> str | None:
        return None

    def endpoints(self, w: Wiring) -> Mapping[str, Endpoint]:
        return kernel_endpoints(w)

    def addressing(self, w: Wiring) -> Mapping[str, Addressing]:
        return bridged_addressing(w)

    def _dir(self, w: Wiring) -> str:
        return f"{w.run_dir}/{w.prefix}-ovs"

    def _env(self, w: Wiring) -> dict[str, str]:
        return {f"OVS_{kind}DIR": self._dir(w) for kind in ("RUN", "DB", "LOG", "SYSCONF")}

    def _vsctl(self, w: Wiring, *words: str) -> tuple[str, ...]:
        return ("ovs-vsctl", "--timeout=10", f"--db=unix:{self._dir(w)}/db.sock", *words)

    def _pinned(self, w: Wiring, argv: tuple[str, ...]) -> tuple[str, ...]:
        return ("taskset", "-c", ",".join(map(str, w.cores)), *argv) if w.cores else argv

    def start(self, w: Wiring) -> Plan:
        home, env = self._dir(w), self._env(w)
        control = f"{home}/vswitchd.ctl"
        datapath = "system" if w.mode == "kernel" else "netdev"
        ports: Plan = ()
        for port in w.ports:
            ports += add_port(w, port, mac_address(port.index, router=True))
        names = [switch_ifname(w, port) for port in w.ports]
        return (
            *ports,
            Run("a place for this instance", ("mkdir", "-p", home), undo=("rm", "-rf", home)),
            Run("its database", ("ovsdb-tool", "create", f"{home}/conf.db", _SCHEMA)),
            Spawn(
                "the database's server",
                f"{w.prefix}-ovsdb",
                (
                    *("ovsdb-server", f"{home}/conf.db", f"--remote=punix:{home}/db.sock"),
                    *(f"--unixctl={home}/ovsdb.ctl", "--log-file=/dev/null"),
                ),
                at=w.at,
                env=env,
                stop=(SIGTERM, 3.0),
            ),
            Wait(
                "the database answers",
                Check(("ovs-appctl", "-t", f"{home}/ovsdb.ctl", "version"), env=env),
                unless_dead=f"{w.prefix}-ovsdb",
            ),
            Run("an empty configuration", self._vsctl(w, "--no-wait", "init")),
            Spawn(
                f"the switch ({w.mode or 'userspace'} datapath)",
                f"{w.prefix}-vswitchd",
                self._pinned(
                    w,
                    (
                        *("ovs-vswitchd", f"unix:{home}/db.sock"),
                        *(f"--unixctl={control}", "--log-file=/dev/null", "-vconsole:warn"),
                    ),
                ),
                at=w.at,
                env=env,
                stop=(SIGTERM, 5.0),
            ),
            Wait(
                "the switch answers",
                Check(("ovs-appctl", "-t", control, "version"), env=env),
                unless_dead=f"{w.prefix}-vswitchd",
            ),
            Run(
                "a bridge with the interfaces as ports",
                self._vsctl(
                    w,
                    *("add-br", "br0", "--", "set", "bridge", "br0", f"datapath_type={datapath}"),
                    *(word for name in names for word in ("--", "add-port", "br0", name)),
                ),
            ),
        )

    def join(self, w: Wiring) -> Plan:
        return ()

    def settled(self, w: Wiring) -> Plan:
        return tuple(
            Wait(
                f"the switch sees the link of {name}",
                Check(self._vsctl(w, "get", "Interface", name, "link_state"), pattern="^up$"),
                unless_dead=f"{w.prefix}-vswitchd",
            )
            for name in (switch_ifname(w, port) for port in w.ports)
        )

    def counters(self, w: Wiring) -> tuple[Run, ...]:
        if w.mode == "kernel":
            return link_counters(w)
        # The userspace datapath reads AF_PACKET sockets: what they have no room for is lost
        # behind the link's counters.
        sockets = Run("drops at the switch's sockets", ("ss", "-0", "-m", "-n", "-O"), at=w.at)
        return (*link_counters(w), sockets)

    def parse_counters(self, w: Wiring, outputs: tuple[bytes, ...]) -> Counters:
        links = kernel_counters(w, outputs)
        if len(outputs) == 1:
            return links
        drops = _socket_drops(outputs[1].decode(errors="replace"))
        return Counters(
            {
                port: replace(found, rx_dropped=drops.get(switch_ifname(w, w.port(port)), 0))
                for port, found in links.ports.items()
            }
        )


def _socket_drops(text: str) -> dict[str, int]:
    """Drops by interface, from `ss -0 -m -n -O`: `p_raw UNCONN 0 0 *:IFNAME * skmem:(...,dN)`."""
    found: dict[str, int] = {}
    for ifname, drops in _SOCKET.findall(text):
        found[ifname] = found.get(ifname, 0) + int(drops)
    return found


SWITCH = Ovs()
