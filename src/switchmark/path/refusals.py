"""The check whether a test can ever work, with all refusals at once. This module is pure."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import replace
from itertools import pairwise

from switchmark.engines import TABLE as ENGINES
from switchmark.engines.base import KERNEL_PORTS
from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.errors import UsageError
from switchmark.model.axis import ranked
from switchmark.model.cpus import Cpu
from switchmark.model.event import (
    KINDS,
    OF_PROCESSES,
    REPLACING,
    RESTART,
    UPGRADE,
    Event,
    load_steps,
    moments_s,
)
from switchmark.model.plan import Spawn
from switchmark.model.refusal import Refusal
from switchmark.model.series import STEPPED_S, has_interval, series_interval_ns
from switchmark.model.test import AXES, Test
from switchmark.model.topology import PortKind, Semantics
from switchmark.model.version import plain_name
from switchmark.path.assembly import start_switches
from switchmark.path.combinations import listed, reasons_of_axes
from switchmark.path.path import Path
from switchmark.path.placement import SHARED_PROCESS, place, unpinned_only, wanted_cpus
from switchmark.path.resolving import TABLES, drivers_of, opened_in, resolve, unknown_names
from switchmark.runs.pci import DRIVERS
from switchmark.switches import TABLE as SWITCHES

_PATTERN_PREFIX = "sm0000"
_CPUS = 64
"""The number of CPUs for a trial placement. It does not affect whether a part gets CPUs."""

_FUNCTIONS_MAX = 512
"""The number of functions in all chains of a test."""

_CONNECTED = {PortKind.VHOST_USER, PortKind.MEMIF}
"""Ports with an end that listens and an end that connects, once per opening."""

_RECONNECTING = f"--engine {','.join(n for n, engine in ENGINES.items() if engine.reconnects)}"

_QUEUED = {PortKind.VETH, PortKind.NIC_KERNEL}
"""Kernel interfaces that can have any number of queue pairs."""

_OF_A_WIRING = ranked(AXES, lambda axis: axis.blame_rank)
"""The axes that decide the ports of a switch or a function, and the way of frames between them. A
driver may refuse their combination without naming an axis."""


def check(test: Test, *, suggest: bool = True) -> list[Refusal]:
    """Return all reasons why a test can never work; empty if it can. Finding alternatives for a
    port takes time, so `suggest=False` omits them."""
    if unknown := unknown_names(test):
        return unknown
    try:
        path = resolve(test, prefix=_PATTERN_PREFIX, run_dir="/run")
    except UsageError as error:
        return [_of_error(error)]
    refusals = [
        *reasons_of_axes(test),
        *_driver_reasons(test, path),
        *_stamp_reasons(test, path),
        *_limit_reasons(test, path),
        *_placement_reasons(test, path),
        *_noise_reasons(test, path),
        *_copy_reasons(test, path),
        *_queue_reasons(test, path),
        *_chain_reasons(test, path),
        *_event_reasons(test, path),
    ]
    if test.outer_ip_version == "6" and path.wiring.semantics is Semantics.ROUTED:
        why = f"switch {test.switch} has only IPv4 routes, so it drops IPv6 frames"
        refusals.append(Refusal(("encapsulation" if test.tunnel else "ip_version", "switch"), why))
    if path.switch.image and not path.drivers.switch_environment.shares_host:
        able = [name for name, environment in ENVIRONMENTS.items() if environment.shares_host]
        why = (
            f"switch {test.switch} runs with the files of its image, which environment "
            f"{test.switch_environment} would hide"
        )
        use = f"--switch-environment {','.join(able)}"
        refusals.append(Refusal(("switch", "switch_environment"), why, use))
    if refusal := path.refusal:
        refusals.append(_of_driver(refusal))
    else:
        refusals += _nic_reasons(path) or _port_reasons(test, path, suggest=suggest)
    for part, named in _named_parts(test).items():
        if part not in {p.id for p in path.parts if p.physical}:
            ends = f" ({named})" if named else ""
            why = (
                f"--nic names the physical port {part}{ends}, which scenario {test.scenario} does "
                "not have"
            )
            hint = None if named else "--scenario p2p --nic a0=SWITCH-NIC:GENERATOR-NIC"
            refusals.append(Refusal(("nic", "scenario"), why, hint))
    return refusals


def can_work(test: Test) -> bool:
    """Return whether nothing is known why a test can never work."""
    return not check(test, suggest=False)


def _of_error(error: UsageError, *axes: str) -> Refusal:
    """Return the refusal for an error, on the axes that the error names, or else on `axes`."""
    return Refusal(error.axes or axes or _OF_A_WIRING, error.message, error.hint)


def _of_driver(reason: str) -> Refusal:
    """Return the refusal for a driver's reason, which may contain a hint."""
    why, _, hint = reason.partition("\n\nhint: ")
    return Refusal(_OF_A_WIRING, why, hint or None)


def may_share_process(test: Test) -> bool:
    """Return whether the sender and the receiver of a test can be one process on this host without
    changing the test. A process outside a container cannot play a function in it."""
    together = test.model_copy(update={"placement": SHARED_PROCESS})
    return drivers_of(test).environment.shares_host and can_work(together)


def _named_parts(test: Test) -> dict[str, str]:
    entries = [word.partition("=") for word in (test.nic or "").split(",") if word]
    return {part.strip(): ends for part, _, ends in entries}


def _chain_reasons(test: Test, path: Path) -> Iterable[Refusal]:
    if path.steering is None:
        for name, axis in AXES.items():
            if axis.of == "chain" and getattr(test, name) != axis.default:
                yield Refusal(
                    (name, "scenario"),
                    f"scenario {test.scenario} has no functions that forward: {axis.option} means "
                    "nothing to it, its ends are the traffic program",
                    "--scenario loopback, or p2v with --chain 2",
                )
        return
    engine = path.engine
    if any(len(part.ports) > 1 for part in path.played) and engine.needs_ip:
        yield Refusal(
            ("engine", "function", "chain", "chains", "scenario"),
            f"engine {engine.name} goes through the IP stack: it cannot forward frames of others",
            "--engine raw-mmsg, or another --function",
        )
    if test.placement == SHARED_PROCESS:
        yield Refusal(
            ("placement", "scenario"),
            "placement shared-process joins a sender and a receiver: it has no place for a chain",
        )
    if test.queues > 1:
        yield Refusal(
            ("queues", "scenario"), "the functions of a chain have one queue a port: --queues 1"
        )
    if test.chain * test.chains > _FUNCTIONS_MAX:
        count = test.chain * test.chains
        yield Refusal(
            ("chain", "chains"),
            f"{test.chains} chains of {test.chain} functions are {count}: at most "
            f"{_FUNCTIONS_MAX} are built",
        )
    if test.chains > 1:
        if engine.needs_ip:
            yield Refusal(
                ("engine", "chains"),
                f"engine {engine.name} leaves source MACs to the kernel, and by them traffic is "
                "split over chains",
                "--engine raw-mmsg",
            )
        if test.flows > 1 and test.flows_by == "mac":
            yield Refusal(
                ("flows_by", "chains"),
                "the source MAC says which chain a frame takes: flows cannot differ in it too",
                "--flows-by port",
            )
        if test.dimension == "latency":
            yield Refusal(
                ("chains", "dimension"), "dimension latency follows one chain: --chains 1"
            )
    refusals = (part.function.accepts(part.hosted) for part in path.hosted)
    yield from map(_of_driver, dict.fromkeys(filter(None, refusals)))


def _nic_reasons(path: Path) -> list[Refusal]:
    switch = path.switch
    uplinks = (port for instance in path.switches for port in instance.uplinks if port.pci)
    for port in (*path.wiring.ports, *uplinks):
        kind, way = (
            (PortKind.NIC_PCI, "by its PCI address")
            if port.pci
            else (PortKind.NIC_KERNEL, "by its interface")
        )
        if port.nic and kind not in switch.port_kinds:
            usable = [name for name, switch in SWITCHES.items() if kind in switch.port_kinds]
            why = f"switch {switch.name} does not take the NIC {port.nic} {way}"
            return [Refusal(("nic", "switch"), why, f"--switch {','.join(usable)}")]
        where = path.drivers.switch_environment
        if port.pci and not where.shares_host:
            able = [name for name, environment in ENVIRONMENTS.items() if environment.shares_host]
            why = f"environment {where.name} does not give the NIC {port.nic} to {switch.name}"
            return [Refusal(_OF_A_WIRING, why, f"--switch-environment {','.join(able)}")]
    return []


def _driver_reasons(test: Test, path: Path) -> Iterable[Refusal]:
    """Yield the refusals of a driver that the engine does not have, or that cannot open a port."""
    engine, ends = path.engine, [end for _, end in path.ends]
    if test.driver not in ("auto", *engine.drivers):
        yield Refusal(
            ("driver", "engine"),
            f"engine {engine.name} has no driver '{test.driver}'",
            f"--driver {','.join(engine.drivers)}" if engine.drivers else None,
        )
        return
    if test.driver in DRIVERS and not any(end.device or end.guest_device for end in ends):
        yield Refusal(
            ("driver", "nic"),
            f"driver {test.driver} leaves a PCI device to a program, and this test has none: its "
            f"ports are of kind {path.wiring.kind}",
            "--nic a0=SWITCH-NIC:GENERATOR-NIC, by PCI addresses",
        )
        return
    if any(end.kind not in engine.port_kinds for end in ends):
        return  # another check refuses this
    try:
        for part in path.parts:
            for end in part.endpoints:
                engine.port_options(path.wiring, part.node, (end,), 0, test.driver)
    except UsageError as error:
        yield _of_error(error, "driver")


def _stamp_reasons(test: Test, path: Path) -> Iterable[Refusal]:
    if test.stamps != "device" or "stamps" not in path.engine.resources:
        return  # another check refuses an engine that does not follow the axis
    if test.touch == "none":
        yield Refusal(
            ("stamps", "touch"),
            "stamps device are times of frames, and touch none reads none",
            "--touch header",
        )
    kinds = {end.kind for _, end in path.ends} - path.engine.stamped
    for kind in sorted(kinds & path.engine.port_kinds):
        yield Refusal(
            ("stamps", "port"),
            f"a port of kind {kind} has no clock that timestamps frames",
            "--stamps software, or a NIC by its PCI address",
        )


def _placement_reasons(test: Test, path: Path) -> Iterable[Refusal]:
    unpinned = unpinned_only(test.placement)
    if unpinned == "switch" and not _has_processes(path):
        yield Refusal(
            ("placement", "switch"),
            f"switch {test.switch} has no processes to pin",
        )
    if unpinned == "function" and all(part.physical for part in path.parts):
        yield Refusal(
            ("placement", "scenario"),
            f"scenario {test.scenario} has no function that could be pinned, or not",
        )


def _has_processes(path: Path) -> bool:
    """Return whether the switch starts processes, whose CPUs can be chosen and limited."""
    return any(isinstance(step, Spawn) for step in start_switches(path))


def _queue_reasons(test: Test, path: Path) -> Iterable[Refusal]:
    """Yield the refusals of functions with several queues per port, or on several cores."""
    kinds = {kind for part in path.played for kind in part.kinds}
    several = [axis for axis in ("function_cores", "queues") if getattr(test, axis) > 1]
    if "queues" in several and "queues" not in path.switch.resources:
        several.remove("queues")  # another check refuses this
    if several and path.engine.user_memory and not KERNEL_PORTS.isdisjoint(kinds):
        yield Refusal(
            (*several, "engine", "port"),
            f"engine {path.engine.name} opens one queue of an interface of the kernel",
            "--engine mmap,xdp",
        )
    if test.function_cores > 1:
        yield from _core_reasons(test, path, kinds)


def _core_reasons(test: Test, path: Path, kinds: Set[PortKind]) -> Iterable[Refusal]:
    cores, engine = test.function_cores, path.engine
    if test.flows < cores:
        yield Refusal(
            ("flows", "function_cores"),
            f"a flow is sent by one core, to stay in order: {test.flows} flows do not use {cores}",
            f"--flows {8 * cores}",
        )
    if test.queues not in (1, cores):
        yield Refusal(
            ("queues", "function_cores"),
            f"every core has a separate pair of queues: {test.queues} do not fit {cores} cores",
            f"--queues {cores}",
        )
    if engine.user_memory and "queues" not in path.switch.resources:
        yield Refusal(
            ("function_cores", "switch"),
            f"engine {engine.name} opens a queue for each core, and switch {test.switch} has one",
            "--function-cores 1",
        )
    if engine.needs_ip and test.direction == "bi":
        yield Refusal(
            ("function_cores", "direction"),
            f"engine {engine.name} receives by the sockets that it sends from: all that comes in "
            "would be for one core",
            "--direction uni",
        )
    if path.drivers.environment.separate_kernel:
        yield Refusal(
            ("function_cores", "environment"),
            f"a machine of environment {test.environment} has one CPU: --function-cores 1",
        )
    if engine.user_memory and not path.drivers.function.played:
        yield Refusal(
            ("function_cores", "function"),
            f"function {test.function} opens one queue of a port: --function-cores 1",
        )
    for kind in sorted(kinds - _QUEUED) if engine.queue_a_core and not engine.user_memory else ():
        yield Refusal(
            ("function_cores", "engine", "port"),
            f"engine {engine.name} opens a queue for each core, and a port of kind {kind} has one "
            "pair of queues",
            "--port veth, or --engine mmap",
        )


def _event_reasons(test: Test, path: Path) -> Iterable[Refusal]:
    """Yield the refusals of events, and of outage tests without one."""
    if test.dimension == "outage":
        yield from _outage_reasons(test)
    if not test.all_events:
        return
    if test.dimension == "latency" or test.search != "fixed":
        why = "an event takes place in a trial at one rate"
        yield Refusal(("event", "dimension", "search"), why, "--dimension outage")
    last_s = max(moments_s(test.all_events, test.duration))
    if last_s >= test.duration:
        why = f"a trial of {test.duration:g} s has no event at {last_s:g} s"
        yield Refusal(("event", "duration"), why, f"--duration {last_s + 5:g}")
    if test.events != test.all_events and test.parsed_rate.is_max:
        why = "event load is a share of a rate, and this test has none"
        yield Refusal(("event", "rate"), why, "--rate 50%")
    yield from _load_reasons(test)
    if test.events:
        yield from _switch_event_reasons(test, path)


def _load_reasons(test: Test) -> Iterable[Refusal]:
    """Yield the refusal of a share of the load that lasts for less than an interval, so that no
    interval would prove it."""
    interval_ns = series_interval_ns(test.interval or STEPPED_S, test.duration)
    moments = [at_s for at_s, _ in load_steps(test.all_events, test.duration)]
    for begin_s, end_s in pairwise([0.0, *moments, test.duration] if moments else []):
        if begin_s < end_s and not has_interval(begin_s, end_s, interval_ns):
            why = (
                f"no interval of {interval_ns / 1e9:g} s lies whole between {begin_s:g} and "
                f"{end_s:g} s, so that none proves the load of that time"
            )
            yield Refusal(("event", "interval"), why, f"--interval {(end_s - begin_s) / 2:g}")


def _switch_event_reasons(test: Test, path: Path) -> Iterable[Refusal]:
    """Yield the refusals of the events that happen to the switch."""
    (switch, *others), axes = path.switches, ("event", "switch")
    if others:
        why = "an event changes the switch on one host, and this test has a switch on two"
        yield Refusal(("event", "locality"), why, "--locality local")
        return
    offered = switch.driver.events(switch.wiring)
    upgraded = {UPGRADE} if RESTART in offered and _has_processes(path) else set()
    plain = plain_name(test.switch)
    for event in test.events:
        if event.kind not in upgraded.union(offered):
            why = f"switch {test.switch} has no event {event.kind}"
            yield Refusal(axes, why, f"--event {','.join(sorted(offered))}" if offered else None)
        elif event.to and plain_name(event.to) != plain:
            why = f"event upgrade starts another version of {plain}, not {event.to}"
            yield Refusal(axes, why, f"--event upgrade:{plain}@VERSION")
        elif event.kind in OF_PROCESSES and _has_processes(path):
            yield from _process_reasons(test, path, event)


def _process_reasons(test: Test, path: Path, event: Event) -> Iterable[Refusal]:
    """Yield the refusals of an event that stops or ends the processes of the switch."""
    if not path.drivers.switch_environment.shares_host:
        yield Refusal(
            ("event", "switch_environment"),
            f"event {event.kind} signals processes of the switch, which environment "
            f"{test.switch_environment} hides from the host",
            f"--switch-environment {AXES['switch_environment'].default}",
        )
    connecting = [
        (port.id, end.kind)
        for part in path.parts
        for port, end in part.ends
        if end.kind in _CONNECTED and not end.server and not end.guest_device
        if not (part.function.played and part.engine.reconnects)
    ]
    if connecting and event.kind in REPLACING:
        (port, kind), *_ = connecting
        yield Refusal(
            ("event", "listen", "port"),
            f"event {event.kind}: the {kind} end of port {port} connects to the switch, and does "
            "not connect again to the next one",
            "--listen functions" if kind is PortKind.VHOST_USER else _RECONNECTING,
        )


def _outage_reasons(test: Test) -> Iterable[Refusal]:
    if len(test.events) != 1:
        why = f"dimension outage measures the effect of one event, not of {len(test.events)}"
        yield Refusal(("event", "dimension"), why, f"--event {next(iter(KINDS))}")
    if test.events != test.all_events:
        why = "dimension outage needs a constant rate, and event load changes it"
        yield Refusal(("event", "dimension"), why, "--dimension throughput")
    if test.parsed_rate.is_max:
        why = "dimension outage needs a constant rate: under saturation frames are lost anyway"
        yield Refusal(("rate", "dimension"), why, "--rate 10%")
    if test.touch == "none":
        why = "dimension outage needs the number and the time in every frame"
        yield Refusal(("touch", "dimension"), why, "--touch header")
    if test.function_cores > 1:
        why = "dimension outage follows a flow on one core"
        yield Refusal(("function_cores", "dimension"), why, "--function-cores 1")
    if test.copies > 1:
        why = "dimension outage follows every frame to one receiver"
        yield Refusal(("copies", "dimension"), why, "--copies 1")


def _limit_reasons(test: Test, path: Path) -> Iterable[Refusal]:
    if "switch" in test.limits and not _has_processes(path):
        yield Refusal(
            ("cpu_limit", "switch"),
            f"switch {test.switch} has no processes whose CPU time could be limited",
            "--cpu-limit function:50",
        )
    if "function" in test.limits:
        if all(part.physical for part in path.parts):
            yield Refusal(
                ("cpu_limit", "scenario"),
                f"scenario {test.scenario} has no function whose CPU could be limited",
            )
        if test.placement == SHARED_PROCESS:
            yield Refusal(
                ("cpu_limit", "placement"),
                "a function that shares its process has no CPU limit: use --placement pinned",
            )


def _noise_reasons(test: Test, path: Path) -> Iterable[Refusal]:
    noise, noise_cpus = path.drivers.noise, path.drivers.noise_cpus
    if noise is None:
        return
    if isinstance(noise_cpus, str) and not _has_cpus(test, path, noise_cpus):
        yield Refusal(
            ("noise", "placement", "switch"),
            f"noise {test.noise}: with placement {test.placement} no CPU is set apart for the "
            f"{noise_cpus} of this test",
            f"--noise {noise.name}:0, or --noise {noise.name} for wherever the kernel likes",
        )


def _has_cpus(test: Test, path: Path, where: str) -> bool:
    """Return whether the placement of a test gives CPUs to the switch, or to the functions."""
    cpus = [Cpu(number) for number in sorted({*wanted_cpus(test.placement), *range(_CPUS)})]
    pins = place(path.cpu_users, cpus, test.placement).pins
    return any(pin.cpus for name, pin in pins.items() if (name == "switch") == (where == "switch"))


def _copy_reasons(test: Test, path: Path) -> Iterable[Refusal]:
    if test.copies == 1:
        return
    if all(len(path.copies(flow)) == 1 for flow in path.flows):
        yield Refusal(
            ("copies", "scenario"),
            f"scenario {test.scenario} has no copies: they are for ends, not for chains",
            "--scenario p2p, p2v, v2p or v2v",
        )
    if test.pairs > 1:
        yield Refusal(("copies", "pairs"), "copies reach the sinks of every pair: use --pairs 1")
    if test.direction == "bi" or test.dimension == "latency":
        yield Refusal(
            ("copies", "direction", "dimension"),
            "copies go one way: use --direction uni and --dimension throughput",
        )
    if test.placement == SHARED_PROCESS:
        yield Refusal(
            ("copies", "placement"),
            "placement shared-process joins a sender with one receiver, not with copies",
        )
    if path.engine.needs_ip:
        yield Refusal(
            ("copies", "engine"),
            f"copies are for a group of MACs, which engine {test.engine} cannot send to",
            "--engine raw-mmsg",
        )


def _with_changes(refusal: Refusal, test: Test) -> Refusal:
    """Return a refusal with suggested values for the first of its axes that has any: the default
    value, or else all suitable values. A suitable value resolves this refusal without a new one."""
    others = {*check(test, suggest=False)} - {refusal}
    for axis in map(AXES.__getitem__, refusal.axes):
        names = TABLES[axis.table][1] if axis.table else axis.choices
        fits = [
            name
            for name in (axis.default, *names)
            if others.issuperset(check(test.model_copy(update={axis.name: name}), suggest=False))
        ]
        if fits:
            chosen = fits[:1] if fits[0] == axis.default else fits
            hint = f"{axis.option} {','.join(chosen)}"
            return replace(refusal, hint=hint, changes=tuple((axis.name, name) for name in chosen))
    return refusal


def _port_reasons(test: Test, path: Path, *, suggest: bool) -> Iterable[Refusal]:
    engine, environment = path.engine, path.drivers.environment
    name = test.environment
    if test.listen != "auto" and path.wiring.kind is not PortKind.VHOST_USER:
        why = f"nobody chooses which side of a {path.wiring.kind} port listens: --listen auto"
        yield Refusal(("listen", "port"), why, f"--port {PortKind.VHOST_USER}")
    if any(part.endpoints[0].backend for part in path.in_vms):
        yield Refusal(
            ("environment", "switch"),
            f"a machine is the virtio side of a port, and switch {test.switch} joins it to another",
            "a switch between the machines",
        )
    # Physical ports are outside the functions' environment.
    inner = {end.kind for port, end in path.ends if not port.physical}
    for noun, kinds, accepted in (
        *(
            (f"engine {part.engine.name}", part.kinds, part.engine.port_kinds)
            for part in path.played
            if part.physical
        ),
        (f"engine {engine.name}", inner, opened_in(environment, engine.port_kinds)),
        (f"environment {name}", inner, environment.port_kinds),
        *(
            (
                f"function {part.function.name}",
                part.kinds,
                opened_in(environment, part.function.port_kinds),
            )
            for part in path.parts
            if not part.physical
        ),
    ):
        missing = kinds - set(accepted)
        if missing:
            takes = f"takes {listed(accepted)}" if accepted else f"has no ports in {name}"
            takes += "".join(f"\n  {why}" for k, why in environment.without.items() if k in missing)
            refusal = Refusal(
                ("engine", "function", "port", "environment", "switch"),
                f"scenario {test.scenario} cannot join {test.switch} to {test.environment} with "
                f"engine {test.engine}\n"
                f"  {test.switch} offers {listed(kinds)}; {noun} {takes}",
            )
            yield _with_changes(refusal, test) if suggest else refusal
            return
