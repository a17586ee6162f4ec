"""A path that is up was built from its layout, with all that tells of it while frames cross."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.environments import inside
from switchmark.errors import TrialFailed
from switchmark.functions.traffic import TrafficProcess, Worker, process_name
from switchmark.hosts.base import Host, Process
from switchmark.lab.meter import Meter
from switchmark.lab.prepare import find_nics, lend_nics
from switchmark.lab.trial import Trials
from switchmark.model.counters import PathCounters, PortCounters
from switchmark.model.place import PortEnd
from switchmark.model.plan import HOST, Node, Plan, Run, Spawn, on_host
from switchmark.model.record import GateResult
from switchmark.model.test import Test
from switchmark.observe.cpus import read_cpus
from switchmark.observe.perf import Counting
from switchmark.observe.threads import in_network, of_machine, stopped
from switchmark.path.assembly import construct, join, part_counters, settled, vm_of
from switchmark.path.layout import Layout
from switchmark.path.needs import stack_of
from switchmark.path.placement import Placement
from switchmark.path.roles import hosted_parts, instances_of, processes_of
from switchmark.path.sharing import shares_path
from switchmark.runs.executor import Executor
from switchmark.runs.pci import Device
from switchmark.switches.base import Counters
from switchmark.switches.links import kernel_counters, link_counters, parse_link_counters

_NOT_COUNTED = Counting(missing="perf counts on one host")


@dataclass(slots=True)
class BuiltPath:
    """A built path is up: it has what was built, since which mark of the executor, and the
    processes without which it is dead. `at_work` tells those that do the switch's work, on its
    `host` (of two the sender's), `nics` are those of PCI as they were found, by place, `gate` is
    what the functional trial showed, `daemons` are the names of the switch's processes. `alive`
    raises TrialFailed where one that works has died, and says when; `works` says that some do
    besides the traffic program. `built_for` is the test that it was built for, in `setup_s`;
    `is_warm` that traffic has warmed it up, `frames_after` are those of the functional trial after
    it had rested."""

    layout: Layout
    placement: Placement
    mark: int
    trials: Trials
    processes: Sequence[Process]
    at_work: Callable[[], Collection[int]]
    host: Host
    nics: Mapping[PortEnd, Device] = field(default_factory=dict)
    gate: GateResult | None = None
    daemons: tuple[str, ...] = ()
    alive: Callable[[str], None] = lambda when: None
    works: bool = False
    built_for: Test | None = None
    setup_s: float = 0.0
    is_warm: bool = False
    frames_after: int | None = None

    def serves(self, test: Test) -> bool:
        """Say whether a test can be measured on this path. It cannot on one that has died."""
        lives = all(process.poll() is None for process in self.processes)
        return shares_path(self.layout.test, test) and lives


def build_path(
    executor: Executor, host: Host, layout: Layout, placement: Placement, counting: Counting
) -> BuiltPath:
    """Build the path of a layout and open its ports. `counting` is what the processor counts on
    this host. What was built is undone by the executor, also where this fails."""
    mark = executor.mark()
    nics = find_nics(host, layout)
    executor.execute(lend_nics(executor.host, layout, nics))
    executor.execute(construct(layout))
    programs = {
        "+".join(part.id for part in parts): (node, executor.process(process_name(node)), parts)
        for node, parts in processes_of(layout)
    }
    workers = [
        Worker(TrafficProcess(name, process), parts)
        for name, (_, process, parts) in programs.items()
    ]
    daemons = {
        **{
            place: (f"switch {layout.switch.name}", wiring.at, _spawned(executor, start))
            for place, wiring, start in instances_of(layout)
        },
        **{
            part.id: (
                f"function {part.id} ({function.name})",
                hosted.node,
                _spawned(executor, function.start(hosted)),
            )
            for part, function, hosted in hosted_parts(layout)
        },
    }

    hosts = {
        **{place: executor.host(at) for place, (_, at, _) in daemons.items()},
        **{name: executor.host(node) for name, (node, _, _) in programs.items()},
    }

    # What a guest's process takes of its machine is less than the machine takes of this host.
    vms = {
        part.id: boot for part in layout.parts for boot in _spawned(executor, vm_of(layout, part))
    }

    def alive(when: str = "during the trial") -> None:
        for who, _, processes in daemons.values():
            for process in processes:
                if process.poll() is not None:
                    raise TrialFailed(
                        f"{who} died {when}"
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
        """The processes that do the work of the switch and of functions."""
        return {
            place: _at_work(hosts[place], at, processes)
            for place, (_, at, processes) in daemons.items()
            if processes
        }

    def hosted() -> dict[str, Collection[int]]:
        """These, and the processes of machines."""
        machines = {part: of_machine(hosts[part], boot.pid) for part, boot in vms.items()}
        return {**working(), **machines}

    @cache  # the traffic program stays, and to look for it in a container takes a while
    def playing() -> dict[str, Collection[int]]:
        return {
            name: _at_work(hosts[name], node, [process])
            for name, (node, process, _) in programs.items()
        }

    every = [cpu.id for cpu in read_cpus(host)]
    trials = Trials(
        layout,
        placement,
        workers,
        counters=lambda: _counters(executor, layout),
        alive=alive,
        meter=Meter(
            host,
            executor,
            layout.wiring.run_dir,
            placement,
            cpus=placement.used(every) or every,
            playing=playing,
            hosted=hosted,
            counting=counting if len(layout.wirings) == 1 else _NOT_COUNTED,
            hosts=hosts,
        ),
    )
    trials.open(
        join=lambda: executor.execute(join(layout)),
        settle=lambda: executor.execute(settled(layout)),
    )
    others = [process for _, _, processes in daemons.values() for process in processes]
    _, at, of_switch = daemons["switch"]  # of two instances that of the sender's host
    return BuiltPath(
        layout,
        placement,
        mark,
        trials,
        processes=[*others, *(process for _, process, _ in programs.values())],
        at_work=lambda: _at_work(hosts["switch"], at, of_switch) if of_switch else (),
        host=hosts["switch"],
        nics=nics,
        daemons=tuple(
            step.name for *_, start in instances_of(layout) for step in start if type(step) is Spawn
        ),
        alive=alive,
        works=bool(others or vms),
    )


def entrances(layout: Layout, run: str) -> list[str]:
    """Return how to enter each node of a path that is kept, and to end the run that it is of."""
    nodes = dict.fromkeys((*(each.at for each in layout.wirings), *layout.nodes.values()))
    shells = [
        " ".join(inside(node, ("bash",))) + f"  # on {node.host}" * (node.host != HOST.host)
        for node in nodes
    ]
    return [shell for shell in shells if not shell.startswith("bash")] + [f"switchmark clean {run}"]


def _spawned(executor: Executor, steps: Plan) -> list[Process]:
    return [executor.process(step.name) for step in steps if isinstance(step, Spawn)]


def _counters(executor: Executor, layout: Layout) -> PathCounters:
    """Return the counters of both ends of every port, and of the switch."""
    counters = Counters()
    of_switch, of_parts = layout.switch.counters.commands(layout.wiring), part_counters(layout)
    every = executor.run(*of_switch, *of_parts)
    outputs, printed = every[: len(of_switch)], every[len(of_switch) :]
    if outputs:
        try:
            counters = layout.switch.counters.parse(layout.wiring, outputs)
        except ValueError as garbled:
            name = layout.switch.name
            raise TrialFailed(f"the counters of switch {name} cannot be read: {garbled}") from (
                garbled
            )
    at_switch = {**counters.ports, **_counted_by_links(executor, layout, counters.ports)}
    links_of_ends = {PortEnd(port, at_switch=True): each for port, each in at_switch.items()}
    links = {
        step.at: parse_link_counters(output) for step, output in zip(of_parts, printed, strict=True)
    }
    for part in layout.parts:
        for port in part.ports:
            ifname = layout.endpoints[port.id].ifname
            if ifname:
                links_of_ends[PortEnd(port.id)] = links[stack_of(layout, part)][ifname]
    functions = {}
    for part, function, hosted in hosted_parts(layout):
        outputs = executor.run(*function.counters.commands(hosted))
        try:
            functions[part.id] = function.counters.parse(hosted, outputs).ports
        except ValueError as garbled:
            raise TrialFailed(
                f"the counters of function {part.id} cannot be read: {garbled}"
            ) from garbled
    return PathCounters(links_of_ends, functions=functions, **counters.totals)


def _counted_by_links(
    executor: Executor, layout: Layout, told: Mapping[str, PortCounters]
) -> Mapping[str, PortCounters]:
    """Return the ports that the switch tells nothing of, by the interfaces that are their ends at
    the switch."""
    nothing = PortCounters()
    silent = {
        port.id
        for wiring in layout.wirings
        for port in wiring.ports
        for counted in (told.get(port.id, nothing),)
        if (port.uplink or layout.endpoints[port.id].switch_ifname)
        and None in (counted.rx, counted.tx)
    }
    if not silent:
        return {}
    every: dict[str, PortCounters] = {}
    for wiring in layout.wirings:
        steps = on_host(link_counters(wiring), wiring.at.host)
        outputs = executor.run(*(step for step in steps if isinstance(step, Run)))
        every |= kernel_counters(wiring, outputs).ports
    return {port: each for port, each in every.items() if port in silent}


def _at_work(host: Host, at: Node, daemons: Sequence[Process]) -> Collection[int]:
    """Return the processes that do a switch's work. What was started may be but the client of a
    container's runtime: then it is whatever has the network stack of the switch's node."""
    pids = {daemon.pid for daemon in daemons}
    path = ENVIRONMENTS[at.environment].netns(at)
    there = in_network(host, path) if path else pids
    return pids if pids <= there else there
