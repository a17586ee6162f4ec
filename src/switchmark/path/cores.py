"""This module says where the traffic program cannot play a function on several cores. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from switchmark.engines import TABLE as ENGINES
from switchmark.engines.base import KERNEL_PORTS
from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.functions import TABLE as FUNCTIONS
from switchmark.model.refusal import Refusal
from switchmark.model.test import Test
from switchmark.model.topology import PortKind
from switchmark.path.layout import Layout
from switchmark.path.roles import played_parts
from switchmark.switches import TABLE as SWITCHES

_QUEUED = {PortKind.VETH, PortKind.NIC_KERNEL}
"""Interfaces of the kernel that are made, or set up, with as many pairs of queues as wanted."""


def core_reasons(test: Test, layout: Layout) -> Iterable[Refusal]:
    """Return what speaks against functions on several cores."""
    cores, engine = test.function_cores, ENGINES[test.engine]
    if cores == 1:
        return
    if test.flows < cores:
        yield Refusal(
            ("flows", "function_cores"),
            f"a flow is sent by one core, to stay in order: {test.flows} flows do not use {cores}",
            f"--flows {8 * cores}",
        )
    if test.queues not in (1, cores):
        yield Refusal(
            ("queues", "function_cores"),
            f"each of {cores} cores has a pair of queues of its own: {test.queues} do not fit",
            f"--queues {cores}",
        )
    if engine.own_memory and "queues" not in SWITCHES[test.switch].resources:
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
    if ENVIRONMENTS[test.environment].own_kernel:
        yield Refusal(
            ("function_cores", "environment"),
            f"a machine of environment {test.environment} has one CPU: --function-cores 1",
        )
    if engine.own_memory and not FUNCTIONS[test.function].played:
        yield Refusal(
            ("function_cores", "function"),
            f"function {test.function} opens one queue of a port: --function-cores 1",
        )
    kinds = {layout.endpoints[port.id].kind for part in played_parts(layout) for port in part.ports}
    for kind in sorted(kinds - _QUEUED) if engine.queue_a_core and not engine.own_memory else ():
        yield Refusal(
            ("function_cores", "engine", "port"),
            f"engine {engine.name} opens a queue for each core, and a port of kind {kind} has one "
            "pair of queues",
            "--port veth, or --engine mmap",
        )
    if engine.own_memory and not KERNEL_PORTS.isdisjoint(kinds):
        yield Refusal(
            ("function_cores", "engine", "port"),
            f"engine {engine.name} opens one queue of an interface of the kernel",
            "--engine mmap,xdp",
        )
