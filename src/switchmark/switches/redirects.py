"""This family of kernel switches is wires made of BPF: what comes in at one interface goes out at
another, by a program that `switchmark-tool redirect` loads (traffic/src/redirect.bpf.c).

Knows no switch: each says in its own file at which hook of the kernel the program is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from switchmark.hosts.programs import tool_program
from switchmark.model.topology import Port, Wiring
from switchmark.switches.links import KernelSwitch, switch_ifname


def redirect(hook: Literal["xdp", "tc"], near: str, far: str) -> tuple[str, ...]:
    """Return the command after which all that comes in at one interface goes out at another."""
    return (tool_program(), "redirect", hook, near, far)


def wires(wiring: Wiring) -> Iterator[tuple[Port, str, str]]:
    """Yield each way that frames take: the port where they come in, with its interface, and the
    interface where they go out."""
    for source, sinks in wiring.ways.items():
        for sink in sinks:
            near = wiring.port(source)
            yield near, switch_ifname(wiring, near), switch_ifname(wiring, wiring.port(sink))


class RedirectingSwitch(KernelSwitch):
    """A program of BPF is the wire from each port to its peer. The work is done in the context of
    whoever sends; programs take root in the first user namespace."""

    capabilities = frozenset({"BPF", "PERFMON"})

    def accepts(self, wiring: Wiring) -> str | None:
        for port, sinks in wiring.ways.items():
            if len(sinks) > 1:
                return (
                    f"{self.name} is a wire: port {port} can send to one other port only, not to "
                    f"{len(sinks)}\n\nhint: --switch linux-bridge"
                )
        return None
