"""BESS joins its ports by modules, queue by queue, as its own Python client tells it to.

Its defaults are its own: rings of 1024 (core/port.h), batches of 32 (core/pktbatch.h), a worker for
each core; 16384 buffers, of which its 262144 are for many ports and a GB of hugepages. It has no
module that learns: L2Forward holds the MACs that it is told. SWITCHMARK_BESS is its root, where its
`build.py` has made `core/bessd` and what `pybess` needs; the client runs on Debian's Python, with
the packages of the hint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from switchmark.errors import Unavailable
from switchmark.machine.host import Host
from switchmark.machine.programs import probe_version
from switchmark.model.plan import Check, Plan, Reserve, Run, Spawn, Wait, Write
from switchmark.model.topology import Endpoint, Port, PortKind, Semantics, Wiring, mac_address
from switchmark.model.version import Version
from switchmark.switches import links
from switchmark.switches.base import Counters, Counting, PortCounters, Switch
from switchmark.switches.eal_ports import eal_endpoints, functions_listen, socket_path

_HINT = "build it (https://github.com/NetSys/bess), then SWITCHMARK_BESS=/its/folder"
_HINT_CLIENT = "apt-get install python3-grpcio python3-protobuf"
_PYTHON = "/usr/bin/python3"
_VERSION = r"version (\S+)"  # as gflags prints it
_NEEDED = "import grpc, google.protobuf; print('version', grpc.__version__)"
_BUILT = "pybess/builtin_pb/service_pb2_grpc.py"
_BUFFERS, _MEMORY_MB = 16384, 512
_BUFFER_BYTES = 3072  # with all that lies around a frame
_DEVICES = "/sys/bus/pci/devices"

_CLIENT = """\
import json, sys
root, url, what, file = sys.argv[1:]
sys.path.insert(0, root)
from pybess.bess import BESS
bess = BESS()
bess.connect(url)
told = json.load(open(file))
if what == "version":
    print(bess.get_version().version)
elif what == "build":
    bess.pause_all()
    for worker, core in enumerate(told["cores"]):
        bess.add_worker(worker, core)
    for name, port in told["ports"].items():
        bess.create_port("PMDPort", name, port)
    for source, sink, queue, worker in told["ways"]:
        begin, end = f"from_{source}_{queue}", f"to_{sink}_{queue}"
        bess.create_module("QueueInc", begin, {"port": source, "qid": queue})
        bess.create_module("QueueOut", end, {"port": sink, "qid": queue})
        bess.connect_modules(begin, end)
        if worker >= 0:
            bess.attach_task(begin, wid=worker)
    bess.resume_all()
elif what == "links":
    down = [name for name in told["ports"] if not bess.get_link_status(name).link_up]
    sys.exit(f"no link: {down}" if down else 0)
elif what == "counters":
    stats = {name: bess.get_port_stats(name) for name in told["ports"]}
    ways = {"rx": "inc", "tx": "out"}
    print(json.dumps({name: {f"{way}{end}": getattr(getattr(each, of), count)
                             for way, of in ways.items()
                             for end, count in (("", "packets"), ("_dropped", "dropped"))}
                      for name, each in stats.items()}))
"""


def _home(wiring: Wiring) -> str:
    return f"{wiring.run_dir}/{wiring.prefix}-bess"


def _process(wiring: Wiring) -> str:
    return f"{wiring.prefix}-bess"


def _client(wiring: Wiring, what: str) -> tuple[str, ...]:
    """Return what tells the daemon to do something, or asks it. Its socket is reached from
    wherever the run's folder is."""
    home = _home(wiring)
    url = f"unix:{home}/grpc.sock"
    return (_PYTHON, f"{home}/client.py", wiring.program, url, what, f"{home}/ports.json")


def _name(port: Port) -> str:
    return f"p{port.index}"


def _device(wiring: Wiring, port: Port) -> dict[str, str]:
    """Return a port's device, as DPDK 19.11 calls it."""
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
    """Return all that the daemon is told of its cores, ports and ways."""
    length, workers = wiring.descriptors or 0, len(wiring.cores)
    shape = dict.fromkeys(("num_inc_q", "num_out_q"), wiring.queues)
    shape |= dict.fromkeys(("size_inc_q", "size_out_q"), length)  # 0: its own
    ways = [
        (_name(wiring.port(source)), _name(wiring.port(sink)), queue)
        for source, sinks in wiring.ways.items()
        for sink in sinks
        for queue in range(wiring.queues)
    ]
    told = {
        "cores": wiring.cores,
        "ports": {_name(port): {**_device(wiring, port), **shape} for port in wiring.ports},
        "ways": [(*way, i % workers if workers else -1) for i, way in enumerate(ways)],
    }
    return json.dumps(told, indent=1).encode() + b"\n"


def _counter_commands(wiring: Wiring) -> tuple[Run, ...]:
    return (Run("counters of the switch's ports", _client(wiring, "counters")),)


def _parse_counters(wiring: Wiring, outputs: tuple[bytes, ...]) -> Counters:
    """Parse the counters by port. Its traffic classes count cycles of empty polls as any other:
    how busy it was it does not tell."""
    try:
        told = json.loads(outputs[0])
        counts = {port.id: PortCounters(**told[_name(port)]) for port in wiring.ports}
    except (KeyError, TypeError, RecursionError) as missing:
        raise ValueError(f"bessd gave no counters: {missing}") from missing
    numbers = (count for each in counts.values() for count in (each.rx, each.tx))
    if not all(type(count) is int and count >= 0 for count in numbers):
        raise ValueError("bessd gave a counter that is no number of frames")
    return Counters(counts)


class Bess(Switch):
    """The daemon polls each port's queues on its workers; a vhost-user or memif port listens."""

    name = "bess"
    program = "bess"
    semantics = (Semantics.PATCH,)
    port_kinds = (PortKind.VHOST_USER, PortKind.MEMIF, PortKind.VETH, PortKind.NIC_PCI)
    counters = Counting(_counter_commands, _parse_counters)
    resources = frozenset({"listen", "switch_cores", "queues", "descriptors", "memory", "buffers"})

    def probe(self, host: Host) -> Version:
        """Return the version that the daemon tells of itself."""
        daemon = f"{self.path}/core/bessd"
        (version,) = probe_version(host, (daemon, "--version"), _VERSION, hint=_HINT)
        if not host.exists(f"{self.path}/{_BUILT}"):
            raise Unavailable(f"its {_BUILT} is missing", hint=_HINT)
        probe_version(host, (_PYTHON, "-c", _NEEDED), _VERSION, hint=_HINT_CLIENT)
        return Version(version)

    def own_core(self, mode: str | None) -> bool:
        return True

    def accepts(self, wiring: Wiring) -> str | None:
        crowded = next((port for port, sinks in wiring.ways.items() if len(sinks) > 1), None)
        if crowded is not None:
            return f"bess is a wire here: port {crowded} can send to one other port only"
        if wiring.mtu > 1500:
            return "bess has frames of at most 1518 bytes: its buffers are not chained"
        return None

    def endpoints(self, wiring: Wiring) -> Mapping[str, Endpoint]:
        if wiring.kind is PortKind.VETH:
            return links.kernel_endpoints(wiring)
        return eal_endpoints(wiring, {port.id: mac_address(port.index) for port in wiring.ports})

    def start(self, wiring: Wiring) -> Plan:
        home, name = _home(wiring), _process(wiring)
        huge, buffers = wiring.memory == "hugepages", wiring.buffers or _BUFFERS
        megabytes = max(_MEMORY_MB, buffers * _BUFFER_BYTES >> 20)
        sockets = [end.path for end in self.endpoints(wiring).values() if end.path]
        nics = [port.nic for port in wiring.ports if port.nic]
        left = ("rm", "-rf", home, *sockets)
        words = (
            *(f"{wiring.program}/core/bessd", "-f", "-logtostderr", "-no_crashlog"),
            *("-i", f"{home}/bessd.pid", f"-grpc_url=unix:{home}/grpc.sock"),
            *("-m", str(megabytes if huge else 0), "-buffers", str(buffers)),
            *(("-c", str(wiring.cores[0])) if wiring.cores else ()),
        )
        made: Plan = ()
        if wiring.kind is PortKind.VETH:
            made = tuple(step for port in wiring.ports for step in links.add_port(wiring, port))
        if huge:
            made += (Reserve("hugepages for the switch's frames", megabytes, node=wiring.node),)
        return (
            *made,
            Run("nothing is left of an instance before", left, undo=left),
            Run("a place for this instance", ("mkdir", "-p", f"{home}/pci")),
            # Its EAL probes every PCI device that it finds: it finds the switch's alone.
            *(
                Run(f"it may find the NIC {nic}", ("ln", "-s", f"{_DEVICES}/{nic}", f"{home}/pci"))
                for nic in nics
            ),
            Write("what tells it what to do", f"{home}/client.py", _CLIENT.encode()),
            Write("its cores, ports and ways", f"{home}/ports.json", _ports(wiring)),
            Spawn(
                "the switch", name, words, at=wiring.at, env={"SYSFS_PCI_DEVICES": f"{home}/pci"}
            ),
            Wait("the switch answers", Check(_client(wiring, "version")), unless_dead=name),
            Run("its ports, joined", _client(wiring, "build")),
        )

    def settled(self, wiring: Wiring) -> Plan:
        check = Check(_client(wiring, "links"))
        name = _process(wiring)
        return (Wait("the switch sees the link of every port", check, unless_dead=name),)


SWITCH = Bess()
