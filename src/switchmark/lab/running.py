"""A path that is up, with its processes, meters and counters."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from switchmark.environments import inside, netns_of, network_stack
from switchmark.errors import SetupFailed, TrialFailed
from switchmark.functions.traffic import TrafficProcess, process_name
from switchmark.hosts.base import Host, Process
from switchmark.lab.happening import Happening
from switchmark.lab.meter import Meter
from switchmark.lab.trial import Trials
from switchmark.lab.workers import Worker
from switchmark.model.addresses import mac_address
from switchmark.model.counters import PathCounters, PortCounters
from switchmark.model.place import PortEnd
from switchmark.model.plan import HOST, Node, Plan, Run, Spawn, on_host
from switchmark.model.record import GateResult
from switchmark.model.test import Test
from switchmark.observe.cpus import read_cpus
from switchmark.observe.perf import CountableEvents
from switchmark.observe.threads import in_network, of_machine, resident_kib, stopped
from switchmark.path.assembly import construct, join, part_counters, settled, vm_of
from switchmark.path.path import Path, shares_path
from switchmark.path.resolving import answered
from switchmark.path.ways import handed_ends, named_ends, sees_uplinks
from switchmark.runs.executor import Executor
from switchmark.runs.nics import lend, spread
from switchmark.runs.pci import VFIO, Device, find_device, hand_over
from switchmark.switches.base import Counters
from switchmark.switches.links import kernel_counters, link_counters, parse_link_counters

_NOT_COUNTED = CountableEvents(missing="perf counts on one host")


@dataclass(slots=True)
class RunningPath:
    """A path that is up."""

    path: Path
    """The path as it was resolved for the current test."""
    mark: int
    """The executor's mark from before the path was built."""
    trials: Trials
    """Runs trials on the path."""
    processes: Callable[[], Sequence[Process]]
    """Returns the processes of the path, which is dead if one of them has ended."""
    at_work: Callable[[], Collection[int]]
    """Returns the processes that do the work of the switch; with two hosts, of the sender's
    host."""
    host: Host
    """The host of these processes."""
    nics: Mapping[PortEnd, Device] = field(default_factory=dict)
    """The PCI NICs as found before the run, by place."""
    gate: GateResult | None = None
    """The result of the functional trial; None without one."""
    daemons: tuple[str, ...] = ()
    """The names of the switch's processes."""
    alive: Callable[[str], None] = lambda when: None
    """Raises TrialFailed, with the given time in its message, if a working process has died."""
    works: bool = False
    """Whether processes other than the traffic program do work."""
    built_for: Test | None = None
    """The test that the path was built for."""
    setup_s: float = 0.0
    """The time that this took."""
    is_warm: bool = False
    """Whether a warm-up has run."""
    frames_after: int | None = None
    """The frame count of the functional trial after a rest; None before it."""

    def serves(self, test: Test) -> bool:
        """Return whether the path can measure a test. A dead path cannot, and neither can a path
        whose switch had an event: each of its trials begins with a new one."""
        lives = all(process.poll() is None for process in self.processes())
        return shares_path(self.path.test, test) and lives and not self.path.test.events


def build_path(
    executor: Executor, host: Host, path: Path, counting: CountableEvents
) -> RunningPath:
    """Build a path and open its ports. `counting` are the processor's counters on this host. The
    executor can undo all steps, even if this fails."""
    mark = executor.mark()
    nics = find_nics(executor.host, path)
    executor.execute(lend_nics(executor.host, path, nics))
    executor.execute(construct(path))
    path = _with_answers(executor, path)
    programs = {
        player.name: (player.node, executor.process(process_name(player.node)))
        for player in path.processes
    }
    workers = [
        Worker(TrafficProcess(player.name, programs[player.name][1]), player)
        for player in path.processes
    ]
    # An event may replace a process by another one of the same name.
    daemons = {
        **{
            switch.id: (f"switch {switch.driver.name}", switch.wiring.node, _names(switch.start))
            for switch in path.switches
        },
        **{
            part.id: (
                f"function {part.id} ({part.function.name})",
                part.node,
                _names(part.function.start(part.hosted)),
            )
            for part in path.hosted
        },
    }

    def running(names: Sequence[str]) -> list[Process]:
        return [executor.process(name) for name in names]

    hosts = {
        **{place: executor.host(node) for place, (_, node, _) in daemons.items()},
        **{name: executor.host(node) for name, (node, _) in programs.items()},
    }

    # The process in the guest uses less CPU time than its machine uses of this host.
    vms = {part.id: boot for part in path.parts for boot in running(_names(vm_of(path, part)))}

    def alive(when: str = "during the trial") -> None:
        for user, _, names in daemons.values():
            for process in running(names):
                if process.poll() is not None:
                    raise TrialFailed(
                        f"{user} died {when}"
                        + "".join(f"\n  {line}" for line in process.last_words().splitlines())
                    )
        for place, pids in working().items():
            if still := sorted(stopped(hosts[place], pids)):
                raise TrialFailed(
                    f"{daemons[place][0]} was stopped {when}: it forwards nothing"
                    f"\n  process {', '.join(map(str, still))} is in state T: it got SIGSTOP, or a "
                    "debugger has it"
                )

    def working() -> dict[str, Collection[int]]:
        """Return the processes that do the work of the switch and of functions."""
        return {
            place: _at_work(hosts[place], node, running(names))
            for place, (_, node, names) in daemons.items()
            if names
        }

    def hosted() -> dict[str, Collection[int]]:
        """Return the working processes and those of virtual machines."""
        machines = {part: of_machine(hosts[part], boot.pid) for part, boot in vms.items()}
        return {**working(), **machines}

    @cache  # the traffic program does not change, and finding it in a container takes a while
    def playing() -> dict[str, Collection[int]]:
        return {
            name: _at_work(hosts[name], node, [process])
            for name, (node, process) in programs.items()
        }

    def resident() -> int | None:
        at_work = {place: pids for place, pids in working().items() if place.startswith("switch")}
        if not at_work:
            return None
        return sum(resident_kib(hosts[place], pids) for place, pids in at_work.items())

    cpus = [cpu.id for cpu in read_cpus(host)]
    trials = Trials(
        path,
        workers,
        counters=lambda: _counters(executor, path),
        alive=alive,
        take_place=Happening(executor, mark).take_place,
        meter=Meter(
            host,
            executor,
            path.wiring.run_dir,
            cpus=path.placement.used(cpus) or cpus,
            playing=playing,
            hosted=hosted,
            counting=_NOT_COUNTED if path.uplinks else counting,
            hosts=hosts,
        ),
        resident=resident,
    )
    trials.open(
        join=lambda: executor.execute(join(path)),
        settle=lambda: executor.execute(settled(path)),
    )
    others = [name for _, _, names in daemons.values() for name in names]
    _, sender_node, of_switch = daemons["switch"]  # with two instances, that of the sender's host
    played = [process for _, process in programs.values()]
    return RunningPath(
        path,
        mark,
        trials,
        processes=lambda: [*running(others), *played],
        at_work=lambda: (
            _at_work(hosts["switch"], sender_node, running(of_switch)) if of_switch else ()
        ),
        host=hosts["switch"],
        nics=nics,
        daemons=tuple(name for switch in path.switches for name in _names(switch.start)),
        alive=alive,
        works=bool(others or vms),
    )


def _with_answers(executor: Executor, path: Path) -> Path:
    """Return a path with the addresses that its switch has chosen; the same path for a switch that
    takes the addresses of the test. Raise SetupFailed if the addresses cannot be read."""
    asks = [step for switch in path.switches for step in switch.asks]
    if not asks:
        return path
    try:
        return answered(path, executor.run(*asks))
    except ValueError as garbled:
        name = path.switch.name
        raise SetupFailed(f"the addresses of switch {name} cannot be read: {garbled}") from garbled


def lend_nics(
    host_of: Callable[[Node], Host], path: Path, devices: Mapping[PortEnd, Device]
) -> Plan:
    """Return the steps that prepare the named NICs for the run, including those of cables between
    two hosts. Raise UsageError or Unavailable if a NIC is in use or its host cannot lend it."""
    steps: Plan = ()
    host = host_of(HOST)
    for node, name, mac in named_ends(path):
        steps += on_host(lend(host_of(node), name, mac, path.wiring.semantics), node.host)
    memory = path.wiring.memory.kind
    uplinks: dict[tuple[Node, str], list[Device]] = {}
    for node, end, _, driver in handed_ends(path):
        uplinks.setdefault((node, driver or VFIO), []).append(devices[end])
    for (node, driver), theirs in uplinks.items():
        steps += on_host(hand_over(host_of(node), theirs, driver, memory), node.host)
    for port in path.wiring.ports:
        for nic, semantics in ((port.nic, path.wiring.semantics), (port.nic_peer, None)):
            if nic and not port.pci:
                if semantics and path.is_spread:
                    steps += spread(host, nic, path.wiring.cores)
                steps += lend(host, nic, mac_address(port.index, router=bool(semantics)), semantics)
    if own := [device for end, device in devices.items() if end.port in path.endpoints]:
        driver = VFIO if path.test.driver == "auto" else path.test.driver
        steps += hand_over(host, own, driver, memory)
    return steps


def find_nics(host_of: Callable[[Node], Host], path: Path) -> Mapping[PortEnd, Device]:
    """Return the NICs that the user names by PCI address, by port end. Raise UsageError if one does
    not exist."""
    own = {
        PortEnd(port.id, at_switch): find_device(host_of(HOST), name)
        for port in path.wiring.ports
        for at_switch, name in ((True, port.nic), (False, port.nic_peer))
        if port.pci and name
    }
    between = {
        end: find_device(host_of(node), address) for node, end, address, _ in handed_ends(path)
    }
    return own | between


def entrances(path: Path, run: str) -> list[str]:
    """Return the commands that enter the nodes of a kept path, and the command that cleans up its
    run."""
    nodes = (*(switch.wiring.node for switch in path.switches), *(part.node for part in path.parts))
    shells = [
        " ".join(inside(node, ("bash",))) + f"  # on {node.host}" * (node.host != HOST.host)
        for node in dict.fromkeys(nodes)
    ]
    return [shell for shell in shells if not shell.startswith("bash")] + [f"switchmark clean {run}"]


def _names(steps: Plan) -> list[str]:
    """Return the names of the processes that steps start."""
    return [step.name for step in steps if isinstance(step, Spawn)]


def _counters(executor: Executor, path: Path) -> PathCounters:
    """Return the counters at both ends of every port, and those of the switch."""
    of_switches = [switch.counters for switch in path.switches]
    of_parts = part_counters(path)
    printed = iter(
        executor.run(*(step for steps in of_switches for step in steps), *of_parts.values())
    )
    try:
        read = [
            switch.parse(tuple(itertools.islice(printed, len(steps))))
            for switch, steps in zip(path.switches, of_switches, strict=True)
        ]
    except ValueError as garbled:
        name = path.switch.name
        raise TrialFailed(f"the counters of switch {name} cannot be read: {garbled}") from garbled
    counters = read[0] if len(read) == 1 else _added(read)
    at_switch = {**counters.ports, **_counted_by_links(executor, path, counters.ports)}
    links_of_ends = {PortEnd(port, at_switch=True): links for port, links in at_switch.items()}
    links = {
        node: parse_link_counters(output) for node, output in zip(of_parts, printed, strict=True)
    }
    for part in path.parts:
        stack = network_stack(part.node)
        for port, end in part.ends:
            if end.ifname:
                links_of_ends[PortEnd(port.id)] = links[stack][end.ifname]
    functions = {}
    for part in path.hosted:
        hosted, counting = part.hosted, part.function.counters
        outputs = executor.run(*counting.commands(hosted))
        try:
            functions[part.id] = counting.parse(hosted, outputs).ports
        except ValueError as garbled:
            raise TrialFailed(
                f"the counters of function {part.id} cannot be read: {garbled}"
            ) from garbled
    return PathCounters(links_of_ends, functions=functions, **counters.totals)


def _counted_by_links(
    executor: Executor, path: Path, counters: Mapping[str, PortCounters]
) -> Mapping[str, PortCounters]:
    """Return the counters of ports that the switch does not count, from its interfaces."""
    nothing = PortCounters()
    ups = (port.id for switch in path.switches for port in switch.uplinks)
    linked = [*ups] if sees_uplinks(path) else []
    linked += [port.id for port, end in path.ends if end.switch_ifname]
    counted = {port: counters.get(port, nothing) for port in linked}
    silent = {
        port
        for port, port_counters in counted.items()
        if None in (port_counters.rx, port_counters.tx)
    }
    if not silent:
        return {}
    by_port: dict[str, PortCounters] = {}
    for switch in path.switches:
        steps = on_host(link_counters(switch.wiring), switch.host)
        outputs = executor.run(*(step for step in steps if isinstance(step, Run)))
        by_port |= kernel_counters(switch.wiring, outputs).ports
    return {port: port_counters for port, port_counters in by_port.items() if port in silent}


def _added(instances: Sequence[Counters]) -> Counters:
    """Return the counters of the whole switch: the sum over its instances."""
    return Counters(
        {
            port: port_counters
            for counters in instances
            for port, port_counters in counters.ports.items()
        },
        _sum(counters.busy_cycles for counters in instances),
        _sum(counters.idle_cycles for counters in instances),
        _sum(counters.slow_path for counters in instances),
    )


def _sum(values: Iterable[int | None]) -> int | None:
    known_values = [value for value in values if value is not None]
    return sum(known_values) if known_values else None


def _at_work(host: Host, node: Node, daemons: Sequence[Process]) -> Collection[int]:
    """Return the processes that do the work of a switch. A started process may be only the client
    of a container's runtime. In that case, return the processes in the network namespace of the
    node."""
    pids = {daemon.pid for daemon in daemons}
    network = netns_of(node)
    there = in_network(host, network) if network else pids
    return pids if pids <= there else there
