"""The axes as options, made from the fields of Test: a new axis is an option by itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

from switchmark.model.spec import Test

__all__ = ["with_axes"]

_HELP = {
    "scenario": "p2p, p2v, v2p, v2v: which ends are physical and which virtual; loopback",
    "switch": "the switches under test",
    "switch_environment": "where the switch runs",
    "environment": "where the functions run",
    "image": "the functions' container image or root, or disk, instead of one made here",
    "function": "what forwards in the functions of loopback; traffic is its usual forwarder",
    "engine": "the packet I/O of the traffic program",
    "driver": "how engine dpdk opens a port: virtio-user, vhost, memif, af_packet, af_xdp, ...",
    "port": "how ports are attached: veth, vhost-user, memif, ...",
    "semantics": "what the switch does: patch, static, learning, routed",
    "memory": "where DPDK's frames lie",
    "offload": "auto: DPDK's devices make checksums, check them and note times where they can",
    "switch_cores": "CPUs of a switch that polls",
    "queues": "pairs of queues of each port",
    "descriptors": "length of each queue",
    "frame_size": "bytes with the FCS, or imix",
    "rate": "per sender: max, 10M, 500kpps, 2.5Gbps, 50% (of R+)",
    "burst": "frames handed over at once [32; 1 for latency]",
    "pairs": "senders, each with its receiver",
    "chain": "functions in a row, in loopback",
    "chains": "chains side by side, in loopback",
    "flows": "flows of each sender",
    "flows_by": "what the flows of a sender differ in",
    "copies": "functions that each frame is copied to",
    "vlan": "VLAN id of every frame, or none",
    "touch": "how much of a payload is written and checked",
    "placement": "how parts are put on cores: auto, pinned, unpinned, shared-process, CPUs (0+2-5)",
    "cpu_limit": "percent of a core, of the switch or each function: 50, function:12.5",
    "noise": "who else works on this machine: cpu, memory, cache, io, web; on CPUs: cpu:0+1",
    "search": "how the rate is found",
    "loss_ratio": "of the goal pdr: 0.5%",
    "precision": "how narrow a rate is bounded: 0.5%",
    "loads": "of search latency-at-load, in percent of R+",
    "duration": "of a trial: 2, 500ms, 1min; 3 with 3 repeats by default",
    "warmup": "before it, not counted",
    "repeat": "trials of each test, those of all tests in turn; 3 by default for several switches",
    "until_certain": "repeat, 5 times or more, until half of the interval is below, such as 1%",
    "seed": "shuffles the order; 0 runs as written",
    "nic": "real NICs, by interface or PCI address: PART=SWITCH-NIC:GENERATOR-NIC,...",
}


def with_axes(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command that takes `axes: dict[str, str]` an option for each axis in its place.

    The command gets what was written for the axes that were given, by the names of the fields.
    """
    own = inspect.signature(command, eval_str=True)
    kept = [parameter for name, parameter in own.parameters.items() if name != "axes"]
    axes = [_option(name) for name in Test.model_fields]

    def wrapper(**given: Any) -> int:
        written = {name: given.pop(name) for name in Test.model_fields}
        chosen = {name: text for name, text in written.items() if text is not None}
        return command(axes=chosen, **given)

    every = [*kept, *axes]
    wrapper.__signature__ = own.replace(parameters=every)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in every}
    wrapper.__name__, wrapper.__doc__ = command.__name__, command.__doc__
    return wrapper


def _option(name: str) -> inspect.Parameter:
    field = Test.model_fields[name]
    is_choice = get_origin(field.annotation) is Literal
    choices = ", ".join(get_args(field.annotation)) if is_choice else ""
    told = ": ".join(filter(None, (_HELP.get(name), choices)))
    if field.default_factory is None:
        told += " [none]" if field.default is None else f" [{field.default}]"
    option = typer.Option(
        f"--{name.replace('_', '-')}",
        help=told.strip(),
        metavar="...",
        show_default=False,
    )
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[str | None, option],
    )
