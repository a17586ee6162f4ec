"""Whether a test can ever work: names, combinations, ranges. Pure; says all reasons at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from switchmark.campaign.layout import SHARED_PROCESS, Layout, frame_sizes, lay_out, opened_in
from switchmark.engines import TABLE as ENGINES
from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.errors import UsageError
from switchmark.functions import TABLE as FUNCTIONS
from switchmark.machine.pci import DRIVERS
from switchmark.machine.placement import wanted_cpus
from switchmark.model.plan import Spawn
from switchmark.model.spec import Test
from switchmark.model.topology import PortKind
from switchmark.model.units import FRAME_MIN
from switchmark.noises import parse_noise
from switchmark.scenarios import TABLE as SCENARIOS
from switchmark.searches import TABLE as SEARCHES
from switchmark.switches import TABLE as SWITCHES

__all__ = ["check", "unknown_name"]

_VLAN_BYTES = 4
_PATTERN_PREFIX = "sm0000"


def unknown_name(what: str, name: str, known: Iterable[str]) -> str:
    """A message for a name that is in no table, with the nearest one."""
    names = list(known)
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"\n\nhint: did you mean {near[0]}?" if near else ""
    return f"there is no {what} named '{name}'\n  known: {', '.join(names)}{hint}"


def check(test: Test) -> list[str]:
    """Every reason why this test can never work, ready to print; none if it can."""
    tables: tuple[tuple[str, str, Mapping[str, object]], ...] = (
        ("switch", test.switch, SWITCHES),
        ("engine", test.engine, ENGINES),
        ("environment", test.environment, ENVIRONMENTS),
        ("environment", test.switch_environment, ENVIRONMENTS),
        ("function", test.function, FUNCTIONS),
        ("scenario", test.scenario, SCENARIOS),
        ("search", test.search, SEARCHES),
    )
    unknown = [unknown_name(what, name, table) for what, name, table in tables if name not in table]
    if unknown:
        return unknown
    try:
        layout = lay_out(test, prefix=_PATTERN_PREFIX, run_dir="/run")
    except UsageError as error:
        return [str(error)]
    found = [
        *_load_reasons(test),
        *_engine_reasons(test),
        *_place_reasons(test),
        *_resource_reasons(test),
        *_driver_reasons(test, layout),
        *_limit_reasons(test, layout),
        *_noise_reasons(test),
        *_copy_reasons(test, layout),
        *_chain_reasons(test, layout),
    ]
    refusal = layout.switch.accepts(layout.wiring)
    if refusal:
        found.append(refusal)
    else:
        found += _nic_reasons(layout) or _port_reasons(test, layout)
    for part, named in _named_parts(test).items():
        if part not in {p.id for p in layout.parts if p.physical}:
            found.append(
                f"--nic names the physical port {part} ({named}), which scenario "
                f"{test.scenario} does not have"
            )
    return found


def _named_parts(test: Test) -> dict[str, str]:
    words = [word.partition("=") for word in (test.nic or "").split(",") if word]
    return {part.strip(): ends for part, _, ends in words}


def _load_reasons(test: Test) -> Iterable[str]:
    rate = test.parsed_rate
    if test.search == "max" and not rate.is_max:
        yield f"search max sends as fast as it goes: a rate of {test.rate} means nothing to it"
    if test.dimension == "latency":
        if test.direction == "bi":
            yield "dimension latency is measured by a client and a server: use --direction uni"
        if rate.is_max and not SEARCHES[test.search].finds_rate:
            yield (
                "dimension latency needs a rate: under saturation it measures queues"
                "\n\nhint: --rate 1000, or --search latency-at-load"
            )
        if test.touch == "none":
            yield "dimension latency needs the time in every frame: --touch header or full"
    if test.search == "latency-at-load" and test.touch == "none":
        yield "search latency-at-load needs the time in every frame: --touch header or full"
    pps = test.rate_pps
    if pps is not None and pps * test.duration < 1:
        yield f"at {test.rate} not one frame is sent in {test.duration:g} s"
    flows = test.flows * test.pairs * test.chains * (2 if test.direction == "bi" else 1)
    if flows > 16384:
        yield f"{flows} flows in all; a frame numbers at most 16384"


def _engine_reasons(test: Test) -> Iterable[str]:
    engine = ENGINES[test.engine]
    sizes = frame_sizes(test)
    if test.vlan is not None:
        if not engine.vlan:
            yield f"engine {engine.name} leaves the headers to the kernel: it sends no VLAN tag"
        elif min(sizes) < FRAME_MIN + _VLAN_BYTES:
            yield (
                f"a tagged frame has at least {FRAME_MIN + _VLAN_BYTES} bytes, not {min(sizes)}"
                f"\n\nhint: --frame-size {FRAME_MIN + _VLAN_BYTES}"
            )
    if max(sizes) > engine.frame_max:
        yield f"engine {engine.name} carries frames up to {engine.frame_max} bytes"
    if test.flows > engine.flows_max:
        yield f"engine {engine.name} sends at most {engine.flows_max} flows, not {test.flows}"
    if test.flows > 1 and test.flows_by not in engine.flows_by:
        yield (
            f"engine {engine.name} cannot vary flows by {test.flows_by}"
            f"\n\nhint: --flows-by {' or '.join(sorted(engine.flows_by))}"
        )
    if test.touch not in engine.touches:
        yield f"engine {engine.name} cannot touch '{test.touch}': {_listed(engine.touches)}"
    if engine.receiver and (test.direction == "bi" or test.dimension == "latency"):
        yield (
            f"engine {engine.name} only sends: it has no direction bi and no dimension latency"
            f"\n\nhint: --engine {engine.receiver}"
        )


def _place_reasons(test: Test) -> Iterable[str]:
    switch, engine = SWITCHES[test.switch], ENGINES[test.engine]
    if test.switch_environment not in switch.environments:
        yield (
            f"switch {switch.name} does not run in environment {test.switch_environment}"
            f"\n\nhint: --switch-environment {' or '.join(sorted(switch.environments))}"
        )
    if engine.needs_ip and not ENVIRONMENTS[test.environment].isolated:
        yield (
            f"engine {engine.name} goes through the IP stack: in environment "
            f"{test.environment} both ends are one host, and frames never reach the switch"
            "\n\nhint: --environment netns, or --engine raw-mmsg"
        )
    try:
        wanted_cpus(test.placement)
    except UsageError as error:
        yield str(error)
    if ENVIRONMENTS[test.environment].own_kernel:
        yield from _machine_reasons(test)
    if test.image is not None:
        yield from _image_reasons(test)
    if test.placement == SHARED_PROCESS and test.direction == "bi":
        yield "placement shared-process joins a sender and a receiver: use --direction uni"


def _image_reasons(test: Test) -> Iterable[str]:
    if not ENVIRONMENTS[test.environment].images:
        able = [name for name, environment in ENVIRONMENTS.items() if environment.images]
        yield (
            f"environment {test.environment} is made of no image: --image means nothing to it"
            f"\n\nhint: --environment {' or '.join(able)}"
        )
    if not FUNCTIONS[test.function].played:
        yield (
            f"function {test.function} is a program of this host, and may need what image "
            f"{test.image} does not have: in an image the traffic program forwards"
            "\n\nhint: --function forwarder"
        )


def _machine_reasons(test: Test) -> Iterable[str]:
    environment = test.environment
    if test.placement == SHARED_PROCESS:
        yield (
            f"placement shared-process joins both ends in one process: in environment "
            f"{environment} each is on a kernel of its own"
        )
    if test.switch_environment not in ("netns", "host"):
        yield (
            f"environment {environment} opens the switch's ports on the host: the switch cannot be "
            f"in {test.switch_environment}\n\nhint: --switch-environment netns"
        )
    if test.queues > 1:
        yield f"a NIC of environment {environment} has one pair of queues: --queues 1"


def _resource_reasons(test: Test) -> Iterable[str]:
    switch, engine = SWITCHES[test.switch], ENGINES[test.engine]
    for axis, follow in (
        ("switch_cores", (switch,)),
        ("queues", (switch, engine)),
        ("descriptors", (engine,)),
        ("offload", (engine,)),
        ("copies", (switch,)),
    ):
        if getattr(test, axis) == Test.model_fields[axis].default:
            continue
        for one in follow:
            if axis not in one.resources:
                kind = "switch" if one is switch else "engine"
                yield f"{kind} {one.name} does not follow --{axis.replace('_', '-')}"
    if test.queues > 1 and test.flows < test.queues:
        yield (
            f"a flow stays on one queue: {test.flows} flows do not use {test.queues} queues"
            f"\n\nhint: --flows {8 * test.queues}"
        )
    if test.queues > 1 and test.dimension == "latency":
        yield "dimension latency has one flow a client, on one queue: --queues 1"
    if test.descriptors and test.descriptors & (test.descriptors - 1):
        yield f"the length of a queue is a power of two, not {test.descriptors}"
    if test.memory != "auto" and not engine.own_memory:
        yield f"engine {engine.name} has its frames in the kernel: --memory means nothing to it"


def _chain_reasons(test: Test, layout: Layout) -> Iterable[str]:
    if layout.steering is None:
        for axis in ("function", "chain", "chains"):
            if getattr(test, axis) != Test.model_fields[axis].default:
                yield (
                    f"scenario {test.scenario} has no functions that forward: --{axis} means "
                    "nothing to it, its ends are the traffic program\n\nhint: --scenario loopback"
                )
        return
    engine = ENGINES[test.engine]
    if any(len(part.ports) > 1 for part in layout.played) and engine.needs_ip:
        yield (
            f"engine {engine.name} goes through the IP stack: it cannot forward frames of others"
            "\n\nhint: --engine raw-mmsg, or another --function"
        )
    if test.placement == SHARED_PROCESS:
        yield "placement shared-process joins a sender and a receiver: it has no place for a chain"
    if test.queues > 1:
        yield "the functions of a chain have one queue a port: --queues 1"
    if test.chains > 1:
        if engine.needs_ip:
            yield (
                f"engine {engine.name} leaves source MACs to the kernel, and by them traffic is "
                "split over chains\n\nhint: --engine raw-mmsg"
            )
        if test.flows > 1 and test.flows_by == "mac":
            yield (
                "the source MAC says which chain a frame takes: flows cannot differ in it too"
                "\n\nhint: --flows-by port"
            )
        if test.dimension == "latency":
            yield "dimension latency follows one chain: --chains 1"
    refusals = (function.accepts(hosted) for _, function, hosted in layout.hosted)
    yield from dict.fromkeys(filter(None, refusals))


def _nic_reasons(layout: Layout) -> list[str]:
    switch = layout.switch
    for port in layout.wiring.ports:
        kind, way = (
            (PortKind.NIC_PCI, "by its PCI address")
            if port.pci
            else (PortKind.NIC_KERNEL, "by its interface")
        )
        if port.nic and kind not in switch.port_kinds:
            usable = [name for name, each in SWITCHES.items() if kind in each.port_kinds]
            return [
                f"switch {switch.name} does not take the NIC {port.nic} {way}"
                f"\n\nhint: --switch {' or '.join(usable)}"
            ]
    return []


def _driver_reasons(test: Test, layout: Layout) -> Iterable[str]:
    engine = ENGINES[test.engine]
    if test.driver == "auto":
        return
    if test.driver not in engine.drivers:
        known = f"\n\nhint: --driver {' or '.join(engine.drivers)}" if engine.drivers else ""
        yield f"engine {engine.name} has no driver '{test.driver}'{known}"
        return
    if test.driver in DRIVERS and not any(end.device for end in layout.endpoints.values()):
        yield (
            f"driver {test.driver} leaves a PCI device to a program, and this test has none"
            "\n\nhint: --nic a0=SWITCH-NIC:GENERATOR-NIC, by PCI addresses"
        )
        return
    if any(end.kind not in engine.port_kinds for end in layout.endpoints.values()):
        return  # refused with its own reason
    try:
        for port in layout.wiring.ports:
            end, node = layout.endpoints[port.id], layout.nodes[port.part]
            engine.port_options(layout.wiring, node, (end,), 0, test.driver)
    except UsageError as error:
        yield str(error)


def _limit_reasons(test: Test, layout: Layout) -> Iterable[str]:
    if "switch" in test.limits and not any(
        isinstance(step, Spawn) for step in layout.switch.start(layout.wiring)
    ):
        yield (
            f"switch {test.switch} has no processes of its own whose CPU could be limited"
            "\n\nhint: --cpu-limit function:50"
        )
    if "function" in test.limits:
        if all(part.physical for part in layout.parts):
            yield f"scenario {test.scenario} has no function whose CPU could be limited"
        if test.placement == SHARED_PROCESS:
            yield "a function that shares its process has no CPU limit: use --placement pinned"


def _noise_reasons(test: Test) -> Iterable[str]:
    if test.noise is not None:
        try:
            parse_noise(test.noise)
        except UsageError as error:
            yield str(error)


def _copy_reasons(test: Test, layout: Layout) -> Iterable[str]:
    if test.copies == 1:
        return
    if all(len(layout.copies(flow)) == 1 for flow in layout.flows):
        yield (
            f"scenario {test.scenario} has no copies: they are for functions"
            "\n\nhint: --scenario v2v or p2v"
        )
    if test.pairs > 1:
        yield "copies reach the functions of every pair: use --pairs 1"
    if test.direction == "bi" or test.dimension == "latency":
        yield "copies go one way: use --direction uni and --dimension throughput"
    if test.placement == SHARED_PROCESS:
        yield "placement shared-process joins a sender with one receiver, not with copies"
    if ENGINES[test.engine].needs_ip:
        yield (
            f"copies are for a group of MACs, which engine {test.engine} cannot send to"
            "\n\nhint: --engine raw-mmsg"
        )


def _port_reasons(test: Test, layout: Layout) -> Iterable[str]:
    engine, environment = ENGINES[test.engine], ENVIRONMENTS[test.environment]
    name = test.environment
    if any(layout.own_kernel(p) and layout.endpoints[p.ports[0].id].backend for p in layout.parts):
        yield (
            f"a machine is the virtio side of a port, and switch {test.switch} joins it to another"
            "\n\nhint: a switch between the machines"
        )
    # Physical ports are not in the functions' environment.
    inner = {layout.endpoints[p.id].kind for p in layout.wiring.ports if not p.physical}
    for who, kinds, accepted in (
        *(
            (
                f"engine {layout.engine_of(part).name}",
                {layout.endpoints[p.id].kind for p in part.ports},
                layout.engine_of(part).port_kinds,
            )
            for part in layout.played
            if part.physical
        ),
        (f"engine {engine.name}", inner, opened_in(name, engine.port_kinds)),
        (f"environment {name}", inner, environment.port_kinds),
        *(
            (
                f"function {part.function}",
                {layout.endpoints[p.id].kind for p in part.ports},
                opened_in(name, FUNCTIONS[part.function].port_kinds),
            )
            for part in layout.parts
            if not part.physical
        ),
    ):
        missing = kinds - set(accepted)
        if missing:
            usable = [
                switch.name
                for switch in SWITCHES.values()
                if set(switch.port_kinds)
                & environment.port_kinds
                & set(accepted)
                & opened_in(name, engine.port_kinds)
            ]
            takes = f"takes {_listed(accepted)}" if accepted else f"has no ports in {name}"
            yield (
                f"scenario {test.scenario} cannot join {test.switch} to {test.environment} with "
                f"engine {test.engine}\n"
                f"  {test.switch} offers {_listed(kinds)}; {who} {takes}\n\n"
                f"hint: with this engine, use --switch {' or '.join(usable) or '(none)'}"
            )
            return


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(str(name) for name in names))
