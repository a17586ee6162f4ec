"""Combinations of axis values that never work, independent of the topology. This module is pure."""

from __future__ import annotations

from collections.abc import Iterable

from switchmark.engines.base import Engine
from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.environments.base import Environment
from switchmark.errors import UsageError
from switchmark.functions import TABLE as FUNCTIONS
from switchmark.functions.base import Function
from switchmark.model.refusal import Refusal
from switchmark.model.test import AXES, Test
from switchmark.model.units import FRAME_MIN
from switchmark.path.path import Drivers
from switchmark.path.placement import SHARED_PROCESS, wanted_cpus
from switchmark.path.resolving import drivers_of, frame_sizes
from switchmark.path.subflows import has_subflows, reasons_of_flows
from switchmark.switches import TABLE as SWITCHES
from switchmark.switches.base import Switch

_VLAN_BYTES = 4
_IP6_BYTES = 20
"""The additional length of an IPv6 header."""
_VXLAN_BYTES = 50
_OF_ONE_HOST = ("nic", "noise", "profile", "cpu_limit", "copies")


def reasons_of_axes(test: Test) -> Iterable[Refusal]:
    """Yield the refusals that follow from the axes of a test alone, before its topology is
    known."""
    drivers = drivers_of(test)
    yield from _load_reasons(test, drivers)
    yield from _header_reasons(test, drivers.engine)
    yield from _engine_reasons(test, drivers.engine)
    yield from _place_reasons(test, drivers)
    yield from _resource_reasons(test, drivers)
    yield from _function_reasons(test, drivers.function)
    if test.locality == "remote":
        yield from _remote_reasons(test, drivers.switch)
    if test.hosts is not None:
        yield from _far_reasons(test, drivers)


def listed(names: Iterable[object]) -> str:
    """Return the names in alphabetical order, separated by commas."""
    return ", ".join(sorted(str(name) for name in names))


def _load_reasons(test: Test, drivers: Drivers) -> Iterable[Refusal]:
    rate = test.parsed_rate
    if test.search == "max" and not rate.is_max:
        yield Refusal(
            ("search", "rate"),
            f"search max sends at the maximum rate, so a rate of {test.rate} has no effect",
            "--line-rate, for the rate of a link",
        )
    if test.finals > 1 and drivers.search.independent:
        yield Refusal(
            ("finals", "search"),
            f"search {test.search} has no final trials: all of its trials are repeats",
            f"--repeat {test.finals}",
        )
    pps, line_pps = test.rate_pps, test.line_pps
    if pps is not None and line_pps is not None and pps > line_pps:
        yield Refusal(
            ("rate", "line_rate"),
            f"a link of {test.line_rate} does not carry a rate of {test.rate} at {test.frame_size} "
            "bytes",
        )
    if test.search == "recovery" and test.touch == "none":
        yield Refusal(
            ("search", "touch"),
            "search recovery looks for the last lost frame, and receivers read no sequence numbers "
            "with touch none",
            "--touch header",
        )
    if test.search == "recovery" and test.function_cores > 1:
        yield Refusal(
            ("search", "function_cores"),
            "search recovery looks for the last lost frame of a flow, and a receiver on several "
            "cores does not know it",
            "--function-cores 1",
        )
    if isinstance(test.frame_size, str) and test.search == "back-to-back":
        yield Refusal(
            ("search", "frame_size"),
            "search back-to-back is for frames of one size (RFC 9004, section 6.1): a buffer holds "
            f"more short frames than long ones, and {test.frame_size} mixes them",
            "--frame-size 64",
        )
    if test.search != "mlr":
        for axis, default in (("exceed_ratio", 0.5), ("duration_sum", None)):
            if getattr(test, axis) != default:
                yield Refusal(
                    ("search", axis),
                    f"only search mlr has goals with {AXES[axis].label}, so it has no effect on "
                    f"search {test.search}",
                    "--search mlr",
                )
    if test.line_rate is not None and test.search == "back-to-back":
        yield Refusal(
            ("search", "line_rate"),
            "search back-to-back sends its bursts at the maximum rate, so a line rate has no "
            "effect",
        )
    if test.dimension == "latency":
        if test.direction == "bi":
            yield Refusal(
                ("direction", "dimension"),
                "dimension latency is measured by a client and a server: use --direction uni",
            )
        if rate.is_max and not drivers.search.finds_rate:
            yield Refusal(
                ("rate", "dimension", "search"),
                "dimension latency needs a rate: under saturation it measures queues",
                "--rate 1000, or --search latency-at-load",
            )
        if test.touch == "none":
            yield Refusal(
                ("touch", "dimension"),
                "dimension latency needs the time in every frame: --touch header or full",
            )
    if test.search == "latency-at-load" and test.touch == "none":
        yield Refusal(
            ("touch", "search"),
            "search latency-at-load needs the time in every frame: --touch header or full",
        )
    if pps is not None and pps * test.duration < 1:
        yield Refusal(
            ("rate", "duration"), f"at {test.rate} not one frame is sent in {test.duration:g} s"
        )
    if test.arrivals != "burst" and (rate.is_max and test.line_rate is None):
        if not drivers.search.finds_rate or test.search in ("max", "back-to-back"):
            yield Refusal(
                ("arrivals", "rate"),
                f"arrivals '{test.arrivals}' are those of a rate: max has none, as frames go when "
                "there is room",
                "--rate 100k",
            )
    yield from reasons_of_flows(test, drivers.engine)


def _header_reasons(test: Test, engine: Engine) -> Iterable[Refusal]:
    """Yield the refusals of the requested headers."""
    sizes = frame_sizes(test)
    tagged, tunnel = test.tag is not None, test.tunnel is not None
    if test.vlan is not None and (tunnel or test.encapsulation == "none"):
        yield Refusal(
            ("vlan", "encapsulation"),
            f"frames of --encapsulation {test.encapsulation} have no VLAN tag: "
            f"--vlan {test.vlan} has no effect",
            "--encapsulation vlan",
        )
    if (tagged or tunnel) and not engine.vlan:
        yield Refusal(
            ("encapsulation" if test.vlan is None else "vlan", "engine"),
            f"engine {engine.name} leaves the headers to the kernel: it sends no "
            f"{'VLAN tag' if tagged else 'VXLAN tunnel'}",
        )
    if test.ip_version == "6" and engine.needs_ip:
        yield Refusal(
            ("ip_version", "engine"),
            f"engine {engine.name} goes through the IP stack, where nodes have IPv4 alone",
            "--engine raw-mmsg",
        )
    least = FRAME_MIN + _VLAN_BYTES * tagged + _IP6_BYTES * (test.ip_version == "6")
    least += _VXLAN_BYTES * tunnel + _IP6_BYTES * (test.tunnel == "6")
    if min(sizes) < least and (engine.vlan or not (tagged or tunnel)):
        inside = {"4": " in a VXLAN tunnel", "6": " in a VXLAN tunnel of IPv6"}.get(
            test.tunnel or "", ""
        )
        description = f"a{' tagged' * tagged} frame{' of IPv6' * (test.ip_version == '6')}"
        yield Refusal(
            ("frame_size", "vlan", "encapsulation", "ip_version"),
            f"{description}{inside} has at least {least} bytes, not {min(sizes)}",
            f"--frame-size {least}",
        )


def _engine_reasons(test: Test, engine: Engine) -> Iterable[Refusal]:
    sizes = frame_sizes(test)
    if max(sizes) > engine.frame_max:
        yield Refusal(
            ("frame_size", "engine"),
            f"engine {engine.name} carries frames up to {engine.frame_max} bytes",
        )
    if test.flows > engine.flows_max and not has_subflows(test):
        yield Refusal(
            ("flows", "engine"),
            f"engine {engine.name} sends at most {engine.flows_max} flows, not {test.flows}",
        )
    if test.flows > 1 and test.flows_by not in engine.flows_by:
        yield Refusal(
            ("flows_by", "engine"),
            f"engine {engine.name} cannot vary flows by {test.flows_by}",
            f"--flows-by {','.join(sorted(engine.flows_by))}",
        )
    if test.touch not in engine.touches:
        yield Refusal(
            ("touch", "engine"),
            f"engine {engine.name} cannot touch '{test.touch}': {listed(engine.touches)}",
        )
    if engine.receiver and (test.direction == "bi" or test.dimension == "latency"):
        yield Refusal(
            ("engine", "direction", "dimension"),
            f"engine {engine.name} only sends: it has no direction bi and no dimension latency",
            f"--engine {engine.receiver}",
        )


def _place_reasons(test: Test, drivers: Drivers) -> Iterable[Refusal]:
    switch, engine = drivers.switch, drivers.engine
    if not drivers.switch_environment.takes_switch(private_stack=switch.private_stack):
        able = sorted(
            name
            for name, environment in ENVIRONMENTS.items()
            if environment.takes_switch(private_stack=switch.private_stack)
        )
        yield Refusal(
            ("switch_environment", "switch"),
            f"switch {switch.name} does not run in environment {test.switch_environment}",
            f"--switch-environment {','.join(able)}",
        )
    if engine.needs_ip and not drivers.environment.isolated and test.locality == "local":
        yield Refusal(
            ("environment", "engine"),
            f"engine {engine.name} goes through the IP stack: in environment "
            f"{test.environment} both ends are one host, and frames never reach the switch",
            f"--environment {AXES['environment'].default}, or --engine raw-mmsg",
        )
    try:
        wanted_cpus(test.placement)
    except UsageError as error:
        yield Refusal(error.axes or ("placement",), error.message, error.hint)
    if drivers.environment.separate_kernel:
        yield from _machine_reasons(test, drivers.switch_environment)
    if test.image is not None:
        yield from _image_reasons(test, drivers)
    if test.placement == SHARED_PROCESS and test.direction == "bi":
        yield Refusal(
            ("placement", "direction"),
            "placement shared-process joins a sender and a receiver: use --direction uni",
        )


def _image_reasons(test: Test, drivers: Drivers) -> Iterable[Refusal]:
    if not drivers.environment.images:
        able = [name for name, environment in ENVIRONMENTS.items() if environment.images]
        yield Refusal(
            ("image", "environment"),
            f"environment {test.environment} uses no image, so --image has no effect",
            f"--environment {','.join(able)}",
        )
    if not drivers.function.played:
        yield Refusal(
            ("function", "image"),
            f"function {test.function} is a program of this host, and may need what image "
            f"{test.image} does not have: in an image the traffic program forwards",
            "--function forwarder",
        )


def _machine_reasons(test: Test, of_switch: Environment) -> Iterable[Refusal]:
    environment = test.environment
    if test.placement == SHARED_PROCESS:
        yield Refusal(
            ("placement", "environment"),
            f"placement shared-process joins both ends in one process: in environment "
            f"{environment} they have separate kernels",
        )
    if not of_switch.shares_host:
        yield Refusal(
            ("switch_environment", "environment"),
            f"environment {environment} opens the switch's ports on the host: the switch cannot be "
            f"in {test.switch_environment}",
            f"--switch-environment {AXES['switch_environment'].default}",
        )
    if test.queues > 1:
        yield Refusal(
            ("queues", "environment"),
            f"a NIC of environment {environment} has one pair of queues: --queues 1",
        )


def _function_reasons(test: Test, function: Function) -> Iterable[Refusal]:
    if test.function_semantics != "auto" and not (
        function.played or function.writes_macs(test.function_semantics)
    ):
        able = [
            name
            for name, function in FUNCTIONS.items()
            if function.forwards and function.writes_macs("mac")
        ]
        yield Refusal(
            ("function_semantics", "function"),
            f"function {function.name} cannot write its own MAC as the source and the next hop's "
            "as the destination",
            f"--function {','.join(able)}",
        )


def _resource_reasons(test: Test, chosen: Drivers) -> Iterable[Refusal]:
    switch, engine = chosen.switch, chosen.engine
    drivers: dict[str, Switch | Engine] = {"switch": switch, "engine": engine}
    for name, axis in AXES.items():
        for kind in axis.followed_by if getattr(test, name) != axis.default else ():
            driver = drivers[kind]
            if name not in driver.resources:
                why = f"{kind} {driver.name} does not follow {axis.option}"
                yield Refusal((name, kind), why)
    if test.queues > 1 and test.flows < test.queues:
        yield Refusal(
            ("flows", "queues"),
            f"a flow stays on one queue: {test.flows} flows do not use {test.queues} queues",
            f"--flows {8 * test.queues}",
        )
    if test.queues > 1 and test.dimension == "latency":
        yield Refusal(
            ("queues", "dimension"),
            "dimension latency has one flow a client, on one queue: --queues 1",
        )
    if test.descriptors and test.descriptors & (test.descriptors - 1):
        yield Refusal(
            ("descriptors",), f"the length of a queue is a power of two, not {test.descriptors}"
        )
    if test.memory != "auto" and not engine.user_memory:
        yield Refusal(
            ("memory", "engine"),
            f"engine {engine.name} has its frames in the kernel, so --memory has no effect",
        )


def _far_reasons(test: Test, drivers: Drivers) -> Iterable[Refusal]:
    """Yield the refusals of a test on hosts reached by ssh."""
    environments = {
        "environment": drivers.environment,
        "switch_environment": drivers.switch_environment,
    }
    for axis in (axis for axis in AXES.values() if axis.table == "environments"):
        if environments[axis.name].separate_kernel:
            yield Refusal(
                ("hosts", axis.name),
                f"environment {getattr(test, axis.name)} is of this host: its images are here",
                f"{axis.option} {axis.default}",
            )


def _remote_reasons(test: Test, switch: Switch) -> Iterable[Refusal]:
    """Yield the refusals of a test between two hosts that do not depend on the topology."""
    if not switch.takes_uplink:
        able = [name for name, switch in SWITCHES.items() if switch.takes_uplink]
        yield Refusal(
            ("locality", "switch"),
            f"switch {switch.name} takes no interface of the kernel as its way to another host",
            f"--switch {','.join(able)}",
        )
    if test.placement == SHARED_PROCESS:
        yield Refusal(
            ("locality", "placement"),
            "placement shared-process joins both ends in one process, and they are on two hosts",
        )
    if test.switch_cores != "auto" and not switch.program:
        yield Refusal(
            ("locality", "switch_cores"),
            "between two hosts the kernel's work stays where it is: --switch-cores auto",
        )
    for name in _OF_ONE_HOST:
        if getattr(test, name) != AXES[name].default:
            yield Refusal(
                ("locality", name),
                f"{AXES[name].option} is of one host, and both ends are on two",
                "--locality local",
            )
