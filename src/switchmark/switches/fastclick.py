"""FastClick connects its ports as a Click configuration says: with DPDK in user space, or on veth
through packet sockets.

Bursts of 32 are the documented choice for throughput (`ToDPDKDevice`: "recommended as it is what
DPDK will do under the hood"). The 65535 mbufs follow `DPDKInfo`, which defaults to 65536 and asks
for a power of two minus one. The queue before a device holds 1024 frames, the documented default. A
full queue drops (`BLOCKING false`); otherwise a slow receiver would block the other ports.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace

from switchmark.errors import Unavailable
from switchmark.hosts.base import Host
from switchmark.hosts.programs import (
    USUAL_FOLDERS,
    command_path,
    hint_for,
    how_to_name,
    on_other,
)
from switchmark.model.addresses import mac_address
from switchmark.model.counters import PortCounters
from switchmark.model.plan import HOST, Check, Node, Plan, Run, Spawn, Wait, Write
from switchmark.model.topology import Endpoint, PortKind, Semantics, Wiring
from switchmark.model.version import Version
from switchmark.switches import links
from switchmark.switches.base import Counters, Counting, Switch, wire_refusal
from switchmark.switches.builds import Build
from switchmark.switches.eal import MBUF_BYTES, start_program
from switchmark.switches.eal_ports import PORT_KINDS, device_ids, eal_endpoints, file_prefix
from switchmark.switches.eal_telemetry import wait_linked

_HINT = f"build it (https://github.com/tbarbette/fastclick), then {how_to_name('fastclick')}"
_VERSION = re.compile(rb"^version:\n(\S+)", re.MULTILINE)
_NEEDED = {"FromDPDKDevice": "--enable-dpdk", "EtherSwitch": "--enable-etherswitch"}

_MBUFS, _BURST = 65535, 32
_ANNOTATIONS = 512  # the maximum that FastClick adds before and after a frame
_AROUND = 18 + 4 + 128  # Ethernet header, FCS and a VLAN tag, headroom
_HANDLERS = ("count", "hw_dropped"), ("count", "dropped")
# EtherSwitch ages addresses by the timestamps of frames. DPDK's device leaves stale memory there,
# so addresses would look arbitrarily old and frames would be flooded.
_STAMP = "SetTimestamp(PER_BATCH true) -> "
_CYCLES = ("useful_kcycles", "clock.cycles_hz")

# The control socket answers every `READ` and closes after `QUIT`. The script appends the CPU time
# of the process so far, in ns over all threads; it finds the process as the peer of the socket.
_ASK = """\
import glob, socket, struct, sys
with socket.socket(socket.AF_UNIX) as s:
    s.connect(sys.argv[1])
    s.sendall("".join(f"READ {name}\\r\\n" for name in sys.argv[2:]).encode() + b"QUIT\\r\\n")
    while said := s.recv(65536):
        sys.stdout.buffer.write(said)
    pid, *_ = struct.unpack("3i", s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    spent = [open(file).read().split()[0] for file in glob.glob(f"/proc/{pid}/task/*/schedstat")]
    sys.stdout.buffer.write(b"%d\\n" % sum(map(int, spent)))
"""
_SPENT = re.compile(rb"200 [^\r]*\r\n(\d+)\n")
_ANSWER = re.compile(rb"(?:200 [^\r]*\r\nDATA (\d+)|5\d\d [^\r]*)\r\n")


def _bypass(wiring: Wiring) -> bool:
    return wiring.kind is not PortKind.VETH


def _control(wiring: Wiring) -> str:
    return f"{wiring.switch_dir}/{wiring.prefix}-click.sock"


def _ask(wiring: Wiring, *names: str) -> tuple[tuple[str, ...], Node]:
    """Return the command that queries the running program, and the node to run it on: the socket is
    in the run's folder."""
    argv = (sys.executable, "-c", _ASK, _control(wiring), *names)
    return argv, replace(HOST, host=wiring.node.host)


def _configuration(wiring: Wiring) -> str:
    """Return the configuration: a source f and a sink t for each port, and the connections between
    them."""
    lines = [f"ControlSocket(UNIX, {_control(wiring)});"]
    lines += _dpdk_ports(wiring) if _bypass(wiring) else _packet_sockets(wiring)
    if wiring.semantics is Semantics.LEARNING:
        lines.append("bridge :: EtherSwitch;")
        stamp = _STAMP if _bypass(wiring) else ""
        lines += [
            f"f{p.index} -> {stamp}[{i}]bridge[{i}] -> t{p.index};"
            for i, p in enumerate(wiring.ports)
        ]
    else:
        lines += [
            f"f{wiring.port(port_id).index} -> t{wiring.port(sink).index};"
            for port_id, sinks in wiring.ways.items()
            for sink in sinks
        ]
    return "\n".join(lines) + "\n"


def _dpdk_ports(wiring: Wiring) -> Iterator[str]:
    sockets = [*(0 for _ in range(wiring.memory.node)), wiring.tuning.buffers or _MBUFS]
    size = f", MBUF_SIZE {_mbuf_bytes(wiring)}" if _mbuf_bytes(wiring) > MBUF_BYTES else ""
    yield f"DPDKInfo({', '.join(f'NB_SOCKET_MBUF {count}' for count in sockets)}{size});"
    # This clock reports the frequency of the cycle counter, the unit of the busy cycles.
    yield "clock :: TSCClock(INSTALL false);"
    cores = max(1, len(wiring.cores))
    threads = max(1, min(wiring.queues, cores // len(wiring.ports)))
    burst = wiring.tuning.burst or _BURST
    length = f", NDESC {wiring.descriptors}" if wiring.descriptors else ""
    for port in wiring.ports:
        number, first = device_ids(wiring)[port.id], port.index * threads % cores
        mtu = f", MTU {wiring.mtu}" if port.nic and wiring.mtu > 1500 else ""
        arguments = f"N_QUEUES {wiring.queues}{length}"
        receive = f"PROMISC true, BURST {burst}, MAXTHREADS {threads}, THREADOFFSET {first}{mtu}"
        yield f"f{port.index} :: FromDPDKDevice({number}, {arguments}, {receive});"
        yield f"t{port.index} :: ToDPDKDevice({number}, {arguments}, BLOCKING false, IQUEUE 1024);"


def _packet_sockets(wiring: Wiring) -> Iterator[str]:
    for port in wiring.ports:
        ifname = links.switch_ifname(wiring, port)
        yield f"f{port.index} :: FromDevice({ifname}, METHOD LINUX, PROMISC true);"
        yield f"t{port.index} :: Queue(1024) -> ToDevice({ifname}, METHOD LINUX);"


def _mbuf_bytes(wiring: Wiring) -> int:
    """Return the data room of an mbuf: a frame of any size fits one mbuf."""
    return max(MBUF_BYTES, -(-(wiring.mtu + _AROUND) // 64) * 64)


def _asked(wiring: Wiring) -> Iterator[str]:
    for port in wiring.ports:
        for end, handlers in zip("ft", _HANDLERS, strict=True):
            yield from (f"{end}{port.index}.{handler}" for handler in handlers)
    yield from _CYCLES


def _counter_commands(wiring: Wiring) -> tuple[Run, ...]:
    if not _bypass(wiring):
        return links.socket_counters(wiring)
    return (Run("counters of the switch's ports", *_ask(wiring, *_asked(wiring))),)


def _parse_counters(wiring: Wiring, outputs: tuple[bytes, ...]) -> Counters:
    """Return the counters by port, and the busy and idle cycles of all threads if FastClick was
    built to count useful cycles (`--enable-cpu-load`).

    All other cycles on the CPU are idle: empty polls, and the work between tasks. Time spent
    waiting for the CPU counts as neither.
    """
    if not _bypass(wiring):
        return links.parse_socket_counters(wiring, outputs)
    answers, spent_ns = _answers(outputs[0], len(list(_asked(wiring))))
    *counts, useful, hertz = answers
    if None in counts:
        raise ValueError("fastclick did not report the counters of its ports")
    numbers = [int(count or 0) for count in counts]
    ports = {
        port.id: PortCounters(rx, tx, rx_dropped, tx_dropped)
        for port, rx, rx_dropped, tx, tx_dropped in zip(
            wiring.ports, *(numbers[i::4] for i in range(4)), strict=True
        )
    }
    if useful is None or hertz is None or not spent_ns:
        return Counters(ports)
    busy = sum(int(thousands) * 1000 for thousands in useful.split())
    return Counters(ports, busy, round(spent_ns * float(hertz) / 1e9) - busy)


def _answers(output: bytes, count: int) -> tuple[list[str | None], int]:
    """Return the answer of each handler (None if the handler does not exist), and the CPU time
    used."""
    greeting, _, rest = output.partition(b"\r\n")
    answers: list[str | None] = []
    while len(answers) < count and (answer := _ANSWER.match(rest)):
        end = answer.end() + int(answer[1] or 0)
        answers.append(rest[answer.end() : end].decode() if answer[1] else None)
        rest = rest[end:]
    spent = _SPENT.fullmatch(rest)
    if not greeting.startswith(b"Click::ControlSocket/") or len(answers) < count or not spent:
        raise ValueError(f"fastclick answered {len(answers)} of {count} queries")
    return answers, int(spent[1])


class FastClick(Switch):
    """One process with a thread per core; the ports are divided among the threads."""

    name = "fastclick"
    program = "click"
    build = Build(
        needs="the element FromDPDKDevice (--enable-dpdk), for learning EtherSwitch "
        "(--enable-etherswitch), for the busy share the load of its threads (--enable-cpu-load); "
        "not --enable-dpdk-pool, with which it only starts with DPDK",
        trees=("fastclick", "fastclick-*", "click"),
        places=("userlevel/click", "bin/click"),
    )
    program_folders = (*USUAL_FOLDERS, "userlevel")
    semantics = (Semantics.PATCH, Semantics.LEARNING)
    port_kinds = (*PORT_KINDS, PortKind.VETH)
    counters = Counting(_counter_commands, _parse_counters)
    resources = frozenset(
        {
            "listen",
            "switch_cores",
            "queues",
            "descriptors",
            "memory",
            "switch_burst",
            "buffers",
            "copies",
        }
    )

    def probe(self, host: Host) -> Version:
        """Return the version; the mode lists the optional elements in this build, after `with`."""
        ask = ("-q", "-e", "Idle -> Discard", "-h", "version", "-h", "classes")
        try:
            completed = host.run((self.path, *ask))
        except Unavailable as missing:
            message = f"{self.path} is not installed{on_other(host)}"
            raise Unavailable(message, hint=hint_for(host, _HINT)) from missing
        version = _VERSION.search(completed.stdout)
        if completed.status or not version:
            message = (
                f"{command_path(host, self.path)} is not FastClick: it does not print the "
                "version as FastClick does"
            )
            raise Unavailable(message, hint=hint_for(host, _HINT))
        mode = " ".join(name for name in _NEEDED if name in completed.stdout.decode().split())
        return Version(version[1].decode(errors="replace"), f"with {mode or 'neither'}")

    def dedicated_core(self, mode: str | None) -> bool:
        return True

    def accepts(self, wiring: Wiring) -> str | None:
        learns = wiring.semantics is Semantics.LEARNING
        elements = ["FromDPDKDevice"] * _bypass(wiring) + ["EtherSwitch"] * learns
        for name in elements:
            if wiring.version.mode and name not in wiring.version.mode.split():
                return f"{wiring.program} was built without {name} (configure {_NEEDED[name]})"
        if len(wiring.cores) > 1 and (learns or not _bypass(wiring)):
            element = "EtherSwitch" if learns else "a packet socket"
            return f"fastclick uses one thread for {element}, not {len(wiring.cores)}"
        if wiring.queues > 1 and not _bypass(wiring):
            return "fastclick has one queue per veth: use --queues 1"
        if (wiring.tuning.burst or wiring.tuning.buffers) and not _bypass(wiring):
            return "fastclick can set its burst and buffers only on DPDK ports, not on a veth"
        return None if learns else wire_refusal(wiring, self.name)

    def endpoints(self, wiring: Wiring) -> Mapping[str, Endpoint]:
        if not _bypass(wiring):
            return links.kernel_endpoints(wiring)
        return eal_endpoints(wiring, {port.id: mac_address(port.index) for port in wiring.ports})

    def start(self, wiring: Wiring) -> Plan:
        file = f"{wiring.switch_dir}/{wiring.prefix}-switch.click"
        remove = ("rm", "-f", _control(wiring))
        steps: Plan = (
            Run("no old control socket", remove, undo=remove),
            Write("the configuration of the switch", file, _configuration(wiring).encode()),
        )
        if _bypass(wiring):
            lcores = ",".join(f"{i}@{cpu}" for i, cpu in enumerate(wiring.cores))
            return steps + start_program(
                wiring,
                wiring.program,
                (file,),
                before=("--dpdk",),
                lcores=("--lcores", lcores) if lcores else (),
                mbufs=wiring.tuning.buffers or _MBUFS,
                mbuf_bytes=_mbuf_bytes(wiring) + _ANNOTATIONS,
                queues=wiring.queues,
            )
        pinned = (f"--affinity={wiring.cores[0]}",) if wiring.cores else ()
        return (
            *(step for port in wiring.ports for step in links.add_port(wiring, port)),
            *steps,
            Spawn(
                "the switch", file_prefix(wiring), (wiring.program, *pinned, file), at=wiring.node
            ),
        )

    def leftovers(self, wiring: Wiring) -> tuple[str, ...]:
        return (*super().leftovers(wiring), _control(wiring))

    def settled(self, wiring: Wiring) -> Plan:
        if _bypass(wiring):
            return wait_linked(wiring)
        here = replace(HOST, host=wiring.node.host)
        runs = Check(
            (sys.executable, "-c", _ASK, _control(wiring), "version"), here, pattern="^200 "
        )
        return (
            *links.wait_running(
                wiring, [links.switch_ifname(wiring, port) for port in wiring.ports]
            ),
            Wait("the switch answers", runs, unless_dead=file_prefix(wiring)),
        )


SWITCH = FastClick()
