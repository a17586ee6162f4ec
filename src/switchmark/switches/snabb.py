"""Snabb runs a Lua script under `snabb snsh`, which connects the ports by links or by a learning
bridge.

Snabb polls without sleeping on a dedicated CPU, as its documentation recommends for throughput
("Enable engine.busywait" and "Set CPU affinity" in src/doc/performance-tuning.md). A breath takes
at most 102 frames from a port, and a link between two apps holds 1023: Snabb's defaults.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace

from switchmark.hosts.base import Host
from switchmark.hosts.programs import USUAL_FOLDERS, how_to_name, probe_version
from switchmark.model.addresses import mac_address
from switchmark.model.counters import PortCounters
from switchmark.model.plan import HOST, Check, Plan, Run, Spawn, Wait, Write
from switchmark.model.topology import Endpoint, Port, PortKind, Semantics, Wiring
from switchmark.model.version import Version
from switchmark.switches import links
from switchmark.switches.base import Counters, Counting, Switch, wire_refusal
from switchmark.switches.builds import Build

_HINT = f"build it (https://github.com/snabbco/snabb), then {how_to_name('snabb')}"
_VERSION = r"(?m)^snabb\S* (\d.*)$"

_FRAMES_A_LINK = 1024
_FRAMES_A_STEP = 1000  # it allocates this many, then twice as many, whenever it has none left
_FRAMES_A_PAGE = 186  # of 2 MiB: 10 KiB of data per frame, plus metadata
_PAGE_MB = 2
_COUNTERS = ("rxpackets", "txpackets", "txdrop")

_MEMORY = """\
-- Memory for frames without a mount, files or more hugepages than were reserved. No device but the
-- CPU looks at it, so that the address need not tell where it lies; the tag is what snabb checks.
local page = 0x500000000000ULL
require("core.memory").allocate_hugetlb_chunk = function (size)
   page = page + size
   local kind = "private, anonymous, fixed, populate%s"
   return assert(require("syscall").mmap(page, size, "read, write", kind, -1, 0))
end
"""

_FRAMES = """\
-- It would make its frames when the first come in, and keep these waiting for a tenth of a second.
for _ = 1, %d do require("core.packet").preallocate_step() end
"""

_VHOST = """\
-- Devices of today speak virtio 1 only (feature bit 32), which is that of before to the rings.
local device = require("lib.virtio.net_device").VirtioNetDevice
local features = device.get_features
function device:get_features () return features(self) + 2^32 end
-- A front end that lost its link first stops the rings of the next one: they begin at 0.
local base = device.get_vring_base
function device:get_vring_base (ring) return base(self, ring) or 0 end
local VhostUser = require("apps.vhost.vhost_user").VhostUser
-- No cache of them in /tmp.
function VhostUser:update_features (features) return features end
"""

_NAMED = """\
-- Where its counters are. Snabb's own name for this (`engine.claim_name`) stays for a moment after
-- an ended switch, until a process that survives it takes it away, and refuses the next one.
local syscall = require("syscall")
syscall.unlink("%s")
assert(syscall.symlink(require("core.shm").root .. "/" .. syscall.getpid(), "%s"))
"""

_LINKED = """\
-- It would look for messages every 500 ms, and who closes a link waits for two answers: every 50,
-- and while the links come up every one.
local function look (ticks)
   for _, name in ipairs(ports) do engine.app_table[name].process_qemu_timer.ticks = ticks end
end
local function linked ()
   for _, name in ipairs(ports) do
      local app = engine.app_table[name]
      if not (app.vhost_ready and app.dev:ready()) then return false end
   end
   return true
end
look(1)
engine.main({done = linked, no_report = true})
look(50)
"""


def _links(wiring: Wiring) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield the links between apps: the name, and the ports where frames enter and leave; None
    stands for the bridge."""
    if wiring.semantics is Semantics.LEARNING:
        for port in wiring.ports:
            name = _app(port)
            yield f"{name}.tx -> bridge.{name}", port.id, None
            yield f"bridge.{name} -> {name}.rx", None, port.id
        return
    for port_id, sinks in wiring.ways.items():
        for sink in sinks:
            yield f"{_app(wiring.port(port_id))}.tx -> {_app(wiring.port(sink))}.rx", port_id, sink


def _app(port: Port) -> str:
    return f"p{port.index}"


def _home(wiring: Wiring) -> str:
    return f"{wiring.switch_dir}/{wiring.prefix}-snabb"


def _running(wiring: Wiring) -> str:
    """Return the link to the files of the process that runs."""
    return f"{_home(wiring)}/running"


def _socket(wiring: Wiring, port: Port) -> str:
    return f"{wiring.ports_dir}/p{port.index}.sock"


def _script(wiring: Wiring) -> str:
    """Return the script: it creates the apps and their links before the engine runs."""
    vhost = wiring.kind is PortKind.VHOST_USER
    pages = ", hugetlb" if wiring.memory.huge else ""
    lines = [_MEMORY % pages, _VHOST if vhost else ""]
    names = ", ".join(f'"{_app(port)}"' for port in wiring.ports)
    lines += [f"local ports = {{{names}}}\n", "local c = config.new()\n"]
    for port in wiring.ports:
        if vhost:
            element = f'VhostUser, {{socket_path = "{_socket(wiring, port)}"}}'
        else:
            element = f'require("apps.socket.raw").RawSocket, "{links.switch_ifname(wiring, port)}"'
        lines.append(f'config.app(c, "{_app(port)}", {element})\n')
    if wiring.semantics is Semantics.LEARNING:
        bridge = 'require("apps.bridge.learning").bridge, {ports = ports}'
        lines.append(f'config.app(c, "bridge", {bridge})\n')
    lines += [f'config.link(c, "{name}")\n' for name, _, _ in _links(wiring)]
    if wiring.cores:
        lines.append(f'require("lib.numa").bind_to_cpu({wiring.cores[0]}, true)\n')
    _, steps = _made(wiring)
    lines.append(_FRAMES % steps)  # before the apps, because some take frames at creation
    lines.append(_NAMED % (_running(wiring), _running(wiring)))
    lines.append("engine.busywait = true\nengine.configure(c)\n")
    lines += [_LINKED if vhost else "", f'io.open("{_home(wiring)}/linked", "w"):close()\n']
    lines.append("engine.main({no_report = true})\n")
    return "".join(lines)


def _made(wiring: Wiring) -> tuple[int, int]:
    """Return the number of frames to allocate, enough to fill all links, and the number of
    allocation steps."""
    packets = _FRAMES_A_LINK * len(list(_links(wiring))) + len(wiring.ports)
    allocated = steps = 0
    while allocated < packets:
        allocated, steps = allocated + (_FRAMES_A_STEP << steps), steps + 1
    return allocated, steps


def _megabytes(wiring: Wiring) -> int:
    """Return the memory for the frames in MB."""
    allocated, _ = _made(wiring)
    return _PAGE_MB * -(-allocated // _FRAMES_A_PAGE)


def _counter_commands(wiring: Wiring) -> tuple[Run, ...]:
    if wiring.kind is not PortKind.VHOST_USER:
        return links.socket_counters(wiring)
    names = [f"{_running(wiring)}/links/{name}" for name, _, _ in _links(wiring)]
    read = ("cat", *(f"{name}/{counter}.counter" for name in names for counter in _COUNTERS))
    return (Run("counters of the switch's links", read, replace(HOST, host=wiring.node.host)),)


def _parse_counters(wiring: Wiring, outputs: tuple[bytes, ...]) -> Counters:
    """Return the counters by port. Every file holds a 64-bit number. A port hands a received frame
    to its link, or drops it if the link is full; transmitted frames come from a link."""
    if wiring.kind is not PortKind.VHOST_USER:
        return links.parse_socket_counters(wiring, outputs)
    joins = list(_links(wiring))
    try:
        numbers = struct.unpack(f"<{len(_COUNTERS) * len(joins)}Q", outputs[0])
    except struct.error as garbled:
        raise ValueError(
            f"snabb did not report the counters of {len(joins)} links ({garbled})"
        ) from garbled
    ports = {port.id: PortCounters() for port in wiring.ports}
    for (_, source, sink), taken, sent, dropped in zip(
        joins, *(numbers[i::3] for i in range(3)), strict=True
    ):
        if source:
            inside = None if sink else dropped
            ports[source] = replace(ports[source], rx=sent + dropped, rx_dropped=inside)
        if sink:
            ports[sink] = replace(ports[sink], tx=taken, tx_dropped=dropped)
    return Counters(ports)


class Snabb(Switch):
    """One process forwards in one thread. It is the vhost-user client and connects to the
    functions: as a server it would wait for the functions in turn and block the others. On veth it
    uses packet sockets, with a system call per frame. It does not report its busy share."""

    name = "snabb"
    program = "snabb"
    build = Build(
        needs="nothing beyond `make`: its vhost-user, raw socket and bridge apps are in every "
        "build",
        trees=("snabb", "snabb-*"),
        places=("src/snabb", "bin/snabb"),
    )
    program_folders = (*USUAL_FOLDERS, "src")
    semantics = (Semantics.PATCH, Semantics.LEARNING)
    port_kinds = (PortKind.VHOST_USER, PortKind.VETH)
    counters = Counting(_counter_commands, _parse_counters)
    # The functions set the length of the rings. Snabb has one queue and one core.
    resources = frozenset({"descriptors", "memory", "copies"})

    def probe(self, host: Host) -> Version:
        """Return the release. Any `snabb` command creates counter files first, so it gets a
        temporary folder."""
        folder = host.run(("mktemp", "-d")).stdout.decode(errors="replace").strip()
        ask, env = (self.path, "--version"), {"SNABB_SHM_ROOT": folder}
        try:
            (version,) = probe_version(host, ask, _VERSION, hint=_HINT, env=env)
        finally:
            host.run(("rm", "-rf", folder))
        return Version(version)

    def dedicated_core(self, mode: str | None) -> bool:
        return True

    def accepts(self, wiring: Wiring) -> str | None:
        return None if wiring.semantics is Semantics.LEARNING else wire_refusal(wiring, self.name)

    def endpoints(self, wiring: Wiring) -> Mapping[str, Endpoint]:
        if wiring.kind is not PortKind.VHOST_USER:
            return links.kernel_endpoints(wiring)
        listening = Endpoint(wiring.kind, "", server=True, mtu=wiring.mtu)
        return {
            port.id: replace(listening, mac=mac_address(port.index), path=_socket(wiring, port))
            for port in wiring.ports
        }

    def start(self, wiring: Wiring) -> Plan:
        home, script = _home(wiring), f"{_home(wiring)}/switch.lua"
        steps = wiring.memory.reserve("hugepages for the switch's frames", _megabytes(wiring))
        if wiring.kind is PortKind.VHOST_USER:
            remove = ("rm", "-f", *(_socket(wiring, port) for port in wiring.ports))
            steps += (Run("no old sockets", remove, undo=remove),)
        else:
            steps += tuple(step for port in wiring.ports for step in links.add_port(wiring, port))
        argv, env = (wiring.program, "snsh", script), {"SNABB_SHM_ROOT": home}
        return (
            *steps,
            Run("a folder for its output", ("mkdir", "-p", home), undo=("rm", "-rf", home)),
            Write("the configuration of the switch", script, _script(wiring).encode()),
            Spawn("the switch", wiring.name("sw"), argv, at=wiring.node, env=env),
        )

    def leftovers(self, wiring: Wiring) -> tuple[str, ...]:
        return (*super().leftovers(wiring), f"{_home(wiring)}/linked")

    def settled(self, wiring: Wiring) -> Plan:
        veths = [] if wiring.kind is PortKind.VHOST_USER else wiring.ports
        here = Check(
            ("test", "-e", f"{_home(wiring)}/linked"), replace(HOST, host=wiring.node.host)
        )
        return (
            *links.wait_running(wiring, [links.switch_ifname(wiring, port) for port in veths]),
            Wait("the switch sees the link of every port", here, unless_dead=wiring.name("sw")),
        )


SWITCH = Snabb()
