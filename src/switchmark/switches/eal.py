"""What every DPDK program has in common as a switch: memory, cores, sockets, telemetry.

Its ports are NICs by PCI address and virtual devices in the order of the topology (`device_ids`);
it forwards between the ports 2i and 2i+1 (`paired`). Knows no switch: each gives its own program
and options.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from signal import SIGTERM
from typing import Any

from switchmark.engines.base import traffic_program
from switchmark.errors import Unavailable
from switchmark.machine.host import Host
from switchmark.machine.mbufs import pool_megabytes
from switchmark.machine.pci import UIO, bind
from switchmark.model.plan import HOST, Check, Node, Plan, Reserve, Run, Spawn, Step, Wait
from switchmark.model.topology import (
    Endpoint,
    Port,
    PortKind,
    Wiring,
    mac_address,
)
from switchmark.model.version import Verified, Version
from switchmark.switches.base import Counters, Counting, PortCounters

__all__ = [
    "COUNTERS",
    "MBUF_BYTES",
    "PORT_KINDS",
    "SOCKET_KINDS",
    "VERIFIED_PORTS",
    "device_ids",
    "eal_counters",
    "eal_endpoints",
    "parse_eal_counters",
    "pci_options",
    "port_mac",
    "probe_program",
    "program",
    "start_program",
    "wait_linked",
]

SOCKET_KINDS = (PortKind.VHOST_USER, PortKind.MEMIF)
PORT_KINDS = (*SOCKET_KINDS, PortKind.NIC_PCI)
_PAGE_MB = 2  # a hugepage of a virtual machine
VERIFIED_PORTS: Mapping[str, Verified] = {PortKind.NIC_PCI: "verified in a VM"}
MBUF_BYTES = 2176
"""The data room of an mbuf where a program is not told another: 2048 and 128 of headroom."""

_BASE_MB = 64  # EAL, telemetry, the rings of the devices: 14 MB with 2 ports, more with queues
_QUEUE_MB = 2  # of each pair of queues but the first of a port
_VERSION = re.compile(rb"RTE Version: 'DPDK ([^']+)'")


def program(name: str) -> str:
    """The path of a DPDK sample program: beside this Python, where `make setup` puts it, or on
    PATH; its bare name where it is nowhere, which `probe_program` refuses."""
    beside = Path(sys.executable).with_name(name)
    return (str(beside) if beside.exists() else shutil.which(name)) or name


def probe_program(host: Host, argv0: str, hint: str) -> Version:
    """The version of DPDK that a program was linked with. Unavailable with `hint`."""
    name = _basename(argv0)
    try:
        done = host.run((argv0, "-v", "-h"))
    except Unavailable as missing:
        raise Unavailable(f"{name} is not installed", hint=hint) from missing
    found = _VERSION.search(done.stdout + done.stderr)
    if done.status or not found:
        raise Unavailable(f"{name} -v does not tell its version", hint=hint)
    return Version(
        found[1].decode(errors="replace"), verified="verified", verified_ports=VERIFIED_PORTS
    )


def device_ids(w: Wiring) -> Mapping[str, int]:
    """The number that DPDK gives each port, by port id: NICs come first, in the order of their
    addresses, whatever that of the options is; then virtual devices."""
    nics = sorted((port for port in w.ports if port.nic), key=_bus_order)
    order = [*nics, *(port for port in w.ports if not port.nic)]
    return {port.id: number for number, port in enumerate(order)}


def _bus_order(port: Port) -> tuple[int, str]:
    address = port.nic or ""
    return len(address), address


def _socket(w: Wiring, port: Port) -> str:
    return f"{w.run_dir}/p{port.index}.sock"


def _file_prefix(w: Wiring) -> str:
    return w.name("sw")


def _basename(path: str) -> str:
    return path.rpartition("/")[2]


def _in_guest(w: Wiring) -> bool:
    """Is it a function in a virtual machine, whose ports are that machine's NICs?"""
    return any(end.device for end in w.given.values())


def _telemetry(w: Wiring, *questions: str) -> tuple[tuple[str, ...], Node]:
    """What asks the program, and prints a line of JSON for each question, and where. Its socket
    lies in the run's folder: it is asked from the host, unless it runs in a machine."""
    socket = f"{w.run_dir}/dpdk/{_file_prefix(w)}/dpdk_telemetry.v2"
    at = w.at if _in_guest(w) else replace(HOST, host=w.at.host)
    return (traffic_program(), "telemetry", socket, *questions), at


def _env(w: Wiring) -> dict[str, str]:
    return {"RUNTIME_DIRECTORY": w.run_dir}


def eal_endpoints(w: Wiring, macs: Mapping[str, str]) -> Mapping[str, Endpoint]:
    """A socket for each port that the switch listens on, or the NIC at the other end of the
    cable; `macs` are the functions', by port."""
    return {
        port.id: Endpoint(
            kind=PortKind.NIC_PCI if port.nic else w.kind,
            mac=macs[port.id],
            path="" if port.nic else _socket(w, port),
            device=port.nic_peer or "",
            mtu=w.mtu,
        )
        for port in w.ports
    }


def port_mac(w: Wiring, port: Port) -> str:
    """The MAC of the switch's side. That of a vhost port is the driver's own (`VHOST`, then
    the port's id) and cannot be set."""
    if w.kind is PortKind.VHOST_USER:
        return f"56:48:4f:53:54:{device_ids(w)[port.id]:02x}"
    return mac_address(port.index, router=True)


def start_program(
    w: Wiring,
    argv0: str,
    options: Sequence[str],
    *,
    lcores: Sequence[str],
    mbufs: int,
    mbuf_bytes: int = MBUF_BYTES,
    queues: int = 1,
) -> Plan:
    """The program, listening at every port.

    `lcores` are EAL's options for cores, `mbufs` all that its pools hold and `mbuf_bytes` the
    data room of each, from which follows the memory that it needs. `queues` are the pairs of
    queues that it serves at a port.
    """
    beside = _BASE_MB + _QUEUE_MB * len(w.ports) * (queues - 1)
    memory_mb = beside + pool_megabytes(mbufs, mbuf_bytes, w.memory)
    guest = _in_guest(w)
    virtual = [] if guest else [port for port in w.ports if not port.nic]
    sockets = () if w.given else tuple(_socket(w, port) for port in virtual)
    left = (f"{w.run_dir}/dpdk/{_file_prefix(w)}", *sockets)
    who = f"the function at {w.at.name}" if w.given else "the switch"
    whose = who if w.given else "a switch"
    steps: list[Step] = []
    if guest:
        argv0, w = _basename(argv0), replace(w, memory="hugepages", node=0)
        count = f"vm.nr_hugepages={-(-memory_mb // _PAGE_MB)}"
        steps.append(Run(f"hugepages in {w.at.name}", ("sysctl", "-q", "-w", count), at=w.at))
        for end in w.given.values():
            steps += bind(end.device, UIO, at=w.at)
    else:
        if w.memory == "hugepages":
            steps.append(Reserve(f"hugepages for {who}'s frames", memory_mb, node=w.node))
        remove = ("rm", "-rf", *left)
        steps.append(Run(f"no sockets of {whose} before", remove, undo=remove))
    return (
        *steps,
        Spawn(
            who,
            _file_prefix(w),
            (
                *(argv0, *pci_options(w), "--file-prefix", _file_prefix(w)),
                *_memory(w, memory_mb),
                # What it logs goes to a pipe that nobody empties: a full one would stop it.
                *(*lcores, "--log-level", "*:warning"),
                *(word for port in virtual for word in ("--vdev", _device(w, port, queues))),
                *("--", *options),
            ),
            at=w.at,
            env=_env(w),
            stop=(SIGTERM, 5.0),
        ),
        *(() if w.given else _wait_listening(w)),
    )


def pci_options(w: Wiring) -> tuple[str, ...]:
    """EAL's options for the switch's NICs, or those of its machine, and for no other."""
    nics = [port.nic for port in w.ports if port.nic]
    nics += [end.device for end in w.given.values() if end.device]
    return tuple(word for nic in nics for word in ("-a", nic)) or ("--no-pci",)


def _memory(w: Wiring, memory_mb: int) -> tuple[str, ...]:
    if w.memory == "no-huge":
        return ("--no-huge", "-m", str(memory_mb))
    by_node = ",".join([*("0" for _ in range(w.node)), str(memory_mb)])
    return ("--in-memory", "--single-file-segments", "--socket-mem", by_node)


def _device(w: Wiring, port: Port, queues: int) -> str:
    if w.given:
        return _given_device(w.given[port.id], port)
    if w.kind is PortKind.MEMIF:
        return (
            f"net_memif{port.index},role=server,id=0,socket={_socket(w, port)},"
            f"socket-abstract=no,mac={port_mac(w, port)}"
        )
    return f"net_vhost{port.index},iface={_socket(w, port)},queues={queues},client=0"


def _given_device(end: Endpoint, port: Port) -> str:
    """The function's side of a port: virtio-user, or a memif client. With a control queue, or
    a program that asks for it ends because it cannot set promiscuous mode."""
    if end.kind is PortKind.MEMIF:
        return (
            f"net_memif{port.index},role=client,id=0,socket={end.path},"
            f"socket-abstract=no,mac={end.mac}"
        )
    return (
        f"net_virtio_user{port.index},mac={end.mac},path={end.path},cq=1,queue_size=1024"
        f",server={int(end.server)}"
    )


def _wait_listening(w: Wiring) -> Plan:
    """Waits until functions may connect to each port: the switch listens there, and has set it up.

    A vhost port listens when it is configured. A memif port does so before: a function that was
    sooner than the start of the port got no link, or ended the switch by a segmentation fault (2
    of 50 starts, DPDK 22.11).
    """
    ids = device_ids(w)
    virtual = [port for port in w.ports if not port.nic]
    if w.kind is PortKind.MEMIF:
        started = '"dev_started": ?1'
        asked = {port: _telemetry(w, f"/ethdev/info,{ids[port.id]}") for port in virtual}
        checks = {port: Check(argv, at, pattern=started) for port, (argv, at) in asked.items()}
    else:
        listening = ("ss", "--unix", "--no-header", "state", "listening", "src")
        checks = {
            port: Check((*listening, _socket(w, port)), at=w.at, pattern=r"\S") for port in virtual
        }
    return tuple(
        Wait(
            f"the switch listens at port {port.index}",
            check,
            unless_dead=_file_prefix(w),
        )
        for port, check in checks.items()
    )


def wait_linked(w: Wiring) -> Plan:
    """Waits until each port has its link: a function has connected, and both agree.

    DPDK is asked, not the sockets: the kernel lists what a listener accepts in the network
    namespace of the function that connected.
    """
    ids = device_ids(w)
    return tuple(
        Wait(
            f"{w.at.name if w.given else 'the switch'} sees the link of port {port.index}",
            Check(
                *_telemetry(w, f"/ethdev/link_status,{ids[port.id]}"),
                pattern='"UP"',
            ),
            unless_dead=_file_prefix(w),
        )
        for port in w.ports
    )


def eal_counters(w: Wiring) -> tuple[Run, ...]:
    """The statistics of every port, by telemetry: one line of JSON each, in order."""
    ids = device_ids(w)
    questions = (f"/ethdev/stats,{ids[port.id]}" for port in w.ports)
    return (Run("counters of the switch's ports", *_telemetry(w, *questions)),)


def parse_eal_counters(w: Wiring, outputs: tuple[bytes, ...]) -> Counters:
    """Counters by port. ValueError if they are garbled.

    The drivers of virtual ports count what they sent, not what they had no room for, and the
    programs hold nothing back once it is quiet: what was read at one port and not sent at the
    other was dropped between.
    """
    lines = outputs[0].decode().splitlines()
    if len(lines) != len(w.ports):
        raise ValueError(f"telemetry answered {len(lines)} questions of {len(w.ports)}")
    stats = [_stats(line) for line in lines]
    return Counters(
        {
            port.id: PortCounters(
                rx=own["ipackets"],
                tx=own["opackets"],
                rx_dropped=own["imissed"] + own["ierrors"] + own["rx_nombuf"],
                tx_dropped=max(0, partner["ipackets"] - own["opackets"]),
            )
            for index, port in enumerate(w.ports)
            for own, partner in ((stats[index], stats[index ^ 1]),)
        }
    )


def _stats(line: str) -> dict[str, int]:
    """The numbers of one answer, `{"/ethdev/stats": {"ipackets": 0, ...}}`."""
    try:
        answer: Any = json.loads(line)["/ethdev/stats"]
        found = {
            name: answer[name]
            for name in ("ipackets", "opackets", "imissed", "ierrors", "rx_nombuf")
        }
    except (KeyError, TypeError, RecursionError) as missing:
        raise ValueError(f"telemetry gave a port without {missing}") from missing
    if not all(type(value) is int and value >= 0 for value in found.values()):
        raise ValueError("telemetry gave a counter that is no number of frames")
    return found


COUNTERS = Counting(eal_counters, parse_eal_counters)
"""Those of the program's ports, as telemetry tells them."""
