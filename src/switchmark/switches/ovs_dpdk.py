"""A private Open vSwitch instance with the DPDK datapath, vhost-user ports and NICs.

It runs with OVS's defaults: one PMD thread, 2048 descriptors per NIC queue (`n_rxq_desc` in
ovs-vswitchd.conf.db(5)), one pool of 262144 mbufs for all ports ("Shared Memory" in
Documentation/topics/dpdk/memory.rst) and immediate transmission (`tx-flush-interval` 0). Bursts of
32 (NETDEV_MAX_BURST) are compiled in, and it needs hugepages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from switchmark.errors import Unavailable
from switchmark.hosts.base import Host
from switchmark.hosts.programs import probe_version
from switchmark.model.addresses import mac_address
from switchmark.model.counters import PortCounters
from switchmark.model.cpus import all_but
from switchmark.model.plan import Check, Plan, Run, Wait
from switchmark.model.topology import Endpoint, Port, PortKind, Semantics, Wiring
from switchmark.model.version import Version
from switchmark.switches.base import Counters, Counting, Switch
from switchmark.switches.changes import Change
from switchmark.switches.eal import pci_options
from switchmark.switches.links import add_port
from switchmark.switches.ovs_instance import (
    COMPANIONS,
    add_static_rules,
    appctl,
    bridge_name,
    configured_again,
    daemon,
    daemon_name,
    database,
    instance_dir,
    on_host,
    pidfile,
    port_number,
    require_instance,
    spare_port,
    static_refusal,
    vsctl,
)

_HINT = "apt-get install openvswitch-switch-dpdk"

# OVS's shared pool holds 262144 mbufs of 3008 bytes up to an MTU of 1500, for any number of ports:
# 762 MB including EAL's memory (measured, 3.1). With less free memory OVS halves the pool silently.
# Larger frames use a pool of 16384 mbufs, so this size suffices for them too.
_POOL_MB = 800
_PORT_MB = 4

_VERSIONS = r"Open vSwitch\) (\S+)\s+DPDK (\S+)"
_PORT = re.compile(r"port \d+: (\S+) \(")
_FRAMES = re.compile(r"([RT]X) packets:(\d+|\?) errors:\S+ dropped:(\d+|\?)")
_CYCLES = re.compile(r"^\s*(idle|processing) cycles:\s*(\d+)", re.MULTILINE)

_APART = 'taskset --pid --cpu-list "$0" $$ >/dev/null 2>&1; exec "$@"'
"""Starts a daemon whose database turns DPDK on at once: its threads leave the CPUs of its PMD
threads before these exist, if there are other CPUs."""


def _interface(port: Port) -> str:
    return f"u{port.index}" if port.uplink else f"p{port.index}"


def _counter_commands(wiring: Wiring) -> tuple[Run, ...]:
    # The statistics in the database are up to 5 s old; these commands return current values.
    return (
        Run("counters of the switch's ports", appctl(wiring, "dpctl/show", "-s")),
        Run("cycles of its threads", appctl(wiring, "dpif-netdev/pmd-stats-show")),
    )


def _parse_counters(wiring: Wiring, outputs: tuple[bytes, ...]) -> Counters:
    """Return the counters from both commands. All counters of a port that no function has opened
    are None."""
    ports_output, cycles = (output.decode() for output in outputs)
    ports = _port_counters(ports_output)
    missing = [_interface(port) for port in wiring.ports if _interface(port) not in ports]
    if missing:
        raise ValueError(f"dpctl/show names no port {missing[0]}")
    busy, idle = _pmd_cycles(cycles)
    return Counters({port.id: ports[_interface(port)] for port in wiring.ports}, busy, idle)


def _port_counters(text: str) -> dict[str, PortCounters]:
    """Return the counters by interface, from `dpctl/show -s`. The text about a port that no
    function has opened (`could not retrieve stats`) runs into the line of the next port."""
    parts = _PORT.split(text)
    counters = {}
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        rows = {
            way: (_count(frames), _count(drops)) for way, frames, drops in _FRAMES.findall(body)
        }
        if set(rows) == {"RX", "TX"}:
            (rx, rx_dropped), (tx, tx_dropped) = rows["RX"], rows["TX"]
            counters[name] = PortCounters(rx, tx, rx_dropped, tx_dropped)
        elif not rows and "could not retrieve stats" in body:
            counters[name] = PortCounters()
        else:
            raise ValueError(f"dpctl/show prints no counters of port {name}")
    return counters


def _count(text: str) -> int | None:
    return None if text == "?" else int(text)


def _pmd_cycles(text: str) -> tuple[int, int]:
    """Return the busy and idle cycles of all PMD threads, from `dpif-netdev/pmd-stats-show`."""
    if not re.search(r"^pmd thread ", text, re.MULTILINE):
        raise ValueError("pmd-stats-show names no PMD thread")
    sums = {"processing": 0, "idle": 0}
    for state, cycles in _CYCLES.findall(text):
        sums[state] += int(cycles)
    return sums["processing"], sums["idle"]


class OvsDpdk(Switch):
    """One bridge of datapath type netdev forwards by the NORMAL action, or by one rule per port."""

    name = "ovs-dpdk"
    program = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"
    companions = COMPANIONS
    also_called = ("ovs-vswitchd",)
    semantics = (Semantics.LEARNING, Semantics.STATIC)
    port_kinds = (PortKind.VHOST_USER, PortKind.NIC_PCI)
    counters = Counting(_counter_commands, _parse_counters)
    # The front end sets the number and length of a port's rings; OVS follows.
    resources = frozenset({"switch_cores", "queues", "descriptors", "copies", "rx_affinity"})

    def probe(self, host: Host) -> Version:
        """Return the versions of OVS and of its DPDK library."""
        argv = (self.path, "--version")
        version, dpdk = probe_version(host, argv, _VERSIONS, hint=_HINT)
        if host.run(("test", "-w", "/dev/net/tun")).status:
            raise Unavailable(
                "the datapath creates a tap, and /dev/net/tun is not writable",
                hint="run it with sudo",
            )
        beside = require_instance(host, self.path, _HINT)
        return Version(f"{version} (DPDK {dpdk})", beside=beside)

    def dedicated_core(self, mode: str | None) -> bool:
        return True

    @property
    def takes_uplink(self) -> bool:
        return True  # the NIC by its PCI address, else a packet socket that PMD threads poll

    def accepts(self, wiring: Wiring) -> str | None:
        if not wiring.memory.huge:
            return (
                f"{self.name} needs hugepages: its pool of frames takes {_POOL_MB} MB of them"
                "\n\nhint: --memory hugepages"
            )
        if wiring.semantics is Semantics.STATIC:
            return static_refusal(wiring, self.name)
        return None

    def endpoints(self, wiring: Wiring) -> Mapping[str, Endpoint]:
        return {
            port.id: Endpoint(
                kind=PortKind.NIC_PCI if port.nic else PortKind.VHOST_USER,
                mac=mac_address(port.index),
                path="" if port.nic else _socket(wiring, port),
                server=not port.nic,
                device=port.nic_peer or "",
                mtu=wiring.mtu,
            )
            for port in wiring.ports
        }

    def start(self, wiring: Wiring) -> Plan:
        sockets = tuple(_socket(wiring, port) for port in wiring.ports if not port.nic)
        return (
            *wiring.memory.reserve(
                "hugepages for the switch's frames", _POOL_MB + _PORT_MB * len(wiring.ports)
            ),
            *_no_sockets(sockets),
            *(step for port in _sockets(wiring) for step in add_port(wiring, port)),
            *on_host(wiring, "netdev"),
            *database(wiring),
            *daemon(wiring, "the switch, without DPDK yet", (wiring.program,), _env(wiring)),
            *_off_the_pmds_cpus(wiring),
            Run(
                "DPDK on",
                vsctl(wiring, "--no-wait", "set", "Open_vSwitch", ".", *_settings(wiring)),
            ),
            # The daemon has this command once DPDK is up. `dpdk_initialized` in the database may
            # stay false: if DPDK is turned on while the daemon writes its first status, the next
            # status is not written (run_status_update in OVS's vswitchd/bridge.c).
            Wait(
                "DPDK is up",
                Check(appctl(wiring, "dpdk/log-list")),
                timeout_s=30.0,  # it clears its hugepages first
                unless_dead=daemon_name(wiring),
            ),
        )

    def revive(self, wiring: Wiring) -> Plan:
        # The database keeps the settings and the ports. Rules are lost with the daemon.
        argv: tuple[str, ...] = (wiring.program,)
        if wiring.cores:
            argv = ("sh", "-c", _APART, all_but(wiring.cores), *argv)
        rules = add_static_rules(wiring) if wiring.semantics is Semantics.STATIC else ()
        return (
            *daemon(wiring, "the switch", argv, _env(wiring)),
            configured_again(wiring),
            *rules,
        )

    def settled_again(self, wiring: Wiring) -> Plan:
        # The database may keep the link states of the daemon before. A port without a link has no
        # statistics.
        return tuple(
            Wait(
                f"the switch sees the link of port {port.index}",
                Check(
                    appctl(wiring, "dpctl/show", "-s"),
                    pattern=rf"port \d+: {_interface(port)} \([^\n]*\n\s*RX packets",
                ),
                unless_dead=daemon_name(wiring),
            )
            for port in wiring.ports
        )

    def events(self, wiring: Wiring) -> Mapping[str, Change]:
        return {**super().events(wiring), "reconfigure": spare_port(wiring)}

    def join(self, wiring: Wiring) -> Plan:
        # The functions listen by now; OVS retries a missing socket only after 1 s. The time to
        # create the ports varies, so the steps wait for a port number.
        last = vsctl(wiring, "get", "Interface", _interface(wiring.ports[-1]), "ofport")
        return (
            Run(
                "a bridge with a port for each socket", vsctl(wiring, "--no-wait", *_bridge(wiring))
            ),
            Wait(
                "the switch has created the sockets",
                Check(last, pattern=r"^-?\d"),
                timeout_s=30.0,
                unless_dead=daemon_name(wiring),
            ),
            *(add_static_rules(wiring) if wiring.semantics is Semantics.STATIC else ()),
        )

    def settled(self, wiring: Wiring) -> Plan:
        return tuple(
            Wait(
                f"the switch sees the link of port {port.index}",
                Check(
                    vsctl(wiring, "get", "Interface", _interface(port), "link_state"),
                    pattern="^up$",
                ),
                unless_dead=daemon_name(wiring),
            )
            for port in wiring.ports
        )


def _env(wiring: Wiring) -> Mapping[str, str]:
    return {"RUNTIME_DIRECTORY": instance_dir(wiring)}


def _sockets(wiring: Wiring) -> list[Port]:
    """Return the uplinks to another host that are packet sockets on interfaces of the kernel."""
    return [port for port in wiring.ports if port.uplink and not port.pci]


def _no_sockets(paths: tuple[str, ...]) -> Plan:
    remove = ("rm", "-f", *paths)
    return (Run("no old sockets", remove, undo=remove),) if paths else ()


def _socket(wiring: Wiring, port: Port) -> str:
    return f"{wiring.ports_dir}/p{port.index}.sock"


def _off_the_pmds_cpus(wiring: Wiring) -> Plan:
    """Keep the daemon's other threads off the CPUs of its PMD threads. They inherit the CPUs of the
    main thread, while PMD threads pin themselves. Without this step, EAL's threads could use all
    CPUs except that of its main lcore, and would share the CPUs of the PMD threads."""
    if not wiring.cores:
        return ()
    number, others = f"{daemon_name(wiring)}-pid", all_but(wiring.cores)
    return (
        Run(
            "the number of the switch's process",
            ("cat", pidfile(wiring)),
            at=wiring.node,
            save=number,
        ),
        Run(
            "its other threads leave the CPUs of its PMD threads, if there are other CPUs",
            ("taskset", "--all-tasks", "--pid", "--cpu-list", others, f"${{{number}}}"),
            at=wiring.node,
            ok=(0, 1),
        ),
    )


def _settings(wiring: Wiring) -> tuple[str, ...]:
    # OVS reserves the pool's pages at start, not when the first front end connects: zeroing them
    # then, next to polling functions, took up to 5 s. All pages share one file; otherwise the
    # daemon needs a file descriptor per page (433 of a limit that is usually 1024).
    by_node = ",".join([*("0" for _ in range(wiring.memory.node)), str(_POOL_MB)])
    extra = (
        f"--in-memory --single-file-segments --socket-mem={by_node} {' '.join(pci_options(wiring))}"
        f" --file-prefix={wiring.prefix}"
    )
    mask = sum(1 << cpu for cpu in set(wiring.cores))
    return (
        f'other_config:dpdk-extra="{extra}"',
        *((f"other_config:pmd-cpu-mask={mask:#x}",) if wiring.cores else ()),
        "other_config:dpdk-init=true",
    )


def _bridge(wiring: Wiring) -> tuple[str, ...]:
    bridge = bridge_name(wiring)
    arguments = ["add-br", bridge, "--", "set", "bridge", bridge, "datapath_type=netdev"]
    if wiring.semantics is Semantics.STATIC:
        arguments.append("fail-mode=secure")
    for port in wiring.ports:
        name = _interface(port)
        arguments += ["--", "add-port", bridge, name, "--", "set", "Interface", name]
        if port.uplink and not port.pci:
            socket = f"net_af_packet{port.index},iface={port.nic},qdisc_bypass=0"
            arguments += ["type=dpdk", f"options:dpdk-devargs={socket}"]
        elif port.nic:
            arguments += ["type=dpdk", f"options:dpdk-devargs={port.nic}", *_queues(wiring)]
        else:
            arguments += [
                "type=dpdkvhostuserclient",
                f"options:vhost-server-path={_socket(wiring, port)}",
            ]
        arguments += [f"ofport_request={port_number(port)}", *_affinity(wiring, port)]
        if wiring.mtu != 1500:
            arguments.append(f"mtu_request={wiring.mtu}")
    return tuple(arguments)


def _affinity(wiring: Wiring, port: Port) -> tuple[str, ...]:
    """Return the option that binds each receive queue of a port to a PMD thread: the queues of all
    ports are spread over the CPUs in turn."""
    if not wiring.tuning.fixed_queues or not wiring.cores:
        return ()
    first, count = wiring.ports.index(port) * wiring.queues, len(wiring.cores)
    pairs = (f"{q}:{wiring.cores[(first + q) % count]}" for q in range(wiring.queues))
    return (f'other_config:pmd-rxq-affinity="{",".join(pairs)}"',)


def _queues(wiring: Wiring) -> tuple[str, ...]:
    """Return the options for the queues of a NIC; at a vhost-user port the connecting function sets
    them."""
    length = ("rxq", "txq") if wiring.descriptors else ()
    return (
        *((f"options:n_rxq={wiring.queues}",) if wiring.queues > 1 else ()),
        *(f"options:n_{way}_desc={wiring.descriptors}" for way in length),
    )


SWITCH = OvsDpdk()
