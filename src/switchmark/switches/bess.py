"""BESS connects its ports queue by queue with modules, configured through its own Python client.

It runs with BESS's defaults: rings of 1024 (core/port.h), batches of 32 (core/pktbatch.h) and one
worker per core. The buffer pool is the exception: 16384 instead of 262144, which BESS sizes for
many ports and a GB of hugepages. BESS has no learning module: L2Forward holds only configured MACs.
SWITCHMARK_BESS names its source tree, in which `build.py` has built `core/bessd` and the files of
`pybess`. The client runs on Debian's Python with the packages that the hint lists.

BESS's DPDK takes hugepages from the first hugetlbfs mount that it finds and removes unlocked files
there. So the daemon runs in a private mount namespace with a single hugetlbfs mount.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import replace

from switchmark.errors import Unavailable
from switchmark.hosts.base import Host
from switchmark.hosts.programs import hint_for, how_to_name, probe_version
from switchmark.model.addresses import mac_address
from switchmark.model.counters import PortCounters
from switchmark.model.plan import HOST, Check, Node, Plan, Run, Spawn, Wait, Write
from switchmark.model.topology import Endpoint, Port, PortKind, Semantics, Wiring
from switchmark.model.version import Version
from switchmark.switches import links
from switchmark.switches.base import Counters, Counting, Switch
from switchmark.switches.builds import Build
from switchmark.switches.eal_ports import eal_endpoints, functions_listen, socket_path

_HINT = f"build it (https://github.com/NetSys/bess), then {how_to_name('bess', '/its/folder')}"
_HINT_CLIENT = "apt-get install python3-grpcio python3-protobuf"
_PYTHON = "/usr/bin/python3"
_VERSION = r"version (\S+)"  # the format of gflags
_NEEDED = "import grpc, google.protobuf; print('version', grpc.__version__)"
_BUILT = "pybess/builtin_pb/service_pb2_grpc.py"
_BUFFERS, _MEMORY_MB = 16384, 512
_BUFFER_BYTES = 3072  # including mbuf metadata and headroom
_DEVICES = "/sys/bus/pci/devices"

# bessd prints a line per page of memory, which nobody reads.
_STARTED = 'exec "$@" >/dev/null'
_MOUNTED = f"""\
umount --all --lazy --types hugetlbfs && mount -t hugetlbfs -o size="$1M" "$0" "$0" || exit
shift && {_STARTED}
"""

# Busy and idle time: BESS's traffic classes count the cycles of empty polls as busy, but its ports
# count empty polls. The client measures the rate of empty polls per CPU time before any traffic, at
# the first reading, and later converts empty polls to idle time at that rate. It reads both three
# times, and takes those between which the daemon ran least: it goes on while the client waits.
_CLIENT = """\
import json, socket, struct, sys, time
root, address, file, control = sys.argv[1:]
sys.path.insert(0, root)
from pybess.bess import BESS
bess = BESS()
for again in range(20):
    try:
        bess.connect(f"unix:{address}")
        break
    except BESS.RPCError:  # it has bound its socket, and does not listen yet
        time.sleep(0.1)
config = json.load(open(file))
bess.pause_all()
for worker, core in enumerate(config["cores"]):
    bess.add_worker(worker, core)
for name, port in config["ports"].items():
    bess.create_port("PMDPort", name, port)
for source, sink, queue, worker in config["ways"]:
    begin, end = f"from_{source}_{queue}", f"to_{sink}_{queue}"
    bess.create_module("QueueInc", begin, {"port": source, "qid": queue})
    bess.create_module("QueueOut", end, {"port": sink, "qid": queue})
    bess.connect_modules(begin, end)
    if worker >= 0:
        bess.attach_task(begin, wid=worker)
bess.resume_all()
with socket.socket(socket.AF_UNIX) as s:
    s.connect(address)
    daemon, *_ = struct.unpack("3i", s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
idle = []
def links():
    down = [name for name in config["ports"] if not bess.get_link_status(name).link_up]
    return f"down: {down}" if down else "up"
def spent_ns():
    return time.clock_gettime_ns(~daemon << 3 | 2)
def reading():
    begin = spent_ns()
    stats = {name: bess.get_port_stats(name) for name in config["ports"]}
    end = spent_ns()
    return end - begin, (begin + end) // 2, stats
def polls():
    _, spent, stats = min((reading() for again in range(3)), key=lambda each: each[0])
    empty = sum(port.inc.actual_hist[0] for port in stats.values())
    return stats, empty, spent
def counters():
    while len(idle) < 4:
        idle.append(polls()[1:])
        time.sleep(0.1)
    speeds = [(n - m) / max(b - a, 1) for (m, a), (n, b) in zip(idle, idle[1:])]
    stats, empty, spent = polls()
    ways = {"rx": "inc", "tx": "out"}
    ports = {name: {f"{way}{end}": getattr(getattr(port, of), count)
                    for way, of in ways.items()
                    for end, count in (("", "packets"), ("_dropped", "dropped"))}
             for name, port in stats.items()}
    return json.dumps({"ports": ports, "empty": empty, "spent_ns": spent,
                       "empty_a_ns": max(speeds)})
with socket.socket(socket.AF_UNIX) as server:
    server.bind(control)
    server.listen()
    while True:
        with server.accept()[0] as peer:
            try:
                answer = {"links": links, "counters": counters}[peer.recv(64).decode()]()
            except Exception as error:
                answer = f"error: {error!r}"
            peer.sendall(answer.encode())
"""
_ASK = """\
import socket, sys
with socket.socket(socket.AF_UNIX) as s:
    s.connect(sys.argv[1])
    s.sendall(sys.argv[2].encode())
    answer = b"".join(iter(lambda: s.recv(65536), b"")).decode()
sys.exit(answer) if answer.startswith("error: ") else print(answer)
"""


def _home(wiring: Wiring) -> str:
    return f"{wiring.switch_dir}/{wiring.prefix}-bess"


def _process(wiring: Wiring) -> str:
    return f"{wiring.prefix}-bess"


def _ask(wiring: Wiring, question: str) -> tuple[tuple[str, ...], Node]:
    """Return the command that queries the client, and the node to run it on: the socket is in the
    run's folder."""
    argv = (sys.executable, "-c", _ASK, f"{_home(wiring)}/client.sock", question)
    return argv, replace(HOST, host=wiring.node.host)


def _name(port: Port) -> str:
    return f"p{port.index}"


def _device(wiring: Wiring, port: Port) -> dict[str, str]:
    """Return the device arguments of a port, in the syntax of DPDK 19.11."""
    if port.nic:
        return {"pci": port.nic}
    path, number = socket_path(wiring, port), port.index
    match wiring.kind:
        case PortKind.VHOST_USER:
            shape = f"queues={wiring.queues},client={int(functions_listen(wiring))}"
            return {"vdev": f"eth_vhost{number},iface={path},{shape}"}
        case PortKind.MEMIF:
            mac = mac_address(number, router=True)
            return {"vdev": f"net_memif{number},role=master,id=0,socket={path},mac={mac}"}
        case _:
            ifname = links.switch_ifname(wiring, port)
            return {"vdev": f"net_af_packet{number},iface={ifname},qpairs={wiring.queues}"}


def _ports(wiring: Wiring) -> bytes:
    """Return the daemon's configuration: cores, ports and forwarding paths."""
    length, workers = wiring.descriptors or 0, len(wiring.cores)
    shape = dict.fromkeys(("num_inc_q", "num_out_q"), wiring.queues)
    shape |= dict.fromkeys(("size_inc_q", "size_out_q"), length)  # 0: BESS's default
    ways = [
        (_name(wiring.port(source)), _name(wiring.port(sink)), queue)
        for source, sinks in wiring.ways.items()
        for sink in sinks
        for queue in range(wiring.queues)
    ]
    config = {
        "cores": wiring.cores,
        "ports": {_name(port): {**_device(wiring, port), **shape} for port in wiring.ports},
        "ways": [(*way, i % workers if workers else -1) for i, way in enumerate(ways)],
    }
    return json.dumps(config, indent=1).encode() + b"\n"


def _counter_commands(wiring: Wiring) -> tuple[Run, ...]:
    return (Run("counters of the switch's ports", *_ask(wiring, "counters")),)


def _parse_counters(wiring: Wiring, outputs: tuple[bytes, ...]) -> Counters:
    """Parse the counters by port, and the busy and idle time of the workers. Idle time is the
    number of empty polls, times the duration of an empty poll on an idle switch."""
    try:
        answer = json.loads(outputs[0])
        counts = {port.id: PortCounters(**answer["ports"][_name(port)]) for port in wiring.ports}
        numbers = [answer["empty"], answer["spent_ns"]]
        speed = float(answer["empty_a_ns"])
    except (KeyError, TypeError, RecursionError) as missing:
        raise ValueError(f"bessd reported no counters: {missing}") from missing
    numbers += [count for port in counts.values() for count in (port.rx, port.tx)]
    if not all(type(count) is int and count >= 0 for count in numbers):
        raise ValueError("bessd reported a counter that is not a number of frames")
    if not 0 < speed < math.inf:
        return Counters(counts)
    idle = round(answer["empty"] / speed)
    return Counters(counts, answer["spent_ns"] - idle, idle)


class Bess(Switch):
    """The `bessd` daemon: its workers poll the queues of every port; vhost-user and memif ports
    listen."""

    name = "bess"
    program = "bess"
    program_file = "core/bessd"
    build = Build(
        needs="the daemon with its DPDK (`./build.py`), which has the drivers PMDPort for "
        "vhost-user, memif and packet sockets, and pybess/builtin_pb for its client",
        trees=("bess", "bess-*"),
        places=("core/bessd",),
    )
    semantics = (Semantics.PATCH,)
    port_kinds = (PortKind.VHOST_USER, PortKind.MEMIF, PortKind.VETH, PortKind.NIC_PCI)
    counters = Counting(_counter_commands, _parse_counters)
    resources = frozenset({"listen", "switch_cores", "queues", "descriptors", "memory", "buffers"})
    capabilities = frozenset({"SYS_ADMIN"})  # for the mount

    def probe(self, host: Host) -> Version:
        """Return the daemon's version."""
        daemon = f"{self.path}/{self.program_file}"
        (version,) = probe_version(host, (daemon, "--version"), _VERSION, hint=_HINT)
        if not host.exists(f"{self.path}/{_BUILT}"):
            raise Unavailable(f"its {_BUILT} is missing", hint=hint_for(host, _HINT))
        probe_version(host, (_PYTHON, "-c", _NEEDED), _VERSION, hint=_HINT_CLIENT)
        return Version(version)

    def dedicated_core(self, mode: str | None) -> bool:
        return True

    def accepts(self, wiring: Wiring) -> str | None:
        crowded = next((port for port, sinks in wiring.ways.items() if len(sinks) > 1), None)
        if crowded is not None:
            return (
                f"bess connects ports in pairs here: port {crowded} can send to only one other port"
            )
        if wiring.mtu > 1500:
            return "bess takes frames of up to 1518 bytes: it does not chain buffers"
        return None

    def endpoints(self, wiring: Wiring) -> Mapping[str, Endpoint]:
        if wiring.kind is PortKind.VETH:
            return links.kernel_endpoints(wiring)
        return eal_endpoints(wiring, {port.id: mac_address(port.index) for port in wiring.ports})

    def start(self, wiring: Wiring) -> Plan:
        home, name = _home(wiring), _process(wiring)
        huge, buffers = wiring.memory.huge, wiring.tuning.buffers or _BUFFERS
        megabytes = max(_MEMORY_MB, buffers * _BUFFER_BYTES >> 20)
        sockets = [end.path for end in self.endpoints(wiring).values() if end.path]
        nics = [port.nic for port in wiring.ports if port.nic]
        left = ("rm", "-rf", home, *sockets)
        mounted = ("unshare", "--mount", "sh", "-c", _MOUNTED, f"{home}/huge", str(megabytes))
        argv = (
            *(mounted if huge else ("sh", "-c", _STARTED, "sh")),
            *(f"{wiring.program}/{self.program_file}", "-f", "-logtostderr", "-no_crashlog"),
            *("-i", f"{home}/bessd.pid", f"-grpc_url=unix:{home}/grpc.sock"),
            *("-m", str(megabytes if huge else 0), "-buffers", str(buffers)),
            *(("-c", str(wiring.cores[0])) if wiring.cores else ()),
        )
        files = ("grpc.sock", "ports.json", "client.sock")
        script = f"{home}/client.py"
        client = (_PYTHON, script, wiring.program, *(f"{home}/{file}" for file in files))
        there = replace(HOST, host=wiring.node.host)
        steps: Plan = ()
        if wiring.kind is PortKind.VETH:
            steps = tuple(step for port in wiring.ports for step in links.add_port(wiring, port))
        steps += wiring.memory.reserve("hugepages for the switch's frames", megabytes)
        return (
            *steps,
            Run("no files of an earlier instance are left", left, undo=left),
            Run("a folder for this instance", ("mkdir", "-p", f"{home}/pci", f"{home}/huge")),
            # EAL probes every PCI device in this folder: it contains only the NICs of the switch.
            *(
                Run(
                    f"the switch may find the NIC {nic}",
                    ("ln", "-s", f"{_DEVICES}/{nic}", f"{home}/pci"),
                )
                for nic in nics
            ),
            Write("the client that configures the switch", f"{home}/client.py", _CLIENT.encode()),
            Write("its cores, ports and forwarding paths", f"{home}/ports.json", _ports(wiring)),
            Spawn(
                "the switch", name, argv, at=wiring.node, env={"SYSFS_PCI_DEVICES": f"{home}/pci"}
            ),
            Wait(
                "the switch listens",
                Check(("test", "-S", f"{home}/grpc.sock"), there),
                unless_dead=name,
            ),
            Spawn("the switch's client", f"{name}-client", client, at=there),
            Wait(
                "its ports are connected",
                Check(("test", "-S", f"{home}/client.sock"), there),
                unless_dead=f"{name}-client",
            ),
        )

    def leftovers(self, wiring: Wiring) -> tuple[str, ...]:
        home = _home(wiring)
        return (*super().leftovers(wiring), f"{home}/grpc.sock", f"{home}/client.sock")

    def settled(self, wiring: Wiring) -> Plan:
        up = Check(*_ask(wiring, "links"), pattern="^up$")
        why = "the switch sees the link of every port"
        return (Wait(why, up, unless_dead=_process(wiring)),)


SWITCH = Bess()
