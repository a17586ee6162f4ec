"""Telemetry queries to a DPDK program: its listening sockets, links and counters. The module is
independent of any single switch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from switchmark.hosts.programs import tool_program
from switchmark.model.counters import PortCounters
from switchmark.model.plan import HOST, Check, Node, Plan, Run, Wait
from switchmark.model.topology import PortKind, Wiring, guest_devices
from switchmark.runs.jsonl import parse_line
from switchmark.switches.base import Counters, Counting
from switchmark.switches.eal_ports import device_ids, file_prefix, functions_listen, socket_path

_LINKED_S = 30.0
"""The timeout for a link: the NIC of an emulated machine took 10 s on a busy host."""


def telemetry(wiring: Wiring, *questions: str) -> tuple[tuple[str, ...], Node]:
    """Return the command that sends questions to the program and prints a line of JSON per answer,
    and the node to run it on. The program's socket is in the run's folder, so the host sends the
    questions, unless the program runs in a virtual machine."""
    socket = f"{wiring.switch_dir}/dpdk/{file_prefix(wiring)}/dpdk_telemetry.v2"
    in_guest = guest_devices(wiring.given.values())
    node = wiring.node if in_guest else replace(HOST, host=wiring.node.host)
    return (tool_program(), "telemetry", socket, *questions), node


def wait_listening(wiring: Wiring) -> Plan:
    """Wait until functions can connect to every port: the switch listens there and the port is set
    up.

    A vhost port listens once it is configured. A memif port listens earlier: a function that
    connected before the port started got no link, or crashed the switch with a segmentation fault
    (2 of 50 starts, DPDK 22.11).
    """
    if functions_listen(wiring):
        return ()
    ids = device_ids(wiring)
    virtual = [port for port in wiring.ports if not port.nic]
    if wiring.kind is PortKind.MEMIF:
        started = '"dev_started": ?1'
        commands = {port: telemetry(wiring, f"/ethdev/info,{ids[port.id]}") for port in virtual}
        checks = {
            port: Check(argv, node, pattern=started) for port, (argv, node) in commands.items()
        }
    else:
        listening = ("ss", "--unix", "--no-header", "state", "listening", "src")
        checks = {
            port: Check((*listening, socket_path(wiring, port)), at=wiring.node, pattern=r"\S")
            for port in virtual
        }
    return tuple(
        Wait(f"the switch listens at port {port.index}", check, unless_dead=file_prefix(wiring))
        for port, check in checks.items()
    )


def wait_linked(wiring: Wiring) -> Plan:
    """Wait until every port has its link: a function has connected, and both ends have negotiated.

    The query goes to DPDK, not to the sockets: the kernel lists an accepted connection in the
    network namespace of the function that connected.
    """
    ids = device_ids(wiring)
    name = wiring.node.name if wiring.given else "the switch"
    return tuple(
        Wait(
            f"{name} sees the link of port {port.index}",
            Check(
                *telemetry(wiring, f"/ethdev/link_status,{ids[port.id]}"),
                pattern='"UP"',
            ),
            timeout_s=_LINKED_S,
            unless_dead=file_prefix(wiring),
        )
        for port in wiring.ports
    )


def eal_counters(wiring: Wiring) -> tuple[Run, ...]:
    """Return the command that reads the statistics of every port by telemetry: a line of JSON per
    port, in order."""
    ids = device_ids(wiring)
    questions = (f"/ethdev/stats,{ids[port.id]}" for port in wiring.ports)
    return (Run("counters of the switch's ports", *telemetry(wiring, *questions)),)


def parse_eal_counters(wiring: Wiring, outputs: tuple[bytes, ...]) -> Counters:
    """Return the counters by port. ValueError if they are garbled.

    The drivers of virtual ports count transmitted frames, but not frames dropped for lack of room,
    and the programs hold no frames back once traffic stops. So the drops of a port are the frames
    received at its partner minus the frames transmitted at the port.
    """
    lines = outputs[0].decode().splitlines()
    if len(lines) != len(wiring.ports):
        raise ValueError(f"telemetry answered {len(lines)} of {len(wiring.ports)} queries")
    stats = [_stats(line) for line in lines]
    return Counters(
        {
            port.id: PortCounters(
                rx=stat["ipackets"],
                tx=stat["opackets"],
                rx_dropped=stat["imissed"] + stat["ierrors"] + stat["rx_nombuf"],
                tx_dropped=max(0, partner["ipackets"] - stat["opackets"]),
            )
            for index, port in enumerate(wiring.ports)
            for stat, partner in ((stats[index], stats[index ^ 1]),)
        }
    )


def _stats(line: str) -> dict[str, int]:
    """Return the numbers of an answer, `{"/ethdev/stats": {"ipackets": 0, ...}}`."""
    try:
        answer: Any = parse_line(line)["/ethdev/stats"]
        numbers = {
            name: answer[name]
            for name in ("ipackets", "opackets", "imissed", "ierrors", "rx_nombuf")
        }
    except (KeyError, TypeError) as missing:
        raise ValueError(f"telemetry reported a port without {missing}") from missing
    if not all(type(value) is int and value >= 0 for value in numbers.values()):
        raise ValueError("telemetry reported a counter that is not a number of frames")
    return numbers


COUNTERS = Counting(eal_counters, parse_eal_counters)
"""The counters of the program's ports, read by telemetry."""
