"""Start-up of the DPDK programs that act as switches: memory, cores and devices.

The module is independent of any single switch: drivers pass their program and options. `paired`
covers programs that forward between the ports 2i and 2i+1, `eal_ports` names ports, and
`eal_telemetry` queries the running program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from signal import SIGTERM

from switchmark.engines.mbufs import pool_megabytes
from switchmark.hosts.base import Host
from switchmark.hosts.programs import probe_version
from switchmark.model.plan import Plan, Run, Spawn, Step
from switchmark.model.topology import (
    Endpoint,
    Memory,
    Port,
    PortKind,
    Wiring,
    guest_devices,
)
from switchmark.model.version import Version
from switchmark.runs.pci import UIO, bind
from switchmark.switches.eal_ports import file_prefix, functions_listen, port_mac, socket_path
from switchmark.switches.eal_telemetry import wait_listening

_PAGE_MB = 2  # a hugepage in a virtual machine
MBUF_BYTES = 2176
"""The default data room of an mbuf: 2048 bytes and 128 of headroom."""

_BASE_MB = 64  # EAL, telemetry and device rings: 14 MB with 2 ports, more with queues
_QUEUE_MB = 2  # for every pair of queues of a port except the first
_VERSION = "RTE Version: 'DPDK ([^']+)'"


def probe_program(host: Host, argv0: str, hint: str) -> Version:
    """Return the DPDK version of a program, or raise Unavailable with `hint`."""
    version, *_ = probe_version(host, (argv0, "-v", "-h"), _VERSION, hint=hint)
    return Version(version)


def _basename(path: str) -> str:
    return path.rpartition("/")[2]


def _env(wiring: Wiring) -> dict[str, str]:
    return {"RUNTIME_DIRECTORY": wiring.switch_dir}


def start_program(
    wiring: Wiring,
    argv0: str,
    options: Sequence[str],
    *,
    before: Sequence[str] = (),
    lcores: Sequence[str],
    mbufs: int,
    mbuf_bytes: int = MBUF_BYTES,
    queues: int = 1,
    extra_mb: int = 0,
) -> Plan:
    """Return the steps that start the program and wait until it listens at every port.

    `before` are arguments ahead of EAL's options, `lcores` the EAL options for cores. `mbufs` is
    the total size of the pools and `mbuf_bytes` the data room of an mbuf; they determine the
    memory. `queues` is the number of queue pairs per port, `extra_mb` the additional memory that
    the program needs.
    """
    beside = _BASE_MB + extra_mb + _QUEUE_MB * len(wiring.ports) * (queues - 1)
    memory_mb = beside + pool_megabytes(mbufs, mbuf_bytes, wiring.memory.kind)
    guest = guest_devices(wiring.given.values())
    virtual = [] if guest else [port for port in wiring.ports if not port.nic]
    sockets = () if wiring.given else tuple(socket_path(wiring, port) for port in virtual)
    left = (f"{wiring.switch_dir}/dpdk/{file_prefix(wiring)}", *sockets)
    user = f"the function at {wiring.node.name}" if wiring.given else "the switch"
    owner = user if wiring.given else "a switch"
    steps: list[Step] = []
    if guest:
        argv0, wiring = _basename(argv0), replace(wiring, memory=Memory())
        count = f"vm.nr_hugepages={-(-memory_mb // _PAGE_MB)}"
        steps.append(
            Run(f"hugepages in {wiring.node.name}", ("sysctl", "-q", "-w", count), at=wiring.node)
        )
        for address in guest:
            steps += bind(address, UIO, node=wiring.node)
    else:
        steps += wiring.memory.reserve(f"hugepages for {user}'s frames", memory_mb)
        remove = ("rm", "-rf", *left)
        steps.append(Run(f"no old sockets of {owner}", remove, undo=remove))
    return (
        *steps,
        Spawn(
            user,
            file_prefix(wiring),
            (
                *(argv0, *before, *pci_options(wiring), "--file-prefix", file_prefix(wiring)),
                *_memory(wiring, memory_mb),
                # The log goes to a pipe that nobody reads: a full pipe would block the program.
                *(*lcores, "--log-level", "*:warning"),
                *(word for port in virtual for word in ("--vdev", _device(wiring, port, queues))),
                *("--", *options),
            ),
            at=wiring.node,
            env=_env(wiring),
            stop=(SIGTERM, 5.0),
        ),
        *(() if wiring.given else wait_listening(wiring)),
    )


def pci_options(wiring: Wiring) -> tuple[str, ...]:
    """Return EAL's options for the NICs of the switch or of its virtual machine; EAL ignores all
    other NICs."""
    nics = [port.nic for port in wiring.ports if port.nic and port.pci]
    nics += guest_devices(wiring.given.values())
    return tuple(word for nic in nics for word in ("-a", nic)) or ("--no-pci",)


def _memory(wiring: Wiring, memory_mb: int) -> tuple[str, ...]:
    if not wiring.memory.huge:
        return ("--no-huge", "-m", str(memory_mb))
    by_node = ",".join([*("0" for _ in range(wiring.memory.node)), str(memory_mb)])
    return ("--in-memory", "--single-file-segments", "--socket-mem", by_node)


def _device(wiring: Wiring, port: Port, queues: int) -> str:
    if port.given:
        return _given_device(port.given, port)
    if wiring.kind is PortKind.MEMIF:
        return (
            f"net_memif{port.index},role=server,id=0,socket={socket_path(wiring, port)},"
            f"socket-abstract=no,mac={port_mac(wiring, port)}"
        )
    client, path = int(functions_listen(wiring)), socket_path(wiring, port)
    return f"net_vhost{port.index},iface={path},queues={queues},client={client}"


def _given_device(end: Endpoint, port: Port) -> str:
    """Return the device for a function's end of a port: virtio-user, or a memif client. virtio-user
    gets a control queue, because programs that set promiscuous mode exit without it."""
    if end.kind is PortKind.MEMIF:
        return (
            f"net_memif{port.index},role=client,id=0,socket={end.path},"
            f"socket-abstract=no,mac={end.mac}"
        )
    return (
        f"net_virtio_user{port.index},mac={end.mac},path={end.path},cq=1,queue_size=1024"
        f",server={int(end.server)}"
    )
