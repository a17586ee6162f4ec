"""FD.io's vector packet processor cross-connects, bridges or routes, configured through its CLI.

It runs with vpp's recommended defaults: 16384 buffers per NUMA node (more are "needed only in
scenarios with large number of interfaces and worker threads"; docs/configuration/reference.rst),
vectors of at most 256 frames, a worker per core, and a main thread on another core that forwards
nothing (`cpu`). Rings have 1024 descriptors, also for memif ("the qsz should be 1024";
docs/usecases/vhost/vhost02.rst). Functions set the ring length of vhost-user ports. SWITCHMARK_VPP
names the program if it is not on PATH; `vppctl` is in the same folder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath

from switchmark.hosts.base import Host
from switchmark.hosts.programs import how_to_name, probe_version, require_programs
from switchmark.model.addresses import Addressing, mac_address
from switchmark.model.counters import PortCounters
from switchmark.model.cpus import all_but
from switchmark.model.event import REPLACING
from switchmark.model.plan import Check, Plan, Run, Spawn, Wait, Write
from switchmark.model.topology import Endpoint, Port, PortKind, Semantics, Wiring
from switchmark.model.version import Version
from switchmark.switches import links
from switchmark.switches.base import Counters, Counting, Switch, routed_addressing, wire_refusal
from switchmark.switches.builds import Build
from switchmark.switches.changes import Change
from switchmark.switches.eal_ports import eal_endpoints
from switchmark.switches.vpp_config import (
    BUFFERS,
    home,
    interface,
    kind_of,
    main_core,
    number,
    process,
    script,
    startup,
)

_HINT = f"build it (https://fd.io), then {how_to_name('vpp')}"
_VERSION = r"vpp v(\S+)"
_BUFFER_BYTES = 2560  # including 2048 bytes for a frame
_NETWORKS = 255
_API = ("global_vm", "vpe-api")  # the shared memory of its API
_CPUS = "/sys/devices/system/cpu"
_INTERFACE = re.compile(r"^(\S+) +\d+ +(?:up|down) +\S+", re.MULTILINE)
_COUNTER = re.compile(r"([a-z][a-z0-9]*(?:[ -][a-z0-9]+)*) +(\d+) *$", re.MULTILINE)
_USED = re.compile(r"\) \S(?: -?\d+){10} (\d+) (\d+) ")  # from /proc/PID/stat, in ticks
_TICKS = 100
_THREAD = re.compile(r"^Time [\d.]", re.MULTILINE)
_RATE = re.compile(r"loops/sec (\d*\.\d+)")
_NODE = re.compile(r"^(\S+) +([a-z]+(?: [a-z]+)?) +(\d+) +\d+ +\d+ ", re.MULTILINE)
_ONCE = """\
test -s "$2" || for again in 1 2 3 4 5; do "$0" -s "$1" show runtime summary; sleep .02; done >"$2"
cat "$2"
"""
_ERROR = re.compile(r"^ *(\d+) +(\S+)-tx ", re.MULTILINE)


def _client(program: str) -> str:
    """Return the path of the CLI client, in the folder of the switch."""
    return str(PurePath(program).with_name("vppctl"))


def _cli(wiring: Wiring, *arguments: str) -> tuple[str, ...]:
    """Return the command that sends a line to this instance's CLI."""
    return (_client(wiring.program), "-s", f"{home(wiring)}/cli.sock", *arguments)


def _counter_commands(wiring: Wiring) -> tuple[Run, ...]:
    client, _, socket = _cli(wiring)
    idle = (*("sh", "-c", _ONCE, client, socket), f"{home(wiring)}/idle")
    return (
        Run("counters of the switch's ports", _cli(wiring, "show", "interface")),
        Run("frames that it could not send", _cli(wiring, "show", "errors")),
        Run("the CPU time that it has used", ("cat", f"/proc/{number(wiring)}/stat"), wiring.node),
        Run("the loops of its workers", _cli(wiring, "show", "runtime")),
        Run("the loops per second of an idle worker", idle),
        *(links.link_counters(wiring) if _sockets(wiring) else ()),
    )


def _parse_counters(wiring: Wiring, outputs: tuple[bytes, ...]) -> Counters:
    """Parse the counters by port. vpp counts a frame as sent before it checks for room. Losses at a
    packet socket, in either direction, appear only in the kernel's counters of the interface."""
    decoded = (output.decode().replace("\r\n", "\n") for output in outputs[:5])
    interfaces, errors, stat, runtime, idle = decoded
    parts = _INTERFACE.split(interfaces)
    counted = {
        name: {kind: int(count) for kind, count in _COUNTER.findall(body)}
        for name, body in zip(parts[1::2], parts[2::2], strict=True)
    }
    unsent: dict[str, int] = {}
    for count, name in _ERROR.findall(errors):
        unsent[name] = unsent.get(name, 0) + int(count)
    kernel = links.parse_link_counters(outputs[5]) if len(outputs) > 5 else {}
    ports = {}
    for port in wiring.ports:
        name = interface(wiring, port)
        if name not in counted:
            raise ValueError(f"show interface names no port {name}")
        link = kernel.get(links.switch_ifname(wiring, port)) if port in _sockets(wiring) else None
        ports[port.id] = _of_port(counted[name], unsent.get(name, 0), kind_of(wiring, port), link)
    return Counters(ports, *_loops(stat, runtime, idle))


def _of_port(
    counts: Mapping[str, int], unsent: int, kind: PortKind, link: PortCounters | None
) -> PortCounters:
    rx, tx = counts.get("rx packets", 0), counts.get("tx packets", 0)
    dropped = sum(counts.get(kind, 0) for kind in ("drops", "rx-no-buf", "rx-miss", "rx-error"))
    if link is not None and link.rx is not None and link.tx is not None:
        return PortCounters(rx, link.tx, max(0, link.rx - rx) + dropped, max(0, tx - link.tx))
    if kind is PortKind.VHOST_USER:  # vpp counts receive and transmit drops together
        dropped = max(0, dropped - unsent)
    unsent += counts.get("tx-error", 0)
    return PortCounters(rx, tx - unsent, dropped, unsent)


def _loops(stat: str, runtime: str, idle: str) -> tuple[int, int] | tuple[None, None]:
    """Return the busy and idle time of all forwarding threads, in units of an idle loop; None for
    packet sockets, which vpp does not poll.

    vpp reports no idle time. But it polls its ports in a loop and counts the loops: idle time is
    the number of loops without frames; the total is the number of loops that its CPU time allows.
    """
    used = _USED.search(stat)
    per_second = [float(rate) for rate in _RATE.findall(idle)]
    threads = _THREAD.split(runtime)[1:]
    if used is None or not threads or not per_second or len(per_second) % len(threads):
        raise ValueError("vpp did not report how often its threads loop")
    first = 1 if len(threads) > 1 else 0  # with workers, the main thread forwards nothing
    empty = sum(_empty(thread) for thread in threads[first:])
    ticks = int(used[1]) + int(used[2])
    fastest = [max(per_second[i :: len(threads)]) for i in range(first, len(threads))]
    total = round(ticks / _TICKS * sum(fastest) / len(fastest))
    return (total - empty, empty) if empty else (None, None)


def _empty(thread: str) -> int:
    """Return how many loops of a thread found no frame."""
    calls = {name: (state, int(count)) for name, state, count in _NODE.findall(thread)}
    loops = max((count for state, count in calls.values() if state == "polling"), default=0)
    return max(0, loops - calls.get("ethernet-input", ("", 0))[1])


def _room_for_main(wiring: Wiring) -> Plan:
    """Refuse several workers on a host without a spare CPU: vpp would exit there without a
    message."""
    if len(wiring.cores) < 2:
        return ()
    cpu = main_core(wiring)
    message = (
        f"vpp's main thread needs a CPU besides those of its {len(wiring.cores)} workers, and "
        f"there is no CPU {cpu}: use --switch-cores {len(wiring.cores) - 1}"
    )
    check = ("sh", "-c", 'test -e "$0" || { echo "$1" >&2; exit 1; }', f"{_CPUS}/cpu{cpu}", message)
    return (Run("a CPU for its main thread", check),)


def _sockets(wiring: Wiring) -> list[Port]:
    """Return the ports that are packet sockets on kernel interfaces."""
    return [port for port in wiring.ports if kind_of(wiring, port) is PortKind.VETH]


def _no_sockets(wiring: Wiring) -> Plan:
    """Remove the listening sockets, which vpp leaves behind if it is killed."""
    ends = {} if wiring.given else SWITCH.endpoints(wiring)
    paths = tuple(end.path for end in ends.values() if end.path)
    remove = ("rm", "-f", *paths)
    return (Run("no old sockets", remove, undo=remove),) if paths else ()


class Vpp(Switch):
    """`vpp`, configured by `vppctl`: vhost-user and memif ports listen, a packet socket is on the
    switch's end of a veth pair, and NICs use the DPDK plugin."""

    name = "vpp"
    program = "vpp"
    companions = ("vppctl",)
    build = Build(
        needs="the plugins vhost, memif and af_packet, for NICs dpdk",
        trees=("vpp", "vpp-*"),
        places=("build-root/install-vpp-native/vpp/bin/vpp", "build-root/install-*/*/bin/vpp"),
        packages="FD.io publishes vpp, vpp-plugin-core and vpp-plugin-dpdk of each release for "
        "Debian and Ubuntu at packagecloud.io/fdio/release, of release 26.10 at "
        "packagecloud.io/fdio/2610",
    )
    semantics = (Semantics.PATCH, Semantics.LEARNING, Semantics.ROUTED)
    port_kinds = (PortKind.VHOST_USER, PortKind.MEMIF, PortKind.VETH, PortKind.NIC_PCI)
    function_kinds = frozenset({PortKind.MEMIF, PortKind.VETH})
    capabilities = frozenset({"IPC_LOCK"})  # it locks its buffers, beyond the usual limit
    counters = Counting(_counter_commands, _parse_counters)
    resources = frozenset(
        {"listen", "switch_cores", "queues", "descriptors", "memory", "buffers", "copies"}
    )

    def probe(self, host: Host) -> Version:
        (version,) = probe_version(host, (self.path, "--version"), _VERSION, hint=_HINT)
        require_programs(host, {_client(self.path): "vpp"})
        return Version(version)

    def dedicated_core(self, mode: str | None) -> bool:
        return True

    @property
    def takes_uplink(self) -> bool:
        return True

    def accepts(self, wiring: Wiring) -> str | None:
        if wiring.semantics is Semantics.PATCH:
            return wire_refusal(wiring, self.name)
        if wiring.semantics is Semantics.ROUTED and len(wiring.ports) > _NETWORKS:
            return f"vpp gives each port a /24 of 198.18.0.0/16: at most {_NETWORKS} ports"
        return None

    def endpoints(self, wiring: Wiring) -> Mapping[str, Endpoint]:
        if wiring.kind is PortKind.VETH:
            return links.kernel_endpoints(wiring)
        return eal_endpoints(wiring, {port.id: mac_address(port.index) for port in wiring.ports})

    def addressing(self, wiring: Wiring) -> Mapping[str, Addressing]:
        if wiring.semantics is Semantics.ROUTED:
            return routed_addressing(wiring)
        return super().addressing(wiring)

    def start(self, wiring: Wiring) -> Plan:
        folder, name, last = home(wiring), process(wiring), interface(wiring, wiring.ports[-1])
        started = (wiring.program, "-c", f"{folder}/startup.conf")
        api = ("rm", "-f", *(f"/dev/shm/{name}-{part}" for part in _API))
        pid = ("cat", f"{folder}/vpp.pid")
        typed = script(wiring, wiring.given or self.endpoints(wiring))
        user = f"the function at {wiring.node.name}" if wiring.given else "the switch"
        steps = tuple(step for port in _sockets(wiring) for step in links.add_port(wiring, port))
        megabytes = -(-(wiring.tuning.buffers or BUFFERS) * _BUFFER_BYTES >> 20)
        steps += wiring.memory.reserve(f"hugepages for {user}'s buffers", megabytes)
        return (
            *_room_for_main(wiring),
            *steps,
            Run(f"a folder for {user}", ("mkdir", "-p", folder), undo=("rm", "-rf", folder)),
            *_no_sockets(wiring),
            Run("no old shared memory of its API", api, at=wiring.node, undo=api),
            Write("its configuration", f"{folder}/startup.conf", startup(wiring).encode()),
            Write("the commands for its CLI", f"{folder}/ports.cli", typed.encode()),
            Spawn(user, name, started, at=wiring.node),
            Wait(f"{user} answers", Check(_cli(wiring, "show", "version")), unless_dead=name),
            Run(f"the number of {user}'s process", pid, at=wiring.node, save=f"{name}-pid"),
            Run(
                "its main thread leaves the workers' CPUs",
                ("taskset", "--pid", "--cpu-list", all_but(wiring.cores), number(wiring)),
                at=wiring.node,
                ok=(0, 1),
            ),
            Run("its ports and rules", _cli(wiring, "exec", f"{folder}/ports.cli")),
            Wait(
                "its last port is up",
                Check(_cli(wiring, "show", "interface"), pattern=rf"^{re.escape(last)} +\d+ +up "),
                unless_dead=name,
            ),
        )

    def leftovers(self, wiring: Wiring) -> tuple[str, ...]:
        files = (f"{home(wiring)}/{file}" for file in ("cli.sock", "vpp.pid"))
        shared = (f"/dev/shm/{process(wiring)}-{part}" for part in _API)
        return (*super().leftovers(wiring), *files, *shared)

    def events(self, wiring: Wiring) -> Mapping[str, Change]:
        """Return the events of a process. On vhost-user ports no process replaces another: vpp uses
        a ring from its first notification on, and functions send none to the next vpp."""
        events = super().events(wiring)
        if wiring.kind is not PortKind.VHOST_USER:
            return events
        return {kind: change for kind, change in events.items() if kind not in REPLACING}

    def settled(self, wiring: Wiring) -> Plan:
        return tuple(
            Wait(
                f"{wiring.node.name if wiring.given else 'the switch'} sees the link of port"
                f" {port.index}",
                Check(
                    _cli(wiring, "show", "hardware-interfaces"),
                    pattern=rf"^{re.escape(interface(wiring, port))} +\d+ +up ",
                ),
                unless_dead=process(wiring),
            )
            for port in wiring.ports
        )


SWITCH = Vpp()
